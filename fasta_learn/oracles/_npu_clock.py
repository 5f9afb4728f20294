"""A clock for kernels on an Ascend NPU: device events and a cold L2 cache."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fasta_learn._compat import import_extra

_LARGEST_FLUSH_BYTES = 256 * 1024**2
# The queue of a stream is finite; a full one would make the host wait in between.
_MOST_QUEUED = 32


class NPUClock:
    """Time launches by events on the current stream.

    Before each launch a buffer is written that leaves nothing else in the L2 cache.
    Writing it takes the device longer than the host needs to enqueue a launch, so that
    the device does not wait for the host while it is timed.

    Parameters
    ----------
    device : int or None, default=None
        Index of the device; None is the current one.

    Attributes
    ----------
    device : int or None
        As given.

    Examples
    --------
    >>> from fasta_learn.oracles._npu_clock import NPUClock
    >>> with NPUClock(0) as clock:  # nothing is allocated before the first batch
    ...     clock.device
    0
    """

    def __init__(self, device: int | None = None) -> None:
        self.device = device
        self._buffer: Any = None
        self._events: list[tuple[Any, Any]] = []

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
            Enqueues the kernel once on the current stream.
        n_launches : int
            How often it is to be timed.
        prepare : callable or None, default=None
            Called before each launch and before the flush, untimed.

        Returns
        -------
        ndarray of shape (n_launches,)
            Duration of each launch on the device, in ms.

        Raises
        ------
        MissingExtraError
            torch_npu is not installed.
        RuntimeError
            The current stream is being captured into a graph.
        Exception
            What the launch, or the device while it runs, fails with.
        """
        npu = import_npu()
        if npu.is_current_stream_capturing():
            raise RuntimeError(
                "configs can't be timed while the current stream is captured into a "
                "graph; tune first (call the kernel once, or warm it up), then capture."
            )
        if self._buffer is None:
            self._buffer = _make_buffer(npu, self.device)
        durations: list[float] = []
        while len(durations) < n_launches:
            n_next = min(n_launches - len(durations), _MOST_QUEUED)
            durations += self._time_some(npu, launch, n_next, prepare)
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
        npu: Any,
        launch: Callable[[], None],
        n_launches: int,
        prepare: Callable[[], None] | None,
    ) -> list[float]:
        while len(self._events) < n_launches:
            made = (npu.Event(enable_timing=True), npu.Event(enable_timing=True))
            self._events.append(made)
        events = self._events[:n_launches]
        for begin, end in events:
            if prepare is not None:
                prepare()
            self._buffer.zero_()
            begin.record()
            launch()
            end.record()
        npu.synchronize()
        return [begin.elapsed_time(end) for begin, end in events]


def import_npu() -> Any:
    """Give ``torch.npu``.

    Returns
    -------
    module
        With streams, events and devices.

    Raises
    ------
    MissingExtraError
        torch or torch_npu is not installed.
    """
    torch = import_extra("torch", "npu")
    import_extra("torch_npu", "npu")
    return torch.npu


def _make_buffer(npu: Any, device: int | None) -> Any:
    """Allocate what, once written, leaves nothing else in the device's L2."""
    torch = import_extra("torch", "npu")
    index = npu.current_device() if device is None else device
    cache_bytes = getattr(npu.get_device_properties(index), "L2_cache_size", 0)
    n_bytes = min(2 * cache_bytes, _LARGEST_FLUSH_BYTES) or _LARGEST_FLUSH_BYTES
    return torch.empty(n_bytes // 4, dtype=torch.int32, device=f"npu:{index}")
