"""How many seconds of compiling and running a search costs."""

from collections.abc import Iterable, Iterator
from typing import Any

from fasta_learn.oracles import BaseOracle, Measurement
from fasta_learn.oracles._wrapper import OracleWrapper


class MeteredOracle(OracleWrapper):
    """Add up what the measurements of an oracle cost.

    Parameters
    ----------
    oracle : BaseOracle
        Measures.

    Attributes
    ----------
    n_measured : int
        Number of measurements.
    compile_seconds, run_seconds : float
        What they cost in s, as far as the oracle says.
    """

    def __init__(self, oracle: BaseOracle) -> None:
        super().__init__(oracle)
        self.n_measured = 0
        self.compile_seconds = 0.0
        self.run_seconds = 0.0

    def measure_each(self, configs: Iterable[Any]) -> Iterator[Measurement]:
        """Measure configs one by one."""
        yield from self._metered(self.oracle.measure_each(configs))

    def remeasure_each(self, configs: Iterable[Any]) -> Iterator[Measurement]:
        """Measure configs anew."""
        yield from self._metered(self.oracle.remeasure_each(configs))

    def _metered(self, answers: Iterator[Measurement]) -> Iterator[Measurement]:
        for answer in answers:
            self.n_measured += 1
            self.compile_seconds += answer.compile_seconds or 0.0
            self.run_seconds += answer.run_seconds or 0.0
            yield answer
