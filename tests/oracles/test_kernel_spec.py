import dataclasses
import subprocess
import sys
import textwrap

import pytest

from fasta_learn.configs import TileSpace
from fasta_learn.exceptions import MissingExtraError
from fasta_learn.oracles import KernelSpec, load_kernel_spec

SPEC = """
    from fasta_learn.oracles import KernelSpec

    def add_kernel(x, BLOCK):
        pass

    def add(rows=1024, dtype="float16"):
        return KernelSpec(
            kernel=add_kernel, args=(rows, dtype), grid=(1,), configs=[{"BLOCK": 64}]
        )
"""


def kernel(x, BLOCK):
    """Stands in for a function decorated by triton.jit."""


def make_spec(**changes):
    values = {"kernel": kernel, "args": (), "grid": (1,), "configs": [{"BLOCK": 64}]}
    return KernelSpec(**{**values, **changes})


@pytest.fixture
def write_module(tmp_path, monkeypatch):
    """Write a module into an empty current folder."""
    monkeypatch.chdir(tmp_path)
    # Other tests may have imported a folder of this name.
    monkeypatch.delitem(sys.modules, "kernels", raising=False)
    known = set(sys.modules)

    def write(text, name="kernels.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    yield write
    for name in set(sys.modules) - known:
        del sys.modules[name]


# -- KernelSpec


def test_defaults():
    spec = make_spec()
    assert (spec.reset_to_zero, spec.restore_value, spec.check) == ((), (), None)
    assert (spec.constants, spec.shape, spec.source) == ({}, {}, None)


@pytest.mark.parametrize("name", ["", None])
def test_name_is_that_of_the_kernel(name):
    assert make_spec(name=name).name == "kernel"


def test_given_name_stays():
    assert make_spec(name="softmax").name == "softmax"


def test_name_of_a_decorated_kernel():
    class Decorated:
        def __init__(self, fn):
            self.fn = fn

    assert make_spec(kernel=Decorated(Decorated(kernel))).name == "kernel"


def test_name_of_a_jit_function():
    from sample_kernels import heuristic_kernel, scale_kernel

    assert make_spec(kernel=scale_kernel).name == "scale_kernel"
    assert make_spec(kernel=heuristic_kernel).name == "heuristic_kernel"


def test_it_can_not_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        make_spec().grid = (2,)


def test_no_configs():
    with pytest.raises(ValueError, match="spec 'kernel' has no configs; pass a TileSp"):
        make_spec(configs=[])


def test_tile_space_is_kept():
    space = TileSpace({"BLOCK": [32, 64]})
    assert make_spec(configs=space).configs is space


# -- Loading


def test_module_of_the_current_folder(write_module):
    write_module(SPEC)
    spec = load_kernel_spec("kernels:add")
    assert spec.name == "add_kernel"
    assert spec.args == (1024, "float16")
    assert spec.source == ("kernels:add", {})


def test_file(write_module):
    path = write_module(SPEC, "folder/kernels.py")
    spec = load_kernel_spec("folder/kernels.py:add", {"rows": 8})
    assert spec.args == (8, "float16")
    assert spec.source == (f"{path}:add", {"rows": 8})


def test_source_loads_the_same_again(write_module, tmp_path, monkeypatch):
    write_module(SPEC, "folder/kernels.py")
    spec = load_kernel_spec("folder/kernels.py:add", {"rows": 8})
    monkeypatch.chdir("/")
    again = load_kernel_spec(*spec.source)
    assert (again.args, again.source) == (spec.args, spec.source)


def test_file_may_import_its_neighbours(write_module):
    write_module("SIZE = 77\n", "folder/sizes_of_mine.py")
    write_module(
        "from sizes_of_mine import SIZE\n"
        + textwrap.dedent(SPEC)
        + ("def other():\n    return add(SIZE)\n"),
        "folder/kernels.py",
    )
    assert load_kernel_spec("folder/kernels.py:other").args == (77, "float16")


def test_file_called_like_an_installed_module(write_module):
    write_module(SPEC, "json.py")
    assert load_kernel_spec("json.py:add").name == "add_kernel"
    import json

    assert json.loads("1") == 1


def test_changed_file_is_read_anew(write_module):
    write_module(SPEC)
    load_kernel_spec("kernels.py:add")
    write_module(SPEC.replace("1024", "4321  "))
    assert load_kernel_spec("kernels.py:add").args == (4321, "float16")


def test_search_path_is_left_as_it_was(write_module):
    write_module(SPEC)
    before = list(sys.path)
    load_kernel_spec("kernels:add")
    load_kernel_spec("kernels.py:add")
    assert sys.path == before


def test_class_of_a_user_is_kept(write_module):
    write_module("""
        from fasta_learn.oracles import KernelSpec

        class Mine(KernelSpec):
            def oracle(self, **options):
                return options

        def add():
            return Mine(kernel=len, args=(), grid=(1,), configs=[{"BLOCK": 64}])
    """)
    assert load_kernel_spec("kernels:add").oracle(devices=[1]) == {"devices": [1]}


# -- Errors


@pytest.mark.parametrize("target", ["kernels", "kernels.py", "", ":add", "kernels:a-b"])
def test_target_of_another_form(target):
    with pytest.raises(ValueError, match="names no kernel spec; write module:function"):
        load_kernel_spec(target)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        load_kernel_spec(f"{tmp_path}/none.py:add")
    assert caught.value.filename == f"{tmp_path}/none.py"


def test_missing_module():
    message = "importing the module 'no_such_kernels' failed: ModuleNotFoundError"
    with pytest.raises(ValueError, match=message):
        load_kernel_spec("no_such_kernels:add")


@pytest.mark.parametrize("module", ["torch", "triton", "triton.language"])
def test_missing_torch_or_triton_names_the_extra(write_module, monkeypatch, module):
    write_module(f"import {module}\n")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'fasta-learn\[torch\]'"):
        load_kernel_spec("kernels.py:add")


def test_torch_that_is_imported_late_is_missed_too(write_module, monkeypatch):
    write_module("def add():\n    import torch\n")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        MissingExtraError, match=r"calling 'kernels.py:add' needs torch"
    ):
        load_kernel_spec("kernels.py:add")


