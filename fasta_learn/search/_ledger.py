"""What a search has proposed and measured so far."""

from collections import Counter
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fasta_learn.exceptions import AllConfigsFailedError
from fasta_learn.oracles import Measurement


class Ledger:
    """Proposals and measurements of one pool, in order.

    Parameters
    ----------
    n_pool : int
        Number of configs of the pool.

    Attributes
    ----------
    order : list of int
        Measured pool indices.
    durations : list of float
        Their durations in ms, inf where a config failed.
    statuses : list of str
        "ok", or how a config failed.
    reasons : list of str or None
        Why it failed, if that is known.
    rounds : list of int
        The round each was measured in.
    predicted : list of float
        The durations in ms that were predicted when they were proposed, else NaN.
    seconds : list of float
        What each measurement cost in s, NaN where that is not known.
    pending : dict of int to float
        Proposed and not yet measured indices with their predictions.
    discarded : set of int
        Indices that will not be proposed again.
    """

    def __init__(self, n_pool: int):
        self.n_pool = n_pool
        self.order: list[int] = []
        self.durations: list[float] = []
        self.statuses: list[str] = []
        self.reasons: list[str | None] = []
        self.rounds: list[int] = []
        self.predicted: list[float] = []
        self.seconds: list[float] = []
        self.pending: dict[int, float] = {}
        self.discarded: set[int] = set()
        self._open_calls: list[set[int]] = []

    def propose(
        self, indices: NDArray[np.intp], predicted: NDArray[np.float64]
    ) -> None:
        """Enter what one call proposed, with the predictions."""
        proposed = indices.tolist()
        self.pending.update(zip(proposed, predicted.tolist(), strict=True))
        self._open_calls.append(set(proposed))

    def close(self, indices: NDArray[np.intp]) -> bool:
        """Strike indices off; True if all of one call are, or nothing is pending."""
        closed = set(indices.tolist())
        left = [call - closed for call in self._open_calls]
        n_open = len(left)
        self._open_calls = [call for call in left if call]
        return len(self._open_calls) < n_open or not self.pending

    def check_batch(
        self, indices: NDArray[np.intp], results: Sequence[Any]
    ) -> list[Measurement]:
        """Return the batch as measurements, or say what is wrong with it."""
        if len(indices) != len(results):
            raise ValueError(
                f"X names {len(indices)} configs and y holds {len(results)} "
                "durations; give one duration for each config."
            )
        self.check_indices(indices)
        known = set(self.order)
        for index in indices:
            if int(index) in known:
                raise ValueError(
                    f"config {index} was measured already; measure each config once."
                )
        return check_results(results)

    def check_indices(self, indices: NDArray[np.intp]) -> None:
        """Refuse indices outside the pool and repeated ones."""
        outside = indices[(indices < 0) | (indices >= self.n_pool)]
        if len(outside):
            raise IndexError(
                f"index {outside[0]} is not in the pool, which has the indices 0 to "
                f"{self.n_pool - 1}."
            )
        values, counts = np.unique(indices, return_counts=True)
        if (counts > 1).any():
            raise ValueError(
                f"config {values[counts > 1][0]} occurs twice in X; measure each "
                "config once."
            )

    def add(
        self,
        indices: NDArray[np.intp],
        measurements: Iterable[Measurement],
        round_number: int,
    ) -> None:
        """Enter a checked batch."""
        for index, measurement in zip(indices.tolist(), measurements, strict=True):
            self.order.append(index)
            self.durations.append(measurement.duration)
            self.statuses.append(measurement.status)
            self.reasons.append(measurement.reason)
            self.rounds.append(round_number)
            self.predicted.append(self.pending.pop(index, np.nan))
            self.seconds.append(_seconds_of(measurement))
            self.discarded.discard(index)

    def available(self) -> NDArray[np.intp]:
        """Return the indices that may be proposed, ascending."""
        free = np.ones(self.n_pool, dtype=bool)
        for taken in (self.order, list(self.pending), list(self.discarded)):
            free[taken] = False
        return np.flatnonzero(free)

    @property
    def n_ok(self) -> int:
        """Number of configs that ran."""
        return self.statuses.count("ok")

    @property
    def best(self) -> int | None:
        """Position in `order` of the fastest config, the first of equals."""
        return int(np.argmin(self.durations)) if self.n_ok else None

    def raise_if_all_failed(self) -> None:
        """Raise if configs were measured and none ran."""
        if self.n_ok or not self.order:
            return
        counts = Counter(
            status if reason is None else f"{status} ({reason})"
            for status, reason in zip(self.statuses, self.reasons, strict=True)
        )
        listed = "; ".join(f"{n} × {what}" for what, n in counts.most_common(5))
        raise AllConfigsFailedError(
            f"all {len(self.order)} measured configs failed: {listed}. Check one of "
            "them by hand, or raise `budget` to try more of the pool."
        )


def _seconds_of(measurement: Measurement) -> float:
    """Seconds of compiling and running, as far as they are known."""
    parts = (measurement.compile_seconds, measurement.run_seconds)
    known = [part for part in parts if part is not None]
    return sum(known) if known else np.nan


def check_results(results: Sequence[Any]) -> list[Measurement]:
    """Return durations or measurements as measurements.

    Parameters
    ----------
    results : sequence of float or Measurement
        Durations in ms; inf for a config that failed.

    Returns
    -------
    list of Measurement
        In the same order.

    Raises
    ------
    ValueError
        A duration is NaN or negative; the message gives its position.
    TypeError
        A duration is no number.
    """
    return [as_measurement(result, i) for i, result in enumerate(results)]


def as_measurement(result: Any, position: int) -> Measurement:
    """Return a duration or measurement as a measurement.

    Parameters
    ----------
    result : float or Measurement
        The duration in ms; inf for a config that failed.
    position : int
        Where it stands, for the error.

    Returns
    -------
    Measurement
        The measurement.

    Raises
    ------
    ValueError
        The duration is NaN or negative.
    TypeError
        It is no number.
    """
    if isinstance(result, Measurement):
        return result
    if isinstance(result, np.generic):
        result = result.item()
    if not isinstance(result, Real) or isinstance(result, bool):
        raise TypeError(
            f"durations[{position}] is {result!r}, not a number; give durations in ms."
        )
    duration = float(result)
    if np.isnan(duration) or duration < 0:
        what = "NaN" if np.isnan(duration) else f"negative ({duration})"
        raise ValueError(
            f"durations[{position}] is {what}; use inf for a config that failed to "
            "compile or run."
        )
    if np.isinf(duration):
        return Measurement.failed("error", "recorded as failed")
    return Measurement(duration)
