"""Several workers that measure what a queue gives them."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from fasta_learn.heuristics._collect_journal import CollectionLog, Rows
from fasta_learn.heuristics._collect_shapes import GemmInput
from fasta_learn.heuristics._collect_workers import Worker

# So many failures in a row are the fault of the device, not of the inputs.
_BROKEN = 5
_POLL_SECONDS = 0.2


class Queue(Protocol):
    """Gives out inputs."""

    n_before: int

    def take(self) -> GemmInput | None:
        """Return the next input; None if there is no other. One caller at a time."""


class CollectionRun:
    """Measures until a queue is empty or the time is up.

    Parameters
    ----------
    workers : sequence of Worker
        One for each device.
    queue : Queue
        What is to be measured.
    log : CollectionLog
        Where to.
    n_repetitions : int
        How often each choice is measured.
    seconds : float or None
        How long inputs are given out.
    progress : callable or None
        Called with the number of inputs measured so far.

    Attributes
    ----------
    n_measured, n_failed : int
        How many inputs were measured; of how many a choice failed.
    reasons : Counter of str
        Why they failed.
    is_late : bool
        Whether the time was up before the queue was empty.
    """

    def __init__(
        self,
        workers: Sequence[Worker],
        queue: Queue,
        log: CollectionLog,
        n_repetitions: int,
        seconds: float | None,
        progress: Callable[[int], None] | None,
    ) -> None:
        self.n_measured = self.n_failed = 0
        self.reasons: Counter[str] = Counter()
        self.is_late = False
        self._workers = workers
        self._queue = queue
        self._log = log
        self._n_repetitions = n_repetitions
        self._end = None if seconds is None else time.monotonic() + seconds
        self._progress = progress
        self._lock = threading.Lock()
        self._held: list[tuple[GemmInput, Rows, str | None]] = []
        self._errors: list[BaseException] = []
        self._is_over = False

    def run(self) -> None:
        """Measure.

        Raises
        ------
        RuntimeError
            Everything fails.
        OSError, ValueError
            The log can't be written.
        """
        threads = [
            threading.Thread(target=self._serve, args=[worker], daemon=True)
            for worker in self._workers
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():  # an interrupt gets through between two polls
                    thread.join(_POLL_SECONDS)
        finally:
            self._is_over = True
            for worker in self._workers:
                worker.close()
        if not self._errors and self._held:
            self._flush()
        for error in self._errors:
            raise error

    def _serve(self, worker: Worker) -> None:
        try:
            while (item := self._take()) is not None:
                rows, reason = worker.measure(item, self._n_repetitions)
                self._tell(item, rows, reason)
        except BaseException as error:  # told by the thread that waits
            self._errors.append(error)

    def _take(self) -> GemmInput | None:
        with self._lock:
            if self._is_over or self._errors:
                return None
            item = self._queue.take()
            if item is not None and self._end and time.monotonic() >= self._end:
                self.is_late = True
                return None
            return item

    def _tell(self, item: GemmInput, rows: Rows, reason: str | None) -> None:
        with self._lock:
            if self._is_over:
                return  # the child was ended, the input did not fail
            self._held.append((item, rows, reason))
            if reason is None:
                self._flush()
            elif len(self._held) >= _BROKEN:
                raise RuntimeError(f"{_BROKEN} inputs in a row failed: {reason}")

    def _flush(self) -> None:
        """Write what was measured, and the failures before that proved to be theirs."""
        for item, rows, reason in self._held:
            self._log.append(item, rows)
            self.n_measured += 1
            if any(duration == float("inf") for _, duration in rows):
                self.n_failed += 1
                self.reasons[reason or "out of memory"] += 1
        self._held = []
        if self._progress is not None:
            self._progress(self.n_measured)
