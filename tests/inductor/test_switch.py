import os
import sys

import pytest

from fasta_learn import inductor
from fasta_learn.inductor import Settings, _features, _switch

sys.path.insert(0, os.path.dirname(__file__))
from children import run_child

# Compares all attributes of Inductor's modules and of their classes, by identity.
IDENTITY = """
import importlib, inspect, json, sys
import torch, torch._dynamo
import torch._inductor.compile_fx, torch._inductor.select_algorithm
import torch._inductor.runtime.triton_heuristics, torch._inductor.async_compile

def look():
    found = {}
    for name, module in list(sys.modules.items()):
        if not name.startswith(("torch._inductor", "torch.compiler")):
            continue
        for key, value in list(vars(module).items()):
            found[name, key] = value
            if inspect.isclass(value) and value.__module__ == name:
                for attribute, item in list(vars(value).items()):
                    found[name, key + "." + attribute] = item
    return found

# What is written at run time by torch itself.
PASSING = ("__warningregistry__", "._abc_impl", "_cache", "__annotations__")

def changed(before):
    now = look()
    return sorted(
        f"{key[0]}.{key[1]}" for key, value in before.items()
        if now.get(key) is not value and not key[1].endswith(PASSING)
    )

before, finders = look(), list(sys.meta_path)
tag = torch.compiler.config.cache_key_tag
result = {}

import fasta_learn.inductor as inductor
from fasta_learn.inductor import _features, _gemm, _pointwise
result["imported"] = changed(before)

import os
variables = dict(os.environ)

switch = inductor.enable(statistics="searches.csv")
result["on"] = changed(before)
result["tag"] = torch.compiler.config.cache_key_tag
inductor.disable()
result["off"] = changed(before)

with inductor.enable():
    with inductor.enable(gemm_budget=9):
        pass
result["nested"] = changed(before)

inductor.enable(gemm=False, pointwise=False)
result["without_features"] = changed(before)
inductor.disable()
result["restored"] = [
    torch.compiler.config.cache_key_tag == tag,
    dict(os.environ) == variables,
    sys.meta_path == finders,
]
print(json.dumps(result))
"""


@pytest.fixture(scope="module")
def identity(tmp_path_factory):
    """Turn tuning on and off in a process with all of Inductor."""
    return run_child(IDENTITY, tmp_path_factory.mktemp("identity"))[0]


@pytest.fixture(autouse=True)
def _off():
    yield
    inductor.disable()


@pytest.mark.parametrize("moment", ["imported", "off", "nested"])
def test_attributes_of_inductor_are_the_identical_objects(identity, moment):
    assert identity[moment] == []


def test_attributes_of_inductor_change_while_it_is_on(identity):
    assert {
        "torch._inductor.async_compile._worker_compile_triton",
        "torch._inductor.runtime.triton_heuristics.cached_autotune",
        "torch._inductor.select_algorithm._ALGORITHM_SELECTOR_CACHE",
    } <= set(identity["on"])


def test_feature_that_is_off_changes_nothing(identity):
    assert all(
        name.startswith(
            ("torch._inductor.async_compile.", "torch._inductor.compile_worker.")
        )
        for name in identity["without_features"]
    )


def test_configuration_environment_and_imports_come_back(identity):
    assert identity["tag"].startswith("fasta_learn-")
    assert identity["restored"] == [True, True, True]


@pytest.fixture
def installed(monkeypatch):
    """Note which settings are installed instead of patching Inductor."""
    log = []

    def install(settings, patches):
        log.append(settings.random_state)
        patches.at_end(lambda: log.append(-settings.random_state))

    monkeypatch.setattr(_features, "install", install)
    return log


def test_block_turns_it_on_and_off(installed):
    with inductor.enable(random_state=1):
        assert inductor.is_enabled()
        assert installed == [1]
    assert not inductor.is_enabled()
    assert installed == [1, -1]


def test_block_that_fails_turns_it_off(installed):
    with pytest.raises(ZeroDivisionError), inductor.enable(random_state=1):
        raise ZeroDivisionError
    assert installed == [1, -1]


def test_it_works_at_once_without_a_block(installed):
    switch = inductor.enable(random_state=1)
    assert inductor.is_enabled()
    switch.disable()
    switch.disable()
    assert installed == [1, -1]


def test_settings_of_the_inner_switch_count(installed):
    with inductor.enable(random_state=1):
        with inductor.enable(random_state=2):
            assert installed == [1, -1, 2]
        assert installed == [1, -1, 2, -2, 1]
    assert installed == [1, -1, 2, -2, 1, -1]


def test_switches_may_end_in_any_order(installed):
    outer, inner = inductor.enable(random_state=1), inductor.enable(random_state=2)
    outer.disable()
    assert installed == [1, -1, 2]
    inner.disable()
    assert installed == [1, -1, 2, -2]


def test_equal_settings_are_not_installed_again(installed):
    with inductor.enable(random_state=1), inductor.enable(random_state=1):
        pass
    assert installed == [1, -1]


def test_disable_undoes_all_switches(installed):
    inductor.enable(random_state=1)
    inductor.enable(random_state=2)
    inductor.disable()
    assert not inductor.is_enabled()
    assert installed == [1, -1, 2, -2]


def test_disable_is_harmless_when_it_is_off(installed):
    inductor.disable()
    assert installed == []


def test_invalid_setting_turns_nothing_on(installed):
    with pytest.raises(ValueError, match="margin"):
        inductor.enable(margin=2)
    assert (inductor.is_enabled(), installed) == (False, [])


def test_settings_come_from_the_environment(installed, monkeypatch):
    monkeypatch.setenv("FASTA_LEARN_RANDOM_STATE", "5")
    inductor.enable()
    assert installed == [5]
    assert _switch._state.settings == Settings.from_environment()
