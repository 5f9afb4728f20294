"""Portfolios: few configs that serve many pools."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from itertools import combinations, islice
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fasta_learn.configs import Pool, config_key
from fasta_learn.experiments._pools import resolve_pools

# Up to so many candidate portfolios are all tried.
_EXHAUSTIVE = 50_000
_BATCH = 1000
# Differences of sums below this are rounding.
_NOISE = 1e-9


@dataclass(frozen=True, eq=False)
class Portfolio:
    """A few configs and what they cover.

    Parameters
    ----------
    configs : list of dict
        The configs, at most as many as were asked for, the most useful first.
    coverage : float
        Share of the pools in which one of them is near the best.
    table : pandas.DataFrame
        One row a pool: pool, position (of the best of `configs` there), regret
        (of that config; inf if none of them runs there), covered.
    exact : bool
        Whether all portfolios were tried, so that none covers more.

    Examples
    --------
    >>> from fasta_learn.experiments import portfolio
    >>> found = portfolio(["rmsnorm_3000_1000", "rmsnorm_8192_5120"], 2)
    >>> found.coverage
    1.0
    >>> found.table[["pool", "regret"]]
                    pool  regret
    0  rmsnorm_3000_1000     0.0
    1  rmsnorm_8192_5120     0.0
    """

    configs: list[dict[str, Any]]
    coverage: float
    table: pd.DataFrame
    exact: bool

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the configs, and what they cover."""
        configs = "".join(
            f"<li><code>{escape(repr(config))}</code></li>" for config in self.configs
        )
        kind = "none covers more" if self.exact else "found greedily"
        words = f"{self.coverage:.0%} of {len(self.table)} pools are covered; {kind}."
        return f"<ol>{configs}</ol><p>{words}</p>{self.table.to_html(index=False)}"


def portfolio(pools: Any, k: int, tolerance: float = 1.05) -> Portfolio:
    """Choose the k configs that are near-optimal in most pools.

    Parameters
    ----------
    pools : iterable of Pool, or mapping of str to Pool
        Pools of the same parameters, such as those of a kernel for many shapes.
        Names of shipped pools and paths do as well. A config that a pool lacks
        counts as failed there.
    k : int
        Number of configs.
    tolerance : float, default=1.05
        How many times the best duration of a pool still covers it.

    Returns
    -------
    Portfolio
        The configs and their coverage.

    Raises
    ------
    ValueError
        `k` is below 1, `tolerance` is below 1, or a pool is not valid.

    Notes
    -----
    Of portfolios that cover as many pools, the one that loses least is taken: the
    mean of the share of the best speed lost, ``regret / (1 + regret)``, which a
    failure makes 1 and not infinite.

    Up to 50,000 portfolios are all tried. If there are more, configs are added
    greedily, then exchanged one by one while that helps. Greedy cover reaches at
    least 1 - 1/e of the best coverage [1]_, the exchanges can only add to it.

    References
    ----------
    .. [1] Nemhauser, Wolsey and Fisher, "An analysis of approximations for
       maximizing submodular set functions", Mathematical Programming 14, 1978.

    Examples
    --------
    >>> from fasta_learn.configs import Pool
    >>> from fasta_learn.experiments import portfolio
    >>> configs = [{"BLOCK": 32}, {"BLOCK": 64}, {"BLOCK": 128}]
    >>> shapes = {"small": Pool(configs, [1.0, 1.04, 2.0]),
    ...           "middle": Pool(configs, [3.0, 2.0, 2.05]),
    ...           "large": Pool(configs, [9.0, 7.0, 5.0])}
    >>> best = portfolio(shapes, 1)
    >>> best.configs, round(best.coverage, 2), best.exact
    ([{'BLOCK': 64}], 0.67, True)
    """
    if not isinstance(k, Integral) or k < 1:
        raise ValueError(f"k must be an int of at least 1, got {k!r}.")
    if not tolerance >= 1:
        raise ValueError(f"tolerance must be at least 1, got {tolerance!r}.")
    named = resolve_pools(pools)
    configs, slowdown, covered = _table(named.values(), tolerance)
    k = min(int(k), len(configs))
    # All speed together counts less than one covered pool.
    gain = covered + 0.5 / len(named) / slowdown
    exact = math.comb(len(configs), k) <= _EXHAUSTIVE
    chosen = _greedy(gain, _best_subset(gain, k) if exact else _exchange(gain, k), k)
    position = slowdown[:, chosen].argmin(axis=1)
    rows = np.arange(len(named))
    table = pd.DataFrame(
        {
            "pool": list(named),
            "position": position,
            "regret": slowdown[:, chosen][rows, position] - 1.0,
            "covered": covered[:, chosen].any(axis=1),
        }
    )
    return Portfolio(
        [configs[i] for i in chosen], float(table["covered"].mean()), table, exact
    )


def _table(
    pools: Iterable[Pool], tolerance: float
) -> tuple[list[dict[str, Any]], NDArray[np.float64], NDArray[np.bool_]]:
    """Return all configs, and for each pool their slowdowns and who covers it."""
    pools = list(pools)
    position: dict[str, int] = {}
    configs: list[dict[str, Any]] = []
    for config in (config for pool in pools for config in pool.configs):
        if position.setdefault(config_key(config), len(configs)) == len(configs):
            configs.append(config)
    slowdown = np.full((len(pools), len(configs)), np.inf)
    covered = np.zeros(slowdown.shape, dtype=bool)
    for row, pool in enumerate(pools):
        columns = [position[config_key(config)] for config in pool.configs]
        slowdown[row, columns] = pool.durations / pool.best_duration
        covered[row, columns] = pool.durations <= tolerance * pool.best_duration
    return configs, slowdown, covered


def _best_subset(gain: NDArray[np.float64], k: int) -> list[int]:
    """Try all subsets; the first of the best."""
    best, best_value = [0], -np.inf
    subsets = combinations(range(gain.shape[1]), k)
    while batch := list(islice(subsets, _BATCH)):
        values = gain[:, batch].max(axis=2).sum(axis=0)
        winner = int(values.argmax())
        if values[winner] > best_value + _NOISE:
            best, best_value = list(batch[winner]), values[winner]
    return best


def _greedy(gain: NDArray[np.float64], candidates: list[int], k: int) -> list[int]:
    """Add that candidate which gains most, k times."""
    reached = np.zeros(len(gain))
    chosen: list[int] = []
    for _ in range(k):
        rest = [i for i in candidates if i not in chosen]
        values = np.maximum(reached[:, np.newaxis], gain[:, rest]).sum(axis=0)
        chosen.append(rest[int(values.argmax())])
        reached = np.maximum(reached, gain[:, chosen[-1]])
    return chosen


def _exchange(gain: NDArray[np.float64], k: int) -> list[int]:
    """Greedy choice, then exchanges of one config for another while they gain."""
    chosen = _greedy(gain, list(range(gain.shape[1])), k)
    improved = True
    while improved:
        improved = False
        for place in range(k):
            others = chosen[:place] + chosen[place + 1 :]
            reached = gain[:, others].max(axis=1, initial=0.0)
            values = np.maximum(reached[:, np.newaxis], gain).sum(axis=0)
            winner = int(values.argmax())
            if values[winner] > values[chosen[place]] + _NOISE:
                chosen[place] = winner
                improved = True
    return chosen
