import contextlib
import sys
import types

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fasta_learn.exceptions import MissingExtraError
from fasta_learn.oracles import _cuda_clock
from fasta_learn.oracles._cuda_clock import CudaClock

HOST_MS = 0.002  # what each call costs the host
FLUSH_MS = 0.04
KERNEL_MS = 0.005
CYCLES_PER_MS = 2_000_000


class Stream:
    """Operations in order; each starts when enqueued and the one before has ended."""

    def __init__(self):
        self.host = self.free = 0.0
        self.log = []

    def enqueue(self, name, device_ms, host_ms=HOST_MS):
        self.host += host_ms
        self.free = max(self.free, self.host) + device_ms
        self.log.append(name)


class SimulatedEvent:
    def __init__(self, torch, enable_timing):
        assert enable_timing
        self.cuda = torch.cuda
        self.device = torch.cuda.current

    def record(self, stream):
        assert stream is self.cuda.streams[self.device]
        stream.enqueue("event", 0.0)
        self.stream, self.time = stream, stream.free

    def query(self):
        return self.time <= self.stream.host

    def synchronize(self):
        self.stream.host = max(self.stream.host, self.time)
        self.stream.log.append("wait")

    def elapsed_time(self, end):
        return end.time - self.time


class SimulatedBuffer:
    def __init__(self, torch, n_elements, dtype):
        self.cuda = torch.cuda
        self.n_bytes = n_elements * dtype.itemsize
        self.device = torch.cuda.current
        torch.allocated.append(self)

    def zero_(self):
        self.cuda.streams[self.device].enqueue("flush", FLUSH_MS)

    def __del__(self):
        self.cuda.freed += 1


class SimulatedCuda(types.SimpleNamespace):
    """torch.cuda with one simulated stream a device."""

    def __init__(self, l2_bytes):
        super().__init__(current=0, capturing=False, freed=0, delays=[])
        self.streams = [Stream(), Stream()]
        if l2_bytes is not None:
            self.properties = types.SimpleNamespace(L2_cache_size=l2_bytes)
        else:
            self.properties = types.SimpleNamespace()

    @contextlib.contextmanager
    def device(self, device):
        before = self.current
        self.current = before if device is None else device
        yield
        self.current = before

    def current_device(self):
        return self.current

    def current_stream(self):
        return self.streams[self.current]

    def get_device_properties(self, device):
        return self.properties

    def is_current_stream_capturing(self):
        return self.capturing

    def _sleep(self, cycles):
        self.delays.append(cycles / CYCLES_PER_MS)
        self.current_stream().enqueue("delay", cycles / CYCLES_PER_MS)


class SimulatedTorch(types.ModuleType):
    int32 = types.SimpleNamespace(itemsize=4)

    def __init__(self, l2_bytes):
        super().__init__("torch")
        self.allocated = []
        self.cuda = SimulatedCuda(l2_bytes)
        self.cuda.Event = lambda enable_timing: SimulatedEvent(self, enable_timing)

    def empty(self, n_elements, dtype, device):
        assert device == "cuda"
        return SimulatedBuffer(self, n_elements, dtype)

    def kernel(self, device_ms=KERNEL_MS, hiccup_of=None):
        """Give a launch; its n-th call holds the host up for hiccup_of(n) ms."""
        calls = []

        def launch():
            calls.append(1)
            stream = self.cuda.current_stream()
            stream.host += hiccup_of(len(calls)) if hiccup_of else 0.0
            stream.enqueue("kernel", device_ms)

        launch.calls = calls
        return launch


@pytest.fixture
def install(monkeypatch):
    def install(l2_bytes=50 * 1024**2):
        torch = SimulatedTorch(l2_bytes)
        monkeypatch.setitem(sys.modules, "torch", torch)
        return torch

    return install


@pytest.fixture
def torch(install):
    return install()


def test_calls_are_in_this_order(torch):
    def prepare():
        torch.cuda.current_stream().enqueue("prepare", 0.01)

    CudaClock(0).time_batch(torch.kernel(), 2, prepare)
    once = ["prepare", "flush", "event", "kernel", "event"]
    assert torch.cuda.streams[0].log == ["delay", *once, *once, "wait"]


