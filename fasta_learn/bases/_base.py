"""What every basis shares: validation, names and the intercept-first contract."""

from abc import ABCMeta, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import FLOAT_DTYPES, check_is_fitted

from fasta_learn._compat import _check_feature_names_in, _fit_context, validate_data


class BaseBasis(TransformerMixin, BaseEstimator, metaclass=ABCMeta):
    """Base class of the bases: fixed functions of the features, intercept included.

    A basis of your own needs three methods. `n_terms(n_features)` counts the
    columns. `_expand(X)` receives a checked float array of shape
    (n_samples, n_features), n_features = 0 included, and returns an array of
    shape (n_samples, n_terms). `_term_names(names)` receives the names of the
    features and returns the names of the columns. A basis learns nothing from
    the data: what `_expand` returns for a row depends on that row alone.

    Attributes
    ----------
    n_features_in_ : int
        Number of features seen by `fit`.
    feature_names_in_ : ndarray of str of shape (`n_features_in_`,)
        Names of the features; only there if `fit` saw a table with names.

    Examples
    --------
    >>> import numpy as np
    >>> from fasta_learn.bases import BaseBasis
    >>> class ReciprocalBasis(BaseBasis):
    ...     def n_terms(self, n_features):
    ...         return 1 + n_features
    ...     def _expand(self, X):
    ...         return np.hstack([np.ones((len(X), 1)), 1 / (1 + X)])
    ...     def _term_names(self, names):
    ...         return ["1", *(f"1/(1 + {name})" for name in names)]
    >>> ReciprocalBasis().fit_transform([[0.0], [1.0]])
    array([[1. , 1. ],
           [1. , 0.5]])
    """

    _parameter_constraints: dict[str, Any] = {}

    @abstractmethod
    def n_terms(self, n_features: int) -> int:
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

    @abstractmethod
    def _expand(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Expand checked rows; see the class for the contract."""

    @abstractmethod
    def _term_names(self, names: list[str]) -> list[str]:
        """Name the columns; see the class for the contract."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Remember number and names of the features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features; the bases are meant for columns scaled to [0, 1].
        y : Ignored
            Not used, present for API consistency.

        Returns
        -------
        Self
            The basis itself.

        Raises
        ------
        ValueError
            `X` has no row, no column, or a value that is not finite.
        """
        validate_data(self, X, dtype=FLOAT_DTYPES)
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Expand the features into the columns of the basis.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples, n_terms)
            One column for each term, the intercept first.

        Raises
        ------
        ValueError
            `X` has other features than `fit` saw, or a value that is not finite.
        """
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=FLOAT_DTYPES, reset=False)
        return np.asarray(self._expand(rows), dtype=rows.dtype)

    def get_feature_names_out(
        self, input_features: ArrayLike | None = None
    ) -> NDArray[np.object_]:
        """Name the columns that `transform` returns.

        Parameters
        ----------
        input_features : array-like of str of shape (n_features,) or None
            Names of the features. By default those that `fit` saw, else x0, x1 etc.

        Returns
        -------
        ndarray of str of shape (n_terms,)
            Names such as ``1``, ``a``, ``a^2``, ``a b`` or ``sin(pi a)``.
        """
        check_is_fitted(self, "n_features_in_")
        names = _check_feature_names_in(self, input_features)
        return np.asarray(self._term_names([str(name) for name in names]), dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
