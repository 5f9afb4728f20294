"""Which searches an experiment compares, and how one of them is run."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from fasta_learn.configs import Pool
from fasta_learn.exceptions import AllConfigsFailedError
from fasta_learn.search import ActiveConfigSearch, dynamic_filter_search


@dataclass(frozen=True)
class RandomSearch:
    """Measure configs at random, each once.

    Examples
    --------
    >>> from fasta_learn.configs import Pool
    >>> from fasta_learn.experiments import RandomSearch
    >>> pool = Pool([{"BLOCK": 2**i} for i in range(5)], [5.0, 4.0, 3.0, 4.0, 5.0])
    >>> len(RandomSearch()(pool, 3, 0))
    3
    """

    def __call__(self, pool: Pool, n_budget: int, seed: int) -> NDArray[np.intp]:
        """Return what is measured.

        Parameters
        ----------
        pool : Pool
            The pool.
        n_budget : int
            How many configs may be measured.
        seed : int
            Seed of the choice.

        Returns
        -------
        ndarray of shape (n_budget,)
            Pool indices in order.
        """
        return np.random.default_rng(seed).permutation(len(pool))[:n_budget]


@dataclass(frozen=True)
class ScaledDynamicFilter:
    """The dynamic filter, scaled to a budget that is not its own.

    `dynamic_filter_search` decides by itself how much to measure. To compare it at
    another budget, its blind sample keeps its share of the total.

    Parameters
    ----------
    profile : {"production", "reference"}
        The constants to take.

    Examples
    --------
    >>> from fasta_learn.configs import Pool
    >>> from fasta_learn.experiments import ScaledDynamicFilter
    >>> pool = Pool([{"BLOCK": i} for i in range(40)], [50.0 - i for i in range(40)])
    >>> len(ScaledDynamicFilter("production")(pool, 8, 0))
    8
    """

    profile: str

    def __call__(self, pool: Pool, n_budget: int, seed: int) -> NDArray[np.intp]:
        """Return what is measured.

        Parameters
        ----------
        pool : Pool
            The pool.
        n_budget : int
            How many configs may be measured.
        seed : int
            Seed of every random choice.

        Returns
        -------
        ndarray of shape (n_measured,)
            Pool indices in order; fewer than the budget if the filter stops early.
        """
        search = dynamic_filter_search(self.profile, budget=n_budget)
        return run_search(search, pool, None, seed)


NAMED_SEARCHES: dict[str, Callable[[], Any]] = {
    "default": ActiveConfigSearch,
    "production": lambda: ScaledDynamicFilter("production"),
    "reference": lambda: ScaledDynamicFilter("reference"),
    "random": RandomSearch,
}


def resolve_searches(searches: Any) -> dict[str, Any]:
    """Return searches by name.

    Parameters
    ----------
    searches : mapping of str to search, str, or iterable of str
        Searches by name, or names out of "default", "production", "reference" and
        "random".

    Returns
    -------
    dict of str to search
        In the order given.

    Raises
    ------
    ValueError
        There is no search, or a name is unknown.
    TypeError
        One is neither an estimator nor a function.
    """
    if not isinstance(searches, Mapping):
        names = [searches] if isinstance(searches, str) else list(searches)
        searches = {name: _by_name(name) for name in names}
    if not searches:
        raise ValueError("no search is given; pass a dict of name to search.")
    for name, search in searches.items():
        if not hasattr(search, "fit") and not callable(search):
            raise TypeError(
                f"the search {name!r} is a {type(search).__name__}; pass an estimator "
                "with fit and results_, or a function (pool, n_budget, seed)."
            )
    return dict(searches)


def _by_name(name: Any) -> Any:
    if not isinstance(name, str) or name not in NAMED_SEARCHES:
        raise ValueError(
            f"unknown search {name!r}; the known ones are "
            f"{', '.join(NAMED_SEARCHES)}. Others go into a dict of name to search."
        )
    return NAMED_SEARCHES[name]()


def run_search(
    search: Any, pool: Pool, n_budget: int | None, seed: int
) -> NDArray[np.intp]:
    """Run a search over a recorded pool.

    Parameters
    ----------
    search : estimator or callable
        An estimator is cloned, so the given one stays as it is.
    pool : Pool
        The pool.
    n_budget : int or None
        How many configs may be measured; None leaves that to the estimator.
    seed : int
        Seed of every random choice.

    Returns
    -------
    ndarray of shape (n_measured,)
        Pool indices in the order of measurement. A search that found no config that
        runs answers those that failed.

    Raises
    ------
    ValueError
        The search measured nothing, too much, a config twice, or one that is not in
        the pool.
    """
    if hasattr(search, "fit"):
        order = _run_estimator(search, pool, n_budget, seed)
    elif n_budget is None:
        raise ValueError(
            "only an estimator has a budget of its own; give a function numbers."
        )
    else:
        order = search(pool, n_budget, seed)
    indices = np.asarray(list(order), dtype=np.intp)
    _check_order(indices, len(pool), n_budget)
    return indices


def _run_estimator(
    search: Any, pool: Pool, n_budget: int | None, seed: int
) -> Iterable[int]:
    search = clone(search).set_params(random_state=seed)
    if n_budget is not None:
        search.set_params(budget=n_budget)
    with suppress(AllConfigsFailedError):
        search.fit(pool.configs, pool.durations)
    return search.results_["index"]


def _check_order(
    indices: NDArray[np.intp], n_configs: int, n_budget: int | None
) -> None:
    if not len(indices):
        raise ValueError("it measured nothing.")
    if n_budget is not None and len(indices) > n_budget:
        raise ValueError(
            f"it measured {len(indices)} configs, but may measure {n_budget}."
        )
    outside = indices[(indices < 0) | (indices >= n_configs)]
    if len(outside):
        raise ValueError(
            f"it measured index {outside[0]}, but the pool has the indices 0 to "
            f"{n_configs - 1}."
        )
    if len(np.unique(indices)) < len(indices):
        raise ValueError("it measured a config twice; each index may occur once.")
