"""A Triton driver for machines without a GPU: real compiles, simulated launches.

Kernels are compiled for compute capability 9.0 by Triton's own compiler, ptxas
included. Loading, launching and time are simulated: a launch moves a clock on by a
given duration, may fail in a given way, and may compute the kernel's result in Python.
"""

import contextlib
import struct
import tempfile
import threading
from types import SimpleNamespace

import numpy as np
import torch
import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import compiler as triton_compiler

H200 = {
    "max_shared_mem": 232448,
    "max_num_regs": 65536,
    "multiprocessor_count": 132,
    "warpSize": 32,
    "sm_clock_rate": 1980000,
    "mem_clock_rate": 3201000,
    "mem_bus_width": 6144,
}
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")


class StickyError(RuntimeError):
    """An error after which the simulated context can't be used any more."""


def illegal_access():
    """Give the error of an out-of-bounds access, in PyTorch's words."""
    return StickyError(
        "CUDA error: an illegal memory access was encountered\n"
        "Search for `cudaErrorIllegalAddress' in the manual for more information.\n"
        "CUDA kernel errors might be asynchronously reported at some other API call, "
        "so the stacktrace below might be incorrect."
    )


class SimulatedCuda:
    """One host with simulated devices; a context manager. See the module.

    Parameters
    ----------
    duration : float or callable
        Duration of a launch in ms, or a function that gives it for a config: a dict
        of all constexprs, num_warps, num_stages, num_ctas and, if set, maxnreg.
    compute : callable, optional
        Writes the kernel's result into the tensors of the dict of arguments.
    fault : callable, optional
        Called with config and stage ("load", "launch", "run"); what it raises in
        "run" comes out of the next call that waits for the device.
    limits : dict, optional
        Properties of the device that differ from an H200's.
    cache_dir : path, optional
        Folder of compiled kernels; by default a temporary one.
    n_devices : int
        How many devices there are.
    """

    def __init__(
        self,
        duration=1.0,
        *,
        compute=None,
        fault=None,
        limits=None,
        cache_dir=None,
        n_devices=1,
    ):
        self.duration = duration if callable(duration) else lambda config: duration
        self.compute = compute
        self.fault = fault or (lambda config, stage: None)
        self.properties = {**H200, **(limits or {})}
        self.n_devices = n_devices
        self.clock = SimulatedClock()
        self.launches, self.compiles, self.loads = [], [], []
        self.broken = self._pending = None
        self._cache_dir = cache_dir
        self._kernels = set()
        self._exits = contextlib.ExitStack()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        cache_dir = self._cache_dir
        if cache_dir is None:
            cache_dir = self._exits.enter_context(tempfile.TemporaryDirectory())
        self._exits.enter_context(knobs.cache.scope())
        self._exits.enter_context(knobs.compilation.scope())
        knobs.cache.dir = str(cache_dir)
        knobs.compilation.listener = self._hear_of_compile
        triton_compiler.max_shared_mem.cache_clear()
        self._exits.callback(self._restore_driver, triton.runtime.driver._active)
        triton.runtime.driver.set_active(SimulatedDriver(self))

    def stop(self):
        self._exits.close()

    def synchronize(self):
        """Wait for the device; raise what asynchronous launches left."""
        pending, self._pending = self._pending, None
        if error := self.broken or pending:
            raise error

    def load(self, config):
        self.synchronize()
        self._do(config, "load")
        self.loads.append(config)

    def launch(self, config, arguments):
        self.synchronize()
        self._do(config, "launch")
        self.launches.append(config)
        try:
            self._do(config, "run")
        except Exception as error:
            self._pending = error
            return
        if self.compute is not None:
            self.compute(arguments)
        self.clock.now += self.duration(config)

    def _do(self, config, stage):
        try:
            self.fault(config, stage)
        except StickyError as error:
            self.broken = error
            raise

    def _hear_of_compile(self, *, src, metadata, cache_hit, **_):
        self._kernels.add(src.fn)
        self.compiles.append((config_of(src, metadata), cache_hit))

    def _restore_driver(self, previous):
        for kernel in self._kernels:
            kernel.device_caches.clear()
        triton_compiler.max_shared_mem.cache_clear()
        # Kernels that are still referenced unload through the driver when they go.
        triton.runtime.driver.set_active(previous or _AbsentDriver())


def config_of(src, metadata):
    """Give constexprs and options of a compiled kernel as one dict."""
    config = {
        src.fn.params[path[0]].name: value
        for path, value in src.constants.items()
        if src.fn.params[path[0]].is_constexpr
    }
    options = {name: metadata.get(name) for name in _OPTIONS}
    return config | {name: v for name, v in options.items() if v is not None}


class SimulatedClock:
    """Time in ms that only launches move on; follows fasta_learn's Clock protocol."""

    def __init__(self):
        self.now = 0.0

    def time_batch(self, launch, n_launches, prepare=None):
        durations = np.empty(n_launches)
        for i in range(n_launches):
            if prepare is not None:
                prepare()
            start = self.now
            launch()
            durations[i] = self.now - start
        return durations


