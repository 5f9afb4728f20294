"""What an error of compiling, launching or running a Triton kernel means."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fasta_learn.exceptions import WrongResultError
from fasta_learn.oracles._measurement import bound_reason

STAGES = ("compile", "launch", "run", "check")

# The texts are CUDA's own; Triton and PyTorch only put a prefix before them.
_BAD_ACCESS = (
    "illegal memory access",
    "misaligned address",
    "device-side assert",
    "unspecified launch failure",
    "illegal instruction",
    "invalid program counter",
    "invalid address space",
    "operation not supported on global/shared address space",
    "hardware stack error",
)
_LAUNCH_TIMEOUT = ("launch timed out",)
_LOST_DEVICE = (
    "uncorrectable",
    "context is destroyed",
    "driver shutting down",
    "external device failure",
)
_STICKY = (*_BAD_ACCESS, *_LAUNCH_TIMEOUT, *_LOST_DEVICE)
_OUT_OF_MEMORY = ("out of memory",)
_LAUNCH_ERROR = (
    "invalid argument",
    "invalid configuration",
    "invalid resource handle",
    "invalid device function",
    "invalid value",
    "invalid cluster size",
    "no kernel image",
    "too many resources requested",
    "too many blocks in cooperative launch",
    "device kernel image is invalid",
    "named symbol not found",
)
_FROM_CUDA = re.compile(r"CUDA error|Triton Error|CUDA driver error|CUDA_ERROR", re.I)
_OUT_OF_RESOURCE = re.compile(
    r"out of resources?: ([\w ]+?), Required: (\d+)\D+limit: (\d+)", re.IGNORECASE
)
_TOO_MUCH_SHARED = re.compile(
    r"uses too much (shared) data \((0x[0-9a-f]+) bytes(?: \+ 0x[0-9a-f]+ bytes "
    r"system)?, (0x[0-9a-f]+) max\)"
)
_PTXAS_LINE = re.compile(r"^ptxas\b.*?\b(?:error|fatal)\s*:\s*(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Failure:
    """Why a config has no duration.

    Parameters
    ----------
    status : str
        A status of `Measurement` other than ``"ok"``.
    reason : str
        One line of at most 200 characters.
    info : dict
        What is known beyond that: for ``"out_of_resources"`` the name of the
        resource, and if known how much is required and the limit.
    """

    status: str
    reason: str
    info: dict[str, Any] = field(default_factory=dict)


class CompileFailedError(RuntimeError):
    """A config can't be compiled, as another process has found.

    Parameters
    ----------
    failure : Failure
        What it means for the config.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure

    @classmethod
    def crashed(cls) -> "CompileFailedError":
        """Return the error of a compiler that took its process with it."""
        return cls(Failure("compile_error", "the compiler has crashed"))


def classify(error: BaseException, stage: str) -> Failure:
    """Say what an error means for the config that caused it.

    Parameters
    ----------
    error : BaseException
        What was raised.
    stage : {"compile", "launch", "run", "check"}
        What was being done: compiling; loading and launching; waiting for the
        result; comparing the result.

    Returns
    -------
    Failure
        Status, reason and further facts.

    Raises
    ------
    ValueError
        The stage is unknown.
    """
    if stage not in STAGES:
        raise ValueError(f"stage must be one of {STAGES}, got {stage!r}.")
    if isinstance(error, CompileFailedError):
        return error.failure
    reason, info = _reason(error), _resource(error)
    if info:
        return Failure("out_of_resources", reason, info)
    return Failure(_status(error, stage), reason)


def is_sticky(error: BaseException) -> bool:
    """Tell whether the device can't be used any more in this process.

    Parameters
    ----------
    error : BaseException
        What was raised.

    Returns
    -------
    bool
        True if CUDA will answer every further call with this error, so that only a
        new process helps. Errors that this one was raised from count, too.
    """
    return any(
        _is_about(cause, _STICKY) and _is_from_cuda(cause) for cause in _chain(error)
    )


