"""What a wrong decision costs, from measured durations."""

from typing import Any

import numpy as np
import pandas as pd

from fasta_learn.heuristics._inputs import choices_of

# Inductor pads if the product takes more than this times what padding takes
# (`is_padded_faster` in torch/_inductor/fx_passes/pad_mm.py).
PRODUCTION_MARGIN = 1.1
# A choice that failed counts as this many times slower than the best.
_FAILED = 10.0
# Relative noise of a log ratio at which an input counts half.
_TYPICAL_NOISE = 0.05


def durations_of(inputs: pd.DataFrame) -> np.ndarray:
    """Return the median durations of inputs as a matrix.

    Parameters
    ----------
    inputs : DataFrame
        What `group_inputs` returned, or some of its rows.

    Returns
    -------
    ndarray of shape (n_inputs, n_choices)
        In ms, a column for each choice in the order of `choices_of`; inf for a
        choice that failed, NaN for one that was not measured.

    Examples
    --------
    >>> import pandas as pd
    >>> from fasta_learn.heuristics import durations_of
    >>> durations_of(pd.DataFrame({"m": [16], "median_orig": [2], "median_pad": [1]}))
    array([[2., 1.]])
    """
    names = [f"median_{choice}" for choice in choices_of(inputs)]
    return inputs[names].to_numpy(np.float64)


def log_regret(durations: Any) -> np.ndarray:
    """Return how much slower each choice is than the best of its input.

    Parameters
    ----------
    durations : array-like of shape (n_inputs, n_choices)
        In ms; inf for a choice that failed, NaN for one that was not measured.

    Returns
    -------
    ndarray of shape (n_inputs, n_choices)
        Natural logarithm of the duration over the smallest of the row; 0 for the
        best. A choice that failed or was not measured counts as ten times slower,
        or as the slowest if that is more. Rows without any measurement are 0.

    Examples
    --------
    >>> from fasta_learn.heuristics import log_regret
    >>> log_regret([[2.0, 1.0], [3.0, 3.0]]).round(3)
    array([[0.693, 0.   ],
           [0.   , 0.   ]])
    """
    known = np.asarray(durations, np.float64)
    known = np.where(np.isfinite(known), known, np.inf)
    best = known.min(axis=1, keepdims=True)
    some = np.isfinite(best[:, 0])
    lost = np.zeros(known.shape)
    with np.errstate(divide="ignore"):
        lost[some] = np.log(known[some] / best[some])
    finite = np.where(np.isfinite(lost), lost, 0.0)
    worst = np.maximum(np.log(_FAILED), finite.max(axis=1, keepdims=True, initial=0.0))
    return np.where(np.isfinite(lost), lost, worst)


def decision_costs(
    durations: Any,
    *,
    margin: float = PRODUCTION_MARGIN,
    slow_penalty: float = 0.1,
) -> np.ndarray:
    """Return what each choice costs: the time lost, and more if it is much.

    Parameters
    ----------
    durations : array-like of shape (n_inputs, n_choices)
        In ms, as for `log_regret`.
    margin : float, default=1.1
        A choice that takes more than this times the best is slow.
    slow_penalty : float, default=0.1
        Added to the log regret of slow choices.

    Returns
    -------
    ndarray of shape (n_inputs, n_choices)
        Costs, 0 for the best choice of a row.

    Examples
    --------
    Losing 5 % costs little; 20 % is slow, and costs its logarithm and 0.1:

    >>> from fasta_learn.heuristics import decision_costs
    >>> decision_costs([[1.05, 1.0], [1.2, 1.0]]).round(3)
    array([[0.049, 0.   ],
           [0.282, 0.   ]])
    """
    return penalized(log_regret(durations), margin, slow_penalty)


def penalized(lost: np.ndarray, margin: float, slow_penalty: float) -> np.ndarray:
    """Add a penalty to log regrets beyond a margin.

    Parameters
    ----------
    lost : ndarray
        Log regrets.
    margin : float
        Ratio of durations from which on a choice is slow.
    slow_penalty : float
        What is added then.

    Returns
    -------
    ndarray
        Costs of the same shape.
    """
    return np.asarray(lost + slow_penalty * (lost > np.log(margin)))


def production_costs(
    durations: Any, *, margin: float = PRODUCTION_MARGIN
) -> np.ndarray:
    """Return costs whose cheapest choice is what torch's own benchmark would choose.

    Parameters
    ----------
    durations : array-like of shape (n_inputs, 2)
        Of the product as it is, and padded, in ms.
    margin : float, default=1.1
        Padding must be faster by this factor.

    Returns
    -------
    ndarray of shape (n_inputs, 2)
        Costs: log regret, with the duration of padding multiplied by the margin.

    Examples
    --------
    Padding that is 5 % faster is not worth it, padding that is 20 % faster is:

    >>> from fasta_learn.heuristics import production_costs
    >>> production_costs([[1.05, 1.0], [1.2, 1.0]]).argmin(axis=1)
    array([0, 1])
    """
    scaled = np.array(durations, np.float64)
    scaled[:, 1] *= margin
    return log_regret(scaled)


def noise_weights(inputs: pd.DataFrame) -> np.ndarray:
    """Return how much the measurements of each input are to be trusted.

    Parameters
    ----------
    inputs : DataFrame
        What `group_inputs` returned, or some of its rows.

    Returns
    -------
    ndarray of shape (n_inputs,)
        Weights in (0, 1]: 1 without noise, one half where the standard error of the
        logarithm of the ratio of durations is 5 %. Inputs whose noise is unknown,
        measured once, count as if it were that.

    Examples
    --------
    >>> import pandas as pd
    >>> from fasta_learn.heuristics import noise_weights
    >>> inputs = pd.DataFrame(
    ...     {"median_orig": [2.0, 2.0], "rel_std_orig": [0.0, 0.1]}
    ... ).assign(n_orig=4, n_failed_orig=0)
    >>> noise_weights(inputs)
    array([1. , 0.5])
    """
    variance = np.zeros(len(inputs))
    for choice in choices_of(inputs):
        spread = inputs[f"rel_std_{choice}"].fillna(_TYPICAL_NOISE).to_numpy(np.float64)
        ran = inputs[f"n_{choice}"] - inputs[f"n_failed_{choice}"]
        variance += spread**2 / np.maximum(ran.to_numpy(), 1)
    return 1.0 / (1.0 + variance / _TYPICAL_NOISE**2)
