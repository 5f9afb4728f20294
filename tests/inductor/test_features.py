import logging
import os
import sys
from types import ModuleType

import pytest

from fasta_learn.inductor import Settings, _features, _guard, _hooks
from fasta_learn.inductor._patches import Patches

sys.path.insert(0, os.path.dirname(__file__))
from children import run_child


@pytest.fixture(autouse=True)
def _nothing_warned(monkeypatch):
    monkeypatch.setattr(_guard, "_warned", set())
    monkeypatch.setattr(_hooks, "require", lambda feature: None)


@pytest.fixture
def target(monkeypatch):
    """Stand in for Inductor."""
    module = ModuleType("fasta_learn_target")
    module.first = module.second = "stock"
    monkeypatch.setitem(sys.modules, module.__name__, module)
    triggers = dict.fromkeys(("gemm", "pointwise"), module.__name__)
    monkeypatch.setattr(_hooks, "TRIGGERS", triggers)
    return module


@pytest.fixture
def feature(monkeypatch, target):
    """Stand in for the parts of the integration."""

    def add(name, install):
        module = ModuleType(name)
        module.install = install
        monkeypatch.setitem(sys.modules, f"fasta_learn.inductor._{name}", module)

    add("pointwise", lambda settings, patches: patches.set(target, "second", settings))
    return add


def fail_halfway(settings, patches):
    patches.set(sys.modules["fasta_learn_target"], "first", "patched")
    raise LookupError("half")


def test_each_feature_gets_settings_and_patches(target, feature):
    feature("gemm", lambda settings, patches: patches.set(target, "first", settings))
    settings, patches = Settings(), Patches()
    _features.install(settings, patches)
    assert target.first is target.second is settings
    patches.undo()
    assert target.first == target.second == "stock"


@pytest.mark.parametrize(
    ("given", "expected"),
    [({"gemm": False}, ["pointwise"]), ({"pointwise": False}, ["gemm"])],
)
def test_feature_that_is_off_is_not_installed(feature, given, expected):
    installed = []
    feature("gemm", lambda settings, patches: installed.append("gemm"))
    feature("pointwise", lambda settings, patches: installed.append("pointwise"))
    _features.install(Settings(**given), Patches())
    assert installed == expected


def test_feature_that_fails_leaves_nothing_and_the_others_alone(
    target, feature, caplog
):
    feature("gemm", fail_halfway)
    settings = Settings()
    _features.install(settings, Patches())
    assert (target.first, target.second) == ("stock", settings)
    (warning,) = caplog.records
    assert warning.levelno == logging.WARNING
    assert "tuning of gemm failed (LookupError: half)" in warning.getMessage()


def test_feature_that_does_not_fit_this_torch_is_left_out(
    target, feature, caplog, monkeypatch
):
    def refuse(name):
        if name == "gemm":
            raise _hooks.HookMismatchError("select of torch 9.9 is missing")

    feature("gemm", lambda settings, patches: patches.set(target, "first", settings))
    monkeypatch.setattr(_hooks, "require", refuse)
    settings = Settings()
    _features.install(settings, Patches())
    assert (target.first, target.second) == ("stock", settings)
    assert "select of torch 9.9 is missing" in caplog.text


def test_switch_that_is_turned_off_meanwhile_leaves_nothing(target, feature, caplog):
    patches = Patches()

    def install(settings, patches):
        patches.undo()
        patches.set(target, "first", settings)

    feature("gemm", install)
    _features.install(Settings(pointwise=False), patches)
    assert target.first == "stock"
    assert caplog.records == []


# Inductor itself works; whatever fasta_learn puts in its place does not.
BROKEN = """
import json, sys, types

stub = types.ModuleType("fasta_learn.inductor._gemm")
calls = []

def install(settings, patches):
    from torch._inductor.select_algorithm import AlgorithmSelectorCache
    from fasta_learn.inductor._guard import guarded

    def broken(*args, **kwargs):
        calls.append(1)
        raise ArithmeticError("ours is broken")

    stock = AlgorithmSelectorCache.__call__
    patches.set(AlgorithmSelectorCache, "__call__", guarded("gemm", broken, stock))

stub.install = install
sys.modules["fasta_learn.inductor._gemm"] = stub

import torch
import torch._inductor.cpu_vec_isa

# No kernel is generated: do not try the C++ compiler out, which takes long.
torch._inductor.cpu_vec_isa.valid_vec_isa_list = lambda: []

def product(x, y):
    return x @ y

def other(x, y):
    return y.T @ x

x, y = torch.randn(32, 48), torch.randn(48, 16)
results = []
for function, args in ((product, (x, y)), (other, (y, torch.randn(48, 8)))):
    compiled = torch.compile(function, mode="max-autotune-no-cudagraphs", dynamic=False)
    results.append(torch.allclose(compiled(*args), function(*args), atol=1e-5))
print(json.dumps({"results": results, "n_calls": len(calls)}))
"""


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """Compile where the search is broken."""
    return run_child(BROKEN, tmp_path_factory.mktemp("broken"), FASTA_LEARN="1")


def test_error_in_a_search_leads_to_the_result_of_inductor(broken):
    found, _ = broken
    assert found == {"results": [True, True], "n_calls": 2}


def test_error_in_searches_is_one_warning(broken):
    _, errors = broken
    warnings = [line for line in errors.splitlines() if "ours is broken" in line]
    assert len(warnings) == 1
    assert "tuning of gemm failed (ArithmeticError: ours is broken)" in warnings[0]


def test_order_in_which_inductor_is_imported_does_not_matter(tmp_path):
    # Its modules import each other, so that this one comes before what it needs.
    code = """
import json, torch
import torch._inductor.lowering
import torch._inductor.compile_fx
from torch._inductor import async_compile, select_algorithm
from torch._inductor.codegen.triton import TritonKernel
from torch._inductor.runtime import triton_heuristics
found = (
    async_compile._worker_compile_triton.func,
    type(select_algorithm._ALGORITHM_SELECTOR_CACHE),
    triton_heuristics.CachingAutotuner.autotune_to_one_config,
    TritonKernel.inductor_meta_common,
)
print(json.dumps(["fasta_learn" in str(getattr(x, "__code__", x)) for x in found]))
"""
    found, errors = run_child(code, tmp_path, FASTA_LEARN="1")
    assert found == [True, True, True, True]
    assert "failed" not in errors
