"""Bootstrap over pools and seeds."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state


def interval(
    samples: Sequence[ArrayLike],
    *,
    confidence: float,
    n_resamples: int,
    random_state: Any,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a bootstrap interval of the mean over pools of means over seeds.

    Pools are drawn with replacement, and in each drawn pool its seeds, because the
    seeds of a pool share what makes the pool easy or hard.

    Parameters
    ----------
    samples : sequence of array-like of shape (n_seeds, n_values)
        What the runs of each pool gave; the number of seeds may differ.
    confidence : float
        Probability of the interval, in (0, 1).
    n_resamples : int
        Number of resamples.
    random_state : int, RandomState instance or None
        Seed of the resamples.

    Returns
    -------
    low, high : ndarray of shape (n_values,)
        The ends of the percentile interval.

    Raises
    ------
    ValueError
        The probability or the number of resamples is out of range.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be above 0 and below 1, got {confidence!r}.")
    if n_resamples < 1:
        raise ValueError(f"n_resamples must be at least 1, got {n_resamples!r}.")
    means = _resampled_means(samples, n_resamples, check_random_state(random_state))
    tail = (1.0 - confidence) / 2.0
    # Observed values only, since inf can't be interpolated.
    low, high = np.quantile(means, [tail, 1.0 - tail], axis=0, method="inverted_cdf")
    return low, high


def _resampled_means(
    samples: Sequence[ArrayLike], n_resamples: int, rng: np.random.RandomState
) -> NDArray[np.float64]:
    arrays = [np.asarray(sample, dtype=np.float64) for sample in samples]
    sizes = np.array([len(array) for array in arrays])
    padded = np.zeros((len(arrays), sizes.max(), arrays[0].shape[1]))
    for pool, array in enumerate(arrays):
        padded[pool, : len(array)] = array
    means = np.empty((n_resamples, padded.shape[2]))
    for i in range(n_resamples):
        pools = rng.randint(len(arrays), size=len(arrays))
        n_seeds = sizes[pools, np.newaxis]
        seeds = (rng.random_sample(padded.shape[:2]) * n_seeds).astype(np.intp)
        drawn = padded[pools[:, np.newaxis], seeds]
        # A pool with fewer seeds draws only as many as it has.
        kept = np.arange(padded.shape[1]) < n_seeds
        totals = np.where(kept[:, :, np.newaxis], drawn, 0.0).sum(axis=1)
        means[i] = (totals / n_seeds).mean(axis=0)
    return means
