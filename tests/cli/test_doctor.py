import json
import sys
from importlib.machinery import ModuleSpec
from importlib.metadata import version
from types import ModuleType, SimpleNamespace

import pytest

import fasta_learn
from fasta_learn._cli import _doctor, main


def doctor_json(capsys):
    assert main(["doctor", "--json"]) == 0
    return json.loads(capsys.readouterr().out, parse_constant=pytest.fail)


def doctor_text(capsys):
    assert main(["doctor"]) == 0
    return capsys.readouterr().out


def line_of(out, name):
    (line,) = (line for line in out.splitlines() if line.split()[:1] == [name])
    return line.split(maxsplit=1)[1]


@pytest.fixture
def install(monkeypatch):
    """Put a module in place of an installed or missing one."""

    def put(name, **content):
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)

    return put


@pytest.fixture(autouse=True)
def _no_accelerators(monkeypatch):
    for name in ("torch", "triton", "torch_npu"):
        monkeypatch.setitem(sys.modules, name, None)


def cuda(*devices):
    return SimpleNamespace(
        device_count=lambda: len(devices),
        get_device_properties=lambda index: devices[index],
    )


H200 = SimpleNamespace(
    name="NVIDIA H200",
    total_memory=140 * 2**30,
    multi_processor_count=132,
    major=9,
    minor=0,
)


def test_versions_are_those_installed(capsys):
    record = doctor_json(capsys)
    assert record["fasta_learn"] == fasta_learn.__version__
    assert record["python"] == ".".join(map(str, sys.version_info[:3]))
    for module, package in {"numpy": "numpy", "sklearn": "scikit-learn"}.items():
        expected = {"version": version(package), "error": None}
        assert record["packages"][module] == expected


def test_shipped_pools_are_counted(capsys):
    assert doctor_json(capsys)["n_pools"] == 60
    assert line_of(doctor_text(capsys), "pools") == "60 ship with fasta_learn"


def test_blas_libraries_have_threads(capsys):
    libraries = doctor_json(capsys)["blas"]
    assert libraries
    assert all(library["threads"] >= 1 for library in libraries)


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("torch", "torch"),
        ("triton", "torch"),
        ("torch_npu", "npu"),
        ("rich", "progress"),
        ("matplotlib", "plot"),
        ("dask", "dask"),
        ("pyarrow", "parquet"),
    ],
)
def test_missing_package_has_a_hint(capsys, monkeypatch, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    hint = f"not installed (pip install 'fasta-learn[{extra}]')"
    assert line_of(doctor_text(capsys), module) == hint
    expected = {"version": None, "error": None}
    assert doctor_json(capsys)["packages"][module] == expected


def test_package_whose_import_fails_is_shown(capsys, monkeypatch, tmp_path):
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so is missing')\n")
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.syspath_prepend(tmp_path)
    out = doctor_text(capsys)
    assert line_of(out, "torch") == "import fails: OSError: libcudart.so is missing"
    assert line_of(out, "CUDA") == "unknown without torch"


def test_devices_are_unknown_without_their_packages(capsys):
    out = doctor_text(capsys)
    assert line_of(out, "CUDA") == "unknown without torch"
    assert line_of(out, "NPU") == "unknown without torch_npu"


def test_cuda_devices_are_listed(capsys, install):
    install("torch", __version__="2.11.0", cuda=cuda(H200, H200))
    expected = "NVIDIA H200, 140 GiB, 132 multiprocessors, compute capability 9.0"
    assert doctor_json(capsys)["cuda"] == {"devices": [expected] * 2, "error": None}
    out = doctor_text(capsys)
    assert f"  CUDA 0  {expected}\n  CUDA 1  {expected}\n" in out


def test_no_device_is_said(capsys, install):
    install("torch", __version__="2.11.0", cuda=cuda())
    assert line_of(doctor_text(capsys), "CUDA") == "none"


def test_failing_driver_is_shown(capsys, install):
    def fail():
        raise RuntimeError("driver too old")

    install("torch", __version__="2.11.0", cuda=SimpleNamespace(device_count=fail))
    expected = "can't be asked: RuntimeError: driver too old"
    assert line_of(doctor_text(capsys), "CUDA") == expected


def test_npu_devices_are_listed(capsys, install):
    npu = SimpleNamespace(
        device_count=lambda: 1, get_device_name=lambda index: "Ascend910B"
    )
    install("torch_npu", __version__="2.13.0", npu=npu)
    assert doctor_json(capsys)["npu"] == {"devices": ["Ascend910B"], "error": None}


def test_installed_package_works_as_a_process(run_command):
    done = run_command("doctor")
    assert done.returncode == 0
    assert done.stdout.startswith("System\n  fasta_learn  ")


def test_hooks_of_live_tuning_are_looked_up(capsys, monkeypatch):
    monkeypatch.undo()
    record = doctor_json(capsys)
    assert record["inductor"]["error"] is None
    assert {"workers": [], "gemm": [], "pointwise": []}.items() <= (
        record["inductor"]["misfits"].items()
    )
    assert line_of(doctor_text(capsys), "pointwise") == "fits"


def test_hook_that_does_not_fit_is_shown(capsys, install, monkeypatch):
    install("torch", __version__="9.9", cuda=cuda())
    misfits = {"gemm": ["select.a is missing", "select.b is missing"], "ptxas": []}
    monkeypatch.setattr(_doctor, "probe", lambda: misfits)
    out = doctor_text(capsys)
    assert line_of(out, "gemm") == "off: select.a is missing; select.b is missing"
    assert line_of(out, "ptxas") == "fits"


def test_sources_that_cannot_be_read_are_said(capsys, install, monkeypatch):
    def fail():
        raise SyntaxError("half a file")

    install("torch", __version__="2.11.0", cuda=cuda())
    monkeypatch.setattr(_doctor, "probe", fail)
    expected = "can't be looked up: SyntaxError: half a file"
    assert line_of(doctor_text(capsys), "hooks") == expected


def test_hooks_are_unknown_without_torch(capsys):
    assert line_of(doctor_text(capsys), "hooks") == "unknown without torch"
