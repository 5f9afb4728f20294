"""Columns of the polynomial bases, their order and nesting."""

from itertools import chain, combinations, permutations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal

from fasta_learn.bases import (
    CubicBasis,
    LinearBasis,
    PolynomialBasis,
    QuadraticBasis,
)

NESTED = [LinearBasis, QuadraticBasis, PolynomialBasis, CubicBasis]


def expected_exponents(n_features, order):
    """Index tuples of all terms in contract order, one loop a block."""
    features = range(n_features)
    blocks = [
        [(), *((i,) for i in features)],
        [(i, i) for i in features],
        list(combinations(features, 2)),
        [(i, i, i) for i in features]
        + [(i, i, j) for i, j in permutations(features, 2)]
        + list(combinations(features, 3)),
    ]
    return list(chain.from_iterable(blocks[:order]))


def test_linear_by_hand():
    assert_array_equal(LinearBasis().fit_transform([[2, 3]]), [[1, 2, 3]])


def test_quadratic_by_hand():
    columns = QuadraticBasis().fit_transform([[2, 3]])
    assert_array_equal(columns, [[1, 2, 3, 4, 9]])


def test_full_second_order_by_hand():
    columns = PolynomialBasis().fit_transform([[2, 3, 5]])
    assert_array_equal(columns, [[1, 2, 3, 5, 4, 9, 25, 6, 10, 15]])


def test_cubic_by_hand():
    columns = CubicBasis().fit_transform([[2, 3, 5]])
    cubes, squares_times = [8, 27, 125], [12, 20, 18, 45, 50, 75]
    assert_array_equal(columns[0, 10:], [*cubes, *squares_times, 30])


@pytest.mark.parametrize("n_features", range(1, 7))
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_columns_are_products_in_contract_order(order, n_features):
    X = np.random.default_rng(order).random((4, n_features))
    exponents = expected_exponents(n_features, order)
    expected = np.column_stack([X[:, list(e)].prod(axis=1) for e in exponents])
    assert_allclose(NESTED[order - 1]().fit_transform(X), expected, rtol=1e-15)


@given(
    hnp.arrays(
        np.float64,
        hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=7),
        elements=st.floats(-2, 2),
    )
)
def test_each_basis_begins_with_the_smaller_ones(X):
    largest = CubicBasis().fit_transform(X)
    for basis in NESTED[:-1]:
        columns = basis().fit_transform(X)
        assert_array_equal(columns, largest[:, : columns.shape[1]])


@pytest.mark.parametrize("n_features", range(9))
def test_cubic_count_follows_its_formula(n_features):
    d = n_features
    expected = 1 + 3 * d + comb(d, 2) + d * (d - 1) + comb(d, 3)
    assert CubicBasis.n_terms(d) == expected


def test_names_are_readable():
    fitted = CubicBasis().fit(np.zeros((1, 3)))
    assert fitted.get_feature_names_out(["a", "b", "c"]).tolist() == [
        *["1", "a", "b", "c"],
        *["a^2", "b^2", "c^2"],
        *["a b", "a c", "b c"],
        *["a^3", "b^3", "c^3"],
        *["a^2 b", "a^2 c", "b^2 a", "b^2 c", "c^2 a", "c^2 b"],
        "a b c",
    ]


@pytest.mark.parametrize("basis", NESTED)
def test_names_nest_like_the_columns(basis):
    X = np.zeros((1, 4))
    names = basis().fit(X).get_feature_names_out()
    largest = CubicBasis().fit(X).get_feature_names_out()
    assert_array_equal(names, largest[: len(names)])
