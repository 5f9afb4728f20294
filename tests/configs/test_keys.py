import json
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fasta_learn.configs import config_key, config_to_dict
from fasta_learn.configs._keys import configs_to_dicts, is_config

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=4),
    st.lists(st.integers(), max_size=3),
)
CONFIGS = st.dictionaries(st.text(max_size=4), VALUES, max_size=5)


class Dtype:
    def __init__(self, name):
        self.name = name

    def __str__(self):
        return self.name


def make_triton_like(kwargs, **options):
    defaults = {"num_warps": 4, "num_stages": 3, "num_ctas": 1, "maxnreg": None}
    return SimpleNamespace(kwargs=kwargs, **{**defaults, **options})


def typed_identity(value):
    """What makes a value distinct, by type and content, without using JSON."""
    if isinstance(value, dict):
        return frozenset((k, typed_identity(v)) for k, v in value.items())
    if isinstance(value, list):
        return (list, tuple(map(typed_identity, value)))
    return (type(value), repr(value))


def test_dict_is_copied():
    config = {"BLOCK_M": 64}
    config_to_dict(config)["BLOCK_M"] = 1
    assert config == {"BLOCK_M": 64}


def test_other_mappings_become_dicts():
    assert config_to_dict(MappingProxyType({"a": 1})) == {"a": 1}


@pytest.mark.parametrize(
    ("scalar", "expected"),
    [
        (np.int64(3), int),
        (np.float32(0.5), float),
        (np.bool_(True), bool),
        (np.str_("x"), str),
    ],
)
def test_numpy_scalars_become_python_scalars(scalar, expected):
    assert type(config_to_dict({"a": scalar})["a"]) is expected


def test_object_contributes_keywords_and_launch_options():
    config = make_triton_like({"BLOCK_M": 64}, num_warps=8)
    assert config_to_dict(config) == {
        "BLOCK_M": 64,
        "num_warps": 8,
        "num_stages": 3,
        "num_ctas": 1,
    }


def test_maxnreg_is_taken_if_set():
    assert config_to_dict(make_triton_like({}, maxnreg=128))["maxnreg"] == 128


def test_launch_options_win_over_keywords():
    config = make_triton_like({"num_warps": 1}, num_warps=8)
    assert config_to_dict(config)["num_warps"] == 8


def test_keywords_of_an_object_are_not_changed():
    kwargs = {"BLOCK_M": 64}
    config_to_dict(make_triton_like(kwargs))
    assert kwargs == {"BLOCK_M": 64}


def test_row_gets_column_names():
    assert config_to_dict(np.array([1.5, 2.0])) == {"x0": 1.5, "x1": 2.0}


@pytest.mark.parametrize("wrong", [3, "abc", [1, 2], None, np.ones((2, 2))])
def test_other_types_are_refused(wrong):
    with pytest.raises(TypeError, match=r"expected a dict.*kwargs.*1-D array"):
        config_to_dict(wrong)


def test_names_must_be_text():
    with pytest.raises(TypeError, match=r"parameter name 3 of type int"):
        config_to_dict({3: 1})


def test_error_names_the_position():
    with pytest.raises(TypeError, match=r"configs\[1\] is of type list"):
        configs_to_dicts([{"a": 1}, [1]])


@pytest.mark.parametrize(
    ("value", "expected"),
    [({}, True), (make_triton_like({}), True), (np.ones(2), False), ("kwargs", False)],
)
def test_is_config(value, expected):
    assert is_config(value) is expected


@given(CONFIGS, st.randoms())
def test_key_is_free_of_order(config, random):
    items = list(config.items())
    random.shuffle(items)
    assert config_key(dict(items)) == config_key(config)


@given(CONFIGS, CONFIGS)
def test_keys_are_equal_only_for_the_same_parameters(first, second):
    same = typed_identity(first) == typed_identity(second)
    assert (config_key(first) == config_key(second)) is same


@given(CONFIGS)
def test_key_is_json_of_the_config(config):
    assert json.loads(config_key(config)) == config


def test_key_is_one_line():
    assert "\n" not in config_key({"a": "x\ny"})


@pytest.mark.parametrize(
    ("first", "second"), [(1, 1.0), (1, True), (1.0, True), (0, False), ("1", 1)]
)
def test_types_make_different_keys(first, second):
    assert config_key({"a": first}) != config_key({"a": second})


@pytest.mark.parametrize(
    ("scalar", "python"),
    [(np.int64(1), 1), (np.float64(1), 1.0), (np.bool_(True), True), ((1, 2), [1, 2])],
)
def test_equal_keys_across_types_that_mean_the_same(scalar, python):
    assert config_key({"a": scalar}) == config_key({"a": python})


def test_numpy_scalars_inside_lists():
    assert config_key({"a": [np.int64(1)]}) == config_key({"a": [1]})


def test_key_of_an_object_is_that_of_its_dict():
    config = make_triton_like({"BLOCK_M": 64})
    assert config_key(config) == config_key(config_to_dict(config))


def test_objects_with_stable_text_are_told_apart():
    keys = {
        config_key({"a": value}) for value in (Dtype("fp16"), Dtype("fp32"), "fp16")
    }
    assert len(keys) == 3
    assert config_key({"a": Dtype("fp16")}) in keys


@pytest.mark.parametrize("value", [object(), np.arange(3), lambda: 1])
def test_values_without_stable_text_are_refused(value):
    with pytest.raises(TypeError, match="has no canonical text"):
        config_key({"a": value})
