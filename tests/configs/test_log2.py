import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fasta_learn.configs import ConfigVectorizer
from fasta_learn.configs._log2 import acts_by_ratio, octave_floor


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([16, 32, 64, 128], True),  # tile sizes
        ([2, 4, 8], True),  # warps
        ([0, 1, 2, 4], True),  # a tile size that some configs lack
        ([32, 96, 288], True),  # 9 times, not powers of two
        ([1, 3, 8], True),  # exactly 8 times
        ([1, 4], True),  # exactly 4 times, powers of two
        ([0.25, 0.5, 1.0], True),  # powers of two below one
        ([1, 2, 3, 4, 5], False),  # stages
        ([1, 3, 4], False),  # 4 times, but 3 is no power of two
        ([1, 2], False),
        ([0, 1], False),  # a flag
        ([0, 1, 2, 3], False),  # a numbered method
        ([-1, 16, 256], False),
        ([-2, 0], False),
    ],
)
def test_which_columns_act_by_ratio(values, expected):
    assert acts_by_ratio(np.array(values, dtype=float)) is expected


def make_configs():
    return [
        {"BLOCK": 16, "num_stages": 1, "flag": 0},
        {"BLOCK": 64, "num_stages": 2, "flag": 1},
        {"BLOCK": 256, "num_stages": 4, "flag": 0},
        {"num_stages": 3, "flag": 1},
    ]


# Columns in the order of names: BLOCK, flag, num_stages. BLOCK is missing once, which
# counts as 8, an octave below 16; the zero of the flag counts as a half.
LOG_BLOCK = [4.0, 6.0, 8.0, 3.0]
LOG_FLAG = [-1.0, 0.0, -1.0, 0.0]
LOG_STAGES = [0.0, 1.0, 2.0, np.log2(3)]


@pytest.mark.parametrize(
    ("log2", "columns", "logged"),
    [
        (
            False,
            ([16, 64, 256, 0], [0, 1, 0, 1], [1, 2, 4, 3]),
            [],
        ),
        ("auto", (LOG_BLOCK, [0, 1, 0, 1], [1, 2, 4, 3]), ["BLOCK"]),
        (True, (LOG_BLOCK, LOG_FLAG, LOG_STAGES), ["BLOCK", "flag", "num_stages"]),
        (["num_stages"], ([16, 64, 256, 0], [0, 1, 0, 1], LOG_STAGES), ["num_stages"]),
        (("BLOCK",), (LOG_BLOCK, [0, 1, 0, 1], [1, 2, 4, 3]), ["BLOCK"]),
        ([], ([16, 64, 256, 0], [0, 1, 0, 1], [1, 2, 4, 3]), []),
    ],
)
def test_log2_of_the_chosen_columns(log2, columns, logged):
    vectorizer = ConfigVectorizer(log2=log2)
    X = vectorizer.fit_transform(make_configs())
    assert_array_equal(X, np.transpose(columns))
    assert vectorizer.log2_features_ == logged


def test_log2_keeps_the_names():
    names = ConfigVectorizer(log2=True).fit(make_configs()).get_feature_names_out()
    assert list(names) == ["BLOCK", "flag", "num_stages"]


@pytest.mark.parametrize("value", [0, -5, 8, 3])
def test_low_values_of_other_configs_come_an_octave_below_the_pool(value):
    vectorizer = ConfigVectorizer(log2="auto").fit([{"BLOCK": 16}, {"BLOCK": 128}])
    assert vectorizer.transform([{"BLOCK": value}])[0, 0] == 3.0


def test_log2_of_a_matrix():
    vectorizer = ConfigVectorizer(log2=["x1"])
    X = vectorizer.fit_transform([[1.0, 2.0], [5.0, 32.0]])
    assert_array_equal(X, [[1, 1], [5, 5]])


def test_log2_leaves_categories_alone():
    configs = [{"kind": "a", "BLOCK": 2}, {"kind": "b", "BLOCK": 16}]
    X = ConfigVectorizer(log2=True, categorical=True).fit_transform(configs)
    assert_array_equal(X, [[1, 1, 0], [4, 0, 1]])


def test_log2_of_a_constant_column_is_accepted():
    configs = [{"a": 4, "b": 1}, {"a": 4, "b": 2}]
    assert ConfigVectorizer(log2=["a"]).fit(configs).log2_features_ == []


@pytest.mark.parametrize("name", ["c", "kind", "kind=x"])
def test_log2_of_what_is_no_numeric_column_is_refused(name):
    configs = [{"a": 4, "kind": "x"}, {"a": 8, "kind": "y"}]
    with pytest.raises(ValueError, match=rf"log2 names '{name}'.*these are: a"):
        ConfigVectorizer(log2=[name], categorical=True).fit(configs)


@pytest.mark.parametrize("log2", [True, ["a"]])
def test_log2_of_negative_values_is_refused(log2):
    with pytest.raises(ValueError, match=r"column 'a' holds -2, which has no log"):
        ConfigVectorizer(log2=log2).fit([{"a": -2}, {"a": 4}])


def test_auto_leaves_negative_columns_alone():
    X = ConfigVectorizer(log2="auto").fit_transform([{"a": -2}, {"a": 4}])
    assert_array_equal(X, [[-2], [4]])


def test_the_floor_of_the_smallest_number_is_positive():
    values = np.array([[0.0], [5e-324]])
    assert octave_floor(values, np.array([True]))[0] > 0
