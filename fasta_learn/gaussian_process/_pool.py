"""The Gaussian process as the surrogate of a search over one pool."""

import numpy as np
from numpy.typing import NDArray

from fasta_learn.gaussian_process._kernel import (
    Hyperparameters,
    HyperPrior,
    fit_hyperparameters,
    unpack,
)
from fasta_learn.gaussian_process._posterior import PoolGrid, PoolPosterior


class PoolGaussianProcess:
    """A Gaussian process that learns one pool, measurement by measurement.

    Hyperparameters are fitted anew whenever the data has grown by a tenth; in
    between, measurements are appended at the cost of a matrix-vector product.

    Parameters
    ----------
    X : ndarray of shape (n_pool, n_features)
        Features of the pool, scaled to the unit range.
    prior : HyperPrior
        Priors of the hyperparameters.
    max_iter : int
        Iterations of each fit of the hyperparameters.
    max_samples : int
        Rows that the posterior is conditioned on; of more, the fastest are kept.
    """

    _GROWTH = 1.1
    # Hyperparameters are well determined by this many rows.
    _FIT_SAMPLES = 160

    def __init__(
        self, X: NDArray[np.float64], prior: HyperPrior, max_iter: int, max_samples: int
    ):
        self.grid = PoolGrid(X)
        self.prior, self.max_iter, self.max_samples = prior, max_iter, max_samples
        self.packed = prior.moments(X.shape[1])[0]
        self._refit_at = 0
        self._posterior: PoolPosterior | None = None
        self._n_seen = 0

    @property
    def hyper(self) -> Hyperparameters:
        """Current hyperparameters."""
        return unpack(self.packed)

    def fit(self, rows: NDArray[np.intp], target: NDArray[np.float64]) -> None:
        """Learn all measured rows; those of the last call come first, in order."""
        self.forget()
        if self._posterior is None or len(rows) >= self._refit_at:
            self._posterior = self._refit(rows, target)
            self._refit_at = int(np.ceil(len(rows) * self._GROWTH))
        else:
            for row in rows[self._n_seen :]:
                self._posterior.append(int(row))
        self._n_seen = len(rows)
        self._condition(self._posterior, rows, target)

    def _refit(
        self, rows: NDArray[np.intp], target: NDArray[np.float64]
    ) -> PoolPosterior:
        kept = thin(target, self._FIT_SAMPLES)
        values = target[kept]
        spread = values.std()
        if spread > 0:
            self.packed, _ = fit_hyperparameters(
                self.grid.X[rows[kept]],
                (values - values.mean()) / spread,
                self.packed,
                self.prior,
                self.max_iter,
            )
        kept = thin(target, self.max_samples)
        return PoolPosterior(self.grid, self.hyper, rows[kept])

    def _condition(
        self,
        posterior: PoolPosterior,
        rows: NDArray[np.intp],
        target: NDArray[np.float64],
    ) -> None:
        by_row = np.empty(len(self.grid.X))
        by_row[rows] = target
        values = by_row[posterior.rows]
        self._centre = float(values.mean())
        self._scale = float(values.std()) or 1.0
        self._target = (values - self._centre) / self._scale
        self._mean, self._signal = posterior.mean(self._target)
        self._variance = posterior.variance

    def predict(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and standard deviation over the pool in the unit of the target."""
        return self._mean * self._scale + self._centre, self._std(self._variance)

    def _std(self, variance: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.sqrt(self._signal * np.maximum(variance, 1e-12)) * self._scale

    def whiten(
        self, rows: NDArray[np.intp], values: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Columns of values at the learned rows, times the inverse Cholesky factor."""
        assert self._posterior is not None
        by_row = np.empty((len(self.grid.X), values.shape[1]))
        by_row[rows] = values
        return self._posterior.whiten(by_row[self._posterior.rows])

    def imagine(self, row: int) -> NDArray[np.float64]:
        """Standard deviation over the pool, had `row` come out as predicted."""
        assert self._posterior is not None
        self._posterior.append(row)
        return self._std(self._posterior.variance)

    def forget(self) -> None:
        """Undo every call of `imagine`."""
        if self._posterior is not None:
            self._posterior.truncate(len(self._target), self._variance)

    def leave_one_out(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Standardised target and its leave-one-out predictions."""
        assert self._posterior is not None
        self.forget()
        return self._target, self._posterior.leave_one_out(self._target)


def thin(target: NDArray[np.float64], limit: int) -> NDArray[np.intp]:
    """Positions of the fastest rows and an even share of the others, in order."""
    n = len(target)
    if n <= limit:
        return np.arange(n)
    by_speed = np.argsort(target, kind="stable")
    fast = by_speed[: 3 * limit // 4]
    others = np.sort(by_speed[len(fast) :])
    spaced = np.linspace(0, len(others) - 1, limit - len(fast)).round()
    return np.sort(np.concatenate([fast, others[spaced.astype(np.intp)]]))
