import contextlib
import inspect
import logging
import sys
import types
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fasta_learn.exceptions import MissingExtraError
from fasta_learn.inductor._graph_clock import GRAPH_PLAN, GraphClock
from fasta_learn.oracles._timing import time_launches

HOST_MS = 0.004  # what each call costs the host
FLUSH_MS = 0.04
REPLAY_MS = 0.002  # what a replay costs the device beyond what it holds
CYCLES_PER_MS = 2_000_000


class SimulatedStream:
    """Operations in order; each starts when enqueued and the one before has ended."""

    def __init__(self, cuda):
        self.cuda = cuda
        self.free = 0.0
        self.log = []
        self.captured = None

    def enqueue(self, name, device_ms, host_ms=HOST_MS):
        self.cuda.host += host_ms
        if self.captured is not None:
            self.captured.append((name, device_ms))
            return
        self.free = max(self.free, self.cuda.host) + device_ms
        self.log.append(name)

    def wait_stream(self, other):
        self.free = max(self.free, other.free)
        self.log.append("wait for stream")

    def synchronize(self):
        assert self.captured is None, "not allowed while the stream is captured"
        self.cuda.host = max(self.cuda.host, self.free)


class SimulatedEvent:
    def __init__(self, cuda):
        self.cuda = cuda

    def record(self, stream):
        assert stream is self.cuda.current
        stream.enqueue("event", 0.0)
        self.time = stream.free

    def query(self):
        return self.time <= self.cuda.host

    def synchronize(self):
        self.cuda.host = max(self.cuda.host, self.time)

    def elapsed_time(self, end):
        return end.time - self.time


class SimulatedGraph:
    def __init__(self, cuda):
        self.cuda = cuda
        cuda.graphs.append(self)

    def capture_begin(self, pool, capture_error_mode):
        assert capture_error_mode == "thread_local"
        assert pool not in self.cuda.broken_pools
        self.pool = pool
        self.stream = self.cuda.current
        self.stream.captured = []

    def capture_end(self):
        self.operations, self.stream.captured = self.stream.captured, None
        if self.cuda.fails_to_capture:
            self.cuda.broken_pools.append(self.pool)
            raise RuntimeError("operation failed due to a previous error")
        if not self.operations:
            warnings.warn("The CUDA Graph is empty.", stacklevel=1)

    def replay(self):
        assert self.cuda.current is self.stream
        self.cuda.host += HOST_MS
        stream = self.stream
        stream.free = max(stream.free, self.cuda.host) + REPLAY_MS
        for name, device_ms in self.operations:
            stream.free += device_ms
            stream.log.append(name)


class SimulatedBuffer:
    def __init__(self, cuda):
        self.cuda = cuda
        cuda.n_buffers += 1

    def zero_(self):
        self.cuda.current.enqueue("flush", FLUSH_MS)

    def __del__(self):
        self.cuda.n_buffers -= 1


class SimulatedCuda(types.SimpleNamespace):
    """torch.cuda with a clock of the host, which all streams share."""

    def __init__(self):
        super().__init__(host=0.0, devices=[], graphs=[], broken_pools=[], n_buffers=0)
        self.fails_to_capture = self.capturing = False
        self.n_pools = self.index = 0
        self.default = self.current = SimulatedStream(self)
        self.Stream = lambda: SimulatedStream(self)
        self.Event = lambda enable_timing: SimulatedEvent(self)
        self.CUDAGraph = lambda: SimulatedGraph(self)

    @contextlib.contextmanager
    def device(self, device):
        before, self.index = self.index, self.index if device is None else device
        yield
        self.index = before

    @contextlib.contextmanager
    def stream(self, stream):
        before, self.current = self.current, stream
        yield
        self.current = before

    def current_device(self):
        return self.index

    def current_stream(self):
        return self.current

    def is_current_stream_capturing(self):
        return self.capturing

    def get_device_properties(self, device):
        return types.SimpleNamespace(L2_cache_size=50 * 1024**2)

    def graph_pool_handle(self):
        self.n_pools += 1
        return self.n_pools

    def _sleep(self, cycles):
        self.current.enqueue("delay", cycles / CYCLES_PER_MS)


class SimulatedTorch(types.ModuleType):
    int32 = types.SimpleNamespace(itemsize=4)

    def __init__(self):
        super().__init__("torch")
        self.cuda = SimulatedCuda()

    def empty(self, n_elements, dtype, device):
        self.cuda.devices.append(self.cuda.index)
        return SimulatedBuffer(self.cuda)

    def kernel(self, device_ms, host_ms=HOST_MS, stream=None):
        """Give a launch; `calls` counts how often the host has made it."""

        def launch():
            launch.calls += 1
            (stream or self.cuda.current).enqueue("kernel", device_ms, host_ms)

        launch.calls = 0
        return launch


@pytest.fixture
def torch(monkeypatch):
    torch = SimulatedTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch


