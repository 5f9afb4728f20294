from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import ExtraTreesRegressor

from fasta_learn.transfer import _forest
from fasta_learn.transfer._forest import Forest


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.random((200, 4)).astype(np.float32)
    return X, np.clip(X[:, 0] * X[:, 1], 0, 1).astype(float), 0.5 + rng.random(200)


@pytest.fixture(scope="module")
def forest(data):
    return Forest.grow(*data, n_trees=7, seed=3)


def test_predictions_are_those_of_scikit_learn(data, forest):
    X, y, weight = data
    model = ExtraTreesRegressor(
        7, min_samples_leaf=6, max_features=0.5, max_leaf_nodes=2000, random_state=3
    ).fit(X, y, weight)
    other = np.random.default_rng(1).random((50, 4)).astype(np.float32)
    assert_allclose(forest.predict(other), model.predict(other), rtol=1e-5)


def test_chunks_do_not_change_predictions(data, forest, monkeypatch):
    whole = forest.predict(data[0])
    monkeypatch.setattr(_forest, "_CHUNK", 7)
    assert_array_equal(forest.predict(data[0]), whole)


def test_a_forest_passes_its_check(forest):
    forest.check(n_features=4)


def _with(array, index, value):
    array = array.copy()
    array[index] = value
    return array


@pytest.mark.parametrize(
    "damage",
    [
        lambda f: {"left": _with(f.left, 5, 0)},
        lambda f: {"right": _with(f.right, 0, len(f.value))},
        lambda f: {"feature": _with(f.feature, 0, 4)},
        lambda f: {"feature": _with(f.feature, 0, -1)},
        lambda f: {"roots": f.roots - 1},
        lambda f: {"roots": f.roots[:0]},
        lambda f: {"threshold": _with(f.threshold, 0, np.nan)},
        lambda f: {"value": _with(f.value, 0, 1.5)},
        lambda f: {"value": f.value[:-1]},
        lambda f: {"left": _with(f.left, 0, 0)},
    ],
)
def test_damaged_arrays_are_refused(forest, damage):
    with pytest.raises(ValueError, match="no trees"):
        replace(forest, **damage(forest)).check(n_features=4)
