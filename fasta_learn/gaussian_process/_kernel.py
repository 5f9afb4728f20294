"""The product kernel of one-dimensional Matérn factors and its likelihood."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.special import expit

_SQRT5 = np.sqrt(5.0)

# Added to the diagonal beside the noise so that repeated rows stay factorisable.
JITTER = 1e-8

# Hyperparameters may leave their prior mean by this many standard deviations.
_BOUND = 4.0


def matern(distances: NDArray[np.float64], length_scale: float) -> NDArray[np.float64]:
    """Matérn correlation of smoothness 5/2."""
    scaled: NDArray[np.float64] = distances * (_SQRT5 / length_scale)
    values: NDArray[np.float64] = (1.0 + scaled + scaled**2 / 3.0) * np.exp(-scaled)
    return values


def _matern_slope(
    distances: NDArray[np.float64], length_scale: float
) -> NDArray[np.float64]:
    """Derivative of `matern` by the logarithm of the length scale."""
    scaled: NDArray[np.float64] = distances * (_SQRT5 / length_scale)
    slope: NDArray[np.float64] = scaled**2 * (1.0 + scaled) * np.exp(-scaled) / 3.0
    return slope


class Hyperparameters(NamedTuple):
    """Natural values of the kernel's hyperparameters.

    Attributes
    ----------
    length_scales : ndarray of shape (n_features,)
        In units of the scaled features, whose range is one.
    relevance : ndarray of shape (n_features,)
        Between zero (the feature has no influence) and one.
    noise : float
        Noise variance as a share of the signal variance.
    """

    length_scales: NDArray[np.float64]
    relevance: NDArray[np.float64]
    noise: float


@dataclass(frozen=True)
class HyperPrior:
    """Normal priors over log length scales, logit relevances and log noise.

    Attributes
    ----------
    length_scale : tuple of (median, standard deviation of the logarithm)
    relevance : tuple of (median, standard deviation of the logit)
    noise : tuple of (median, standard deviation of the logarithm)
    """

    length_scale: tuple[float, float] = (0.6, 0.8)
    relevance: tuple[float, float] = (0.3, 1.5)
    noise: tuple[float, float] = (0.005, 1.5)

    def moments(
        self, n_features: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Means and standard deviations of the packed vector of 2D + 1 values."""
        odds = self.relevance[0] / (1.0 - self.relevance[0])
        counts = (n_features, n_features, 1)
        medians = (self.length_scale[0], odds, self.noise[0])
        spreads = (self.length_scale[1], self.relevance[1], self.noise[1])
        return np.repeat(np.log(medians), counts), np.repeat(spreads, counts)


def unpack(packed: NDArray[np.float64]) -> Hyperparameters:
    """Natural values of a packed vector (log, logit, log)."""
    n_features = len(packed) // 2
    return Hyperparameters(
        np.exp(packed[:n_features]),
        expit(packed[n_features : 2 * n_features]),
        float(np.exp(packed[-1])),
    )


def correlation(
    A: NDArray[np.float64], B: NDArray[np.float64], hyper: Hyperparameters
) -> NDArray[np.float64]:
    """Correlations between the rows of two matrices, shape (n_a, n_b).

    Each feature contributes a factor ``1 - relevance + relevance * matern``. The
    product expands into main effects and interactions of every order (a functional
    ANOVA), so that few rows suffice where features act nearly on their own.
    """
    product = np.ones((len(A), len(B)))
    for column, (scale, relevance) in enumerate(
        zip(hyper.length_scales, hyper.relevance, strict=True)
    ):
        distances = np.abs(A[:, column, None] - B[None, :, column])
        product *= 1.0 - relevance + relevance * matern(distances, scale)
    return product


def covariance_factor(
    X: NDArray[np.float64], hyper: Hyperparameters
) -> NDArray[np.float64]:
    """Lower Cholesky factor of the noisy correlation matrix of the rows of X."""
    matrix = correlation(X, X, hyper)
    matrix[np.diag_indices_from(matrix)] += hyper.noise + JITTER
    factor: NDArray[np.float64] = cholesky(matrix, lower=True, check_finite=False)
    return factor


def signal_variance(residuals: NDArray[np.float64]) -> float:
    """Posterior scale of the signal; one pseudo-observation keeps it off zero."""
    return float((residuals @ residuals + 1.0) / (len(residuals) + 1.0))


def leave_one_out(
    factor: NDArray[np.float64], target: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Leave-one-out means from a Cholesky factor (Rasmussen & Williams, eq. 5.12)."""
    identity = np.eye(len(target))
    inverse = solve_triangular(factor, identity, lower=True, check_finite=False)
    precision = np.einsum("ij,ij->j", inverse, inverse)
    means: NDArray[np.float64] = target - (inverse.T @ (inverse @ target)) / precision
    return means


def _negative_log_posterior(
    packed: NDArray[np.float64],
    distances: NDArray[np.float64],
    target: NDArray[np.float64],
    means: NDArray[np.float64],
    spreads: NDArray[np.float64],
) -> tuple[float, NDArray[np.float64]]:
    """Value and gradient; the signal variance is profiled out."""
    n_features, n = len(distances), len(target)
    hyper = unpack(packed)
    factors, scale_slopes, relevance_slopes = [], [], []
    for column in range(n_features):
        scale, relevance = hyper.length_scales[column], hyper.relevance[column]
        shape = matern(distances[column], scale)
        factor = 1.0 - relevance + relevance * shape
        factors.append(factor)
        slope = relevance * _matern_slope(distances[column], scale)
        scale_slopes.append(slope / factor)
        relevance_slopes.append(relevance * (1 - relevance) * (shape - 1) / factor)
    product = np.prod(factors, axis=0) if factors else np.ones((n, n))
    noisy = product.copy()
    noisy[np.diag_indices(n)] += hyper.noise + JITTER
    try:
        lower = cholesky(noisy, lower=True, check_finite=False)
    except LinAlgError:
        return 1e25, np.zeros_like(packed)
    solved = cho_solve((lower, True), target, check_finite=False)
    variance = (target @ solved + 1.0) / (n + 1.0)
    deviation = (packed - means) / spreads
    value = (
        0.5 * (n + 1) * np.log(variance)
        + np.log(np.diag(lower)).sum()
        + 0.5 * deviation @ deviation
    )
    inverse = cho_solve((lower, True), np.eye(n), check_finite=False)
    by_matrix = 0.5 * (inverse - np.outer(solved, solved) / variance)
    weighted = (by_matrix * product).ravel()
    gradient = np.array(
        [weighted @ slope.ravel() for slope in scale_slopes + relevance_slopes]
        + [np.trace(by_matrix) * hyper.noise]
    )
    return value, gradient + deviation / spreads


def fit_hyperparameters(
    X: NDArray[np.float64],
    target: NDArray[np.float64],
    start: NDArray[np.float64],
    prior: HyperPrior,
    max_iter: int,
) -> tuple[NDArray[np.float64], int]:
    """Packed hyperparameters of the highest posterior density, and iterations."""
    means, spreads = prior.moments(X.shape[1])
    distances = np.abs(X.T[:, :, None] - X.T[:, None, :])
    result = minimize(
        _negative_log_posterior,
        start,
        args=(distances, target, means, spreads),
        jac=True,
        method="L-BFGS-B",
        bounds=np.column_stack([means - _BOUND * spreads, means + _BOUND * spreads]),
        options={"maxiter": max_iter},
    )
    return result.x, int(result.nit)
