"""What users of torch_npu's dynamic filter set in the environment, under its names."""

import math
import os
from dataclasses import dataclass
from typing import Any

from fasta_learn.configs import ConfigVectorizer
from fasta_learn.inductor._settings import Settings, is_true
from fasta_learn.search import ActiveConfigSearch, dynamic_filter_search
from fasta_learn.search._budget import EqualBatches, RoutedBudget
from fasta_learn.search._stopping import Convergence

# The default budget: this share of the candidates, and in small pools this many. On
# simulated landscapes of torch_npu's own pools fewer missed the best one more often.
_SHARE, _FEWEST = 0.4, 12

_FILTER = "FASTA_DYNAMIC_FILTER"
_SHARES = {
    "FASTA_R1_PCT": 0.30,
    "FASTA_BASE_BUDGET": 0.35,
    "FASTA_HIGH_BUDGET": 0.40,
    "FASTA_LOW_BUDGET": 0.25,
}
_ROUNDS = "FASTA_MAX_ROUNDS"
# Of the production profile.
_DEFAULT_ROUNDS, _MARGIN, _FLOOR, _FIRST_LOW = 2, 2.0, 0.10, 0.12

NAMES = (
    _FILTER,
    *_SHARES,
    _ROUNDS,
    "FASTA_CONFIG_OPTIMIZER",
    "FASTA_AUTOTUNE_STATS",
    "FASTA_MSPTI_EN",
    "FASTA_EVENT_BENCHMARK",
)
"""All names, for reports."""


@dataclass(frozen=True, kw_only=True)
class NPUSettings:
    """What the environment says, under the names of the dynamic filter.

    Attributes
    ----------
    enabled : bool
        False if ``FASTA_DYNAMIC_FILTER=0``: torch_npu's own way is wanted.
    shares : tuple of float or None
        ``FASTA_R1_PCT``, ``FASTA_BASE_BUDGET``, ``FASTA_HIGH_BUDGET`` and
        ``FASTA_LOW_BUDGET``; None if the default search is to be made.
    max_rounds : int
        ``FASTA_MAX_ROUNDS``.
    optimizes : bool
        ``FASTA_CONFIG_OPTIMIZER``: larger pools, which are pruned.
    stages : str or None
        ``FASTA_AUTOTUNE_STATS``: "1", or the folder of the file with stages.
    timer : str
        "mspti" or "events" by ``FASTA_MSPTI_EN`` and ``FASTA_EVENT_BENCHMARK``, else
        "auto".
    """

    enabled: bool = True
    shares: tuple[float, ...] | None = None
    max_rounds: int = _DEFAULT_ROUNDS
    optimizes: bool = False
    stages: str | None = None
    timer: str = "auto"

    @classmethod
    def from_environment(cls) -> "NPUSettings":
        """Read the environment.

        Returns
        -------
        NPUSettings
            Any constant of the dynamic filter chooses it, as ``FASTA_DYNAMIC_FILTER=1``
            does.

        Raises
        ------
        ValueError
            A variable has no valid value; the message says which.
        """
        wish = _text(_FILTER)
        given = [name for name in (*_SHARES, _ROUNDS) if _text(name)]
        filtered = is_true(wish) or bool(given)
        stages = _text("FASTA_AUTOTUNE_STATS")
        timer = "mspti" if is_true(_text("FASTA_MSPTI_EN")) else "auto"
        return cls(
            enabled=not wish or is_true(wish),
            shares=tuple(map(_share, _SHARES)) if filtered else None,
            max_rounds=_rounds(),
            optimizes=is_true(_text("FASTA_CONFIG_OPTIMIZER")),
            stages=None
            if stages.lower() in ("", "0", "false", "no", "off")
            else stages,
            timer="events" if is_true(_text("FASTA_EVENT_BENCHMARK")) else timer,
        )

    def cache_tag(self) -> str:
        """Return what tells settings apart that may find different winners.

        Returns
        -------
        str
            Empty for those of an empty environment. Pools tell themselves apart.
        """
        if self.shares is None:
            return ""
        return f"filter-{'-'.join(map(repr, self.shares))}-{self.max_rounds}"


def make_search(
    settings: Settings, npu: NPUSettings, n_pool: int
) -> ActiveConfigSearch:
    """Return the search for a pool.

    Parameters
    ----------
    settings : Settings
        Budget, time and seed.
    npu : NPUSettings
        Which search.
    n_pool : int
        Number of candidates.

    Returns
    -------
    ActiveConfigSearch
        Not yet fitted.
    """
    if npu.shares is not None:
        first, base, high, low = npu.shares
        budget = RoutedBudget(
            base=base,
            high=high,
            low=low,
            first=first,
            first_floor=min(_FLOOR, first),
            first_low=min(_FIRST_LOW, first),
        )
        search: ActiveConfigSearch = dynamic_filter_search(
            budget=budget,
            batch_size=EqualBatches(npu.max_rounds),
            stopping=Convergence(_MARGIN, max_rounds=npu.max_rounds),
            time_budget=settings.time_budget,
            random_state=settings.random_state,
        )
        return search
    return ActiveConfigSearch(
        budget=count_budget(settings.npu_budget, n_pool),
        # Unlike the dynamic filter, it learns from what this one ignores.
        vectorizer=ConfigVectorizer(
            log2="auto", ignore=(), boolean=True, categorical=True
        ),
        time_budget=settings.time_budget,
        random_state=settings.random_state,
    )


def count_budget(budget: Any, n_pool: int) -> int:
    """Return how many candidates are measured in all.

    Parameters
    ----------
    budget : float, int or None
        The setting.
    n_pool : int
        Number of candidates.

    Returns
    -------
    int
        At least 1, at most all.
    """
    if budget is None:
        number = max(_FEWEST, math.ceil(_SHARE * n_pool))
    elif isinstance(budget, float):
        number = max(1, int(budget * n_pool))
    else:
        number = int(budget)
    return min(number, n_pool)


def _text(name: str) -> str:
    return os.environ.get(name, "").strip()


def _share(name: str) -> float:
    text = _text(name)
    try:
        value = float(text) if text else _SHARES[name]
    except ValueError:
        value = math.nan
    if not 0 < value <= 1:
        raise ValueError(f"{name} must be a share in (0, 1], got {text!r}.")
    return value


def _rounds() -> int:
    text = _text(_ROUNDS)
    if text and not (text.isdecimal() and int(text) >= 1):
        raise ValueError(f"{_ROUNDS} must be an integer of at least 1, got {text!r}.")
    return int(text) if text else _DEFAULT_ROUNDS
