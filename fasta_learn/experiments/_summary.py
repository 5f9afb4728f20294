"""Means of replayed runs, with intervals."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from fasta_learn.experiments._bootstrap import interval


def summarize(
    results: pd.DataFrame,
    by: str | Iterable[str] = ("search", "budget"),
    *,
    confidence: float = 0.95,
    n_resamples: int = 1000,
    random_state: Any = 0,
) -> pd.DataFrame:
    """Summarize replayed runs over pools and seeds.

    Every pool weighs the same, also if it has fewer runs than others.

    Parameters
    ----------
    results : pandas.DataFrame
        What `replay` answered, or several of these concatenated.
    by : str or iterable of str, default=("search", "budget")
        Columns of `results`; each combination of their values is summarized by
        itself.
    confidence : float, default=0.95
        Probability of the intervals.
    n_resamples : int, default=1000
        Resamples of the bootstrap: pools are drawn with replacement, and in each
        its runs.
    random_state : int, RandomState instance or None, default=0
        Seed of the bootstrap.

    Returns
    -------
    pandas.DataFrame
        One row a combination, in order of appearance: the columns of `by`, and

        - n_pools, n_runs;
        - catch, catch_low, catch_high: share of runs within 5 % of the best;
        - mean_regret, mean_regret_low, mean_regret_high: inf as soon as one run
          found no config that runs;
        - median_regret, p95_regret: the least regret that 50 and 95 % of the runs
          do not exceed;
        - worst_pool, worst_catch: the pool with the lowest catch;
        - savings: share of the pool that was not measured;
        - n_near: mean number of configs within 5 % of the best.

    Raises
    ------
    ValueError
        `results` is empty or lacks a column, or an option is out of range.

    Examples
    --------
    >>> import pandas as pd
    >>> from fasta_learn.experiments import summarize
    >>> results = pd.DataFrame({
    ...     "pool": ["a", "a", "b", "b"], "search": "mine", "budget": 0.1,
    ...     "n_configs": 40, "n_measured": 4, "regret": [0.0, 0.1, 0.0, 0.02],
    ...     "catch": [True, False, True, True], "n_near": [1, 1, 3, 3]})
    >>> summarize(results)[["search", "catch", "mean_regret", "worst_pool", "savings"]]
      search  catch  mean_regret worst_pool  savings
    0   mine   0.75         0.03          a      0.9
    """
    names = [by] if isinstance(by, str) else list(by)
    check_results(results, names)
    options = {
        "confidence": confidence,
        "n_resamples": n_resamples,
        "random_state": random_state,
    }
    groups = results.groupby(names, sort=False, observed=True)
    # The first row of each group, as its key has lost the type of mixed budgets.
    frame = groups[names].head(1).reset_index(drop=True)
    summaries = pd.DataFrame([_summary(group, options) for _, group in groups])
    return pd.concat([frame, summaries], axis="columns")


_NEEDED = ["pool", "n_configs", "n_measured", "regret", "catch", "n_near"]


def check_results(results: pd.DataFrame, names: list[str]) -> None:
    """Check that a frame holds runs and the columns that are asked for."""
    missing = [name for name in [*names, *_NEEDED] if name not in results.columns]
    if missing:
        raise ValueError(
            f"results has no column {', '.join(missing)}; pass the frame that replay "
            f"answered. Its columns are {', '.join(map(str, results.columns))}."
        )
    if not len(results):
        raise ValueError("results is empty; there are no runs to summarize.")


def _summary(runs: pd.DataFrame, options: dict[str, Any]) -> dict[str, Any]:
    by_pool = runs.groupby("pool", sort=False, observed=True)
    scores = ["catch", "regret"]
    samples = [group[scores].to_numpy(dtype=np.float64) for _, group in by_pool]
    means = np.array([sample.mean(axis=0) for sample in samples])
    catch, regret = means.mean(axis=0)
    low, high = interval(samples, **options)
    # Least catch, and of equal ones most regret.
    worst = np.lexsort((-means[:, 1], means[:, 0]))[0]
    weights = 1.0 / by_pool["regret"].transform("size").to_numpy(dtype=np.float64)
    median, p95 = np.quantile(
        runs["regret"].to_numpy(dtype=np.float64),
        [0.5, 0.95],
        weights=weights,
        method="inverted_cdf",
    )
    measured = np.average(runs["n_measured"] / runs["n_configs"], weights=weights)
    return {
        "n_pools": len(samples),
        "n_runs": len(runs),
        "catch": catch,
        "catch_low": low[0],
        "catch_high": high[0],
        "mean_regret": regret,
        "mean_regret_low": low[1],
        "mean_regret_high": high[1],
        "median_regret": median,
        "p95_regret": p95,
        "worst_pool": list(by_pool.groups)[worst],
        "worst_catch": means[worst, 0],
        "savings": 1.0 - measured,
        "n_near": np.average(runs["n_near"], weights=weights),
    }