class SimulatedDriver:
    """What Triton asks of a driver."""

    launcher_cls = None  # set below: the class needs no driver

    def __init__(self, cuda):
        self.cuda = cuda
        self.utils = _Utils(cuda)
        # As in CUDA, every thread has its own current device.
        self._current = threading.local()

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_device_capability(self, device=None):
        return (9, 0)

    def get_current_device(self):
        return getattr(self._current, "device", 0)

    def set_current_device(self, device):
        if not 0 <= device < self.cuda.n_devices:
            raise RuntimeError("CUDA error: invalid device ordinal")
        self._current.device = device

    def get_current_stream(self, device=None):
        return 0

    def get_active_torch_device(self):
        return torch.device("cpu")

    def get_device_interface(self):
        return _DeviceInterface(self)

    def get_benchmarker(self):
        def bench(call, *, quantiles=(0.5,), **_):
            durations = self.cuda.clock.time_batch(call, 3)
            self.cuda.synchronize()
            return np.quantile(durations, quantiles).tolist()

        return bench

    def get_empty_cache_for_benchmark(self):
        return torch.empty(1)

    def clear_cache(self, cache):
        cache.zero_()

    def assemble_tensormap_to_arg(self, tensormaps_info, args):
        return args


class _AbsentDriver:
    """Stands where no driver is active, for kernels that outlive a simulation."""

    utils = SimpleNamespace(unload_module=lambda module: None)

    def __getattr__(self, name):
        raise RuntimeError("0 active drivers ([]). There should only be one.")


class _Launcher:
    def __init__(self, src, metadata):
        self._names = src.fn.arg_names
        self._config = config_of(src, metadata._asdict())
        # Triton makes the launcher right before it loads the kernel.
        triton.runtime.driver.active.utils.loading = self._config

    def __call__(
        self, x, y, z, stream, function, packed, metadata, enter, leave, *args
    ):
        if enter is not None:
            enter(metadata)
        arguments = dict(zip(self._names, args, strict=True))
        cuda = triton.runtime.driver.active.cuda
        if x * y * z > 0:
            cuda.launch(self._config, {**arguments, "grid": (x, y, z)})
        if leave is not None:
            leave(metadata)


SimulatedDriver.launcher_cls = _Launcher


class _Utils:
    def __init__(self, cuda):
        self._cuda = cuda
        self._n_modules = 0
        self.loading = None

    def get_device_properties(self, device):
        return self._cuda.properties

    def load_binary(self, name, kernel, shared, device):
        self._cuda.load(self.loading)
        registers, stack_bytes = read_resources(kernel)
        n_threads = self._cuda.properties["max_num_regs"] // max(registers, 1)
        self._n_modules += 1
        module = function = self._n_modules
        return module, function, registers, stack_bytes // 4, min(n_threads, 1024)

    def unload_module(self, module):
        pass


class _Event:
    def __init__(self, clock):
        self._clock = clock

    def record(self, stream=None):
        self._time = self._clock.now

    def synchronize(self):
        pass

    def elapsed_time(self, other):
        return other._time - self._time


class _DeviceInterface:
    def __init__(self, driver):
        self._driver = driver

    def synchronize(self, device=None):
        self._driver.cuda.synchronize()

    def current_device(self):
        return self._driver.get_current_device()

    def set_device(self, device):
        self._driver.set_current_device(device)

    @contextlib.contextmanager
    def device(self, device):
        before = self._driver.get_current_device()
        self._driver.set_current_device(device)
        try:
            yield
        finally:
            self._driver.set_current_device(before)

    def Event(self, enable_timing=False):
        return _Event(self._driver.cuda.clock)


# Attributes of a kernel in the section .nv.info of a cubin, with a symbol's index and
# a 32-bit value each.
_REGISTER_COUNT, _FRAME_SIZE = 0x2F, 0x11
_WITH_SIZE = 0x04


def read_resources(cubin):
    """Give registers a thread and stack bytes a thread of a compiled kernel."""
    found = {_REGISTER_COUNT: [0], _FRAME_SIZE: [0]}
    info = _sections(cubin).get(".nv.info", b"")
    position = 0
    while position + 4 <= len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, position)
        position += 4
        if form != _WITH_SIZE:
            continue
        if attribute in found and size == 8:
            found[attribute].append(struct.unpack_from("<I", info, position + 4)[0])
        position += size
    return max(found[_REGISTER_COUNT]), max(found[_FRAME_SIZE])


def _sections(elf):
    offset = struct.unpack_from("<Q", elf, 0x28)[0]
    size, count, names_index = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [
        struct.unpack_from("<IIQQQQ", elf, offset + i * size) for i in range(count)
    ]
    names = elf[headers[names_index][4] :]
    return {
        names[name : names.index(b"\0", name)].decode(): elf[start : start + length]
        for name, _, _, _, start, length in headers
    }
