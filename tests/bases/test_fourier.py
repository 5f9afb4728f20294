"""Columns of the Fourier basis."""

from math import cos, pi, sin, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fasta_learn.bases import FourierBasis


def test_columns_at_a_sixth_by_hand():
    columns = FourierBasis().fit_transform([[1 / 6]])
    half = sqrt(3) / 2
    assert_allclose(columns, [[1, 1 / 6, 0.5, half, half, 0.5]], rtol=1e-14)


@pytest.mark.parametrize("x", [0.0, 0.5, 1.0])
def test_columns_at_the_ends_and_the_middle(x):
    expected = [1, x, sin(pi * x), cos(pi * x), sin(2 * pi * x), cos(2 * pi * x)]
    assert_allclose(FourierBasis().fit_transform([[x]]), [expected], atol=1e-15)


def test_each_function_is_a_block_over_the_features():
    X = np.random.default_rng(0).random((3, 2))
    blocks = [X, np.sin(pi * X), np.cos(pi * X), np.sin(2 * pi * X), np.cos(2 * pi * X)]
    expected = np.hstack([np.ones((3, 1)), *blocks])
    assert_allclose(FourierBasis().fit_transform(X), expected, rtol=1e-14)


def test_names_are_readable():
    fitted = FourierBasis().fit(np.zeros((1, 2)))
    assert fitted.get_feature_names_out(["a", "b"]).tolist() == [
        *["1", "a", "b", "sin(pi a)", "sin(pi b)", "cos(pi a)", "cos(pi b)"],
        *["sin(2 pi a)", "sin(2 pi b)", "cos(2 pi a)", "cos(2 pi b)"],
    ]
