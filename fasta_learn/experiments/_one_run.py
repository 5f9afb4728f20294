"""One run of a search over a recorded pool."""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from fasta_learn.configs import Pool
from fasta_learn.exceptions import AllConfigsFailedError
from fasta_learn.oracles import RecordedOracle


@dataclass(frozen=True)
class Outcome:
    """What a search measured and what it found.

    Attributes
    ----------
    order : ndarray of shape (n_measured_configs,)
        Pool indices of the measured configs in the order of their first measurement.
    named : ndarray of shape (n_measured,)
        Pool index of the config that seemed the fastest after each measurement,
        repeated ones included; the last is the one that the search names.
    """

    order: NDArray[np.intp]
    named: NDArray[np.intp]


def run_search(
    search: Any, pool: Pool, n_budget: int | None, seed: int, noise: float = 0.0
) -> Outcome:
    """Run a search over a recorded pool.

    Parameters
    ----------
    search : estimator or callable
        An estimator is cloned, so the given one stays as it is.
    pool : Pool
        The pool.
    n_budget : int or None
        How many measurements may be made; None leaves that to the estimator.
    seed : int
        Seed of every random choice and of the noise.
    noise : float, default=0.0
        How much measurements scatter, as in `RecordedOracle`.

    Returns
    -------
    Outcome
        A search that found no config that runs answers those that failed.

    Raises
    ------
    ValueError
        The search measured nothing, too much, a config twice, or one that is not in
        the pool.
    """
    oracle = RecordedOracle.from_pool(pool, noise=noise, seed=seed) if noise else None
    seen = pool if oracle is None else _first_answers(pool, noise, seed)
    winner, n_repeats = None, 0
    if hasattr(search, "fit"):
        fitted = _fit(search, seen, oracle, n_budget, seed)
        order = fitted.results_["index"]
        n_repeats = len(getattr(fitted, "replicates_", ()))
        winner = getattr(fitted, "best_index_", None) if noise else None
    elif n_budget is None:
        raise ValueError(
            "only an estimator has a budget of its own; give a function numbers."
        )
    else:
        order = search(seen, n_budget, seed)
    indices = np.asarray(list(order), dtype=np.intp)
    _check_order(indices, n_repeats, len(pool), n_budget)
    return Outcome(indices, _named(indices, seen.durations[indices], winner, n_repeats))


def _first_answers(pool: Pool, noise: float, seed: int) -> Pool:
    """Return the pool with the durations that the first measurements would give."""
    oracle = RecordedOracle.from_pool(pool, noise=noise, seed=seed)
    answers = oracle.measure(pool.configs)
    return replace(pool, durations=np.array([answer.duration for answer in answers]))


def _fit(
    search: Any,
    seen: Pool,
    oracle: RecordedOracle | None,
    n_budget: int | None,
    seed: int,
) -> Any:
    search = clone(search).set_params(random_state=seed)
    if n_budget is not None:
        search.set_params(budget=n_budget)
    with suppress(AllConfigsFailedError):
        # Only an oracle can measure a config again and answer otherwise.
        if oracle is not None and has_fit_parameter(search, "oracle"):
            search.fit(seen.configs, oracle=oracle)
        else:
            search.fit(seen.configs, seen.durations)
    return search


def _named(
    order: NDArray[np.intp],
    durations: NDArray[np.float64],
    winner: int | None,
    n_repeats: int,
) -> NDArray[np.intp]:
    """Return the config that seemed the fastest after each measurement."""
    fastest = np.minimum.accumulate(durations)
    is_new = np.r_[True, fastest[1:] < fastest[:-1]]
    position = np.maximum.accumulate(np.where(is_new, np.arange(len(order)), 0))
    # What the repeats told is known to the search alone, until it names its winner.
    named: NDArray[np.intp] = np.r_[
        order[position], np.repeat(order[position[-1]], n_repeats)
    ]
    if winner is not None:
        named[-1] = winner
    return named


def _check_order(
    indices: NDArray[np.intp], n_repeats: int, n_configs: int, n_budget: int | None
) -> None:
    if not len(indices):
        raise ValueError("it measured nothing.")
    n_measured = len(indices) + n_repeats
    if n_budget is not None and n_measured > n_budget:
        repeated = f", and {n_repeats} times anew" if n_repeats else ""
        raise ValueError(
            f"it measured {len(indices)} configs{repeated}, but may measure {n_budget}."
        )
    outside = indices[(indices < 0) | (indices >= n_configs)]
    if len(outside):
        raise ValueError(
            f"it measured index {outside[0]}, but the pool has the indices 0 to "
            f"{n_configs - 1}."
        )
    if len(np.unique(indices)) < len(indices):
        raise ValueError("it measured a config twice; each index may occur once.")
