"""The pool as the search sees it."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.preprocessing import FunctionTransformer

from fasta_learn.configs import ConfigVectorizer
from fasta_learn.search._parameters import as_indices
from fasta_learn.search._space import PoolSpace

CONFIGS = [
    {"M": 16, "N": 32, "fast": True},
    {"M": 64, "N": 32, "fast": False},
    {"M": 32, "N": 32, "fast": False},
]


def make_space(X=CONFIGS, **settings):
    return PoolSpace(X, ConfigVectorizer(**settings))


def test_features_span_the_unit_range():
    assert_allclose(make_space().features, [[0.0], [1.0], [1 / 3]])
    logs = make_space(log2=["M"], boolean=True).features
    assert_allclose(logs, [[0.0, 1.0], [1.0, 0.0], [0.5, 0.0]])


def test_other_configs_are_scaled_by_the_pool():
    assert_allclose(make_space().transform([{"M": 112, "N": 1}]), [[2.0]])


def test_constant_columns_are_harmless():
    X = np.column_stack([np.arange(4.0), np.full(4, 7.0)])
    expected = np.arange(4) / 3
    assert_allclose(make_space(X).features, expected[:, None])
    # An own vectorizer may keep them.
    kept = PoolSpace(X, FunctionTransformer()).features
    assert_allclose(kept, np.column_stack([expected, np.zeros(4)]))


@pytest.mark.parametrize("to_frame", [pd.DataFrame, pl.DataFrame])
def test_items_of_a_frame_are_dicts(to_frame):
    space = make_space(to_frame(CONFIGS))
    assert space.items == CONFIGS
    assert len(space) == 3


def test_items_of_a_list_are_the_configs_themselves():
    assert all(a is b for a, b in zip(make_space().items, CONFIGS, strict=True))


def test_positions_are_found_by_value():
    shuffled = [{"fast": False, "N": 32, "M": 32}, dict(CONFIGS[0])]
    assert make_space().positions(shuffled).tolist() == [2, 0]


@pytest.mark.parametrize("value", [16.0, True, "16", np.float64(16)])
def test_values_of_other_types_are_other_configs(value):
    with pytest.raises(ValueError, match=r"X\[0\] is not in the pool"):
        make_space().positions([{**CONFIGS[0], "M": value}])


def test_numpy_values_are_the_same_config():
    assert make_space().positions([{**CONFIGS[0], "M": np.int32(16)}]) == [0]


def test_negative_zero_is_zero_in_a_row():
    space = make_space(np.array([[0.0, 1.0], [2.0, 3.0]]))
    assert space.positions(np.array([[-0.0, 1.0]])).tolist() == [0]


def test_a_pool_holds_itself_in_its_order_only():
    space = make_space()
    assert space.holds([dict(config) for config in CONFIGS])
    assert not space.holds(CONFIGS[::-1])
    assert not space.holds(CONFIGS[:2])


@pytest.mark.parametrize(
    ("X", "expected"),
    [
        ([3, 1], [3, 1]),
        ((3,), [3]),
        (range(2), [0, 1]),
        (np.array([3, 1], dtype=np.int8), [3, 1]),
        (pd.Series([3, 1], index=["a", "b"]), [3, 1]),
        (pl.Series([3, 1]), [3, 1]),
        ([], []),
        (np.array([]), []),
    ],
)
def test_whole_numbers_are_indices(X, expected):
    indices = as_indices(X)
    assert_array_equal(indices, expected)
    assert indices.dtype == np.intp


@pytest.mark.parametrize(
    "X",
    [
        CONFIGS,
        [[1, 2]],
        np.array([[1, 2]]),
        np.array([1.0]),
        [1.5],
        [1, 2.5],
        np.array([True]),
        pd.DataFrame(CONFIGS),
        pl.DataFrame(CONFIGS),
        np.array(CONFIGS, dtype=object),
        "12",
        None,
    ],
)
def test_anything_else_is_no_index(X):
    assert as_indices(X) is None
