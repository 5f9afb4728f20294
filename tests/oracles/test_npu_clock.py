import types

import pytest
from numpy.testing import assert_array_equal

from fasta_learn.oracles import _npu_clock
from fasta_learn.oracles._npu_clock import NPUClock


class SimulatedNPU:
    """As torch.npu: what is enqueued takes its time at once, and is written down."""

    def __init__(self):
        self.now, self.log, self.is_capturing = 0.0, [], False

    def enqueue(self, what, ms):
        self.log.append(what)
        self.now += ms

    def is_current_stream_capturing(self):
        return self.is_capturing

    def synchronize(self):
        self.log.append("wait")

    def Event(self, enable_timing):
        assert enable_timing
        event = types.SimpleNamespace(at=None)
        event.record = lambda: setattr(event, "at", self.now)
        event.elapsed_time = lambda end: end.at - event.at
        return event


@pytest.fixture
def npu(monkeypatch):
    npu = SimulatedNPU()
    buffer = types.SimpleNamespace(zero_=lambda: npu.enqueue("flush", 0.2))
    monkeypatch.setattr(_npu_clock, "import_npu", lambda: npu)
    monkeypatch.setattr(_npu_clock, "_make_buffer", lambda npu, device: buffer)
    return npu


def test_only_the_launch_is_timed(npu):
    durations = NPUClock().time_batch(
        lambda: npu.enqueue("launch", 1.5), 2, lambda: npu.enqueue("prepare", 7.0)
    )
    assert_array_equal(durations.round(9), [1.5, 1.5])
    assert npu.log == ["prepare", "flush", "launch"] * 2 + ["wait"]


def test_queue_of_the_stream_is_not_filled_up(npu):
    assert len(NPUClock().time_batch(lambda: npu.enqueue("launch", 1.0), 70)) == 70
    n_queued = [part.count("launch") for part in " ".join(npu.log).split("wait")]
    assert n_queued == [32, 32, 6, 0]


def test_capture_of_a_graph_is_not_disturbed(npu):
    npu.is_capturing = True
    with pytest.raises(RuntimeError, match="captured into a graph"):
        NPUClock().time_batch(lambda: npu.enqueue("launch", 1.0), 1)
    assert not npu.log


def test_closed_clock_opens_again(npu):
    clock = NPUClock()
    for _ in range(2):
        clock.time_batch(lambda: npu.enqueue("launch", 1.0), 1)
        clock.close()
    assert npu.log.count("flush") == 2
