import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fasta_learn.transfer._features import (
    MISSING,
    as_matrix,
    pool_columns,
    shares_features,
)

MATMUL = [
    {"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 16, "num_warps": 4, "num_stages": 2},
    {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 8, "num_stages": 4},
]
ROWS = [
    {"X0BLOCK": 8, "X0BLOCK_SUB": 2, "R0BLOCK": 1024, "num_warps": 4},
    {"X0BLOCK": 8, "X0BLOCK_SUB": 8, "R0BLOCK": 512, "num_warps": 4},
]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("key:BLOCK_M", [5, 7]),
        ("key:num_stages", [1, 2]),
        ("rel:key:BLOCK_M", [-1, 1]),
        ("tile", [15, 18]),
        ("tile kept", [11, 13]),
        ("tile reduced", [4, 5]),
        ("accumulated per warp", [9, 10]),
        ("aspect", [-1, 1]),
        ("shared memory", np.log2([(32 + 64) * 16 * 2, (128 + 64) * 32 * 4])),
        ("intensity", np.log2([32 * 64 / (32 + 64), 128 * 64 / (128 + 64)])),
    ],
)
def test_features_of_a_matrix_product(name, expected):
    assert_allclose(pool_columns(MATMUL, None)[name], expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tile", [13, 12]),
        ("tile inner", [11, 12]),
        ("inner loops", [2, 0]),
        ("inner per warp", [9, 10]),
        ("tile reduced", [10, 9]),
    ],
)
def test_features_of_tiles_with_sub_tiles(name, expected):
    assert_allclose(pool_columns(ROWS, None)[name], expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("size:m", np.log2([100, 100])),
        ("ratio:m", np.log2([100 / 32, 100 / 128])),
        ("masked:m", np.log2([4 * 32 / 100, 128 / 100])),
        ("programs", np.log2([3 * 4 * 2, 3 * 1 * 2])),
        ("steps", np.log2([48 / 16, 48 / 32])),
        ("size:cores", np.log2([132, 132])),
    ],
)
def test_features_of_a_shape(name, expected):
    shape = {"batch": 3, "m": 100, "n": 128, "k": 48, "cores": 132}
    assert_allclose(pool_columns(MATMUL, shape)[name], expected)


def test_zero_comes_one_octave_below_one_and_text_is_left_out():
    configs = [{"a": 0, "b": "x", "c": 1}, {"a": 2, "b": "y"}]
    columns = pool_columns(configs, None)
    assert_array_equal(columns["key:a"], [-1, 1])
    assert not {"key:b", "key:c"} & columns.keys()


def test_missing_features_are_below_all_others():
    matrix = as_matrix({"b": np.array([1.0, 2.0])}, ["a", "b"], 2)
    assert_array_equal(matrix, [[MISSING, 1], [MISSING, 2]])


def test_a_feature_that_is_constant_in_the_pool_is_not_shared():
    columns = pool_columns([{"a": 1, "b": 1}, {"a": 1, "b": 2}], None)
    assert shares_features(columns, ["key:b"])
    assert not shares_features(columns, ["key:a", "pool:centre"])
