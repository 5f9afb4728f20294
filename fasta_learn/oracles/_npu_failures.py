"""What an error of compiling, launching or running a kernel on an Ascend NPU means."""

import errno
import re
from collections.abc import Iterator
from typing import Any

from fasta_learn.exceptions import WrongResultError
from fasta_learn.oracles._measurement import bound_reason
from fasta_learn.oracles._triton_failures import Failure, classify

# BiShengIR's own words, for the unified buffer and the smaller memories of a core.
_OVERFLOW = re.compile(
    r"(\w+) overflow, requires (\d+) bits while (\d+) bits available", re.IGNORECASE
)
_ERROR_LINE = re.compile(r"\berror:\s*(.+)$", re.MULTILINE)
# Codes of the runtime of CANN (acl/error_codes/rt_error_codes.h).
_CODE = re.compile(
    r"\b(?:error code(?: is)?|ret(?:urn)?(?: code)?)\D{0,3}(\d{6})\b", re.I
)
_ANY_CODE = re.compile(r"\b(10[07]\d{3}|20[07]\d{3}|507\d{3})\b")
_TIMEOUTS = frozenset({507014, 507034, 507046})
_CORE_EXCEPTIONS = frozenset({507015, 507035, 507052})
_NO_MEMORY = frozenset({200000, 207001, 207018})
# The compiler forks processes and CPython 3.11 parses in threads: both fail now and
# then for reasons that are gone a moment later.
_TRANSIENT = (
    "recursion depth mismatch",
    "resource temporarily unavailable",
    "text file busy",
    "too many open files",
    "cannot allocate memory",
    "sigkill",
)
_TRANSIENT_NUMBERS = frozenset(
    {errno.EAGAIN, errno.ENOMEM, errno.ETXTBSY, errno.EMFILE, errno.ENFILE}
)


def classify_npu(error: BaseException, stage: str) -> Failure:
    """Say what an error means for the config that caused it.

    Parameters
    ----------
    error : BaseException
        What was raised.
    stage : {"compile", "launch", "run", "check"}
        What was being done: see `fasta_learn.oracles._triton_failures.classify`.

    Returns
    -------
    Failure
        Status, reason and further facts: for a memory of the core that was too small
        ``"resource"``, ``"required_bits"`` and ``"available_bits"``; for an error of
        the device its ``"code"``.

    Raises
    ------
    ValueError
        The stage is unknown.
    """
    text = _all_text(error)
    if found := _OVERFLOW.search(text):
        return _overflow(found)
    failure = classify(error, stage)
    if failure.status != "error" and failure.status != "compile_error":
        return failure
    if stage == "compile":
        return _compile_failure(error, failure)
    if failure.status == "compile_error":
        return failure
    return _run_failure(error, text, failure)


def is_transient(error: BaseException) -> bool:
    """Tell whether compiling again, with nothing else going on, may well succeed.

    Parameters
    ----------
    error : BaseException
        What compiling raised.

    Returns
    -------
    bool
        False for what the compiler finds wrong with the kernel.
    """
    for cause in _chain(error):
        if getattr(cause, "errno", None) in _TRANSIENT_NUMBERS:
            return True
        text = _text(cause).lower()
        if any(words in text for words in _TRANSIENT):
            return True
    return False


def device_code(error: BaseException) -> int | None:
    """Give the code of an error that the runtime of the device has reported.

    Parameters
    ----------
    error : BaseException
        What was raised.

    Returns
    -------
    int or None
        Such as 507015, an exception in a core; None if there is none in the text.
    """
    text = _all_text(error)
    found = _CODE.search(text) or _ANY_CODE.search(text)
    return int(found[1]) if found else None


def _overflow(found: re.Match[str]) -> Failure:
    info: dict[str, Any] = {
        "resource": found[1].lower(),
        "required_bits": int(found[2]),
        "available_bits": int(found[3]),
    }
    return Failure("out_of_resources", bound_reason(found[0]), info)


def _compile_failure(error: BaseException, failure: Failure) -> Failure:
    lines = _ERROR_LINE.findall(_text(error))
    # The last line with an error is the compiler's own; above it are its notes.
    reason = bound_reason(f"{type(error).__name__}: {lines[-1]}") if lines else None
    # triton-ascend's errors derive from Exception only, and torch_npu raises plain
    # ones; a wrong call is no such thing.
    is_call = isinstance(error, TypeError | KeyError | NameError | AttributeError)
    status = "error" if is_call else "compile_error"
    return Failure(status, reason or failure.reason, failure.info)


def _run_failure(error: BaseException, text: str, failure: Failure) -> Failure:
    code = device_code(error)
    info = {} if code is None else {"code": code}
    if code in _NO_MEMORY or "npu out of memory" in text.lower():
        status = "out_of_memory"
    elif code in _TIMEOUTS:
        status = "timeout"
    elif code in _CORE_EXCEPTIONS:
        status = "illegal_access"
    elif code is not None or isinstance(error, RuntimeError):
        status = "launch_error"
    else:
        status = failure.status
    return Failure(status, failure.reason, info)


def _all_text(error: BaseException) -> str:
    if isinstance(error, WrongResultError):
        return ""
    return "\n".join(_text(cause) for cause in _chain(error))


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a message that can't be made tells nothing
        return ""


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Give an error and those that it was raised from; a hidden one is none."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (
            None if error.__suppress_context__ else error.__context__
        )
