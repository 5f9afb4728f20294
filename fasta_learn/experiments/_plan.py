"""Checked arguments of a replay."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from fasta_learn.configs import Pool
from fasta_learn.experiments._pools import resolve_pools
from fasta_learn.experiments._searches import resolve_searches
from fasta_learn.oracles._scatter import check_noise

OWN = "own"


@dataclass(frozen=True)
class ReplayPlan:
    """Checked arguments of a replay.

    Attributes
    ----------
    pools : dict of str to Pool
        The pools.
    searches : dict of str to search
        The searches.
    budgets : list of float, int or str
        The budgets as given.
    n_seeds : int
        Number of repetitions.
    max_measurements : int or None
        Upper limit of a budget.
    noise : float
        How much measurements scatter.
    """

    pools: dict[str, Pool]
    searches: dict[str, Any]
    budgets: list[Any]
    n_seeds: int
    max_measurements: int | None
    noise: float = 0.0

    @property
    def n_chunks(self) -> int:
        """Number of tasks: one for each pool and seed."""
        return len(self.pools) * self.n_seeds


def plan_replay(
    pools: Any,
    searches: Any,
    budgets: Any,
    n_seeds: int,
    max_measurements: int | None,
    noise: float = 0.0,
) -> ReplayPlan:
    """Check the arguments of `replay` and look up names."""
    if isinstance(budgets, (Real, str)):
        budgets = [budgets]
    _check_count("n_seeds", n_seeds)
    if max_measurements is not None:
        _check_count("max_measurements", max_measurements)
    check_noise(noise)
    resolved = resolve_pools(pools)
    if noise:
        _check_percentiles(resolved)
    return ReplayPlan(
        resolved,
        resolve_searches(searches),
        _check_budgets(list(budgets)),
        int(n_seeds),
        max_measurements,
        float(noise),
    )


def _check_percentiles(pools: dict[str, Pool]) -> None:
    for name, pool in pools.items():
        missing = {"duration_p20_ms", "duration_p80_ms"} - set(pool.extra.columns)
        if missing:
            raise ValueError(
                f"noise needs recorded percentiles, but the pool {name!r} lacks the "
                f"column {min(missing)}; leave out the pool or the noise."
            )


def _check_count(name: str, count: Any) -> None:
    if not isinstance(count, Integral) or int(count) < 1:
        raise ValueError(f"{name} must be an int of at least 1, got {count!r}.")


def _check_budgets(budgets: list[Any]) -> list[Any]:
    if not budgets:
        raise ValueError("no budget is given; pass shares or numbers of configs.")
    for position, budget in enumerate(budgets):
        if not (budget == OWN or _is_amount(budget)):
            raise ValueError(
                f"budgets[{position}] is {budget!r}; a budget is a float above 0 and "
                "up to 1.0 (share of the pool), an int of at least 1 (number of "
                "configs), or 'own'."
            )
        if budget in budgets[:position]:
            raise ValueError(
                f"budgets[{position}] is {budget!r}, which is there already; results "
                "are told apart by their budgets."
            )
    return budgets


def _is_amount(budget: Any) -> bool:
    if not isinstance(budget, Real) or isinstance(budget, bool):
        return False
    amount = float(budget)
    return amount >= 1 if isinstance(budget, Integral) else 0 < amount <= 1


def resolve_budget(
    budget: Any, n_configs: int, max_measurements: int | None
) -> int | None:
    """Return how many configs of a pool a budget allows; None for "own"."""
    if budget == OWN:
        return None
    count = budget if isinstance(budget, Integral) else int(float(budget) * n_configs)
    limit = n_configs if max_measurements is None else min(n_configs, max_measurements)
    return int(max(1, min(count, limit)))
