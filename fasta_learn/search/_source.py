"""Where a search gets its measurements from."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from fasta_learn.oracles import Measurement
from fasta_learn.search._engine import SearchEngine
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
    """

    measure: Callable[[Iterable[int]], Iterator[Measurement]]
    remeasure: Callable[[Iterable[int]], Iterator[Measurement]]


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

    def through(method: Callable[[Iterable[Any]], Iterator[Measurement]]) -> Any:
        return lambda indices: method(space.items[index] for index in indices)

    return Source(through(oracle.measure_each), through(oracle.remeasure_each))


def measure_batch(
    engine: SearchEngine,
    source: Source,
    batch: NDArray[np.intp],
    announce: Callable[[], None],
) -> None:
    """Measure a batch and enter it; what was measured is kept if it is cut short.

    Parameters
    ----------
    engine : SearchEngine
        The search.
    source : Source
        What measures.
    batch : ndarray of shape (n_configs,)
        Pool indices that were proposed.
    announce : callable
        Called without arguments after each measurement; it may stop the engine.

    Raises
    ------
    ValueError
        There are too few or too many measurements, or one is not valid.
    """

    def due() -> Iterator[int]:
        for index in batch.tolist():
            if engine.is_over:
                return
            yield index

    answers: list[Measurement] = []
    measure = source.remeasure if engine.is_racing else source.measure
    try:
        for answer in measure(due()):
            answers.append(as_measurement(answer, len(answers)))
            if len(answers) > len(batch):
                break
            announce()
    except BaseException:
        engine.close_batch(batch, answers)
        raise
    n_answers = len(answers)
    if n_answers > len(batch) or (n_answers < len(batch) and not engine.is_over):
        engine.close_batch(batch, [])
        how_many = f"only {n_answers}" if n_answers < len(batch) else "more"
        raise ValueError(
            f"the oracle answered {how_many} measurements for {len(batch)} configs; "
            "measure_each must give one for each."
        )
    engine.close_batch(batch, answers)