@pytest.mark.parametrize("kernel_ms", [0.001, 0.016, 0.2, 3.0, 40.0])
def test_only_the_kernel_is_timed(torch, kernel_ms):
    durations = GraphClock().time_batch(torch.kernel(kernel_ms), 6)
    assert_allclose(durations, np.full(6, kernel_ms))


def test_a_slow_host_does_not_count(torch):
    kernel = torch.kernel(0.005, host_ms=0.3)
    assert_allclose(GraphClock().time_batch(kernel, 5), np.full(5, 0.005))


def test_prepare_is_not_timed(torch):
    def prepare():
        torch.cuda.current.enqueue("prepare", 0.7)

    durations = GraphClock().time_batch(torch.kernel(0.02), 5, prepare)
    assert_allclose(durations, np.full(5, 0.02))


def test_a_launch_is_prepared_then_flushed(torch):
    def prepare():
        torch.cuda.current.enqueue("prepare", 0.7)

    clock = GraphClock()
    clock.time_batch(torch.kernel(0.02), 1, prepare)
    order = [name for name, _ in torch.cuda.graphs[0].operations]
    assert order[:3] == ["prepare", "flush", "kernel"]


def test_without_flush_launches_follow_each_other(torch):
    clock = GraphClock(flush=False)
    durations = clock.time_batch(torch.kernel(0.02), 4)
    (graph,) = torch.cuda.graphs
    n_launches = len(graph.operations)
    assert {name for name, _ in graph.operations} == {"kernel"}
    assert_allclose(durations, np.full(4, 0.02 + REPLAY_MS / n_launches))


@pytest.mark.parametrize(
    ("kernel_ms", "expected"),
    # .5 ms hold 11, 4.2, .4 and .05 launches of that length, each with a flush.
    [(0.005, 8), (0.08, 4), (1.2, 1), (9.0, 1)],
)
def test_launches_of_a_replay_are_a_power_of_two(torch, kernel_ms, expected):
    GraphClock().time_batch(torch.kernel(kernel_ms), 1)
    names = [name for name, _ in torch.cuda.graphs[0].operations]
    assert names.count("kernel") == expected


def test_launches_are_on_an_own_stream(torch):
    GraphClock().time_batch(torch.kernel(0.02), 3)
    assert torch.cuda.default.log == ["wait for stream"]
    assert torch.cuda.current is torch.cuda.default


def test_the_own_stream_waits_for_the_current_one(torch):
    torch.cuda.default.free = 5.0
    with GraphClock().on_stream() as stream:
        assert torch.cuda.current is stream
        assert stream.free == 5.0


def test_within_the_own_stream_it_is_kept(torch):
    clock = GraphClock()
    with clock.on_stream() as stream:
        clock.time_batch(torch.kernel(0.02), 3)
        assert torch.cuda.current is stream
    assert stream.log.count("wait for stream") == 1


def test_the_given_device_is_kept(torch):
    clock = GraphClock(3)
    clock.time_batch(torch.kernel(0.02), 1)
    assert torch.cuda.devices == [3]
    assert torch.cuda.index == 0


def test_without_a_device_the_first_current_one_is_kept(torch):
    clock = GraphClock()
    torch.cuda.index = 2
    clock.time_batch(torch.kernel(0.02), 1)
    torch.cuda.index = 0
    clock.close()
    clock.time_batch(torch.kernel(0.02), 1)
    assert torch.cuda.devices == [2, 2]


def test_a_launch_is_captured_once(torch):
    clock, kernel = GraphClock(), torch.kernel(0.02)
    clock.time_batch(kernel, 3)
    n_calls = kernel.calls
    clock.time_batch(kernel, 3)
    assert kernel.calls == n_calls


def test_flushes_are_captured_once_for_launches_of_a_length(torch):
    clock = GraphClock()
    for kernel_ms in (0.020, 0.021, 0.022):
        clock.time_batch(torch.kernel(kernel_ms), 1)
    assert len(torch.cuda.graphs) == 3 + 1


def test_graphs_of_launches_long_ago_are_dropped(torch):
    clock, first = GraphClock(), torch.kernel(0.02)
    clock.time_batch(first, 1)
    n_calls = first.calls
    others = [torch.kernel(0.02) for _ in range(12)]
    for other in others:
        clock.time_batch(other, 1)
    clock.time_batch(first, 1)
    assert first.calls == 2 * n_calls


def test_no_launches_are_no_durations(torch):
    assert GraphClock().time_batch(torch.kernel(0.02), 0).shape == (0,)


def test_many_replays_are_enqueued_in_parts(torch):
    clock = GraphClock()
    durations = clock.time_batch(torch.kernel(0.02), 100)
    assert_allclose(durations, np.full(100, 0.02))
    parts = " ".join(clock._stream.log).split("delay")[2:]
    assert max(part.count("event") for part in parts) == 32 + 1


