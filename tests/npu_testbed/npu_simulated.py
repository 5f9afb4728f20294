"""What takes the place of launches and of the device's driver in Triton-Ascend."""

import math
import re
import sys
import threading
import time
import types
from collections import Counter, deque
from dataclasses import dataclass, field

from npu_latency import VECTOR_CORES, AnalyticLatency

ARCH = "Ascend910B1"
CUBE_CORES = 24
UB_BITS = 192 * 1024 * 8

_LOG_LENGTH = 50_000  # launches kept in the log; the count goes on
_CORE_EXCEPTION = 507015
# What a latency model is told besides the kernel's own arguments.
_OPTIONS = ("multibuffer", "compile_mode", "num_warps", "num_stages")
_UB_OVERFLOW = re.compile(r"ub overflow, requires (\d+) bits while (\d+) bits")


class TestbedError(RuntimeError):
    """The test bed is not built, or is used in the wrong order."""

    __test__ = False  # no class of tests


@dataclass
class CompileRecord:
    """One call of ``triton.compile``.

    Parameters
    ----------
    kernel : str
        Name of the kernel.
    config : dict
        Constexprs and compile options.
    ok : bool
        Whether it compiled.
    seconds : float
        How long that took.
    error : str or None
        ``"ub_overflow"``, ``"lowering"``, ``"frontend"`` or ``"injected"``.
    required_bits, available_bits : int or None
        Use of the unified buffer, from the error or from a success.
    message : str
        End of the error's text.
    """

    kernel: str
    config: dict
    ok: bool = False
    seconds: float = 0.0
    error: str | None = None
    required_bits: int | None = None
    available_bits: int | None = None
    message: str = ""


@dataclass
class LaunchRecord:
    """One launch of a kernel: name, constants, grid, and its duration in ms."""

    kernel: str
    constants: dict
    grid: tuple
    ms: float


@dataclass
class State:
    """All that the test bed knows; there is one, as there is one device."""

    active: bool = False
    acl: object = None
    latency: object = field(default_factory=AnalyticLatency)
    compiles: list = field(default_factory=list)
    launches: deque = field(default_factory=lambda: deque(maxlen=_LOG_LENGTH))
    counts: Counter = field(default_factory=Counter)
    fail_compile: list = field(default_factory=list)
    fail_launch: list = field(default_factory=list)
    lock: object = field(default_factory=threading.Lock)


STATE = State()


def patch_triton():
    """Put simulated launches and a log of compiles into Triton-Ascend."""
    import triton
    import triton.backends as backends
    import triton.backends.ascend.driver as canonical
    import triton.compiler

    _add_missing_names()
    # Triton loads a backend's files a second time, outside sys.modules.
    ascend = backends.backends["ascend"]
    for scope in (
        vars(canonical),
        ascend.driver.__init__.__globals__,
        ascend.compiler.add_stages.__globals__,
    ):
        if "NPUUtils" in scope:
            scope["NPUUtils"] = SimulatedUtils
        if "NPULauncher" in scope:
            scope["NPULauncher"] = SimulatedLauncher
    wrapped = _logged(triton.compiler.compile)
    triton.compiler.compile = wrapped  # Triton's own JIT takes it from here
    triton.compile = wrapped  # torch_npu from here


def _add_missing_names():
    """Add two names that torch_npu 2.13 looks for and Triton-Ascend 3.2.0 lacks."""
    import triton._C.libtriton as libtriton
    import triton.language as tl

    if not hasattr(libtriton.ascend, "ir"):
        libtriton.ascend.ir = types.SimpleNamespace(load_dialects=lambda context: None)
    if not hasattr(tl.extra, "cann"):
        name = "triton.language.extra.cann"
        cann = types.ModuleType(name)
        cann.__path__ = []
        cann.extension = types.ModuleType(f"{name}.extension")
        cann.libdevice = tl.extra.ascend.libdevice
        tl.extra.cann = cann
        sys.modules[name] = cann
        sys.modules[f"{name}.extension"] = cann.extension
        sys.modules[f"{name}.libdevice"] = cann.libdevice


class SimulatedUtils:
    """Stands for NPUUtils, which would build a C++ extension against CANN."""

    def get_arch(self):
        return ARCH

    def get_aicore_num(self):
        return CUBE_CORES

    def get_aivector_core_num(self):
        return VECTOR_CORES

    def get_device_properties(self, device):
        cores = {"num_aicore": CUBE_CORES, "num_vectorcore": VECTOR_CORES}
        return {"max_shared_mem": 1, **cores}

    def load_binary(self, name, kernel, shared, device):
        return 0, 0, 0, 0  # module, function, registers, spills

    def set_device_limit(self, device, ty, val):
        pass