def test_file_with_an_error(write_module):
    path = write_module("1 / 0\n")
    with pytest.raises(ValueError) as caught:
        load_kernel_spec("kernels.py:add")
    assert str(caught.value).startswith(
        f"importing the file {path} failed: ZeroDivisionError: division by zero"
    )


def test_file_with_an_error_leaves_no_module(write_module):
    write_module("1 / 0\n")
    before = set(sys.modules)
    with pytest.raises(ValueError, match="ZeroDivisionError"):
        load_kernel_spec("kernels.py:add")
    assert not [name for name in set(sys.modules) - before if "kernels" in name]


def test_missing_function_lists_those_there_are(write_module):
    write_module(SPEC)
    message = (
        "has no function 'sub'; the functions that it defines are: add_kernel, add"
    )
    with pytest.raises(ValueError, match=message):
        load_kernel_spec("kernels:sub")


def test_unknown_parameter_lists_those_there_are(write_module):
    write_module(SPEC)
    message = r"unexpected keyword argument 'cols'.*\(rows=1024, dtype='float16'\)"
    with pytest.raises(ValueError, match=message):
        load_kernel_spec("kernels:add", {"cols": 3})


def test_missing_parameter(write_module):
    write_module("def add(rows):\n    pass\n")
    with pytest.raises(ValueError, match="missing a required argument: 'rows'"):
        load_kernel_spec("kernels:add")


def test_function_that_returns_something_else(write_module):
    write_module("def add():\n    return 3\n")
    with pytest.raises(
        ValueError, match="'kernels:add' must return a KernelSpec, got "
    ):
        load_kernel_spec("kernels:add")


def test_function_that_fails_without_a_gpu(write_module, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    write_module("def add():\n    raise RuntimeError('no NVIDIA driver\\nhere.')\n")
    with pytest.raises(ValueError) as caught:
        load_kernel_spec("kernels:add")
    assert str(caught.value) == (
        "calling 'kernels:add' failed: RuntimeError: no NVIDIA driver here; torch sees "
        "no GPU here ('fasta-learn doctor' shows the devices)."
    )


def test_function_that_fails_with_a_gpu(write_module, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    write_module("def add():\n    raise RuntimeError('too large')\n")
    with pytest.raises(ValueError, match=r"RuntimeError: too large\.$"):
        load_kernel_spec("kernels:add")


def test_oracles_can_be_imported_without_torch():
    code = (
        "import sys; import fasta_learn, fasta_learn.oracles; "
        "print([m for m in ('torch', 'triton') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
