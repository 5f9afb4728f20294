"""A Gaussian process for few measurements of many interacting parameters."""

from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from fasta_learn._blas import one_blas_thread
from fasta_learn._compat import Interval, _fit_context, validate_data
from fasta_learn.gaussian_process._kernel import (
    HyperPrior,
    correlation,
    covariance_factor,
    fit_hyperparameters,
    leave_one_out,
    signal_variance,
    unpack,
)
from fasta_learn.gaussian_process._pool import PoolGaussianProcess, thin


class AnovaGaussianProcess(RegressorMixin, BaseEstimator):
    """Gaussian process whose kernel is a product over single features.

    Each feature contributes the factor ``1 - r + r * k(distance)`` with a relevance
    ``r`` between 0 and 1 and a Matérn correlation ``k`` of smoothness 5/2. The product
    holds main effects and interactions of every order, so that features which act
    on their own are learned from few samples, and features without influence fade
    out. Hyperparameters are those of the highest posterior density under weak
    priors; the signal variance has a closed form.

    Parameters
    ----------
    max_iter : int, default=20
        Iterations of L-BFGS-B when the hyperparameters are fitted.
    max_samples : int, default=512
        Samples to condition on. Of more, the fastest three quarters are kept and
        the rest is spaced evenly over the others.

    Attributes
    ----------
    length_scales_ : ndarray of shape (n_features,)
        Length scales in units of each feature's range.
    relevance_ : ndarray of shape (n_features,)
        Influence of each feature, between 0 and 1.
    noise_ : float
        Noise variance as a share of the signal variance.
    n_iter_ : int
        Iterations that fitted the hyperparameters.
    loo_predictions_ : ndarray of shape (n_kept,)
        Leave-one-out predictions of the samples that were kept.
    n_features_in_ : int
        Number of features seen by `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features; only there if `fit` saw a table with names.

    See Also
    --------
    fasta_learn.ModelSelector : Competing ridge bases, the other surrogate.

    Notes
    -----
    The kernel is that of Durrande et al., "ANOVA kernels and RKHS of zero mean
    functions for model-based sensitivity analysis", JMVA 2013, without the centring.

    Examples
    --------
    >>> import numpy as np
    >>> from fasta_learn.gaussian_process import AnovaGaussianProcess
    >>> X = np.linspace(0, 1, 9).reshape(-1, 1)
    >>> model = AnovaGaussianProcess().fit(X, (X[:, 0] - 0.3) ** 2)
    >>> mean, std = model.predict([[0.35]], return_std=True)
    >>> abs(float(mean[0]) - 0.0025) < 0.001
    True
    """

    _parameter_constraints: dict[str, Any] = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_samples": [Interval(Integral, 4, None, closed="left")],
    }

    def __init__(self, *, max_iter: int = 20, max_samples: int = 512):
        self.max_iter = max_iter
        self.max_samples = max_samples

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit hyperparameters and condition on the samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,)
            Target; smaller is better where samples have to be left out.

        Returns
        -------
        Self
            The fitted regressor.
        """
        rows, target = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        target = target.astype(np.float64, copy=False)
        self._low, span = rows.min(axis=0), np.ptp(rows, axis=0)
        self._span = np.where(span > 0, span, 1.0)
        kept = thin(target, self.max_samples)
        self._rows = (rows[kept] - self._low) / self._span
        target = target[kept]
        self._centre, self._scale = target.mean(), target.std() or 1.0
        target = (target - self._centre) / self._scale
        with one_blas_thread():
            self._fit_scaled(self._rows, target)
        return self

    def _fit_scaled(
        self, rows: NDArray[np.float64], target: NDArray[np.float64]
    ) -> None:
        prior = HyperPrior()
        start = prior.moments(rows.shape[1])[0]
        packed, n_iter = fit_hyperparameters(rows, target, start, prior, self.max_iter)
        self.n_iter_ = max(1, n_iter)
        self._hyper = unpack(packed)
        self.length_scales_, self.relevance_, self.noise_ = self._hyper
        self._factor = covariance_factor(rows, self._hyper)
        self._residuals = solve_triangular(self._factor, target, lower=True)
        left_out = leave_one_out(self._factor, target)
        self.loo_predictions_ = left_out * self._scale + self._centre

    def predict(
        self, X: ArrayLike, return_std: bool = False
    ) -> NDArray[np.float64] | tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Predict the target, on request with its uncertainty.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.
        return_std : bool, default=False
            Whether to answer the standard deviation too.

        Returns
        -------
        mean : ndarray of shape (n_samples,)
            Predictions in the unit of `y`.
        std : ndarray of shape (n_samples,)
            Standard deviation without the noise; only with `return_std`.
        """
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        rows = (rows - self._low) / self._span
        cross = correlation(self._rows, rows, self._hyper)
        explained = solve_triangular(self._factor, cross, lower=True)
        mean: NDArray[np.float64] = self._residuals @ explained
        mean = mean * self._scale + self._centre
        if not return_std:
            return mean
        left = np.maximum(1.0 - np.einsum("ij,ij->j", explained, explained), 1e-12)
        return mean, np.sqrt(signal_variance(self._residuals) * left) * self._scale

    def _open_pool(self, X: NDArray[np.float64]) -> PoolGaussianProcess:
        """Prepare many fits on rows of one pool, scaled to the unit range."""
        return PoolGaussianProcess(X, HyperPrior(), self.max_iter, self.max_samples)