def _status(error: BaseException, stage: str) -> str:
    if isinstance(error, WrongResultError):
        return "wrong_result"
    from_cuda = _is_from_cuda(error)
    if isinstance(error, TimeoutError) or (
        from_cuda and _is_about(error, _LAUNCH_TIMEOUT)
    ):
        return "timeout"
    if _is_out_of_memory(error):
        return "out_of_memory"
    if from_cuda and _is_about(error, _BAD_ACCESS):
        return "illegal_access"
    if stage == "compile":
        return "compile_error" if _is_about_code(error) else "error"
    if from_cuda and _is_about(error, _LAUNCH_ERROR):
        return "launch_error"
    if stage == "check" and isinstance(error, AssertionError):
        return "wrong_result"
    return "compile_error" if _is_from_compiler(error) else "error"


def _is_about_code(error: BaseException) -> bool:
    """Tell whether the compiler refuses the kernel; a wrong call is no such thing."""
    refusals = (RuntimeError, AssertionError, ValueError)
    return _is_from_compiler(error) or isinstance(error, refusals)


def _is_from_compiler(error: BaseException) -> bool:
    # By name: no import of triton, whose modules move between versions.
    return bool(_names(error) & {"CompilationError", "PTXASError"})


def _is_out_of_memory(error: BaseException) -> bool:
    return (
        isinstance(error, MemoryError)
        or "OutOfMemoryError" in _names(error)
        or (_is_from_cuda(error) and _is_about(error, _OUT_OF_MEMORY))
    )


def _is_from_cuda(error: BaseException) -> bool:
    return (
        "AcceleratorError" in _names(error)
        or _FROM_CUDA.search(_text(error)) is not None
        or _text(error).startswith("CUDA out of memory")
    )


def _is_about(error: BaseException, texts: tuple[str, ...]) -> bool:
    found = _text(error).lower()
    return any(text in found for text in texts)


def _names(error: BaseException) -> set[str]:
    return {base.__name__ for base in type(error).__mro__}


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a message that can't be made tells nothing
        return ""


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Give an error and those that it was raised from, or while handling."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _resource(error: BaseException) -> dict[str, Any]:
    """Give name, need and limit of the resource that did not suffice, if one."""
    values = [getattr(error, name, None) for name in ("name", "required", "limit")]
    if "OutOfResources" not in _names(error) or None in values:
        if found := _OUT_OF_RESOURCE.search(_text(error)):
            values = [found[1], int(found[2]), int(found[3])]
        elif found := _TOO_MUCH_SHARED.search(_text(error)):
            values = [f"{found[1]} memory", int(found[2], 16), int(found[3], 16)]
        else:
            return {}
    return dict(zip(("resource", "required", "limit"), values, strict=True))


def _reason(error: BaseException) -> str:
    """Give the one line that says most about an error."""
    if "CompilationError" in _names(error):
        return _compilation_reason(error)
    if "PTXASError" in _names(error) and (found := _PTXAS_LINE.search(_text(error))):
        return bound_reason(f"{type(error).__name__}: {found[1]}")
    if _is_from_cuda(error):
        # Below the first line are hints for debugging that are always the same.
        return bound_reason(f"{type(error).__name__}: {_text(error).splitlines()[0]}")
    return bound_reason(error)


def _compilation_reason(error: BaseException) -> str:
    """Give the innermost message: the outer ones only show the lines of the calls."""
    inner = error
    while "CompilationError" in _names(cause := inner.__cause__ or inner):
        if cause is inner:
            break
        inner = cause
    node, message = getattr(inner, "node", None), getattr(inner, "error_message", None)
    message = message or (_text(inner.__cause__) if inner.__cause__ else _text(inner))
    line = getattr(node, "lineno", None)
    where = "" if line is None else f" (line {line} of the kernel)"
    # The beginning of a long message matters as much as the place.
    return bound_reason(f"{type(inner).__name__}: {bound_reason(str(message))}{where}")
