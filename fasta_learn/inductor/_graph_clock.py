"""A clock for short kernels: launches replayed from a CUDA graph, on an own stream."""

import contextlib
import itertools
import logging
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fasta_learn._compat import import_extra
from fasta_learn.inductor._replays import Pair, Replay, split_replays
from fasta_learn.oracles._cuda_clock import _make_buffer
from fasta_learn.oracles._timing import TimingPlan

_log = logging.getLogger("fasta_learn.inductor")

GRAPH_PLAN = TimingPlan(
    relative_error=0.004, n_warmup=1, min_launches=5, max_launches=20, max_ms=15.0
)
"""How a choice is timed by `GraphClock`: a few ms, about 20 ms at most."""

_MOST_LAUNCHES = 32
_SHORTEST_DELAY_MS = 0.1
_LONGEST_DELAY_MS = 32.0
_MOST_ROUNDS = 4
# About the boost clock of current devices. At a lower clock the delay is longer.
_CYCLES_PER_MS = 2_000_000
# About what one flush takes, for devices without a delay of their own.
_FLUSH_MS = 0.05
_FEWEST_BARE = 5
# A finals' round goes over a handful of choices again and again.
_MOST_KEPT = 12
_MOST_FAILURES = 3
# A launch that took longer than this is alone in its replay.
_SLOW_MS = 20.0
# No kernel is that short: where it seems so, the launch went to another stream.
_NOTHING_MS = 0.0003
# Torch's allocator goes on asking a capture that failed, so it must not be freed.
_failed_captures: list[Any] = []


