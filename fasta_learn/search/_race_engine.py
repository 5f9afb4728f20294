"""A search that ends in a race of its finalists."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fasta_learn.oracles import Measurement
from fasta_learn.search._engine import SearchEngine
from fasta_learn.search._racing import Race, Racing

# What ends a search at once; after all else the finalists are measured again.
_AT_ONCE = ("time", "callback")


class RacingEngine(SearchEngine):
    """A search over one pool that measures its finalists again at the end.

    Parameters
    ----------
    racing : Racing
        The rules of the race.
    *parameters : object
        Those of `SearchEngine`; the plan without the repeats.

    Attributes
    ----------
    race : Race or None
        The race, once it has begun.
    """

    def __init__(self, racing: Racing, *parameters: Any):
        super().__init__(*parameters)
        self.racing = racing
        self.race: Race | None = None
        self._ending: str | None = None

    @property
    def is_racing(self) -> bool:  # type: ignore[override]
        """Whether what is proposed was measured before."""
        return self.race is not None

    @property
    def result(self) -> tuple[int, float] | None:
        """Pool index and duration in ms of the best config; None while none ran."""
        winner = None if self.race is None else self.race.winner
        return super().result if winner is None else winner

    @property
    def n_total(self) -> int:
        """Measurements that may be made in all."""
        return self.n_budget + self.racing.n_repeats

    @property
    def open_proposals(self) -> list[int]:
        """Pool indices that were proposed and not answered."""
        return super().open_proposals if self.race is None else list(self.race.pending)

    def check_batch(
        self, indices: NDArray[np.intp], results: Sequence[Any]
    ) -> list[Measurement]:
        """Return the batch as measurements, or say what is wrong with it."""
        book = self.ledger if self.race is None else self.race
        return book.check_batch(indices, results)

    def stop(self, reason: str | None) -> None:
        """End the search, or its ordinary part, for a reason; None goes on."""
        if reason is not None and reason not in _AT_ONCE and self.race is None:
            measured, durations = np.array(self.ledger.order), self.ledger.durations
            finalists = self.racing.finalists(measured, np.array(durations))
            self.race, self._ending = Race(self.racing, finalists, self._rng), reason
            if not self.race.is_over:
                return
        super().stop(reason)

    def _propose(self, n_configs: int | None) -> NDArray[np.intp]:
        chosen = np.empty(0, dtype=np.intp)
        if self.race is None:
            chosen = super()._propose(n_configs)
        if self.race is None or self.stop_reason is not None:
            return chosen
        if self._out_of_time:
            self.stop("time")
            return chosen
        return self.race.propose(n_configs)

    def _record(
        self, indices: NDArray[np.intp], measurements: Sequence[Measurement]
    ) -> None:
        if self.race is None:
            super()._record(indices, measurements)
            return
        self.race.record(indices, measurements)
        self._end_race()

    def _end_race(self) -> None:
        assert self.race is not None
        if self.race.is_over and self.stop_reason is None:
            self.stop(self._ending)

    def guess(self, n_configs: int) -> NDArray[np.intp]:
        """Return what may be proposed soon; finalists need no preparation."""
        if self.race is not None:
            return np.empty(0, dtype=np.intp)
        return super().guess(n_configs)

    @property
    def may_look_ahead(self) -> bool:
        """Whether more may be proposed while proposals are open."""
        return self.race is None and super().may_look_ahead

    def release(self, indices: NDArray[np.intp]) -> bool:
        """Take open proposals back; True if that closes all of one call, or all."""
        if self.race is None:
            return super().release(indices)
        self.race.release(indices, drop=False)
        return False

    def discard(self, indices: NDArray[np.intp]) -> None:
        """Release open proposals; a discarded finalist leaves the race."""
        if self.race is None:
            super().discard(indices)
            return
        self.race.release(indices, drop=True)
        self._end_race()


def replicates_frame(engine: SearchEngine) -> pd.DataFrame:
    """Return the repeated measurements of a search.

    Parameters
    ----------
    engine : SearchEngine
        The search.

    Returns
    -------
    pandas.DataFrame
        With a row for each, in order; empty without a race.
    """
    race = getattr(engine, "race", None)
    log = [] if race is None else race.log
    columns = {
        "index": np.array([index for index, _, _ in log], dtype=np.intp),
        "duration": np.array([m.duration for _, _, m in log], dtype=np.float64),
        "status": np.array([m.status for _, _, m in log], dtype=object),
        "round": np.array([number for _, number, _ in log], dtype=np.intp),
        "reason": np.array([m.reason for _, _, m in log], dtype=object),
    }
    return pd.DataFrame(columns)
