"""One row for each input of a log: medians, noise, winner and shape group."""

from typing import Any

import numpy as np
import pandas as pd

from fasta_learn.heuristics._log import CHOICE, FEEDBACK, HeuristicLog
from fasta_learn.heuristics._log_columns import text_column, text_index

_MEDIAN = "median_"
_SIZES = ["m", "k", "n"]


def choices_of(inputs: pd.DataFrame) -> list[str]:
    """Return the choices that a frame of inputs compares.

    Parameters
    ----------
    inputs : DataFrame
        What `group_inputs` returned, or some of its rows.

    Returns
    -------
    list of str
        Names of the choices, sorted.

    Examples
    --------
    >>> import pandas as pd
    >>> from fasta_learn.heuristics import choices_of
    >>> choices_of(pd.DataFrame(columns=["m", "median_orig", "median_pad", "winner"]))
    ['orig', 'pad']
    """
    return [
        name.removeprefix(_MEDIAN)
        for name in inputs.columns
        if name.startswith(_MEDIAN)
    ]


def group_inputs(log: HeuristicLog) -> pd.DataFrame:
    """Gather the repeated measurements of each input.

    Parameters
    ----------
    log : HeuristicLog
        The measurements.

    Returns
    -------
    DataFrame of shape (n_inputs, n_features + 4 * n_choices + 3)
        A row for each input, sorted by the features in the order of the log, with

        - the features, of the types that the log has;
        - for each choice ``c``: ``median_c``, the median duration in ms (inf if it
          failed in at least half of its repetitions, NaN if it was not measured);
          ``rel_std_c``, the standard deviation of the durations that did not fail
          over their mean (NaN for fewer than two); ``n_c`` and ``n_failed_c``, the
          numbers of repetitions and of failed ones;
        - ``winner``, the choice with the smallest median, the first of them in
          sorted order at a tie, and missing if no choice ran;
        - ``gap``, the second smallest median over the smallest (inf if all others
          failed, NaN if no other was measured or none ran);
        - ``group``, a number that inputs share whose sizes m, k and n are the same
          up to their order: inputs of one group must not be both learned from and
          tested on. Logs without sizes have a group for each input.

    Examples
    --------
    >>> import io
    >>> from fasta_learn.heuristics import group_inputs, read_log
    >>> text = '''{"name": "mm", "shared_memory": 0, "device_capa": [0, 0],
    ... "numerical_features": ["m"], "categorical_features": []}
    ... m,choice,feedback
    ... 16,orig,2.0
    ... 16,pad,1.0
    ... 16,orig,4.0
    ... '''.replace(",\\n", ",")
    >>> group_inputs(read_log(io.StringIO(text)))[["m", "median_orig", "winner", "gap"]]
        m  median_orig winner  gap
    0  16          3.0    pad  3.0
    """
    features = log.features
    keys = log.frame.groupby(features, observed=True, sort=True).ngroup().to_numpy()
    first = np.unique(keys, return_index=True)[1]
    choices = log.choices
    inputs = log.frame[features].iloc[first].reset_index(drop=True)
    statistics = _statistics(log, keys, choices, len(first))
    medians = np.column_stack(
        [statistics[_MEDIAN + choice] for choice in choices] or [np.empty((0, 0))]
    )
    winner, gap = _compare(medians, choices)
    columns = {**statistics, "winner": winner, "gap": gap, "group": _groups(inputs)}
    return pd.concat([inputs, pd.DataFrame(columns)], axis=1)


def _statistics(
    log: HeuristicLog, keys: np.ndarray, choices: list[str], n_inputs: int
) -> dict[str, np.ndarray]:
    durations = log.frame[FEEDBACK].to_numpy()
    chosen = text_column(log.frame, CHOICE).set_categories(choices)
    by_choice: dict[str, np.ndarray] = {}
    for code, choice in enumerate(choices):
        rows = chosen.codes == code
        place, values = keys[rows], durations[rows]
        median, rel_std = _median_and_noise(place, values, n_inputs)
        by_choice[_MEDIAN + choice] = median
        by_choice[f"rel_std_{choice}"] = rel_std
        by_choice[f"n_{choice}"] = np.bincount(place, minlength=n_inputs)
        by_choice[f"n_failed_{choice}"] = np.bincount(
            place[np.isinf(values)], minlength=n_inputs
        )
    return by_choice


def _median_and_noise(
    place: np.ndarray, values: np.ndarray, n_inputs: int
) -> tuple[np.ndarray, np.ndarray]:
    order = np.lexsort((values, place))
    place, values = place[order], values[order]
    places = np.arange(n_inputs)
    start = np.searchsorted(place, places)
    count = np.bincount(place, minlength=n_inputs)
    median = np.full(n_inputs, np.nan)
    some = count > 0
    low = values[(start + (count - 1) // 2)[some]]
    high = values[(start + count // 2)[some]]
    median[some] = (low + high) / 2

    ran = np.isfinite(values)
    grouped = pd.Series(values[ran]).groupby(place[ran])
    noise = (grouped.std() / grouped.mean()).reindex(places)
    return median, noise.to_numpy(np.float64)


def _compare(medians: np.ndarray, choices: list[str]) -> tuple[Any, np.ndarray]:
    known = np.where(np.isnan(medians), np.inf, medians)
    best = known.argmin(axis=1) if choices else np.empty(0, np.int64)
    n_measured = (~np.isnan(medians)).sum(axis=1)
    ordered = np.sort(known, axis=1)
    smallest = ordered[:, 0] if choices else np.empty(0)
    runs = np.isfinite(smallest)
    gap = np.full(len(medians), np.nan)
    two = runs & (n_measured >= 2)
    if two.any():
        gap[two] = ordered[two, 1] / smallest[two]
    winner = pd.Categorical.from_codes(np.where(runs, best, -1), text_index(choices))
    return winner, gap


def _groups(inputs: pd.DataFrame) -> np.ndarray:
    if not set(_SIZES) <= set(inputs.columns):
        return np.arange(len(inputs))
    sizes = pd.DataFrame(np.sort(inputs[_SIZES].to_numpy(), axis=1))
    return sizes.groupby(list(sizes.columns)).ngroup().to_numpy()
