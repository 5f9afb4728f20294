"""A clock for kernels on a CUDA device: events, a cold L2 cache, a delay up front."""

import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fasta_learn._compat import import_extra

_LARGEST_FLUSH_BYTES = 256 * 1024**2
# CUDA queues about a thousand operations and then blocks the host, which would make
# every delay too short. A launch is some four to eight operations.
_MOST_QUEUED = 32
_SHORTEST_DELAY_MS = 0.5
_LONGEST_DELAY_MS = 32.0
_MOST_ROUNDS = 6
# About the boost clock of current devices. At a lower clock the delay is longer.
_CYCLES_PER_MS = 2_000_000
# About what one flush takes, for devices without a delay of their own.
_FLUSH_MS = 0.05
_MOST_DELAY_FLUSHES = 400


class CudaClock:
    """Time launches by CUDA events, on the current stream of one device.

    A batch is enqueued behind a delay on the device, so that the device does not wait
    for the host while it is timed. Whether it did is seen for each launch: if its first
    event had already been reached when its last one was enqueued, the launch is timed
    again, behind a longer delay.

    Parameters
    ----------
    device : int or str or torch.device or None, default=None
        The device; None is the one that is current at the first batch.

    Attributes
    ----------
    device : int or str or torch.device or None
        As given.

    See Also
    --------
    fasta_learn.oracles._timing.time_launches : Decides how often to launch.

    Examples
    --------
    >>> from fasta_learn.oracles._cuda_clock import CudaClock
    >>> with CudaClock(0) as clock:  # nothing is allocated before the first batch
    ...     clock.device
    0
    """

    def __init__(self, device: Any = None) -> None:
        self.device = device
        self._buffer: Any = None
        self._events: list[tuple[Any, Any]] = []
        self._delay_ms = _SHORTEST_DELAY_MS

    def time_batch(
        self,
        launch: Callable[[], None],
        n_launches: int,
        prepare: Callable[[], None] | None = None,
    ) -> NDArray[np.float64]:
        """Time launches one by one, each with a flushed L2 cache.

        Parameters
        ----------
        launch : callable
            Enqueues the kernel once on the current stream; must not wait for it.
        n_launches : int
            How often it is to be timed.
        prepare : callable or None, default=None
            Called before each launch and before the flush; what it enqueues is not
            timed.

        Returns
        -------
        ndarray of shape (n_launches,)
            Duration of each launch on the device, in ms. Where the device waited for
            the host in every try, the wait is in it.

        Raises
        ------
        MissingExtraError
            torch is not installed.
        RuntimeError
            The current stream is being captured into a CUDA graph.
        Exception
            What the launch, or the device while it runs, fails with.
        """
        torch = import_extra("torch", "torch")
        # Buffer and events stay on one device, whichever is current later.
        device = self.device if self._buffer is None else self._buffer.device
        with torch.cuda.device(device):
            if torch.cuda.is_current_stream_capturing():
                raise RuntimeError(
                    "configs can't be timed while the current stream is captured into "
                    "a CUDA graph; tune first (call the kernel once, or warm it up), "
                    "then capture."
                )
            if self._buffer is None:
                self._buffer = _make_buffer(torch)
            durations: list[float] = []
            while len(durations) < n_launches:
                n_next = min(n_launches - len(durations), _MOST_QUEUED)
                durations += self._time_some(torch, launch, n_next, prepare)
        return np.array(durations, dtype=np.float64)

    def close(self) -> None:
        """Give the flush buffer back to torch's allocator; a later batch gets another.

        The events go, too.
        """
        self._buffer = None
        self._events = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _time_some(
        self,
        torch: Any,
        launch: Callable[[], None],
        n_launches: int,
        prepare: Callable[[], None] | None,
    ) -> list[float]:
        """Time launches; repeat those for which the device waited for the host."""
        good: list[float] = []
        late: list[float] = []
        for _ in range(_MOST_ROUNDS):
            n_next = n_launches - len(good)
            more, late = self._time_round(torch, launch, n_next, prepare)
            good += more
            if not late:
                self._delay_ms = max(0.8 * self._delay_ms, _SHORTEST_DELAY_MS)
                break
            if not more and self._delay_ms == _LONGEST_DELAY_MS:
                break  # a launch that waits for the device: no delay can help
            self._delay_ms = min(2.0 * self._delay_ms, _LONGEST_DELAY_MS)
        return good + late

    def _time_round(
        self,
        torch: Any,
        launch: Callable[[], None],
        n_launches: int,
        prepare: Callable[[], None] | None,
    ) -> tuple[list[float], list[float]]:
        """Time each launch once; give good durations and those with a wait apart."""
        stream = torch.cuda.current_stream()
        events = self._get_events(torch, n_launches)
        flush = self._buffer.zero_
        is_late = []
        self._enqueue_delay(torch)
        for begin, end in events:
            if prepare is not None:
                prepare()
            flush()
            begin.record(stream)
            launch()
            end.record(stream)
            is_late.append(begin.query())
        events[-1][1].synchronize()
        good: list[float] = []
        late: list[float] = []
        for (begin, end), has_waited in zip(events, is_late, strict=True):
            (late if has_waited else good).append(begin.elapsed_time(end))
        return good, late

    def _get_events(self, torch: Any, n_launches: int) -> list[tuple[Any, Any]]:
        while len(self._events) < n_launches:
            begin = torch.cuda.Event(enable_timing=True)
            end = torch.cuda.Event(enable_timing=True)
            self._events.append((begin, end))
        return self._events[:n_launches]

    def _enqueue_delay(self, torch: Any) -> None:
        sleep = getattr(torch.cuda, "_sleep", None)
        if sleep is not None:
            sleep(int(self._delay_ms * _CYCLES_PER_MS))
            return
        n_flushes = min(math.ceil(self._delay_ms / _FLUSH_MS), _MOST_DELAY_FLUSHES)
        for _ in range(n_flushes):
            self._buffer.zero_()


def _make_buffer(torch: Any) -> Any:
    """Allocate what, once written, leaves nothing else in the current device's L2."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    cache_bytes = getattr(properties, "L2_cache_size", 0)
    n_bytes = min(2 * cache_bytes, _LARGEST_FLUSH_BYTES) or _LARGEST_FLUSH_BYTES
    return torch.empty(n_bytes // 4, dtype=torch.int32, device="cuda")
