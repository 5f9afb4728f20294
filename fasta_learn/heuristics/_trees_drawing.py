"""Draw inputs like the measured ones, so that a teacher has more to teach from."""

from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import check_random_state

# Of each size this share is taken from another input, and this one is stretched.
_SWAPPED = 0.6
_STRETCHED = 0.2
# Standard deviation of the logarithm of the stretch.
_STRETCH = 0.35
# Multiples up to this one matter for the alignment of a size.
_ALIGNMENT = 8


def draw_inputs(inputs: pd.DataFrame, n_drawn: int, random_state: Any) -> pd.DataFrame:
    """Draw inputs of pad_mm that were not measured.

    Parameters
    ----------
    inputs : DataFrame of shape (n_inputs, n_columns)
        Raw features of measured inputs.
    n_drawn : int
        How many to draw; those that need no padding are left out.
    random_state : int, RandomState or None
        Which ones are drawn.

    Returns
    -------
    DataFrame of shape (at most n_drawn, n_columns)
        Each is a measured input, whose data types, layouts and padding are kept and
        whose sizes are kept, stretched, or those of another input, within the range
        of what was measured. Half of the sizes that change keep their remainder
        modulo 8. Strides and padded lengths fit the sizes.

    Examples
    --------
    >>> import tempfile
    >>> from fasta_learn.heuristics import SimulatedGPU, collect, draw_inputs, read_log
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/log.txt"
    ...     _ = collect(path, n_samples=60, benchmark=SimulatedGPU(), isolate=False)
    ...     log = read_log(path)
    >>> drawn = draw_inputs(log.frame[log.features], 1000, random_state=0)
    >>> bool((drawn["m"] % 8 == 0).any()), bool((drawn["m"] % 8 != 0).any())
    (True, True)
    """
    random = check_random_state(random_state)
    drawn = inputs.iloc[random.randint(len(inputs), size=n_drawn)]
    drawn = drawn.reset_index(drop=True).copy()
    old = {size: drawn[size].to_numpy(np.int64) for size in ("m", "k", "n")}
    new = {size: _new_sizes(inputs[size], old[size], random) for size in old}
    _fit_strides(drawn, "mat1", (old["m"], old["k"]), (new["m"], new["k"]))
    _fit_strides(drawn, "mat2", (old["k"], old["n"]), (new["k"], new["n"]))
    needed = np.zeros(n_drawn, bool)
    for size, align in (("m", "mat1"), ("k", "mat1"), ("n", "mat2")):
        alignment = drawn[f"{align}_align_size"].to_numpy(np.int64)
        # torch pads no size of one.
        padded = np.where(new[size] == 1, 0, -new[size] % np.maximum(alignment, 1))
        drawn[size], drawn[f"{size}_padded_length"] = new[size], padded
        needed |= padded > 0
    chosen: pd.DataFrame = drawn[needed].reset_index(drop=True)
    return chosen


def _new_sizes(
    measured: pd.Series, old: np.ndarray, random: np.random.RandomState
) -> np.ndarray:
    n_drawn = len(old)
    kind = random.random_sample(n_drawn)
    swapped = measured.to_numpy(np.int64)[random.randint(len(measured), size=n_drawn)]
    stretch = np.exp(random.normal(0, _STRETCH, n_drawn))
    stretched = np.round(old * stretch).astype(np.int64)
    new = np.where(kind < _SWAPPED + _STRETCHED, stretched, old)
    new = np.where(kind < _SWAPPED, swapped, new)
    keeps = random.random_sample(n_drawn) < 0.5
    remainder = old % _ALIGNMENT
    aligned = np.round((new - remainder) / _ALIGNMENT).astype(np.int64) * _ALIGNMENT
    new = np.where(keeps & (new != old), aligned + remainder, new)
    return np.clip(new, measured.min(), measured.max())


def _fit_strides(
    drawn: pd.DataFrame,
    matrix: str,
    old: tuple[np.ndarray, np.ndarray],
    new: tuple[np.ndarray, np.ndarray],
) -> None:
    first = drawn[f"{matrix}_stride_0"].to_numpy(np.int64)
    second = drawn[f"{matrix}_stride_1"].to_numpy(np.int64)
    by_row = (first == old[1]) & (second == 1)
    by_column = (first == 1) & (second == old[0]) & ~by_row
    drawn[f"{matrix}_stride_0"] = np.where(by_row, new[1], first)
    drawn[f"{matrix}_stride_1"] = np.where(by_column, new[0], second)
