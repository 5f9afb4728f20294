"""What ConfigVectorizer refuses, and how it says so."""

import numpy as np
import pytest

from fasta_learn.configs import ConfigVectorizer


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 10**400])
def test_config_with_a_value_that_is_not_finite_is_refused(value):
    with pytest.raises(ValueError, match=r"configs\[1\]\['b'\] is .* not a finite"):
        ConfigVectorizer().fit([{"b": 1}, {"b": value}])


def test_text_in_a_numeric_keyword_of_another_config_is_refused():
    vectorizer = ConfigVectorizer().fit([{"b": 1}, {"b": 2}])
    with pytest.raises(ValueError, match=r"configs\[0\]\['b'\] is '3'"):
        vectorizer.transform([{"b": "3"}])


@pytest.mark.parametrize(
    ("value", "message"),
    [(np.nan, "contains NaN in row 1, column 0"), (np.inf, "inf .*row 1, column 0")],
)
def test_matrix_that_is_not_finite_is_refused_with_its_position(value, message):
    with pytest.raises(ValueError, match=message):
        ConfigVectorizer().fit([[1.0, 2.0], [value, 3.0]])


def test_one_config_is_refused():
    with pytest.raises(TypeError, match="single config; pass a list"):
        ConfigVectorizer().fit({"a": 1})


@pytest.mark.parametrize(
    ("configs", "which"),
    [([{"a": 1}, 3], 1), ([None], 0), (["a"], 0), ([{1, 2}, {"a": 1}], 0)],
)
def test_items_that_are_no_configs_are_refused(configs, which):
    with pytest.raises(TypeError, match=rf"configs\[{which}\] is of type"):
        ConfigVectorizer().fit(configs)


def test_no_config_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        ConfigVectorizer().fit([])
