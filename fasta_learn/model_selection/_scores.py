"""Scores of leave-one-out predictions."""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata


def spearman(
    durations: NDArray[np.float64], predictions: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Correlate the ranks of durations with those of each row of predictions.

    Equal values share their average rank. A constant side orders nothing, so
    its correlation is 0.

    Parameters
    ----------
    durations : ndarray of shape (n_samples,)
        Measured values.
    predictions : ndarray of shape (n_rows, n_samples)
        Predicted values.

    Returns
    -------
    ndarray of shape (n_rows,)
        Rank correlations in [-1, 1].
    """
    ranks = rankdata(np.vstack([durations, predictions]), axis=1)
    # Average ranks have the mean (n + 1)/2 whatever the ties: this is exact.
    ranks -= (len(durations) + 1) / 2
    squares = (ranks**2).sum(axis=1)
    spread = np.sqrt(squares[0] * squares[1:])
    products = ranks[1:] @ ranks[0]
    correlations = np.zeros(len(spread))
    np.divide(products, spread, out=correlations, where=spread > 0)
    return correlations


def merge_ties(
    predictions: NDArray[np.float64], tolerance: float
) -> NDArray[np.float64]:
    """Set values of a row that lie within tolerance of a neighbour to one value.

    Predictions that are equal in exact arithmetic differ by rounding; without
    this their ranks, and with them the winner, would be a matter of chance.

    Parameters
    ----------
    predictions : ndarray of shape (n_rows, n_samples)
        Predicted values.
    tolerance : float
        Largest distance between neighbours that is taken for rounding.

    Returns
    -------
    ndarray of shape (n_rows, n_samples)
        The same values, each group of ties at its smallest.
    """
    order = predictions.argsort(axis=1)
    values = np.take_along_axis(predictions, order, axis=1)
    merged = np.empty_like(values)
    merged[:, 0] = values[:, 0]
    begins = np.diff(values, axis=1) > tolerance
    merged[:, 1:] = np.where(begins, values[:, 1:], -np.inf)
    np.maximum.accumulate(merged, axis=1, out=merged)
    result = np.empty_like(values)
    np.put_along_axis(result, order, merged, axis=1)
    return result


def press(
    durations: NDArray[np.float64],
    predictions: NDArray[np.float64],
    weight: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    """Return the (weighted) mean squared error along the last axis.

    Parameters
    ----------
    durations : ndarray of shape (n_samples,)
        Measured values.
    predictions : ndarray of shape (..., n_samples)
        Leave-one-out predictions.
    weight : ndarray of shape (n_samples,) or None
        Sample weights.

    Returns
    -------
    ndarray of shape (...)
        Mean squared errors, lower is better.
    """
    return np.average((predictions - durations) ** 2, axis=-1, weights=weight)


def clipped_r2(
    durations: NDArray[np.float64],
    fitted: NDArray[np.float64],
    weight: NDArray[np.float64] | None,
) -> float:
    """Return R² clipped to [0, 1]; 0 for constant durations.

    Parameters
    ----------
    durations : ndarray of shape (n_samples,)
        Measured values.
    fitted : ndarray of shape (n_samples,)
        In-sample predictions.
    weight : ndarray of shape (n_samples,) or None
        Sample weights.

    Returns
    -------
    float
        Explained share of the (weighted) variance.
    """
    used = np.ones(len(durations)) if weight is None else weight
    centred = durations - np.average(durations, weights=used)
    # Not total == 0: the mean of equal numbers may be off by rounding.
    if np.ptp(durations[used > 0]) == 0:
        return 0.0
    total = used @ centred**2
    return float(np.clip(1 - used @ (durations - fitted) ** 2 / total, 0, 1))