class GraphClock:
    """Time launches by replaying them from a CUDA graph, each with a cold L2 cache.

    A graph holds several launches, each behind a flush of the cache, and a second one
    the same flushes alone. What the first takes longer, divided by its launches, is the
    duration of one: free of what the host does, of the events and of their resolution,
    and with its share of the memory traffic, whether that is paid at once or by the
    flush that follows.

    Parameters
    ----------
    device : int or str or torch.device or None, default=None
        The device; None is the one that is current at the first use.
    flush : bool, default=True
        Whether the cache is flushed before each launch. Without it a launch finds what
        the one before has left there.
    replay_ms : float, default=0.5
        About how long one replay takes on the device, in ms, where a launch is shorter.

    Attributes
    ----------
    device, flush, replay_ms
        As given.

    See Also
    --------
    fasta_learn.oracles._timing.time_launches : Decides how often to replay;
        `GRAPH_PLAN` suits it.

    Notes
    -----
    A launch that can't be captured is launched from the host instead, behind the same
    flushes and a delay, and counted by the same difference.

    Buffer and graphs live until `close`, so a search closes its clock when it ends:
    torch's own CUDA graphs don't expect memory to stay allocated behind their back.

    Examples
    --------
    >>> from fasta_learn.inductor._graph_clock import GraphClock
    >>> with GraphClock(0) as clock:  # nothing is allocated before the first batch
    ...     clock.device
    0
    """

    def __init__(
        self, device: Any = None, *, flush: bool = True, replay_ms: float = 0.5
    ) -> None:
        self.device = device
        self.flush = flush
        self.replay_ms = replay_ms
        self._index: int | None = None
        self._stream: Any = None
        self._buffer: Any = None
        self._pool: Any = None
        self._events: list[Any] = []
        self._pairs: OrderedDict[tuple[int, int], Pair] = OrderedDict()
        self._flushes: dict[tuple[int, bool], Replay] = {}
        self._delay_ms = _SHORTEST_DELAY_MS
        self._n_failures = 0

    def time_batch(
        self,
        launch: Callable[[], Any],
        n_launches: int,
        prepare: Callable[[], Any] | None = None,
    ) -> NDArray[np.float64]:
        """Time replays; each gives the mean duration of its launches.

        Parameters
        ----------
        launch : callable
            Enqueues the kernel on the stream that is current *when it is called*, and
            allocates nothing. A launcher that has to be handed a stream, or fetches one
            as it is built, is built within `on_stream`. The graphs of the last launches
            are kept, so the same object costs less the next time.
        n_launches : int
            How many durations are wanted.
        prepare : callable or None, default=None
            Called before each launch and before the flush; what it enqueues is not
            timed.

        Returns
        -------
        ndarray of shape (n_launches,)
            Mean duration of a launch in each replay, in ms.

        Raises
        ------
        MissingExtraError
            torch is not installed.
        RuntimeError
            The current stream is being captured into a CUDA graph, or the launch
            enqueued nothing on the current stream.
        Exception
            What the launch, or the device while it runs, fails with.
        """
        torch = import_extra("torch", "torch")
        with self.on_stream():
            pair = self._get_pair(torch, launch, prepare)
            durations = self._time_pair(torch, pair, n_launches)
            if not pair.is_checked and n_launches:
                pair.is_checked = True
                if np.median(durations) < _NOTHING_MS:
                    self._check_not_empty(torch, launch)
        return durations

    @contextlib.contextmanager
    def on_stream(self) -> Iterator[Any]:
        """Make the clock's stream and its device the current ones.

        Yields
        ------
        torch.cuda.Stream
            The stream. It waits for what was enqueued on the current one, and that in
            turn for what is enqueued within.

        Raises
        ------
        MissingExtraError
            torch is not installed.
        RuntimeError
            The current stream is being captured into a CUDA graph.
        """
        torch = import_extra("torch", "torch")
        device = self.device if self._index is None else self._index
        with torch.cuda.device(device):
            if torch.cuda.is_current_stream_capturing():
                raise RuntimeError(
                    "configs can't be timed while the current stream is captured into "
                    "a CUDA graph; tune first (call the function once), then capture."
                )
            if self._stream is None:
                self._index = torch.cuda.current_device()
                self._stream = torch.cuda.Stream()
            before = torch.cuda.current_stream()
            if before == self._stream:
                yield self._stream
                return
            self._stream.wait_stream(before)
            with torch.cuda.stream(self._stream):
                yield self._stream
            before.wait_stream(self._stream)

    def close(self) -> None:
        """Drop the graphs, the buffer and the events; a later batch gets new ones."""
        self._pairs.clear()
        self._flushes.clear()
        self._events = []
        self._buffer = self._pool = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _time_pair(
        self, torch: Any, pair: Pair, n_launches: int
    ) -> NDArray[np.float64]:
        full, bare = pair.full, pair.bare
        if bare is None:
            return self._time_replays(torch, [full] * n_launches) / full.n_launches
        n_bare = max(1, _FEWEST_BARE - len(bare.durations))
        # The bare replays come first, so that they warm the device up for the others.
        replays = [bare] * n_bare + [full] * n_launches
        durations = self._time_replays(torch, replays)
        bare.durations.extend(durations[:n_bare])
        rest = durations[n_bare:] - np.median(bare.durations)
        return np.maximum(rest / full.n_launches, 1e-6)

    def _get_pair(
        self,
        torch: Any,
        launch: Callable[[], Any],
        prepare: Callable[[], Any] | None,
    ) -> Pair:
        """Capture a launch, or find it where it was among the last ones."""
        key = (id(launch), id(prepare))
        pair = self._pairs.get(key)
        if pair is None:
            if self._buffer is None and self.flush:
                self._buffer = _make_buffer(torch)
            before = [prepare] if prepare is not None else []
            before += [self._buffer.zero_] if self.flush else []
            n_launches = self._choose_n(torch, launch, before)
            full = self._capture(torch, [*before, launch], n_launches)
            bare = self._get_bare(torch, before, full, prepare is None)
            pair = self._pairs[key] = Pair(full, bare, (launch, prepare))
            while len(self._pairs) > _MOST_KEPT:
                self._pairs.popitem(last=False)
        self._pairs.move_to_end(key)
        return pair

    def _get_bare(
        self, torch: Any, before: list[Any], full: Replay, is_shared: bool
    ) -> Replay | None:
        """Capture what precedes the launches; the flushes alone serve all launches."""
        if not before:
            return None
        key = (full.n_launches, full.is_graph)
        bare = self._flushes.get(key) if is_shared else None
        if bare is None:
            bare = self._capture(torch, before, full.n_launches, full.is_graph)
        if is_shared:
            self._flushes[key] = bare
        return bare

    def _choose_n(
        self, torch: Any, launch: Callable[[], Any], before: list[Any]
    ) -> int:
        """Launch for the first time, see how long it takes, and fill a replay."""
        for is_last in (False, True):  # the first may load libraries
            started = time.perf_counter()
            for call in [*before, launch]:
                call()
            self._stream.synchronize()
            if (time.perf_counter() - started) * 1e3 < _SLOW_MS:
                break
            if is_last:
                return 1
        begin, end = self._get_events(torch, 2)
        self._enqueue_delay(torch)
        begin.record(self._stream)
        for call in [*before, launch]:
            call()
        end.record(self._stream)
        end.synchronize()
        n_launches = self.replay_ms / max(begin.elapsed_time(end), 1e-3)
        # A power of two, so that launches of about the same length share the flushes.
        return int(2 ** np.floor(np.log2(np.clip(n_launches, 1, _MOST_LAUNCHES))))

    def _capture(
        self, torch: Any, calls: list[Any], n_launches: int, as_graph: bool = True
    ) -> Replay:
        def enqueue() -> None:
            for _ in range(n_launches):
                for call in calls:
                    call()

        if not as_graph or self._n_failures >= _MOST_FAILURES:
            return Replay(enqueue, n_launches, False)
        graph = torch.cuda.CUDAGraph()
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        try:
            # Errors of other threads are no concern of this capture.
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                enqueue()
            finally:
                graph.capture_end()
        except Exception as error:
            _log.debug("a launch can't be captured, so the host launches it: %s", error)
            self._n_failures += 1
            self._pool = None  # the allocator may still be recording into it
            _failed_captures.append(graph)
            self._stream.synchronize()
            return Replay(enqueue, n_launches, False)
        return Replay(graph.replay, n_launches, True)

    def _check_not_empty(self, torch: Any, launch: Callable[[], Any]) -> None:
        """Raise if a capture of the launch holds nothing, which torch warns of."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            replay = self._capture(torch, [launch], 1)
        if replay.is_graph and any("empty" in str(item.message) for item in caught):
            raise RuntimeError(
                "the launch enqueued nothing on the current stream; it must fetch its "
                "stream when it is called, or be built within on_stream()."
            )

    def _time_replays(self, torch: Any, replays: list[Replay]) -> NDArray[np.float64]:
        """Time replays in order; repeat those for which the device waited."""
        durations = np.zeros(len(replays))
        left = list(range(len(replays)))
        for _ in range(_MOST_ROUNDS):
            late: list[int] = []
            for part in split_replays(left, replays):
                chosen = [replays[position] for position in part]
                durations[part], is_late = self._time_part(torch, chosen)
                late += [p for p, waited in zip(part, is_late, strict=True) if waited]
            if not late:
                self._delay_ms = max(0.8 * self._delay_ms, _SHORTEST_DELAY_MS)
                break
            self._delay_ms = min(2.0 * self._delay_ms, _LONGEST_DELAY_MS)
            left = late
        return durations

    def _time_part(
        self, torch: Any, replays: list[Replay]
    ) -> tuple[list[float], list[bool]]:
        """Enqueue replays behind one delay; tell for which of them the device waited.

        It did, or may have, where the begin was reached when the end was enqueued.
        """
        events = self._get_events(torch, len(replays) + 1)
        is_late = []
        self._enqueue_delay(torch)
        events[0].record(self._stream)
        for replay, (begin, end) in zip(
            replays, itertools.pairwise(events), strict=True
        ):
            replay.enqueue()
            end.record(self._stream)
            is_late.append(begin.query())
        events[-1].synchronize()
        pairs = itertools.pairwise(events)
        return [begin.elapsed_time(end) for begin, end in pairs], is_late

    def _get_events(self, torch: Any, n_events: int) -> list[Any]:
        while len(self._events) < n_events:
            self._events.append(torch.cuda.Event(enable_timing=True))
        return self._events[:n_events]

    def _enqueue_delay(self, torch: Any) -> None:
        sleep = getattr(torch.cuda, "_sleep", None)
        if sleep is not None:
            sleep(int(self._delay_ms * _CYCLES_PER_MS))
        elif self._buffer is not None:
            for _ in range(int(np.ceil(self._delay_ms / _FLUSH_MS))):
                self._buffer.zero_()
