"""From rows of features back to configs."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from fasta_learn.configs import ConfigVectorizer


def test_no_feature_inverts_to_the_first_config():
    configs = [{"a": 1}, {"a": 1}]
    vectorizer = ConfigVectorizer().fit(configs)
    assert vectorizer.inverse_transform(np.empty((1, 0)))[0] is configs[0]


def test_inverse_gives_the_objects_of_the_pool():
    configs = [SimpleNamespace(kwargs={"BLOCK": size}) for size in (16, 32, 64)]
    vectorizer = ConfigVectorizer(log2=True).fit(configs)
    found = vectorizer.inverse_transform([[6.0], [4.0]])
    assert found[0] is configs[2]
    assert found[1] is configs[0]


def test_inverse_of_equal_rows_gives_the_first():
    configs = [{"a": 1, "s": "x"}, {"a": 2, "s": "x"}, {"a": 2, "s": "y"}]
    vectorizer = ConfigVectorizer().fit(configs)
    assert vectorizer.inverse_transform([[2.0]])[0] is configs[1]


def test_inverse_of_negative_zero():
    vectorizer = ConfigVectorizer().fit([{"a": -0.0}, {"a": 1.0}])
    assert vectorizer.inverse_transform([[0.0], [-0.0]]) == [{"a": 0.0}] * 2


def test_inverse_forgives_rounding():
    configs = [{"a": 0.1, "b": 1}, {"a": 0.7, "b": 2}]
    vectorizer = ConfigVectorizer().fit(configs)
    X = vectorizer.transform(configs).astype(np.float32)
    assert vectorizer.inverse_transform(X) == configs


def test_inverse_of_another_row_is_refused():
    vectorizer = ConfigVectorizer().fit([{"a": 1}, {"a": 2}])
    with pytest.raises(ValueError, match=r"row 1 of X is no config.*\[1.9\]"):
        vectorizer.inverse_transform([[1.0], [1.9]])


def test_inverse_of_a_wrong_width_is_refused():
    vectorizer = ConfigVectorizer().fit([{"a": 1}, {"a": 2}])
    with pytest.raises(ValueError, match="2 columns, but the vectorizer gives 1"):
        vectorizer.inverse_transform([[1.0, 2.0]])


def test_inverse_of_a_matrix_gives_its_rows():
    pool = np.array([[3.0, 7.0], [2.0, 7.0]])
    vectorizer = ConfigVectorizer().fit(pool)
    pool[:] = 0
    assert_array_equal(vectorizer.inverse_transform([[2.0]]), [[2.0, 7.0]])


def test_inverse_of_a_frame_gives_dicts():
    vectorizer = ConfigVectorizer().fit(pd.DataFrame({"a": [1, 2], "s": ["x", "y"]}))
    assert vectorizer.inverse_transform([[2.0]]) == [{"a": 2, "s": "y"}]
