"""Which columns of a pool act by ratio, and where zero goes on a log scale."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import NDArray


def choose_log2(
    values: np.ndarray,
    names: Sequence[str],
    numeric: NDArray[np.bool_],
    log2: bool | str | Sequence[str],
    known: AbstractSet[str],
) -> NDArray[np.bool_]:
    """Decide which columns are replaced by their logarithm.

    Parameters
    ----------
    values : ndarray of shape (n_configs, n_features)
        The varying columns of the pool.
    names : sequence of str
        Their names.
    numeric : ndarray of bool of shape (n_features,)
        Which of them are numbers and not categories.
    log2 : bool, "auto" or sequence of str
        As in `ConfigVectorizer`.
    known : set of str
        Names of all columns, also of those that do not vary.

    Returns
    -------
    ndarray of bool of shape (n_features,)
        True for the columns to replace.

    Raises
    ------
    ValueError
        A named column is unknown or no number, or a chosen one is negative.
    """
    if isinstance(log2, str):
        ratio_like = [acts_by_ratio(column) for column in values.T]
        return np.array(ratio_like, dtype=bool) & numeric
    if isinstance(log2, (bool, np.bool_)):
        chosen = numeric & bool(log2)
    else:
        chosen = _named(names, numeric, log2, known)
    negative = np.flatnonzero(chosen & (values < 0).any(axis=0))
    if len(negative):
        column = negative[0]
        raise ValueError(
            f"column {names[column]!r} holds {values[:, column].min():g}, which has no "
            'logarithm; name only positive columns in `log2`, or use log2="auto".'
        )
    return chosen


def _named(
    names: Sequence[str],
    numeric: NDArray[np.bool_],
    wanted: Sequence[str],
    known: AbstractSet[str],
) -> NDArray[np.bool_]:
    categories = {n for n, number in zip(names, numeric, strict=True) if not number}
    for name in wanted:
        if name not in known or name in categories:
            raise ValueError(
                f"log2 names {name!r}, which is no numeric column of the pool; "
                f"these are: {', '.join(sorted(known - categories)) or 'none'}."
            )
    return np.array([name in wanted for name in names], dtype=bool)


def acts_by_ratio(column: np.ndarray) -> bool:
    """Guess from its values whether a column acts by ratio.

    Parameters
    ----------
    column : ndarray of shape (n_configs,)
        Finite values.

    Returns
    -------
    bool
        True if none is negative and the largest is at least 8 times the smallest
        positive one, or 4 times if all positive ones are powers of two.
    """
    positive = column[column > 0]
    if column.min() < 0 or not len(positive):
        return False
    # Multiplied, not divided: a quotient by a subnormal number would overflow.
    low, high = positive.min(), positive.max()
    mantissas, _ = np.frexp(positive)
    return bool(high >= 8 * low or (high >= 4 * low and (mantissas == 0.5).all()))


def octave_floor(values: np.ndarray, logged: np.ndarray) -> np.ndarray:
    """Return what zero counts as in the columns that are replaced.

    Half of the smallest positive value: equal steps on the log scale stay equal,
    and a config without the keyword stays near those with the smallest value.

    Parameters
    ----------
    values : ndarray of shape (n_configs, n_features)
        The varying columns of the pool.
    logged : ndarray of bool of shape (n_features,)
        The columns to replace.

    Returns
    -------
    ndarray of shape (n_features,)
        The floor of each column; NaN where it is not replaced.
    """
    floors = np.full(values.shape[1], np.nan)
    for j in np.flatnonzero(logged):
        column = values[:, j]
        # Half of the smallest number there is would be zero.
        floors[j] = max(column[column > 0].min() / 2, np.nextafter(0, 1))
    return floors
