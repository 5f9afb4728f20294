"""Polynomial bases, each a prefix of the next larger one."""

from itertools import chain, combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from fasta_learn.bases._base import BaseBasis


class NestedPolynomialBasis(BaseBasis):
    """Base of the four polynomial bases: their columns nest as prefixes.

    The blocks come in one fixed order, and a basis takes the first so many of
    them: the intercept and x_i, then x_i², then x_i x_j (i < j), then
    x_i³, x_i² x_j (all ordered pairs) and x_i x_j x_k (i < j < k).
    """

    _n_blocks: int

    def _expand(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        n_samples, n_features = X.shape
        # Terms are rows here, so that every product reads and writes whole runs.
        terms = np.empty((self.n_terms(n_features), n_samples), dtype=X.dtype)
        terms[0] = 1
        terms[1 : 1 + n_features] = X.T
        fillers = (_fill_squares, _fill_pairs, _fill_cubic)
        stop = 1 + n_features
        for fill in fillers[: self._n_blocks - 1]:
            stop = fill(terms, n_features, stop)
        return terms.T

    def _term_names(self, names: list[str]) -> list[str]:
        squares = [f"{a}^2" for a in names]
        pairs = [f"{a} {b}" for a, b in combinations(names, 2)]
        cubic = [f"{a}^3" for a in names]
        cubic += [
            f"{a}^2 {b}"
            for i, a in enumerate(names)
            for j, b in enumerate(names)
            if i != j
        ]
        cubic += [f"{a} {b} {c}" for a, b, c in combinations(names, 3)]
        blocks = [["1", *names], squares, pairs, cubic]
        return list(chain.from_iterable(blocks[: self._n_blocks]))


def _fill_squares(terms: NDArray[np.float64], n_features: int, start: int) -> int:
    stop = start + n_features
    np.square(terms[1 : 1 + n_features], out=terms[start:stop])
    return stop


def _fill_pairs(terms: NDArray[np.float64], n_features: int, start: int) -> int:
    linear = terms[1 : 1 + n_features]
    for i in range(n_features - 1):
        stop = start + n_features - 1 - i
        np.multiply(linear[i], linear[i + 1 :], out=terms[start:stop])
        start = stop
    return start


def _fill_cubic(terms: NDArray[np.float64], n_features: int, start: int) -> int:
    linear = terms[1 : 1 + n_features]
    squares = terms[1 + n_features : 1 + 2 * n_features]
    pairs = terms[1 + 2 * n_features : start]
    stop = start + n_features
    np.multiply(squares, linear, out=terms[start:stop])
    for i in range(n_features):
        for others in (linear[:i], linear[i + 1 :]):
            start, stop = stop, stop + len(others)
            np.multiply(squares[i], others, out=terms[start:stop])
    for i in range(n_features - 2):
        # The pairs of later features only are the tail of the block of pairs.
        tail = pairs[len(pairs) - comb(n_features - 1 - i, 2) :]
        start, stop = stop, stop + len(tail)
        np.multiply(linear[i], tail, out=terms[start:stop])
    return stop


class LinearBasis(NestedPolynomialBasis):
    """Intercept and the features themselves: 1 + D columns.

    Attributes
    ----------
    n_features_in_ : int
        Number of features seen by `fit`.
    feature_names_in_ : ndarray of str of shape (`n_features_in_`,)
        Names of the features; only there if `fit` saw a table with names.

    See Also
    --------
    QuadraticBasis : Has these columns first, then the squares.

    Examples
    --------
    >>> from fasta_learn.bases import LinearBasis
    >>> LinearBasis().fit_transform([[0.5, 2.0]])
    array([[1. , 0.5, 2. ]])
    """

    _n_blocks = 1

    @staticmethod
    def n_terms(n_features: int) -> int:
        """Count the columns that `n_features` features expand into.

        Parameters
        ----------
        n_features : int
            Number of features, zero allowed.

        Returns
        -------
        int
            Number of columns, the intercept included.
        """
        return 1 + n_features


class QuadraticBasis(NestedPolynomialBasis):
    """Intercept, features and their squares: 1 + 2D columns.

    Attributes
    ----------
    n_features_in_ : int
        Number of features seen by `fit`.
    feature_names_in_ : ndarray of str of shape (`n_features_in_`,)
        Names of the features; only there if `fit` saw a table with names.

    See Also
    --------
    PolynomialBasis : Has these columns first, then the products of two features.

    Examples
    --------
    >>> from fasta_learn.bases import QuadraticBasis
    >>> QuadraticBasis().fit_transform([[0.5, 2.0]])
    array([[1.  , 0.5 , 2.  , 0.25, 4.  ]])
    """

    _n_blocks = 2

    @staticmethod
    def n_terms(n_features: int) -> int:
        """Count the columns that `n_features` features expand into.

        Parameters
        ----------
        n_features : int
            Number of features, zero allowed.

        Returns
        -------
        int
            Number of columns, the intercept included.
        """
        return 1 + 2 * n_features


class PolynomialBasis(NestedPolynomialBasis):
    """Full second order: 1 + 2D + D(D−1)/2 columns.

    Intercept, features, squares, and the product of every two features. The
    order of the columns differs from that of
    `sklearn.preprocessing.PolynomialFeatures`.

    Attributes
    ----------
    n_features_in_ : int
        Number of features seen by `fit`.
    feature_names_in_ : ndarray of str of shape (`n_features_in_`,)
        Names of the features; only there if `fit` saw a table with names.

    See Also
    --------
    CubicBasis : Has these columns first, then those of third order.

    Examples
    --------
    >>> from fasta_learn.bases import PolynomialBasis
    >>> PolynomialBasis().fit_transform([[0.5, 2.0]])
    array([[1.  , 0.5 , 2.  , 0.25, 4.  , 1.  ]])
    """

    _n_blocks = 3

    @staticmethod
    def n_terms(n_features: int) -> int:
        """Count the columns that `n_features` features expand into.

        Parameters
        ----------
        n_features : int
            Number of features, zero allowed.

        Returns
        -------
        int
            Number of columns, the intercept included.
        """
        return 1 + 2 * n_features + comb(n_features, 2)


class CubicBasis(NestedPolynomialBasis):
    """Full third order: 1 + 3D + D(D−1)/2 + D(D−1) + D(D−1)(D−2)/6 columns.

    The columns of `PolynomialBasis`, then cubes, the square of each feature
    times each other feature, and the product of every three features.

    Attributes
    ----------
    n_features_in_ : int
        Number of features seen by `fit`.
    feature_names_in_ : ndarray of str of shape (`n_features_in_`,)
        Names of the features; only there if `fit` saw a table with names.

    See Also
    --------
    PolynomialBasis : The same without the terms of third order.

    Examples
    --------
    >>> from fasta_learn.bases import CubicBasis
    >>> CubicBasis().fit([[0.5, 2.0]]).get_feature_names_out(["a", "b"])[6:].tolist()
    ['a^3', 'b^3', 'a^2 b', 'b^2 a']
    """

    _n_blocks = 4

    @staticmethod
    def n_terms(n_features: int) -> int:
        """Count the columns that `n_features` features expand into.

        Parameters
        ----------
        n_features : int
            Number of features, zero allowed.

        Returns
        -------
        int
            Number of columns, the intercept included.
        """
        ordered_pairs = n_features * (n_features - 1)
        second_order = PolynomialBasis.n_terms(n_features)
        return second_order + n_features + ordered_pairs + comb(n_features, 3)