def test_replays_that_waited_for_the_host_are_repeated(torch, monkeypatch):
    replay, calls = SimulatedGraph.replay, []

    def slow_replay(graph):
        calls.append(graph)
        torch.cuda.host += 9.0 if len(calls) == 7 else 0.0
        replay(graph)

    monkeypatch.setattr(SimulatedGraph, "replay", slow_replay)
    durations = GraphClock().time_batch(torch.kernel(0.02), 5)
    assert_allclose(durations, np.full(5, 0.02))
    assert len(calls) > 10


def test_what_can_not_be_captured_is_launched_by_the_host(torch, caplog):
    torch.cuda.fails_to_capture = True
    caplog.set_level(logging.DEBUG, logger="fasta_learn.inductor")
    durations = GraphClock().time_batch(torch.kernel(0.02), 5)
    assert_allclose(durations, np.full(5, 0.02))
    assert "can't be captured" in caplog.text


def test_a_launch_that_fails_in_a_capture_is_launched_by_the_host(torch):
    def launch():
        if torch.cuda.current.captured is not None:
            raise RuntimeError("not permitted when stream is capturing")
        torch.cuda.current.enqueue("kernel", 0.03)

    assert_allclose(GraphClock().time_batch(launch, 5), np.full(5, 0.03))


def test_a_capture_that_failed_costs_the_next_launch_nothing(torch):
    clock = GraphClock()
    torch.cuda.fails_to_capture = True
    clock.time_batch(torch.kernel(0.02), 1)
    torch.cuda.fails_to_capture = False
    kernel = torch.kernel(0.05)
    assert_allclose(clock.time_batch(kernel, 3), np.full(3, 0.05))


def test_captures_are_given_up_after_three_failures(torch):
    clock = GraphClock()
    torch.cuda.fails_to_capture = True
    for _ in range(5):
        clock.time_batch(torch.kernel(0.02), 1)
    assert len(torch.cuda.graphs) == 3


def test_a_launch_on_another_stream_is_an_error(torch):
    kernel = torch.kernel(0.02, stream=SimulatedStream(torch.cuda))
    with pytest.raises(RuntimeError, match="nothing on the current stream"):
        GraphClock().time_batch(kernel, 3)


def test_graph_capture_is_refused_before_anything_is_enqueued(torch):
    torch.cuda.capturing = True
    kernel = torch.kernel(0.02)
    with pytest.raises(RuntimeError, match="captured into a CUDA graph; tune first"):
        GraphClock().time_batch(kernel, 1)
    assert (kernel.calls, torch.cuda.devices) == (0, [])


def test_an_error_of_the_launch_comes_through(torch):
    def launch():
        raise RuntimeError("out of registers")

    with pytest.raises(RuntimeError, match="out of registers"):
        GraphClock().time_batch(launch, 1)


def test_close_releases_the_buffer(torch):
    with GraphClock() as clock:
        clock.time_batch(torch.kernel(0.02), 1)
        torch.cuda.graphs.clear()
        assert torch.cuda.n_buffers == 1
    assert torch.cuda.n_buffers == 0


def test_it_works_again_after_close(torch):
    clock, kernel = GraphClock(), torch.kernel(0.02)
    for _ in range(2):
        assert_allclose(clock.time_batch(kernel, 3), np.full(3, 0.02))
        clock.close()


def test_a_warm_cache_needs_no_buffer(torch):
    GraphClock(flush=False).time_batch(torch.kernel(0.02), 1)
    assert torch.cuda.devices == []


@pytest.mark.parametrize("kernel_ms", [0.003, 0.03, 0.3, 1.5])
def test_the_plan_takes_about_twenty_ms_at_most(torch, kernel_ms):
    clock = GraphClock()
    random = np.random.default_rng(0)

    def launch():
        torch.cuda.current.enqueue("kernel", kernel_ms * random.uniform(1, 1.2))

    timing = time_launches(launch, clock, GRAPH_PLAN)
    assert_allclose(timing.median, 1.1 * kernel_ms, rtol=0.1)
    assert torch.cuda.host < 20.0 + 4.0  # with the delays


def test_missing_torch_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"fasta-learn\[torch\]"):
        GraphClock().time_batch(lambda: None, 1)


def test_real_torch_has_every_name_that_is_used():
    import torch

    parameters = inspect.signature(torch.cuda.CUDAGraph.capture_begin).parameters
    assert {"pool", "capture_error_mode"} <= set(parameters)
    for name in ("capture_end", "replay"):
        assert callable(getattr(torch.cuda.CUDAGraph, name))
    for name in ("graph_pool_handle", "stream", "current_device", "_sleep"):
        assert callable(getattr(torch.cuda, name))
    for name in ("wait_stream", "synchronize"):
        assert callable(getattr(torch.cuda.Stream, name))
