"""Options of an oracle of NPU kernels, and the device that it measures on."""

from typing import Any

from fasta_learn._compat import import_extra
from fasta_learn.oracles._npu_clock import import_npu
from fasta_learn.oracles._triton_options import _is_count, check_options

TIMERS = ("auto", "events", "profiler", "mspti")


def check_npu_options(
    timer: Any, n_jobs: Any, compile_timeout: Any, batch_size: Any, lookahead: Any
) -> None:
    """Raise if an option is not valid.

    Parameters
    ----------
    timer, n_jobs, compile_timeout, batch_size, lookahead
        As `NPUKernelOracle` takes them.

    Raises
    ------
    ValueError
        An option is not valid; the message says which.
    """
    if timer not in TIMERS:
        raise ValueError(f"timer must be one of {TIMERS}, got {timer!r}.")
    if not _is_count(batch_size, 1):
        raise ValueError(f"batch_size must be a positive int, got {batch_size!r}.")
    check_options(False, None, n_jobs, lookahead, compile_timeout=compile_timeout)


def describe_npu() -> dict[str, Any]:
    """Tell which NPU is current, and the versions of what drives it.

    Returns
    -------
    dict
        ``"device"`` and ``"versions"``; JSON can hold it.

    Raises
    ------
    MissingExtraError
        Torch, torch_npu or triton-ascend is not installed.
    """
    npu = import_npu()
    names = ("torch", "torch_npu", "triton")
    versions = {name: str(import_extra(name, "npu").__version__) for name in names}
    return {"device": str(npu.get_device_name()), "versions": versions}
