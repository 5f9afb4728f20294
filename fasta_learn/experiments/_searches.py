"""Which searches an experiment compares."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fasta_learn.configs import Pool
from fasta_learn.experiments._one_run import run_search
from fasta_learn.search import ActiveConfigSearch, Racing, dynamic_filter_search


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
        return run_search(search, pool, None, seed).order


NAMED_SEARCHES: dict[str, Callable[[], Any]] = {
    "default": ActiveConfigSearch,
    "racing": lambda: ActiveConfigSearch(racing=Racing()),
    "production": lambda: ScaledDynamicFilter("production"),
    "reference": lambda: ScaledDynamicFilter("reference"),
    "random": RandomSearch,
}


def resolve_searches(searches: Any) -> dict[str, Any]:
    """Return searches by name.

    Parameters
    ----------
    searches : mapping of str to search, str, or iterable of str
        Searches by name, or names out of "default", "racing", "production",
        "reference" and "random".

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
