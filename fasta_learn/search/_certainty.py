"""How probably the best measured config is as good as the best of the pool."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_ndtr

from fasta_learn.search._state import SearchState

# Log odds beyond this are as good as certain; farther ones would rule the fit.
_LIMIT = 10.0

# Beyond this many standard deviations nothing changes, and log_ndtr may overflow.
_FAR = 30.0


@dataclass(frozen=True)
class Calibration:
    """A logistic model of the log odds that no unmeasured config is far better.

    Attributes
    ----------
    intercept : float
        Log odds where all covariates are zero.
    weights : tuple of float
        Weights of the covariates, in the order of `certainty_covariates`.
    """

    intercept: float
    weights: tuple[float, ...]

    def probability(self, covariates: NDArray[np.float64]) -> float:
        """Return the probability.

        Parameters
        ----------
        covariates : ndarray of shape (n_covariates,)
            What `certainty_covariates` answers.

        Returns
        -------
        float
            In (0, 1).
        """
        return float(expit(self.intercept + covariates @ np.array(self.weights)))


# Logistic regressions on the rounds of replayed searches, each pool of the same weight:
# made by `python tests/benchmarks/bench_stopping.py --fit`, which tells the details.
WITH_DEVIATIONS = Calibration(1.092, (0.0685, 0.2795, 0.3077))
WITHOUT_DEVIATIONS = Calibration(2.890, (0.0741, 0.0758, 0.5988))


def estimate_certainty(state: SearchState, target: float = 0.05) -> float | None:
    """Return how probably the best so far is near the best of the pool.

    Parameters
    ----------
    state : SearchState
        The search after a round.
    target : float, default=0.05
        How much slower than the best of the pool still counts as near, as a share.

    Returns
    -------
    float or None
        In [0, 1], 1 once everything is measured; None while nothing ran. Without a
        surrogate it is the share of the pool that was measured, as if at random.
    """
    best = state.durations.min(initial=np.inf)
    if not np.isfinite(best):
        return None
    n_measured, n_pool = len(state.measured), len(state.features)
    if n_measured == n_pool or best == 0:
        return 1.0
    if state.surrogate is None:
        return n_measured / n_pool
    knows = state.surrogate.std is not None
    calibration = WITH_DEVIATIONS if knows else WITHOUT_DEVIATIONS
    return calibration.probability(certainty_covariates(state, target))


def certainty_covariates(state: SearchState, target: float) -> NDArray[np.float64]:
    """Return what the probability is computed from, all free of the unit.

    The surrogate gives each unmeasured config a probability of being better than
    the best so far by more than `target`. That none is lies between the product of
    the single probabilities, as if the configs were independent, and the smallest of
    them, as if all errors were one (the bounds of Slepian and Fréchet).

    Parameters
    ----------
    state : SearchState
        The search after a round, with a surrogate and with unmeasured configs.
    target : float
        Share of the duration by which a config has to be better.

    Returns
    -------
    ndarray of shape (3,)
        The log odds of both bounds, and the logarithm of the number of measured
        configs over that of the unmeasured ones.
    """
    surrogate = state.surrogate
    assert surrogate is not None
    rows = state.unmeasured
    if surrogate.candidates is not None:
        rows = np.intersect1d(rows, surrogate.candidates, assume_unique=True)
    deviation = _blind_spread(state) if surrogate.std is None else surrogate.std[rows]
    distance = surrogate.mean[rows] - _much_better(state, target)
    with np.errstate(over="ignore"):
        ratio = distance / np.maximum(deviation, np.finfo(np.float64).tiny)
    log_none = log_ndtr(np.clip(ratio, -_FAR, _FAR))
    n_measured, n_pool = len(state.measured), len(state.features)
    return np.array(
        [
            _log_odds(float(log_none.sum())),
            _log_odds(float(log_none.min(initial=0.0))),
            np.log(n_measured / (n_pool - n_measured)),
        ]
    )


def _much_better(state: SearchState, target: float) -> float:
    """Return the target below which a config is better by more than a share."""
    if state.target_transform == "speed":
        return -target
    if state.target_transform == "log":
        return -float(np.log1p(target))
    return float(state.durations.min()) / (1.0 + target)


def _blind_spread(state: SearchState) -> float:
    """Return a standard deviation for a surrogate that does not tell its own.

    It comes from the errors of the predictions by which configs were chosen; those
    the model had not seen. One more error, that of no model at all, keeps it from
    vanishing. All are shares of the larger duration, near the best as good as
    differences of "speed" or "log".
    """
    ran = np.isfinite(state.durations)
    durations, predicted = state.durations[ran], state.predicted[ran]
    best = durations.min()
    none = np.std(best / durations)
    told = np.isfinite(predicted)
    larger = np.maximum(durations, predicted)[told]
    errors = np.clip((predicted - durations)[told] / larger, -1.0, 1.0)
    spread = np.sqrt((none**2 + errors @ errors) / (1 + len(errors)))
    return float(spread * best if state.target_transform == "identity" else spread)


def _log_odds(log_probability: float) -> float:
    """Return the log odds of a probability given by its logarithm, within limits."""
    log_probability = min(log_probability, -np.finfo(np.float64).tiny)
    odds = log_probability - np.log(-np.expm1(log_probability))
    return float(np.clip(odds, -_LIMIT, _LIMIT))
