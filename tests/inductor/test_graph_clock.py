import inspect
import logging
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fasta_learn.exceptions import MissingExtraError
from fasta_learn.inductor._graph_clock import GRAPH_PLAN, GraphClock
from fasta_learn.oracles._timing import time_launches

sys.path.insert(0, str(Path(__file__).parent))
from simulated_graphs import REPLAY_MS, SimulatedGraph, SimulatedStream, SimulatedTorch


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
