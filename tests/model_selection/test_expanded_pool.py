"""A pool that is expanded once and fitted on many times."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.preprocessing import SplineTransformer

from fasta_learn.bases import (
    CubicBasis,
    FourierBasis,
    LinearBasis,
    PolynomialBasis,
    QuadraticBasis,
)
from fasta_learn.model_selection import ModelSelector, _expanded_pool
from fasta_learn.model_selection._expanded_pool import ExpandedPool

BASES = [
    ("spline", SplineTransformer(n_knots=3)),
    ("cubic", CubicBasis()),
    ("linear", LinearBasis()),
    ("fourier", FourierBasis()),
    ("full", PolynomialBasis()),
    ("quadratic", QuadraticBasis()),
]
X = np.random.default_rng(0).random((30, 3))


def columns(index):
    return BASES[index][1].fit_transform(X)


def test_nested_bases_form_one_group_by_size():
    pool = ExpandedPool(BASES, X)
    assert pool.groups(range(6)) == [[2, 5, 4, 1], [0], [3]]


def test_groups_hold_only_the_bases_asked_for():
    assert ExpandedPool(BASES, X).groups([0, 4, 2]) == [[2, 4], [0]]


def test_groups_without_nested_bases():
    assert ExpandedPool(BASES, X).groups([3, 0]) == [[3], [0]]


def test_subclasses_are_not_taken_for_nested():
    class Other(LinearBasis):
        def _expand(self, X):
            return np.hstack([np.ones((len(X), 1)), np.sqrt(X)])

    pool = ExpandedPool([("other", Other()), ("cubic", CubicBasis())], X)
    assert pool.groups([0, 1]) == [[1], [0]]


def test_numbers_of_terms_are_those_of_the_columns():
    pool = ExpandedPool(BASES, X)
    assert pool.n_terms == [columns(i).shape[1] for i in range(len(BASES))]


@pytest.mark.parametrize("index", range(len(BASES)))
def test_rows_are_those_of_the_expansion(index):
    pool, rows = ExpandedPool(BASES, X), np.array([7, 2, 29])
    assert_array_equal(pool.rows(index, rows), columns(index)[rows])


@pytest.mark.parametrize("index", range(len(BASES)))
def test_rows_are_the_same_once_the_expansion_is_kept(index):
    pool, rows = ExpandedPool(BASES, X), np.array([7, 2, 29])
    before = pool.rows(index, rows)
    pool.predict(index, np.ones(pool.n_terms[index]))
    assert_array_equal(pool.rows(index, rows), before)


@pytest.mark.parametrize("index", range(len(BASES)))
def test_predict_covers_the_whole_pool(index):
    pool = ExpandedPool(BASES, X)
    coef = np.arange(pool.n_terms[index], dtype=float)
    assert_allclose(pool.predict(index, coef), columns(index) @ coef)


def test_large_pools_are_predicted_in_blocks(monkeypatch):
    monkeypatch.setattr(_expanded_pool, "_KEPT_BYTES", 8 * 20 * 7)
    pool = ExpandedPool(BASES, X)
    coef = np.arange(20.0)
    assert_allclose(pool.predict(1, coef), columns(1) @ coef)
    assert 1 not in pool._kept


def test_given_transformers_stay_unfitted():
    spline = SplineTransformer()
    ExpandedPool([("spline", spline)], X)
    assert not hasattr(spline, "n_features_in_")


@pytest.mark.parametrize("seed", range(5))
def test_fit_on_rows_of_a_pool_equals_fit(seed):
    rng = np.random.default_rng(seed)
    rows = rng.choice(30, 22, replace=False)
    y, weight = rng.random(22), rng.random(22)
    selector, by_rows = ModelSelector(), ModelSelector()
    selector.fit(X[rows], y, sample_weight=weight)
    pool = by_rows._expand_pool(X)
    by_rows._fit_rows(pool, rows, y, weight)
    assert by_rows.best_basis_ == selector.best_basis_
    assert_allclose(by_rows.coef_, selector.coef_)
    assert_allclose(by_rows._predict_pool(pool), selector.predict(X))


@pytest.mark.parametrize("n_rows", [1, 2, 5])
def test_pool_without_features_predicts_a_shrunken_mean(n_rows):
    pool = ModelSelector()._expand_pool(np.empty((8, 0)))
    durations = np.arange(1.0, n_rows + 1)
    selector = ModelSelector()._fit_rows(pool, np.arange(n_rows), durations)
    expected = np.full(8, durations.sum() / (n_rows + 0.1))
    assert_allclose(selector._predict_pool(pool), expected)
    assert selector.best_basis_ == "linear"
