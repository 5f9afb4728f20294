"""Installing the search in a stand-in for torch_npu; `tests/npu` has the real one."""

import logging
import sys
from types import ModuleType, SimpleNamespace

import pytest

from fasta_learn.inductor import Settings, _guard, _npu, _npu_hooks
from fasta_learn.inductor._npu_autotuner import HEURISTICS, find_stock, make_autotuner
from fasta_learn.inductor._npu_settings import NAMES, NPUSettings
from fasta_learn.inductor._patches import Patches


class NPUCachingAutotuner:
    """Stands in for torch_npu's class."""


class Config(SimpleNamespace):
    """Stands in for triton.Config."""


def make_config(**kwargs):
    return Config(kwargs=kwargs, num_warps=1, num_stages=2, num_ctas=1, maxnreg=None)


@pytest.fixture(autouse=True)
def _clean(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(_guard, "_warned", set())
    monkeypatch.setattr(_npu_hooks, "require", lambda: None)
    monkeypatch.setattr(_npu_hooks, "unsupported", lambda: None)


@pytest.fixture
def heuristics(monkeypatch):
    """Put modules in the place of torch_npu's."""
    names = HEURISTICS.split(".")
    for end in range(1, len(names)):
        package = ModuleType(".".join(names[:end]))
        package.__path__ = []
        monkeypatch.setitem(sys.modules, package.__name__, package)
    module = ModuleType(HEURISTICS)
    module.NPUCachingAutotuner = NPUCachingAutotuner
    module.npu_config = SimpleNamespace(fasta_autotune=False)
    module.triton_config_npu_index = make_configs
    monkeypatch.setitem(sys.modules, HEURISTICS, module)
    return module


def make_configs(size_hints, inductor_meta, *, fail=False):
    """Give two experts, and others where torch_npu's finer generator is on."""
    experts = [make_config(XBLOCK=n, XBLOCK_SUB=8, multibuffer=True) for n in (999, 8)]
    if not sys.modules[HEURISTICS].npu_config.fasta_autotune:
        return experts
    if fail:
        raise AttributeError("no aligned_numel")
    for config in experts:
        config.from_expert = True
    # The second would loop 16 times, and is not worth it.
    others = [make_config(XBLOCK=128, XBLOCK_SUB=s) for s in (64, 8)]
    for config in others:
        config.from_expert = False
    return experts + others


def install(settings=None):
    patches = Patches()
    _npu.install(settings or Settings(), patches)
    return patches


def test_subclass_takes_the_place_of_the_autotuner_until_it_is_undone(heuristics):
    patches = install()
    assert issubclass(heuristics.NPUCachingAutotuner, NPUCachingAutotuner)
    assert heuristics.NPUCachingAutotuner is not NPUCachingAutotuner
    assert find_stock() is NPUCachingAutotuner
    patches.undo()
    assert heuristics.NPUCachingAutotuner is NPUCachingAutotuner
    assert heuristics.triton_config_npu_index is make_configs


def test_equal_settings_make_the_same_class():
    made = [
        make_autotuner(NPUCachingAutotuner, Settings(random_state=seed), NPUSettings())
        for seed in (1, 1, 2)
    ]
    assert made[0] is made[1]
    assert made[0] is not made[2]


def test_dynamic_filter_0_installs_nothing(heuristics, monkeypatch):
    monkeypatch.setenv("FASTA_DYNAMIC_FILTER", "0")
    install()
    assert heuristics.NPUCachingAutotuner is NPUCachingAutotuner


def test_unsupported_version_is_told_and_nothing_installed(
    heuristics, monkeypatch, caplog
):
    monkeypatch.setattr(_npu_hooks, "unsupported", lambda: "torch_npu 1 is too old.")
    with caplog.at_level(logging.WARNING, logger="fasta_learn.inductor"):
        install()
    assert heuristics.NPUCachingAutotuner is NPUCachingAutotuner
    assert "torch_npu 1 is too old. Kernels for NPUs are not searched." in caplog.text


def test_pool_is_torch_npus_own_by_default(heuristics):
    install()
    assert heuristics.triton_config_npu_index is make_configs


@pytest.fixture
def optimized(heuristics, monkeypatch):
    monkeypatch.setenv("FASTA_CONFIG_OPTIMIZER", "1")
    patches = install()
    yield heuristics.triton_config_npu_index
    patches.undo()


def kwargs_of(configs):
    return [config.kwargs for config in configs]


def test_config_optimizer_prunes_others_and_doubles_them(optimized, heuristics):
    assert kwargs_of(optimized({}, {})) == [
        {"XBLOCK": 999, "XBLOCK_SUB": 8, "multibuffer": True},
        {"XBLOCK": 8, "XBLOCK_SUB": 8, "multibuffer": True},
        {"XBLOCK": 128, "XBLOCK_SUB": 64, "multibuffer": False},
        {"XBLOCK": 128, "XBLOCK_SUB": 64, "multibuffer": True},
    ]
    assert heuristics.npu_config.fasta_autotune is False


def test_config_optimizer_leaves_groups_of_shapes_alone(optimized):
    assert len(optimized({}, {"group_enabled": True})) == 2


def test_generator_that_fails_leaves_the_experts(optimized, heuristics):
    assert len(optimized({}, {}, fail=True)) == 2
    assert heuristics.npu_config.fasta_autotune is False


def test_others_are_compiled_as_the_experts_are(optimized, monkeypatch):
    def make_with_mode(size_hints, inductor_meta):
        configs = make_configs(size_hints, inductor_meta)
        for config in configs[:2]:
            config.kwargs["compile_mode"] = "simd"
        return configs

    found = _npu._optimized(make_with_mode)({}, {})
    assert {config.kwargs["compile_mode"] for config in found} == {"simd"}


def test_fault_of_the_optimizer_leaves_the_experts(optimized, monkeypatch, caplog):
    def fail(*args):
        raise ZeroDivisionError("a fault of our own")

    monkeypatch.setattr(_npu, "optimize", fail)
    with caplog.at_level(logging.WARNING, logger="fasta_learn.inductor"):
        assert len(optimized({}, {})) == 2
    assert "a fault of our own" in caplog.text


def test_cache_tag_of_the_dynamic_filter_is_put_back(heuristics, monkeypatch):
    config = SimpleNamespace(cache_key_tag="tag")
    monkeypatch.setitem(sys.modules, "torch.compiler.config", config)
    install().undo()
    assert config.cache_key_tag == "tag"
    monkeypatch.setenv("FASTA_MAX_ROUNDS", "3")
    patches = install()
    assert config.cache_key_tag.startswith("tagfilter-")
    patches.undo()
    assert config.cache_key_tag == "tag"
