"""Where a search gets its measurements from."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from fasta_learn.oracles import Measurement
from fasta_learn.search._ledger import as_measurement
from fasta_learn.search._space import PoolSpace


@dataclass(frozen=True)
class Source:
    """What measures pool indices one after the other, taking each when it is due.

    Attributes
    ----------
    measure, remeasure : callable
        Functions from pool indices to measurements; the second measures anew what is
        known already.
    prepare : callable
        Function of pool indices that are to be measured next.
    lookahead, n_parallel : int
        How many configs can be made ready ahead, and measured at the same time.
    """

    measure: Callable[[Iterable[int]], Iterator[Measurement]]
    remeasure: Callable[[Iterable[int]], Iterator[Measurement]]
    prepare: Callable[[Iterable[int]], None] = lambda indices: None
    lookahead: int = 0
    n_parallel: int = 1


_WAYS = "call fit(X, durations), fit(X, oracle) or fit(X, oracle=oracle)."


def make_source(space: PoolSpace, y: Any, oracle: Any) -> Source:
    """Return what measures the configs of a pool.

    Parameters
    ----------
    space : PoolSpace
        The pool.
    y : array-like of shape (n_pool,), oracle or None
        Recorded durations in ms, or what measures them.
    oracle : oracle or None
        What measures them, if `y` is None.

    Returns
    -------
    Source
        Its functions answer pool indices by measurements.

    Raises
    ------
    ValueError
        Both or neither are given, or recorded durations are not valid.
    TypeError
        The oracle can't measure.
    """
    if y is None and oracle is None:
        raise ValueError(
            "ActiveConfigSearch requires y to be passed, but the target y is None; "
            + _WAYS
        )
    if y is not None and oracle is not None:
        raise ValueError(f"both y and an oracle are given; {_WAYS}")
    if oracle is None and not hasattr(y, "measure"):
        return _recorded(space, y)
    return _live(space, y if oracle is None else oracle)


def _recorded(space: PoolSpace, y: Any) -> Source:
    y = check_array(y, ensure_2d=False, ensure_all_finite=False, dtype=None)
    y = column_or_1d(y, warn=True)
    check_consistent_length(space.items, y)
    if np.iscomplexobj(y):
        raise ValueError("Complex data not supported: durations are real, in ms.")
    try:
        y = y.astype(np.float64)
    except ValueError as error:
        raise ValueError(f"durations must be numbers, in ms: {error}.") from error
    # Only the first bad duration is looked at, for its error: a large pool is not
    # turned into a million objects.
    for position in np.flatnonzero(np.isnan(y) | (y < 0))[:1]:
        as_measurement(y[position], int(position))

    def measure(indices: Iterable[int]) -> Iterator[Measurement]:
        return (as_measurement(y[index], index) for index in indices)

    return Source(measure, measure)


def _live(space: PoolSpace, oracle: Any) -> Source:
    if not hasattr(oracle, "measure_each"):
        raise TypeError(
            f"the oracle is a {type(oracle).__name__}, which has no measure_each; wrap "
            "a function in CallableOracle, or derive from BaseOracle."
        )
    oracle.open_pool(space.items)

    def through(method: Callable[[Iterable[Any]], Any]) -> Any:
        return lambda indices: method(space.items[index] for index in indices)

    return Source(
        through(oracle.measure_each),
        through(oracle.remeasure_each),
        through(oracle.prepare),
        oracle.lookahead,
        oracle.n_parallel,
    )