def test_only_the_kernel_is_timed(torch):
    def prepare():
        torch.cuda.current_stream().enqueue("prepare", 3.0)

    durations = CudaClock(0).time_batch(torch.kernel(), 5, prepare)
    assert_allclose(durations, np.full(5, KERNEL_MS))


def test_a_kernel_shorter_than_its_launch_is_timed_right(torch):
    # Without the delay, the device would wait for the host between the events.
    kernel = torch.kernel(0.001, hiccup_of=lambda n: 0.03)
    assert_allclose(CudaClock(0).time_batch(kernel, 10), np.full(10, 0.001))


def test_launches_that_waited_for_the_host_are_timed_again(torch):
    kernel = torch.kernel(hiccup_of=lambda n: 2.0 if n == 3 else 0.0)
    durations = CudaClock(0).time_batch(kernel, 7)
    assert_allclose(durations, np.full(7, KERNEL_MS))
    assert len(kernel.calls) == 8


def test_delay_doubles_while_launches_wait(torch):
    kernel = torch.kernel(hiccup_of=lambda n: 3.0 if n <= 3 else 0.0)
    CudaClock(0).time_batch(kernel, 1)
    assert_allclose(torch.cuda.delays, [0.5, 1.0, 2.0, 4.0])


def test_a_longer_delay_covers_a_slow_host(torch):
    kernel = torch.kernel(hiccup_of=lambda n: 1.0)
    durations = CudaClock(0).time_batch(kernel, 8)
    assert_allclose(durations, np.full(8, KERNEL_MS))


def test_delay_shrinks_again_down_to_the_shortest(torch):
    clock = CudaClock(0)
    kernel = torch.kernel(hiccup_of=lambda n: 0.8 if n == 1 else 0.0)
    for _ in range(8):
        clock.time_batch(kernel, 1)
    assert_allclose(torch.cuda.delays[:4], [0.5, 1.0, 0.8, 0.64])
    assert torch.cuda.delays[-1] == 0.5


def test_delay_is_bounded(torch):
    clock = CudaClock(0)
    waiting = torch.kernel(hiccup_of=lambda n: 500.0)
    for _ in range(4):
        clock.time_batch(waiting, 1)
    assert max(torch.cuda.delays) == 32.0


def test_a_launch_that_always_waits_is_not_repeated_for_ever(torch):
    clock = CudaClock(0)
    waiting = torch.kernel(hiccup_of=lambda n: 500.0)
    assert len(clock.time_batch(waiting, 3)) == 3
    assert len(waiting.calls) == 6 * 3
    clock.time_batch(waiting, 3)
    assert len(waiting.calls) == 7 * 3


def test_good_launches_are_kept_where_others_always_wait(torch):
    # Every second call is late, whatever the delay.
    kernel = torch.kernel(hiccup_of=lambda n: 500.0 * (n % 2))
    clock = CudaClock(0)
    for _ in range(3):
        durations = clock.time_batch(kernel, 8)
        assert len(durations) == 8
        assert_allclose(np.median(durations), KERNEL_MS)
    assert max(torch.cuda.delays) == 32.0


def test_many_launches_are_enqueued_in_parts(torch):
    durations = CudaClock(0).time_batch(torch.kernel(), 100)
    assert len(durations) == 100
    log = torch.cuda.streams[0].log
    parts = " ".join(log).split("wait")[:-1]
    assert [part.count("kernel") for part in parts] == [32, 32, 32, 4]


def test_no_launches_are_no_durations(torch):
    kernel = torch.kernel()
    assert CudaClock(0).time_batch(kernel, 0).shape == (0,)
    assert not kernel.calls


def test_durations_are_float64(torch):
    assert CudaClock(0).time_batch(torch.kernel(), 2).dtype == np.float64


@pytest.mark.parametrize(
    ("l2_bytes", "expected"),
    [
        (60 * 1024**2, 120 * 1024**2),
        (200 * 1024**2, 256 * 1024**2),
        (0, 256 * 1024**2),
        (None, 256 * 1024**2),
    ],
)
def test_flush_buffer_is_twice_the_cache_within_bounds(install, l2_bytes, expected):
    torch = install(l2_bytes)
    CudaClock(0).time_batch(torch.kernel(), 1)
    assert [buffer.n_bytes for buffer in torch.allocated] == [expected]


