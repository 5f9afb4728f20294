"""The base of oracles that add something to another one."""

from collections.abc import Iterable
from typing import Any

from fasta_learn.oracles._base import BaseOracle
from fasta_learn.oracles._measurement import Measurement


class OracleWrapper(BaseOracle):
    """Passes on to another oracle all but the measurements.

    A subclass implements `measure_each`, and `remeasure_each` with it.

    Parameters
    ----------
    oracle : BaseOracle
        What measures.
    """

    def __init__(self, oracle: BaseOracle) -> None:
        self.oracle = oracle

    @property
    def lookahead(self) -> int:  # type: ignore[override]
        """How many configs the inner oracle can make ready ahead."""
        return self.oracle.lookahead

    @property
    def n_parallel(self) -> int:  # type: ignore[override]
        """How many configs the inner oracle measures at the same time."""
        return self.oracle.n_parallel

    def open_pool(self, configs: Iterable[Any]) -> None:
        """Let the inner oracle know of the pool."""
        self.oracle.open_pool(configs)

    def prepare(self, configs: Iterable[Any]) -> None:
        """Let the inner oracle make configs ready."""
        self.oracle.prepare(configs)

    def fingerprint(self) -> dict[str, Any]:
        """Say what the inner oracle measures."""
        return self.oracle.fingerprint()

    def measure(self, configs: Iterable[Any]) -> list[Measurement]:
        """Measure configs by `measure_each`."""
        return list(self.measure_each(configs))
