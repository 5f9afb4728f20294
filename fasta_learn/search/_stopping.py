"""Stopping rules and the confidence in a result."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fasta_learn.search._certainty import estimate_certainty
from fasta_learn.search._state import SearchState


def label_confidence(margin: float, r2: float, n_near_optimal: int) -> str:
    """Return how far a result can be trusted, by the rule of the dynamic filter.

    Parameters
    ----------
    margin : float
        Best prediction of an unmeasured config over the best measured duration;
        NaN if there is no model.
    r2 : float
        Share of the variance that the model explains.
    n_near_optimal : int
        Measured configs within 5 % of the best.

    Returns
    -------
    {"high", "med", "low"}
        The label.
    """
    if n_near_optimal >= 3 or (margin >= 1 and r2 >= 0.5):
        return "high"
    if margin >= 1 or r2 >= 0.6:
        return "med"
    return "low" if n_near_optimal <= 1 and r2 < 0.3 else "med"


@dataclass(frozen=True)
class CertaintyStop:
    """Stop when the best so far is probably as good as the best of the pool.

    The probability is the one of `ActiveConfigSearch.confidence_`, which was
    calibrated for a target of 5 % on recorded pools.

    Parameters
    ----------
    target : float, default=0.05
        How much slower than the best of the pool is good enough, as a share.
    probability : float, default=0.95
        How probable that has to be.

    Raises
    ------
    ValueError
        `target` is negative or not finite, or `probability` is not between 0 and 1.

    Examples
    --------
    >>> from fasta_learn import ActiveConfigSearch
    >>> from fasta_learn.search import CertaintyStop
    >>> configs = [{"BLOCK_M": 2**i, "BLOCK_N": 2**j}
    ...            for i in range(4, 12) for j in range(4, 12)]
    >>> durations = [1 + 0.2 * (i - 7) ** 2 + 0.1 * (j - 6) ** 2
    ...              for i in range(4, 12) for j in range(4, 12)]
    >>> stop = CertaintyStop(probability=0.9)
    >>> search = ActiveConfigSearch(budget=0.5, stopping=stop, random_state=0)
    >>> search.fit(configs, durations).stop_reason_
    'confident'
    >>> search.n_measured_ < search.n_budget_
    True
    """

    target: float = 0.05
    probability: float = 0.95

    def __post_init__(self) -> None:
        if not 0 <= self.target < np.inf:
            raise ValueError(f"target must be a share of at least 0: {self.target!r}.")
        if not 0 < self.probability < 1:
            raise ValueError(
                f"probability must be above 0 and below 1: {self.probability!r}."
            )

    def __call__(self, state: SearchState, rounds: list[dict[str, Any]]) -> str | None:
        """Return why to stop, or None to go on.

        Parameters
        ----------
        state : SearchState
            The search after a round.
        rounds : list of dict
            Records of the rounds so far, as in `rounds_`.

        Returns
        -------
        str or None
            "confident".
        """
        certainty = estimate_certainty(state, self.target)
        return "confident" if (certainty or 0.0) >= self.probability else None


@dataclass(frozen=True)
class Convergence:
    """Stop when the model sees nothing better or the sample stands still.

    The stopping rule of the dynamic filter.

    Parameters
    ----------
    margin : float
        Stop if the best prediction of an unmeasured config is more than this many
        times the best measured duration.
    l1 : float, default=0.01
        Stop if the normalised histograms of the measured durations of two
        successive rounds are closer than this.
    n_bins : int, default=10
        Bins of the histograms, between the extremes of both rounds.
    max_rounds : int or None, default=None
        Stop after this many rounds.

    Examples
    --------
    >>> from fasta_learn import ActiveConfigSearch, datasets
    >>> from fasta_learn.search import Convergence
    >>> pool = datasets.load_pool("mm_2048_2048_2048")
    >>> search = ActiveConfigSearch(stopping=Convergence(margin=1.1), random_state=0)
    >>> search = search.fit(pool.configs, pool.durations)
    >>> search.n_measured_, search.stop_reason_
    (13, 'converged')
    """

    margin: float
    l1: float = 0.01
    n_bins: int = 10
    max_rounds: int | None = None

    def __call__(self, state: SearchState, rounds: list[dict[str, Any]]) -> str | None:
        """Return why to stop, or None to go on.

        Parameters
        ----------
        state : SearchState
            The search after a round.
        rounds : list of dict
            Records of the rounds so far, as in `rounds_`.

        Returns
        -------
        str or None
            "converged" or "budget".
        """
        if rounds and rounds[-1]["margin"] > self.margin:
            return "converged"
        if len(rounds) > 1 and self._stands_still(state, rounds[-2]["n_measured"]):
            return "converged"
        if self.max_rounds is not None and len(rounds) >= self.max_rounds:
            return "budget"
        return None

    def _stands_still(self, state: SearchState, n_before: int) -> bool:
        now, before = (
            durations[np.isfinite(durations)]
            for durations in (state.durations, state.durations[:n_before])
        )
        if not len(before):
            return False
        edges = np.linspace(now.min(), now.max(), self.n_bins + 1)
        if edges[0] == edges[-1]:
            return True
        shares = [
            np.histogram(sample, edges)[0] / len(sample) for sample in (now, before)
        ]
        return float(np.abs(shares[0] - shares[1]).sum()) < self.l1
