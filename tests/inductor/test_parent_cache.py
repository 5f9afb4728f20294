import os
import sys
import types

import pytest

from fasta_learn import inductor
from fasta_learn.inductor import _features, _parent_cache

sys.path.insert(0, os.path.dirname(__file__))
from children import run_child

TASKS = "torch._inductor.runtime.compile_tasks"
NVIDIA = "triton.backends.nvidia.compiler"


class Cached:
    """Stands in for a function that keeps its answer."""

    def __init__(self, function):
        self.function, self.is_known, self.n_cleared = function, False, 0

    def __call__(self):
        if not self.is_known:
            self.is_known = True
            self.function()

    def cache_clear(self):
        self.is_known = False
        self.n_cleared += 1


@pytest.fixture(autouse=True)
def _nothing_else_is_patched(monkeypatch):
    monkeypatch.setattr(_features, "install", lambda settings, patches: None)
    monkeypatch.delenv("TRITON_PTXAS_PATH", raising=False)
    yield
    inductor.disable()


@pytest.fixture
def tasks(monkeypatch):
    """Stand in for a torch that has a ptxas of its own."""

    def set_path():
        os.environ.setdefault("TRITON_PTXAS_PATH", "/torch/bin/ptxas")

    module = types.ModuleType(TASKS)
    module._set_triton_ptxas_path = Cached(set_path)
    monkeypatch.setitem(sys.modules, TASKS, module)
    monkeypatch.setattr(
        _parent_cache, "when_imported", lambda name, call: call() or (lambda: None)
    )
    return module


@pytest.fixture
def nvidia(monkeypatch):
    """Stand in for the part of Triton that remembers the version of ptxas."""
    module = types.ModuleType(NVIDIA)
    module.get_ptxas_version = Cached(int)
    module.CUDABackend = types.SimpleNamespace(hash=Cached(int))
    monkeypatch.setitem(sys.modules, NVIDIA, module)
    return module


def path():
    return os.environ.get("TRITON_PTXAS_PATH")


def test_this_process_uses_the_ptxas_of_the_workers(tasks):
    inductor.fix_parent_cache()
    assert path() == "/torch/bin/ptxas"
    assert not inductor.is_enabled()
    inductor.disable()
    assert path() is None


def test_enable_fixes_it_too(tasks):
    with inductor.enable():
        assert path() == "/torch/bin/ptxas"
    assert path() is None


def test_fix_outlives_a_switch_inside(tasks):
    with inductor.enable():
        inductor.fix_parent_cache()
    assert path() == "/torch/bin/ptxas"
    with inductor.enable():
        assert path() == "/torch/bin/ptxas"
    assert path() == "/torch/bin/ptxas"


def test_it_can_be_fixed_again(tasks):
    for _ in range(2):
        inductor.fix_parent_cache()
        assert path() == "/torch/bin/ptxas"
        inductor.disable()


def test_inductor_can_set_the_path_itself_afterwards(tasks):
    inductor.fix_parent_cache()
    inductor.disable()
    tasks._set_triton_ptxas_path()
    assert path() == "/torch/bin/ptxas"


def test_path_of_the_user_stays(tasks, monkeypatch):
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/own/ptxas")
    inductor.fix_parent_cache()
    assert path() == "/own/ptxas"
    inductor.disable()
    assert path() == "/own/ptxas"


def test_version_that_triton_remembers_is_forgotten_both_times(tasks, nvidia):
    inductor.fix_parent_cache()
    remembered = nvidia.get_ptxas_version, nvidia.CUDABackend.hash
    assert [cached.n_cleared for cached in remembered] == [1, 1]
    inductor.disable()
    assert [cached.n_cleared for cached in remembered] == [2, 2]


def test_nothing_is_forgotten_where_nothing_changes(tasks, nvidia, monkeypatch):
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/own/ptxas")
    inductor.fix_parent_cache()
    assert nvidia.get_ptxas_version.n_cleared == 0


def test_names_that_are_forgotten_exist_in_triton():
    from triton.backends.nvidia import compiler

    assert callable(compiler.get_ptxas_version.cache_clear)
    assert callable(compiler.CUDABackend.hash.cache_clear)


def test_fix_waits_for_inductor(monkeypatch):
    waited = []
    monkeypatch.setattr(
        _parent_cache,
        "when_imported",
        lambda name, call: waited.append(name) or (lambda: None),
    )
    inductor.fix_parent_cache()
    assert waited == [TASKS]


def test_parent_finds_what_a_worker_compiled(tmp_path):
    # The hash of the compiler is what differs: it holds the version of ptxas.
    code = """
import json
from pathlib import Path

import torch
import torch._inductor.runtime.compile_tasks as tasks
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDABackend

import fasta_learn.inductor as inductor

# This torch brings no ptxas: give it one with a version of its own.
folder = Path("torch/_inductor/runtime").absolute()
for parent in (folder.parents[0], folder.parents[1]):
    tool = parent / "bin" / "ptxas"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\\necho 'Cuda compilation tools, release 12.3'\\n")
    tool.chmod(0o755)
tasks.__file__ = str(folder / "compile_tasks.py")

def key():
    # Newer devices have another ptxas, which torch does not bring.
    return CUDABackend(GPUTarget("cuda", 80, 32)).hash()

stock = key()
inductor.fix_parent_cache()
fixed = key()
inductor.disable()
print(json.dumps([stock, fixed, key()]))
"""
    (stock, fixed, after), _ = run_child(code, tmp_path)
    assert "12.3" in fixed
    assert stock == after != fixed
