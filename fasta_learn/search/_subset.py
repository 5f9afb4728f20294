"""Surrogates over part of a pool that is too large to be predicted as a whole."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fasta_learn.model_selection import ModelSelector
from fasta_learn.search._surrogate import PoolSurrogate, make_surrogate

# Larger pools are searched through a working set.
MAX_WHOLE = 32_768

# Rows whose differences stay in the cache.
_CHUNK = 1 << 12


class WorkingSetSurrogate(PoolSurrogate):
    """Predicts a working set of a large pool, which is chosen anew now and then.

    The set holds what was measured, random configs, the neighbours of the fastest
    measured ones, and the most promising ones of the last set. It is renewed when
    the measurements have grown by a tenth, as the hyperparameters of the default
    surrogate are, so that a promising region is entered ever more densely. All
    other configs count as certain to be no better than the slowest measured one.

    Parameters
    ----------
    estimator : regressor
        Unfitted.
    features : ndarray of shape (n_pool, n_features)
        Features of the pool in the unit range.
    rng : numpy.random.RandomState
        Draws the random configs.

    Attributes
    ----------
    candidates : ndarray of shape (n_candidates,)
        Pool indices of the working set, ascending.
    """

    _GROWTH = 1.1
    _N_RANDOM = 8192
    _N_PROMISING = 2048
    _N_CENTRES = 8
    _N_NEIGHBOURS = 512

    def __init__(
        self, estimator: Any, features: NDArray[np.float64], rng: np.random.RandomState
    ):
        super().__init__(estimator, features)
        self._rng = rng
        self._inner: PoolSurrogate | None = None
        self._imagined: NDArray[np.float64] | None = None
        self._renew_at = 0
        self._local = np.full(len(features), -1, dtype=np.intp)

    def _fit(self, rows: NDArray[np.intp], target: NDArray[np.float64]) -> None:
        if len(rows) >= self._renew_at or (self._local[rows] < 0).any():
            self._renew(rows, target)
            self._renew_at = int(np.ceil(len(rows) * self._GROWTH))
        assert self._inner is not None
        assert self.candidates is not None
        self.forget()
        self._inner.fit(self._local[rows], target)
        self.mean = np.full(len(self.features), target.max())
        self.mean[self.candidates] = self._inner.mean
        self.std = self._spread(self._inner.std)
        self.r2, self.basis = self._inner.r2, self._inner.basis

    def _spread(self, std: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
        """Deviations over the pool from those over the working set."""
        if std is None:
            return None
        spread = np.full(len(self.features), std.min())
        spread[self.candidates] = std
        return spread

    def imagine(self, row: int) -> NDArray[np.float64]:
        """Return `std`, had this row come out as predicted."""
        if self.std is None or self._inner is None:
            return super().imagine(row)
        local = int(self._local[row])
        # A pending config that the last renewal left out tells the set nothing.
        if local >= 0:
            self._imagined = self._spread(self._inner.imagine(local))
        return self.std if self._imagined is None else self._imagined

    def forget(self) -> None:
        """Undo every `imagine`."""
        self._imagined = None
        if self._inner is not None:
            self._inner.forget()

    def _renew(self, rows: NDArray[np.intp], target: NDArray[np.float64]) -> None:
        fastest = rows[np.argsort(target, kind="stable")[: self._N_CENTRES]]
        parts = [rows, self._rng.randint(len(self.features), size=self._N_RANDOM)]
        parts += [
            nearest(self.features, self.features[row], self._N_NEIGHBOURS)
            for row in fastest
        ]
        before = self._inner
        if before is not None:
            assert self.candidates is not None
            hope = before.mean if before.std is None else before.mean - before.std
            best = np.argsort(hope, kind="stable")[: self._N_PROMISING]
            parts.append(self.candidates[best])
        self.candidates = np.unique(np.concatenate(parts)).astype(np.intp)
        self._local[:] = -1
        self._local[self.candidates] = np.arange(len(self.candidates))
        self._inner = make_surrogate(self.estimator, self.features[self.candidates])
        if before is not None:
            self._inner.begin_like(before)


def nearest(
    features: NDArray[np.float64], centre: NDArray[np.float64], count: int
) -> NDArray[np.intp]:
    """Return the rows that differ least from a row, in few features at best.

    Parameters
    ----------
    features : ndarray of shape (n_pool, n_features)
        Features of the pool in the unit range.
    centre : ndarray of shape (n_features,)
        Features of the row.
    count : int
        How many rows, fewer than `n_pool`.

    Returns
    -------
    ndarray of shape (count,)
        Pool indices, those of the smallest sums of the roots of the differences: one
        feature that changes by much is nearer than many that change by little.
    """
    distance = np.empty(len(features))
    for start in range(0, len(features), _CHUNK):
        chunk = features[start : start + _CHUNK]
        roots = np.sqrt(np.abs(chunk - centre))
        distance[start : start + _CHUNK] = roots @ np.ones(len(centre))
    return np.argpartition(distance, count)[:count]


def open_surrogate(
    estimator: Any, features: NDArray[np.float64], rng: np.random.RandomState
) -> PoolSurrogate:
    """Return the surrogate of a search over a pool.

    Parameters
    ----------
    estimator : regressor
        Unfitted.
    features : ndarray of shape (n_pool, n_features)
        Features of the pool in the unit range.
    rng : numpy.random.RandomState
        Is drawn from only if the pool is large.

    Returns
    -------
    PoolSurrogate
        Over a working set if the pool is large, else over all of it. A
        `ModelSelector` always predicts all, as the dynamic filter does.
    """
    if len(features) <= MAX_WHOLE or type(estimator) is ModelSelector:
        return make_surrogate(estimator, features)
    return WorkingSetSurrogate(estimator, features, rng)
