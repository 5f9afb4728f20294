"""Budgets: how many configs to measure, at first and in all."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from fasta_learn.search._state import SearchState

# A small budget must leave something to spend on what the blind sample has shown.
_BLIND_SHARE = 0.6


@dataclass(frozen=True)
class BudgetPlan:
    """What a budget comes to for one pool.

    Attributes
    ----------
    n_budget : int
        Measurements in all.
    n_initial : int
        Measurements of the first, blind round.
    n_coverage : int
        Measurements in all if no model can be fitted.
    min_samples : int
        Successful measurements below which no model is fitted.
    label : str
        Name of the budget class.
    """

    n_budget: int
    n_initial: int
    n_coverage: int
    min_samples: int = 1
    label: str = "fixed"


def whole_sample(n_features: int) -> int:
    """Return the size of the first sample where the budget allows it.

    Parameters
    ----------
    n_features : int
        Number of features.

    Returns
    -------
    int
        Three more.
    """
    return n_features + 3


def plan_budget(
    budget: Any, n_initial: Any, n_pool: int, n_features: int
) -> BudgetPlan:
    """Return what the parameters `budget` and `n_initial` of a search come to.

    Parameters
    ----------
    budget : float, int or callable
        Share of the pool in (0, 1], number of configs, or a function of
        ``(n_pool, n_features)`` that answers a `BudgetPlan`.
    n_initial : "auto", float or int
        The same for the first round; "auto" is three more than there are features,
        but not more than three fifths of the budget.
    n_pool : int
        Number of configs.
    n_features : int
        Number of features.

    Returns
    -------
    BudgetPlan
        With ``1 <= n_initial <= n_budget <= n_pool``.
    """
    if callable(budget):
        plan: BudgetPlan = budget(n_pool, n_features)
        return plan
    n_budget = _resolve(budget, n_pool, n_pool)
    if n_initial == "auto":
        first = min(whole_sample(n_features), max(1, round(_BLIND_SHARE * n_budget)))
    else:
        first = _resolve(n_initial, n_pool, n_budget)
    # Without features there is nothing to model.
    return BudgetPlan(n_budget, first, n_budget, 1 if n_features else n_pool + 1)


def _resolve(amount: Any, n_pool: int, limit: int) -> int:
    count = amount if isinstance(amount, Integral) else int(float(amount) * n_pool)
    return int(max(1, min(int(count), limit)))


@dataclass(frozen=True)
class RoutedBudget:
    """Budget of the dynamic filter: by size of the pool and number of features.

    Parameters
    ----------
    base, high : float
        Shares of the pool that are measured in all, for most kernels and for those
        that need more.
    low : float or None
        Share for large pools of many features; None knows no such class, and no
        class of small pools either.
    first, first_floor : float
        Share of the pool that is measured blindly, and its lower bound.
    first_low : float or None
        The blind share of the low class.
    min_viable : float, default=2
        Measurements per term of the linear model below which none is fitted.

    Examples
    --------
    >>> from fasta_learn.search import RoutedBudget
    >>> budget = RoutedBudget(
    ...     base=0.1, high=0.3, low=None, first=0.05, first_floor=0.02, first_low=None
    ... )
    >>> plan = budget(n_pool=2000, n_features=3)
    >>> plan.n_budget, plan.n_initial, plan.label
    (200, 100, 'base')
    """

    base: float
    high: float
    low: float | None
    first: float
    first_floor: float
    first_low: float | None
    min_viable: float = 2.0

    def __call__(self, n_pool: int, n_features: int) -> BudgetPlan:
        """Return the plan for a pool.

        Parameters
        ----------
        n_pool : int
            Number of configs.
        n_features : int
            Number of features.

        Returns
        -------
        BudgetPlan
            The label is "base", "high" or "low".
        """
        n_first = self._share(self.first, n_pool)
        label = self._route(n_pool, n_features, n_first)
        if label == "low" and self.first_low is not None:
            n_first = self._share(self.first_low, n_pool)
        share = {"base": self.base, "high": self.high, "low": self.low}[label]
        assert share is not None
        n_first = max(1, n_first)
        # Without features there is nothing to model.
        viable = self.min_viable * (1 + n_features) if n_features else n_pool + 1
        return BudgetPlan(
            n_budget=max(int(share * n_pool), n_first),
            n_initial=n_first,
            n_coverage=max(int(self.high * n_pool), n_first),
            min_samples=int(np.ceil(viable)),
            label=label,
        )

    def _share(self, share: float, n_pool: int) -> int:
        return min(n_pool, max(int(share * n_pool), int(self.first_floor * n_pool)))

    def _route(self, n_pool: int, n_features: int, n_first: int) -> str:
        if self.low is not None:
            if n_features <= 3 and n_pool <= 150:
                return "high"
            if n_features >= 4 and n_pool >= 150:
                return "low"
        sparse = n_first / (1 + n_features) < 5
        return "high" if n_features >= 4 and sparse else "base"


@dataclass(frozen=True)
class ScaledBudget:
    """A routed budget brought to another size, without its classes.

    The blind sample keeps its share of the whole, and a model is fitted under the
    same condition.

    Parameters
    ----------
    routed : RoutedBudget
        The budget whose base class is scaled.
    amount : float or int
        Share of the pool or number of configs to measure in all.

    Examples
    --------
    >>> from fasta_learn.search import RoutedBudget, ScaledBudget
    >>> budget = RoutedBudget(
    ...     base=0.1, high=0.3, low=None, first=0.05, first_floor=0.02, first_low=None
    ... )
    >>> plan = ScaledBudget(budget, 0.2)(n_pool=2000, n_features=3)
    >>> plan.n_budget, plan.n_initial, plan.label
    (400, 200, 'scaled')
    """

    routed: RoutedBudget
    amount: float | int

    def __call__(self, n_pool: int, n_features: int) -> BudgetPlan:
        """Return the plan for a pool.

        Parameters
        ----------
        n_pool : int
            Number of configs.
        n_features : int
            Number of features.

        Returns
        -------
        BudgetPlan
            The label is "scaled".
        """
        n_budget = _resolve(self.amount, n_pool, n_pool)
        first = round(n_budget * self.routed.first / self.routed.base)
        return BudgetPlan(
            n_budget=n_budget,
            n_initial=max(1, first),
            n_coverage=n_budget,
            min_samples=self.routed(n_pool, n_features).min_samples,
            label="scaled",
        )


@dataclass(frozen=True)
class GrowingBatch:
    """One config at a time at first, then a share of what was measured.

    A model that has seen little changes with every measurement, one that has seen
    much does not.

    Parameters
    ----------
    divisor : int, default=32
        The batch is the number of measured configs divided by it.

    Examples
    --------
    >>> from fasta_learn import ActiveConfigSearch, datasets
    >>> from fasta_learn.search import GrowingBatch
    >>> pool = datasets.load_pool("mm_2048_2048_2048")
    >>> search = ActiveConfigSearch(batch_size=GrowingBatch(divisor=8), random_state=0)
    >>> search = search.fit(pool.configs, pool.durations)
    >>> [each["n_measured"] for each in search.rounds_][-4:]
    [30, 33, 37, 40]
    """

    divisor: int = 32

    def __call__(self, state: SearchState) -> int:
        """Return the size of the next batch.

        Parameters
        ----------
        state : SearchState
            The search.

        Returns
        -------
        int
            At least 1.
        """
        return max(1, len(state.measured) // self.divisor)


@dataclass(frozen=True)
class FixedBatch:
    """Always the same number of configs.

    Parameters
    ----------
    n_configs : int
        The number.

    Examples
    --------
    >>> from fasta_learn import ActiveConfigSearch, datasets
    >>> from fasta_learn.search import FixedBatch
    >>> pool = datasets.load_pool("mm_2048_2048_2048")
    >>> search = ActiveConfigSearch(batch_size=FixedBatch(8), random_state=0)
    >>> search = search.fit(pool.configs, pool.durations)
    >>> [each["n_measured"] for each in search.rounds_]
    [9, 17, 25, 33, 40]
    """

    n_configs: int

    def __call__(self, state: SearchState) -> int:
        """Return the size of the next batch.

        Parameters
        ----------
        state : SearchState
            The search.

        Returns
        -------
        int
            At least 1.
        """
        return self.n_configs


@dataclass(frozen=True)
class EqualBatches:
    """The budget divided by the rounds; without a model, all that is left.

    Parameters
    ----------
    max_rounds : int
        Number of rounds, the blind one included.

    Examples
    --------
    >>> from fasta_learn import ActiveConfigSearch, datasets
    >>> from fasta_learn.search import EqualBatches
    >>> pool = datasets.load_pool("mm_2048_2048_2048")
    >>> search = ActiveConfigSearch(
    ...     batch_size=EqualBatches(max_rounds=4), n_initial=10, random_state=0
    ... )
    >>> search = search.fit(pool.configs, pool.durations)
    >>> [each["n_measured"] for each in search.rounds_]
    [10, 20, 30, 40]
    """

    max_rounds: int

    def __call__(self, state: SearchState) -> int:
        """Return the size of the next batch.

        Parameters
        ----------
        state : SearchState
            The search.

        Returns
        -------
        int
            At least 1.
        """
        if state.path == "coverage":
            return max(1, state.n_left)
        return max(1, state.n_budget // self.max_rounds)
