"""A Fourier basis: a line and two harmonics of each feature."""

import numpy as np
from numpy.typing import NDArray

from fasta_learn.bases._base import BaseBasis


class FourierBasis(BaseBasis):
    """Intercept, features, and two harmonics of each feature: 1 + 5D columns.

    The blocks are 1, x, sin πx, cos πx, sin 2πx, cos 2πx, each with one column
    for every feature. Meant for features scaled to [0, 1].

    Attributes
    ----------
    n_features_in_ : int
        Number of features seen by `fit`.
    feature_names_in_ : ndarray of str of shape (`n_features_in_`,)
        Names of the features; only there if `fit` saw a table with names.

    See Also
    --------
    LinearBasis : Only the first two blocks.

    Examples
    --------
    >>> from fasta_learn.bases import FourierBasis
    >>> FourierBasis().fit_transform([[0.5]]).round(12) + 0.0
    array([[ 1. ,  0.5,  1. ,  0. ,  0. , -1. ]])
    """

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
        return 1 + 5 * n_features

    def _expand(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        n_samples, n_features = X.shape
        terms = np.empty((self.n_terms(n_features), n_samples), dtype=X.dtype)
        terms[0] = 1
        linear, *harmonics = terms[1:].reshape(5, n_features, n_samples)
        linear[:] = X.T
        for order, (sine, cosine) in ((1, harmonics[:2]), (2, harmonics[2:])):
            angle = order * np.pi * linear
            np.sin(angle, out=sine)
            np.cos(angle, out=cosine)
        return terms.T

    def _term_names(self, names: list[str]) -> list[str]:
        functions = ("sin(pi {})", "cos(pi {})", "sin(2 pi {})", "cos(2 pi {})")
        harmonics = [function.format(a) for function in functions for a in names]
        return ["1", *names, *harmonics]