class SimulatedLauncher:
    """Stands for NPULauncher: moves the virtual clock in place of a launch."""

    def __init__(self, src, metadata):
        fn = getattr(src, "fn", None)
        names = list(fn.arg_names) if fn else []
        fixed = {names[i] for i in fn.constexprs} if fn else set()
        self.kernel = fn.__name__ if fn else src.name
        self.args = [n for n in names if n not in fixed]
        found = {name: getattr(metadata, name, None) for name in _OPTIONS}
        self.known = {k: v for k, v in found.items() if v is not None}
        self.known.update(_constants(src))

    def __call__(self, grid_0, grid_1, grid_2, *launch):
        args = launch[6:]  # stream, function, metadata, launch metadata, two hooks
        grid, constants = (grid_0, grid_1, grid_2), self._constants(args)
        fault = self._fault(constants, grid)
        if fault == "launch":
            raise RuntimeError(f"npu_testbed: injected launch failure of {self.kernel}")
        ms = float(STATE.latency(self.kernel, dict(constants), grid))
        if not (ms > 0 and math.isfinite(ms)):
            raise TestbedError(
                f"the latency of {self.kernel} must be above zero, not {ms}"
            )
        STATE.acl.fakecann_advance_ms(ms)
        if fault == "sync":
            STATE.acl.fakecann_fail_next_sync(_CORE_EXCEPTION)
        with STATE.lock:
            STATE.counts[self.kernel] += 1
            STATE.launches.append(LaunchRecord(self.kernel, constants, grid, ms))

    def _constants(self, args):
        constants = dict(self.known, num_tensors=0)
        for name, value in zip(self.args, args, strict=False):
            if isinstance(value, int | float):
                constants[name] = value
            elif hasattr(value, "data_ptr"):
                constants["num_tensors"] += 1
        return constants

    def _fault(self, constants, grid):
        for wants, at in list(STATE.fail_launch):
            if wants(self.kernel, dict(constants), grid):
                return at
        return None


def _constants(src):
    """Return the constexprs of a Triton source by name; keys may be positions."""
    found = {}
    for key, value in (getattr(src, "constants", None) or {}).items():
        if isinstance(key, tuple):
            key = key[0]
        found[src.fn.arg_names[key] if isinstance(key, int) else key] = value
    return found


def _logged(real):
    """Return a triton.compile that fails where it should, and writes a log."""

    def compile(src, target=None, options=None):
        fn = getattr(src, "fn", None)
        kernel = fn.__name__ if fn else str(getattr(src, "name", src))
        config = {n: options[n] for n in _OPTIONS if n in (options or {})}
        config.update(_constants(src))
        record = CompileRecord(kernel, config)
        start = time.perf_counter()
        try:
            _inject_failure(record)
            binary = real(src, target=target, options=options)
            bits = getattr(binary.metadata, "required_ub_bits", None) or None
            record.ok, record.required_bits = True, bits
            record.available_bits = UB_BITS
            return binary
        except Exception as error:
            _classify(record, error)
            raise
        finally:
            record.seconds = time.perf_counter() - start
            with STATE.lock:
                STATE.compiles.append(record)

    return compile


def _inject_failure(record):
    for wants, bits in list(STATE.fail_compile):
        if wants(record.kernel, dict(record.config)):
            record.error = "injected"
            raise _injected_error(record.kernel, bits)


def _injected_error(kernel, bits):
    from triton.compiler.errors import MLIRCompilationError

    text = f"npu_testbed: injected compile failure of {kernel}"
    if bits is not None:
        text += (
            f"\nerror: ub overflow, requires {bits} bits while {UB_BITS} bits "
            "available!"
        )
    return MLIRCompilationError("ConvertLinalgRToBinary", text)


def _classify(record, error):
    record.message = str(error)[-2000:]
    overflow = _UB_OVERFLOW.search(str(error))
    if overflow:
        record.required_bits, record.available_bits = map(int, overflow.groups())
    if record.error is None:
        is_lowering = type(error).__name__ == "MLIRCompilationError"
        kind = "lowering" if is_lowering else "frontend"
        record.error = "ub_overflow" if overflow else kind
