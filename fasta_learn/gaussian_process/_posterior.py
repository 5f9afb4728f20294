"""A Gaussian process over a fixed pool, updated one measurement at a time."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from fasta_learn.gaussian_process._kernel import (
    JITTER,
    Hyperparameters,
    covariance_factor,
    leave_one_out,
    matern,
    signal_variance,
)


class PoolGrid:
    """The pool's features, each column stored as its levels and their positions.

    Launch configs take few values per parameter, so a kernel column over the whole
    pool is a product of small tables instead of `n_pool` exponentials per feature.

    Parameters
    ----------
    X : ndarray of shape (n_pool, n_features)
        Features scaled to the unit range.
    """

    def __init__(self, X: NDArray[np.float64]):
        self.X = X
        self._levels = [np.unique(column, return_inverse=True) for column in X.T]

    def correlation(
        self, rows: NDArray[np.intp], hyper: Hyperparameters
    ) -> NDArray[np.float64]:
        """Correlations between pool rows and the whole pool, (n_rows, n_pool)."""
        product = np.ones((len(rows), len(self.X)))
        for column, (levels, positions) in enumerate(self._levels):
            scale, relevance = hyper.length_scales[column], hyper.relevance[column]
            distances = np.abs(self.X[rows, column, None] - levels[None, :])
            factor = 1.0 - relevance + relevance * matern(distances, scale)
            product *= np.take(factor, positions, axis=1)
        return product


class PoolPosterior:
    """Posterior over all rows of a pool for fixed hyperparameters.

    Rows are appended one by one: the Cholesky factor and its solution against the
    pool grow by a row each, so that an update costs one matrix-vector product.

    Parameters
    ----------
    grid : PoolGrid
        The pool.
    hyper : Hyperparameters
        Kernel hyperparameters; new ones need a new posterior.
    rows : ndarray of shape (n_rows,)
        Pool indices to condition on at once.
    """

    def __init__(self, grid: PoolGrid, hyper: Hyperparameters, rows: NDArray[np.intp]):
        self.grid, self.hyper, self.n_rows = grid, hyper, len(rows)
        self.rows = np.array(rows, dtype=np.intp)
        self._factor = covariance_factor(grid.X[rows], hyper)
        # Rows of V are L^-1 K: what each measurement explains of each pool row.
        self._explained = solve_triangular(
            self._factor,
            grid.correlation(self.rows, hyper),
            lower=True,
            check_finite=False,
        )
        self._variance = 1.0 - np.einsum("ij,ij->j", self._explained, self._explained)
        # The same layout in memory from the start, or an imagined row would change the
        # last bits of what follows.
        self._reserve(self.n_rows + 1)

    def append(self, row: int) -> None:
        """Condition on one more pool row."""
        n = self.n_rows
        self._reserve(n + 1)
        cross = self._explained[:n, row]
        noise = self.hyper.noise + JITTER
        pivot = np.sqrt(max(1.0 - cross @ cross, 0.0) + noise)
        column = self.grid.correlation(np.array([row]), self.hyper)[0]
        column -= cross @ self._explained[:n]
        column /= pivot
        self._factor[n, :n] = cross
        self._factor[n, n] = pivot
        self._explained[n] = column
        self._variance -= column**2
        self.rows = np.append(self.rows, row)
        self.n_rows = n + 1

    def _reserve(self, n_rows: int) -> None:
        """Grow the buffers by a quarter when they are full."""
        capacity = len(self._explained)
        if n_rows <= capacity:
            return
        extra = max(16, capacity // 4)
        n_pool = self._explained.shape[1]
        self._explained = np.vstack([self._explained, np.empty((extra, n_pool))])
        factor = np.zeros((capacity + extra, capacity + extra))
        factor[:capacity, :capacity] = self._factor
        self._factor = factor

    def mean(self, target: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """Mean over the pool, shape (n_pool,), and the variance of the signal."""
        residuals = self.whiten(target)
        return residuals @ self._explained[: self.n_rows], signal_variance(residuals)

    def whiten(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values at the rows, times the inverse of the Cholesky factor."""
        n = self.n_rows
        white: NDArray[np.float64] = solve_triangular(
            self._factor[:n, :n], values, lower=True, check_finite=False
        )
        return white

    def leave_one_out(self, target: NDArray[np.float64]) -> NDArray[np.float64]:
        """Leave-one-out predictions of the target, shape (n_rows,)."""
        n = self.n_rows
        return leave_one_out(self._factor[:n, :n], target)

    def truncate(self, n_rows: int, variance: NDArray[np.float64]) -> None:
        """Forget all but the first rows; `variance` is what they had left."""
        self.rows, self.n_rows = self.rows[:n_rows], n_rows
        self._variance = variance.copy()

    @property
    def variance(self) -> NDArray[np.float64]:
        """Share of the signal variance that is left at each pool row."""
        share: NDArray[np.float64] = self._variance.copy()
        return share
