"""Regret after each measurement."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fasta_learn.experiments._bootstrap import interval
from fasta_learn.experiments._summary import check_results

_N_SHARES = 100
# Durations of exactly 1.05 times the best stay a catch after the division.
_CATCH = 0.05 + 1e-12


def regret_curves(
    results: pd.DataFrame,
    *,
    against: str = "share",
    confidence: float = 0.95,
    n_resamples: int = 200,
    random_state: Any = 0,
) -> pd.DataFrame:
    """Return how the regret of searches falls as they measure.

    Parameters
    ----------
    results : pandas.DataFrame
        What ``replay(..., traces=True)`` answered. Of each search, the runs of that
        budget count which allowed most.
    against : {"share", "number"}, default="share"
        Whether pools are aligned by the share of their configs that was measured,
        or by the number. With a limit on the number of measurements, the number
        says more.
    confidence : float, default=0.95
        Probability of the intervals of the mean regret, point by point.
    n_resamples : int, default=200
        Bootstrap resamples of pools and seeds behind them; 0 for no intervals.
    random_state : int, RandomState instance or None, default=0
        Seed of the resamples.

    Returns
    -------
    pandas.DataFrame
        The columns search, "share" or "n_measured", mean_regret, catch, and
        mean_regret_low and mean_regret_high where there are resamples: for each
        search a row for each number of measurements, or for each of 100 shares.
        Every pool weighs the same, and a run that ended keeps its last value.
        The mean is inf while a run has found no config that runs.

    Raises
    ------
    ValueError
        `results` has no traces, `against` is neither of the two, or `confidence` or
        `n_resamples` is out of range.

    Examples
    --------
    >>> from fasta_learn.configs import Pool
    >>> from fasta_learn.experiments import regret_curves, replay
    >>> pool = Pool([{"M": i} for i in range(3)], [2.0, 1.0, 4.0], name="toy")
    >>> results = replay(pool, ["random"], budgets=[3], n_seeds=4, traces=True)
    >>> regret_curves(results, against="number", n_resamples=0)
       search  n_measured  mean_regret  catch
    0  random           1          2.5    0.0
    1  random           2          0.5    0.5
    2  random           3          0.0    1.0
    """
    check_results(results, ["search", "budget"])
    if "trace" not in results.columns:
        raise ValueError("results has no traces; call replay(..., traces=True).")
    if against not in ("share", "number"):
        raise ValueError(f"against must be 'share' or 'number', got {against!r}.")
    runs = pd.concat(
        [_longest(group) for _, group in results.groupby("search", sort=False)]
    )
    column, grid, count = _axis(runs, against)
    curves = []
    for search, group in runs.groupby("search", sort=False):
        regrets = _regrets(group, grid, count)
        curve = pd.DataFrame({"search": search, column: grid, **_means(regrets)})
        if n_resamples != 0:
            curve["mean_regret_low"], curve["mean_regret_high"] = interval(
                regrets,
                confidence=confidence,
                n_resamples=n_resamples,
                random_state=random_state,
            )
        curves.append(curve)
    return pd.concat(curves, ignore_index=True)


def _longest(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of the budget with the most measurements on average."""
    means = runs.groupby("budget", sort=False)["n_measured"].mean()
    return runs[runs["budget"] == means.idxmax()]


# Number of measurements at each point of the grid, for a pool of this size.
_Count = Callable[[NDArray[Any], int], NDArray[Any]]


def _axis(runs: pd.DataFrame, against: str) -> tuple[str, NDArray[Any], _Count]:
    if against == "number":
        numbers = np.arange(1, int(runs["n_measured"].max()) + 1)
        return "n_measured", numbers, lambda grid, n_configs: grid
    largest = float((runs["n_measured"] / runs["n_configs"]).max())
    grid = largest * np.arange(1, _N_SHARES + 1) / _N_SHARES
    return "share", grid, _share_to_number


def _share_to_number(shares: NDArray[np.float64], n_configs: int) -> NDArray[np.intp]:
    # A share that stands for a whole number must not be rounded down below it.
    return np.maximum(1, np.floor(shares * n_configs + 1e-9).astype(np.intp))


def _regrets(
    runs: pd.DataFrame, grid: NDArray[Any], count: _Count
) -> list[NDArray[np.float64]]:
    """Return the regret of each run at each point of the grid, by pool."""
    regrets = []
    for _, of_pool in runs.groupby("pool", sort=False, observed=True):
        numbers = count(grid, int(of_pool["n_configs"].iloc[0]))
        reached = [
            trace[np.minimum(numbers, len(trace)) - 1] for trace in of_pool["trace"]
        ]
        regrets.append(np.array(reached, dtype=np.float64))
    return regrets


def _means(regrets: list[NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
    catches = [np.mean(reached <= _CATCH, axis=0) for reached in regrets]
    return {
        "mean_regret": np.mean([reached.mean(axis=0) for reached in regrets], axis=0),
        "catch": np.mean(catches, axis=0),
    }
