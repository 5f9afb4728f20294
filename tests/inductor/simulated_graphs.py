"""Streams, events and graphs of a simulated torch, with a clock for the host."""

import contextlib
import types
import warnings

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
