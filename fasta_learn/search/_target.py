"""What a surrogate learns instead of durations, free of their unit."""

import numpy as np
from numpy.typing import NDArray

TRANSFORMS = ("speed", "log", "identity")

# Stands for a duration of zero, which has neither a logarithm nor a reciprocal.
_TINY = np.finfo(np.float64).tiny


def to_target(durations: NDArray[np.float64], transform: str) -> NDArray[np.float64]:
    """Return what a surrogate learns; smaller is better, NaN is left out.

    Parameters
    ----------
    durations : ndarray of shape (n_measured,)
        Durations in ms, inf where a config failed.
    transform : {"speed", "log", "identity"}
        "speed": the share of the best speed that a config loses, in [0, 1).
        "log": logarithm of the ratio to the best. "identity": the duration.
        Failed configs are left out: the fastest configs often stand right beside
        those that need too much memory, and no smooth model should join the two.

    Returns
    -------
    ndarray of shape (n_measured,)
        The target.
    """
    known = np.where(np.isfinite(durations), durations, np.nan)
    if transform == "identity":
        return known
    positive = np.maximum(known, _TINY)
    best = float(np.nanmin(positive))
    if transform == "speed":
        return 1.0 - best / positive
    ratio: NDArray[np.float64] = np.log(positive) - np.log(best)
    return ratio


def from_target(
    target: NDArray[np.float64], best: float, transform: str
) -> NDArray[np.float64]:
    """Return the durations in ms of predicted targets.

    Parameters
    ----------
    target : ndarray of shape (n,)
        Predictions.
    best : float
        Best measured duration in ms.
    transform : {"speed", "log", "identity"}
        As in `to_target`.

    Returns
    -------
    ndarray of shape (n,)
        Durations; predictions of no speed at all give a hundred times the best.
    """
    if transform == "identity":
        return target
    if transform == "log":
        return best * np.exp(np.clip(target, -300.0, 300.0))
    return best / np.maximum(1.0 - target, 0.01)
