"""What the policies of a search are shown."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fasta_learn.search._surrogate import PoolSurrogate


@dataclass(frozen=True)
class SearchState:
    """A search at the moment of a decision; what a policy decides by.

    Attributes
    ----------
    features : ndarray of shape (n_pool, n_features)
        Features of the pool in the unit range.
    measured : ndarray of shape (n_measured,)
        Pool indices in the order of measurement.
    durations : ndarray of shape (n_measured,)
        Their durations in ms, inf where a config failed.
    pending : ndarray of shape (n_pending,)
        Pool indices that were proposed and not answered.
    available : ndarray of shape (n_available,)
        Pool indices that may be proposed, ascending.
    n_budget : int
        Measurements that the whole search may use.
    round : int
        Number of the current round; the first blind sample is round 1.
    path : {"initial", "model", "coverage"}
        How the next configs are chosen: blindly at first, by the surrogate, or
        blindly because too little is known for a surrogate.
    surrogate : PoolSurrogate or None
        The fitted surrogate of the "model" path.
    rng : numpy.random.RandomState
        The only source of chance.
    """

    features: NDArray[np.float64]
    measured: NDArray[np.intp]
    durations: NDArray[np.float64]
    pending: NDArray[np.intp]
    available: NDArray[np.intp]
    n_budget: int
    round: int
    path: str
    surrogate: PoolSurrogate | None
    rng: np.random.RandomState

    @property
    def n_left(self) -> int:
        """Measurements that may still be proposed."""
        left = self.n_budget - len(self.measured) - len(self.pending)
        return max(0, min(left, len(self.available)))

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.features.shape[1]

    def count_near_optimal(self, tolerance: float = 1.05) -> int:
        """Return how many measured configs are within a factor of the best one.

        Parameters
        ----------
        tolerance : float, default=1.05
            The factor.

        Returns
        -------
        int
            0 if none ran.
        """
        ok = self.durations[np.isfinite(self.durations)]
        return int(np.sum(ok <= tolerance * ok.min())) if len(ok) else 0
