"""Run torch_npu's TorchInductor stack on a machine without an NPU.

Use it so::

    import npu_testbed
    npu_testbed.activate()          # before torch is imported
    import torch
    torch.compile(f)(torch.empty(4096, 1024, device="npu"))

Code generation, Triton-Ascend, BiShengIR and the autotuner are the real ones. A launch
runs nothing: it moves a virtual clock by the milliseconds that the latency model gives,
and device events read that clock. README.md has the limits. Importing this module does
nothing; `activate` does.
"""

import atexit
import ctypes
import os
import shutil
import sys
import tempfile

from npu_latency import VECTOR_CORES, AnalyticLatency
from npu_simulated import (
    ARCH,
    CUBE_CORES,
    STATE,
    UB_BITS,
    CompileRecord,
    LaunchRecord,
    TestbedError,
    patch_triton,
)

__all__ = [
    "ARCH",
    "CUBE_CORES",
    "UB_BITS",
    "VECTOR_CORES",
    "AnalyticLatency",
    "CompileRecord",
    "LaunchRecord",
    "TestbedError",
    "activate",
    "clock_ms",
    "compile_log",
    "fail_compile_if",
    "fail_launch_if",
    "launch_count",
    "launch_log",
    "reset",
    "set_latency",
]

# libascendcl has all the functions; the others lead to it.
_LIBRARIES = (
    "ascendcl",
    "hccl",
    "acl_op_compiler",
    "ge_runner",
    "graph",
    "acl_tdt_channel",
    "runtime",
    "opapi",
    "msprofiler",
    "ascend_hal",
)


def activate(latency=None, fakecann=None):
    """Load the fake CANN, patch Triton-Ascend and set the latency model.

    To be called before torch is imported. A second call only sets the model.
    TRITON_CACHE_DIR and TORCHINDUCTOR_CACHE_DIR are kept if set; else they are
    temporary folders.

    Parameters
    ----------
    latency : callable or None, default=None
        As for `set_latency`.
    fakecann : str or None, default=None
        The folder that build.sh has made; None is $NPU_TESTBED_FAKECANN, else
        ``fakecann`` in the running virtual environment.

    Raises
    ------
    TestbedError
        The fake CANN is not there, or torch_npu was imported before.
    """
    set_latency(latency)
    if STATE.active:
        return
    if "torch_npu" in sys.modules:
        raise TestbedError(
            "torch_npu is already imported; activate() must come before that"
        )
    root = _find_fake_cann(fakecann)
    _set_environment(root)
    STATE.acl = _load_libraries(root)

    import torch  # noqa: F401
    import torch_npu

    patch_triton()
    STATE.active = True
    import torch_npu._inductor  # noqa: F401


def set_latency(latency=None):
    """Set what launches take.

    Parameters
    ----------
    latency : callable or None, default=None
        ``latency(kernel_name, constants, grid)``, in ms; None is `AnalyticLatency`.
    """
    STATE.latency = latency if latency is not None else AnalyticLatency()


def fail_compile_if(predicate, required_bits=None):
    """Let some compiles fail with the type of a real error.

    Parameters
    ----------
    predicate : callable
        ``predicate(kernel_name, config)`` says which.
    required_bits : int or None, default=None
        If given, the error reads as one of a unified buffer that is too small.

    Returns
    -------
    callable
        Takes the fault away again.
    """
    return _add(STATE.fail_compile, (predicate, required_bits))


def fail_launch_if(predicate, at="launch"):
    """Let some launches fail.

    Parameters
    ----------
    predicate : callable
        ``predicate(kernel_name, constants, grid)`` says which.
    at : {"launch", "sync"}, default="launch"
        Whether the launch raises a RuntimeError, or the next synchronisation reports
        a device error, as an exception in a core does.

    Returns
    -------
    callable
        Takes the fault away again.
    """
    if at not in ("launch", "sync"):
        raise ValueError(f"at must be 'launch' or 'sync', not {at!r}")
    return _add(STATE.fail_launch, (predicate, at))


