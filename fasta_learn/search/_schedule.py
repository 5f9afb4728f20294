"""How a search proposes, makes ready and measures in turn."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fasta_learn.oracles import Measurement
from fasta_learn.search._engine import SearchEngine
from fasta_learn.search._ledger import as_measurement
from fasta_learn.search._source import Source


class Schedule:
    """Hands proposals to a source, and tells it ahead of time what may follow.

    A source that makes configs ready in the background (compiles them) is told what is
    proposed and, as each measurement changes what is likely, what may follow by what is
    known now. The guesses change no decision. A source that measures on several devices
    gets as many proposals at a time.

    Parameters
    ----------
    engine : SearchEngine
        The search.
    source : Source
        What measures.
    propose : callable
        Proposes configs of the engine.
    """

    def __init__(
        self,
        engine: SearchEngine,
        source: Source,
        propose: Callable[[], NDArray[np.intp]],
    ):
        self._engine, self._source, self._propose = engine, source, propose

    def run(self, announce: Callable[[], None]) -> Iterator[list[dict[str, Any]]]:
        """Measure until the search is over.

        Parameters
        ----------
        announce : callable
            Called without arguments after each measurement; it may stop the engine.

        Yields
        ------
        list of dict
            After each batch: the records of the rounds that it ended.

        Raises
        ------
        ValueError
            The source answered something that is not valid.
        """
        while len(batch := self._next_batch()):
            n_rounds = len(self._engine.rounds)
            measure_batch(self._engine, self._source, batch, announce)
            yield self._engine.rounds[n_rounds:]

    def _next_batch(self) -> NDArray[np.intp]:
        """Return the pool indices to measure next; none once the search is over."""
        batch: list[int] = []
        while len(batch) < self._source.n_parallel:
            if batch and not self._engine.may_look_ahead:
                break
            proposed = self._propose().tolist()
            if not proposed:
                break
            batch += proposed
        if batch:
            guesses = self._engine.guess(self._source.lookahead)
            self._source.prepare(batch + guesses.tolist())
        return np.array(batch, dtype=np.intp)


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