def test_nothing_is_allocated_before_the_first_batch(torch):
    CudaClock(0)
    assert torch.allocated == []


def test_the_buffer_serves_all_batches(torch):
    clock = CudaClock(0)
    for _ in range(3):
        clock.time_batch(torch.kernel(), 2)
    assert len(torch.allocated) == 1


def test_close_releases_the_buffer(torch):
    clock = CudaClock(0)
    clock.time_batch(torch.kernel(), 1)
    torch.allocated.clear()
    assert torch.cuda.freed == 0
    clock.close()
    assert torch.cuda.freed == 1


def test_leaving_the_context_closes(torch):
    with CudaClock(0) as clock:
        clock.time_batch(torch.kernel(), 1)
        torch.allocated.clear()
    assert torch.cuda.freed == 1


def test_close_is_harmless_before_use_and_twice(torch):
    clock = CudaClock(0)
    clock.close()
    clock.close()
    assert_allclose(clock.time_batch(torch.kernel(), 1), [KERNEL_MS])


def test_the_given_device_is_used_and_the_current_one_restored(torch):
    CudaClock(1).time_batch(torch.kernel(), 1)
    assert torch.cuda.streams[1].log.count("kernel") == 1
    assert torch.cuda.streams[0].log == []
    assert torch.cuda.current == 0


def test_without_a_device_the_first_current_one_is_kept(torch):
    clock = CudaClock()
    torch.cuda.current = 1
    clock.time_batch(torch.kernel(), 1)
    torch.cuda.current = 0
    clock.time_batch(torch.kernel(), 1)
    assert torch.cuda.streams[1].log.count("kernel") == 2


def test_after_close_it_starts_anew_on_another_device(torch):
    clock = CudaClock()
    clock.time_batch(torch.kernel(), 1)
    clock.close()
    torch.cuda.current = 1
    assert_allclose(clock.time_batch(torch.kernel(), 1), [KERNEL_MS])
    assert torch.cuda.streams[1].log.count("kernel") == 1


def test_graph_capture_is_refused_before_anything_is_enqueued(torch):
    torch.cuda.capturing = True
    kernel = torch.kernel()
    with pytest.raises(RuntimeError, match="captured into a CUDA graph; tune first"):
        CudaClock(0).time_batch(kernel, 1)
    assert (kernel.calls, torch.allocated, torch.cuda.streams[0].log) == ([], [], [])


def test_without_sleep_flushes_are_the_delay(torch, monkeypatch):
    monkeypatch.delattr(SimulatedCuda, "_sleep")
    kernel = torch.kernel(0.001, hiccup_of=lambda n: 0.05)
    assert_allclose(CudaClock(0).time_batch(kernel, 4), np.full(4, 0.001))
    log = torch.cuda.streams[0].log
    assert log.index("event") == 10 + 1


def test_flushes_as_delay_do_not_fill_the_queue(torch, monkeypatch):
    monkeypatch.delattr(SimulatedCuda, "_sleep")
    clock = CudaClock(0)
    waiting = torch.kernel(hiccup_of=lambda n: 500.0)
    for _ in range(3):
        clock.time_batch(waiting, 1)
    parts = " ".join(torch.cuda.streams[0].log).split("wait")
    assert max(part.count("flush") for part in parts) == 401


def test_an_error_of_the_launch_comes_through(torch):
    def launch():
        raise RuntimeError("out of registers")

    with pytest.raises(RuntimeError, match="out of registers"):
        CudaClock(0).time_batch(launch, 1)


def test_missing_torch_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"fasta-learn\[torch\]"):
        CudaClock(0).time_batch(lambda: None, 1)


def test_constants_keep_a_batch_within_the_queue():
    # CUDA blocks the host at about 1024 operations; up to 8 of them are prepare.
    per_launch = 8 + 4
    most = _cuda_clock._MOST_QUEUED * per_launch + _cuda_clock._MOST_DELAY_FLUSHES
    assert most < 1024


def test_real_torch_has_every_name_that_is_used():
    import torch

    assert callable(torch.cuda._sleep)
    assert callable(torch.cuda.current_stream)
    assert callable(torch.cuda.is_current_stream_capturing)
    for name in ("record", "query", "synchronize", "elapsed_time"):
        assert callable(getattr(torch.cuda.Event, name))