def launch_count(kernel=None):
    """Return the number of launches so far, of one kernel or of all."""
    with STATE.lock:
        return STATE.counts.total() if kernel is None else STATE.counts[kernel]


def launch_log():
    """Return the latest LaunchRecords (up to 50,000), the oldest first."""
    with STATE.lock:
        return list(STATE.launches)


def compile_log():
    """Return the CompileRecords so far, in the order in which the compiles ended."""
    with STATE.lock:
        return list(STATE.compiles)


def clock_ms():
    """Return the time of the virtual clock, in ms."""
    if not STATE.active:
        raise TestbedError("call npu_testbed.activate() first")
    return STATE.acl.fakecann_now_ms()


def reset():
    """Empty the logs and counts and take all faults away; the clock goes on."""
    with STATE.lock:
        STATE.compiles.clear()
        STATE.launches.clear()
        STATE.counts.clear()
    STATE.fail_compile.clear()
    STATE.fail_launch.clear()
    if STATE.active:
        STATE.acl.fakecann_fail_next_sync(0)


def _add(faults, fault):
    faults.append(fault)

    def undo():
        if fault in faults:
            faults.remove(fault)

    return undo


def _find_fake_cann(given):
    root = given or os.environ.get("NPU_TESTBED_FAKECANN")
    root = os.path.abspath(root or os.path.join(sys.prefix, "fakecann"))
    for library in _LIBRARIES:
        if not os.path.isfile(os.path.join(root, f"lib{library}.so")):
            raise TestbedError(
                f"no fake CANN in {root} (lacks {library}); run build.sh, and the "
                "Python of its environment"
            )
    return root


def _load_libraries(root):
    # torch_npu needs these by their sonames and then finds them loaded, so that
    # LD_LIBRARY_PATH is not needed in this process; it is set for children.
    loaded = {
        library: ctypes.CDLL(os.path.join(root, f"lib{library}.so"), ctypes.RTLD_GLOBAL)
        for library in _LIBRARIES
    }
    acl = loaded["ascendcl"]
    acl.fakecann_advance_ms.argtypes = [ctypes.c_double]
    acl.fakecann_advance_ms.restype = None
    acl.fakecann_now_ms.restype = ctypes.c_double
    acl.fakecann_fail_next_sync.argtypes = [ctypes.c_int]
    acl.fakecann_fail_next_sync.restype = None
    return acl


def _set_environment(root):
    environ = os.environ
    _prepend("PATH", os.path.join(root, "bin"))
    _prepend("LD_LIBRARY_PATH", root)
    # With the task queue torch_npu records events on a second thread, out of step with
    # the launches.
    environ["TASK_QUEUE_ENABLE"] = "0"
    environ["TRITON_ASCEND_ARCH"] = ARCH
    # A worker process would not have the patches.
    environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    # Each thread waits for one compiler process. torch_npu's default is 32.
    n_threads = max(2, os.cpu_count() or 2)
    environ.setdefault("TORCHNPU_PRECOMPILE_THREADS", str(n_threads))
    environ.setdefault("ENABLE_PRINT_UB_BITS", "1")
    _set_cache_folders()


def _set_cache_folders():
    names = {"TRITON_CACHE_DIR": "triton", "TORCHINDUCTOR_CACHE_DIR": "inductor"}
    missing = [name for name in names if not os.environ.get(name)]
    if missing:
        caches = tempfile.mkdtemp(prefix="npu_testbed_")
        atexit.register(_remove, caches, os.getpid())
        for name in missing:
            os.environ[name] = os.path.join(caches, names[name])


def _prepend(name, folder):
    old = os.environ.get(name, "").split(os.pathsep)
    kept = [path for path in old if path and path != folder]
    os.environ[name] = os.pathsep.join([folder, *kept])


def _remove(folder, pid):
    if os.getpid() == pid:  # not in a forked child
        shutil.rmtree(folder, ignore_errors=True)
