"""What the policies of a search are shown."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fasta_learn.search._feasibility import FeasibilityModel
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
    predicted : ndarray of shape (n_measured,)
        The durations in ms that were predicted when the measured configs were
        chosen, NaN for those that were chosen blindly.
    target_transform : {"speed", "log", "identity"}
        What the surrogate learns of the durations.
    seconds : ndarray of shape (n_measured,)
        What each measurement cost, compiling and running, in s; NaN if not known.
    feasibility : FeasibilityModel or None
        What learns from failed configs on the "model" path; see `success`.
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
    predicted: NDArray[np.float64]
    target_transform: str
    seconds: NDArray[np.float64]
    feasibility: FeasibilityModel | None = None

    @property
    def n_left(self) -> int:
        """Measurements that may still be proposed."""
        left = self.n_budget - len(self.measured) - len(self.pending)
        return max(0, min(left, len(self.available)))

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.features.shape[1])

    @property
    def unmeasured(self) -> NDArray[np.intp]:
        """Pool indices that were not measured, ascending."""
        free = np.ones(len(self.features), dtype=bool)
        free[self.measured] = False
        return np.flatnonzero(free)

    @property
    def candidates(self) -> NDArray[np.intp]:
        """What an acquisition should choose from, ascending.

        All of `available`, or in a large pool those that the surrogate predicts, if
        there are any.
        """
        if self.surrogate is None or self.surrogate.candidates is None:
            return self.available
        predicted = np.intersect1d(
            self.available, self.surrogate.candidates, assume_unique=True
        )
        return predicted if len(predicted) else self.available

    @property
    def success(self) -> NDArray[np.float64] | None:
        """Probability that each config of the pool runs; None while none failed."""
        if self.feasibility is None or self.surrogate is None:
            return None
        return self.feasibility.probability(
            self.measured, self.durations, self.surrogate.candidates
        )

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
