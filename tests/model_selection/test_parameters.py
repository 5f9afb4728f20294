"""Names of bases and copies of samples."""

import numpy as np
from numpy.testing import assert_array_equal
from sklearn.preprocessing import SplineTransformer

from fasta_learn.bases import (
    CubicBasis,
    FourierBasis,
    LinearBasis,
    PolynomialBasis,
    QuadraticBasis,
)
from fasta_learn.model_selection._parameters import merge_copies, name_bases


def test_default_bases_come_in_published_order():
    assert [(name, type(basis)) for name, basis in name_bases(None)] == [
        ("linear", LinearBasis),
        ("quadratic", QuadraticBasis),
        ("full", PolynomialBasis),
        ("fourier", FourierBasis),
        ("cubic", CubicBasis),
    ]


def test_bases_without_a_name_get_one():
    class WaveletBasis(LinearBasis):
        pass

    bases = [
        PolynomialBasis(),
        WaveletBasis(),
        SplineTransformer(),
        ("a", CubicBasis()),
    ]
    names = [name for name, _ in name_bases(bases)]
    assert names == ["full", "wavelet", "splinetransformer", "a"]


def test_equal_durations_of_distinct_samples_are_no_copies():
    X, y = np.array([[1.0], [2.0]]), np.array([5.0, 5.0])
    first, copy_of, weight = merge_copies(X, y, None)
    assert (first, copy_of, weight) == (slice(None), slice(None), None)


def test_equal_rows_of_distinct_durations_are_no_copies():
    X, y = np.array([[1.0], [1.0]]), np.array([5.0, 6.0])
    first, copy_of, weight = merge_copies(X, y, None)
    assert (first, copy_of, weight) == (slice(None), slice(None), None)


def test_copies_are_counted():
    X, y = np.array([[2.0], [1.0], [2.0]]), np.array([5.0, 6.0, 5.0])
    first, copy_of, weight = merge_copies(X, y, None)
    assert_array_equal(y[first][copy_of], y)
    assert_array_equal(weight[copy_of], [2, 1, 2])


def test_weights_of_copies_add_up():
    X, y = np.array([[2.0], [1.0], [2.0]]), np.array([5.0, 6.0, 5.0])
    _, copy_of, weight = merge_copies(X, y, np.array([0.5, 0.0, 0.25]))
    assert_array_equal(weight[copy_of], [0.75, 0, 0.75])
