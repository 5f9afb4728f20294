"""The difference of two searches, run by run."""

from typing import Any

import numpy as np
import pandas as pd

from fasta_learn.experiments._bootstrap import interval
from fasta_learn.experiments._summary import check_results


def compare(
    results: pd.DataFrame,
    a: str,
    b: str,
    *,
    confidence: float = 0.95,
    n_resamples: int = 1000,
    random_state: Any = 0,
) -> pd.DataFrame:
    """Compare two searches on the same pools, budgets and seeds.

    Parameters
    ----------
    results : pandas.DataFrame
        What `replay` answered.
    a, b : str
        Names of the searches.
    confidence : float, default=0.95
        Probability of the intervals.
    n_resamples : int, default=1000
        Resamples of the bootstrap over pools and, in each, over its pairs of runs.
    random_state : int, RandomState instance or None, default=0
        Seed of the bootstrap.

    Returns
    -------
    pandas.DataFrame
        One row a budget: budget, n_pools, n_pairs, catch_difference,
        catch_difference_low, catch_difference_high, regret_difference,
        regret_difference_low, regret_difference_high. Differences are `a` less `b`:
        `a` is better where that of the catch is positive and that of the regret
        negative. Two runs that both found nothing differ by 0.

    Raises
    ------
    ValueError
        A search is not in `results`, or the runs of the two do not pair up.

    See Also
    --------
    summarize : Each search by itself.

    Examples
    --------
    >>> import pandas as pd
    >>> from fasta_learn.experiments import compare
    >>> results = pd.DataFrame({
    ...     "pool": "p", "search": ["a", "a", "b", "b"], "budget": 0.1,
    ...     "seed": [0, 1, 0, 1], "n_configs": 40, "n_measured": 4, "n_near": 1,
    ...     "regret": [0.0, 0.02, 0.2, 0.02], "catch": [True, True, False, True]})
    >>> compare(results, "a", "b")[["budget", "catch_difference", "regret_difference"]]
       budget  catch_difference  regret_difference
    0     0.1               0.5               -0.1
    """
    check_results(results, ["search", "budget", "seed"])
    pairs = _pairs(results, a, b)
    options = {
        "confidence": confidence,
        "n_resamples": n_resamples,
        "random_state": random_state,
    }
    groups = pairs.groupby("budget", sort=False)
    frame = pd.DataFrame([_difference(group, options) for _, group in groups])
    # The index of the pairs has made floats of mixed budgets.
    given = {budget: budget for budget in results["budget"]}
    budgets = [given[key] for key, _ in groups]
    frame.insert(0, "budget", pd.Series(budgets, dtype=results["budget"].dtype))
    return frame


_RUN = ["pool", "budget", "seed"]


def _pairs(results: pd.DataFrame, a: str, b: str) -> pd.DataFrame:
    known = list(dict.fromkeys(results["search"]))
    sides = []
    for name in (a, b):
        if name not in known:
            raise ValueError(
                f"results has no search {name!r}; it has {', '.join(map(str, known))}."
            )
        runs = results.loc[results["search"] == name]
        sides.append(runs.set_index(_RUN)[["catch", "regret"]].astype(np.float64))
    for name, side in zip((a, b), sides, strict=True):
        if side.index.has_duplicates:
            raise ValueError(f"results has several runs of {name!r} for one seed.")
    unpaired = sides[0].index.symmetric_difference(sides[1].index, sort=False)
    if len(unpaired):
        raise ValueError(
            f"{len(unpaired)} runs have no counterpart, such as pool {unpaired[0][0]}, "
            f"budget {unpaired[0][1]}, seed {unpaired[0][2]}; run both searches on the "
            "same pools, budgets and seeds."
        )
    other = sides[1].loc[sides[0].index]
    both_lost = np.isinf(sides[0]["regret"]) & np.isinf(other["regret"])
    with np.errstate(invalid="ignore"):
        difference = sides[0] - other
    difference.loc[both_lost, "regret"] = 0.0
    return difference.reset_index()


def _difference(pairs: pd.DataFrame, options: dict[str, Any]) -> dict[str, Any]:
    by_pool = pairs.groupby("pool", sort=False, observed=True)
    samples = [group[["catch", "regret"]].to_numpy() for _, group in by_pool]
    catch, regret = np.mean([sample.mean(axis=0) for sample in samples], axis=0)
    low, high = interval(samples, **options)
    return {
        "n_pools": len(samples),
        "n_pairs": len(pairs),
        "catch_difference": catch,
        "catch_difference_low": low[0],
        "catch_difference_high": high[0],
        "regret_difference": regret,
        "regret_difference_low": low[1],
        "regret_difference_high": high[1],
    }
