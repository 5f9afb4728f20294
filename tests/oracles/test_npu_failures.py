import errno

import pytest

from fasta_learn.exceptions import WrongResultError
from fasta_learn.oracles._npu_failures import classify_npu, device_code, is_transient

OVERFLOW = (
    "\n///---[ERROR][Triton][BEG]---\n[ConvertLinalgRToBinary] encounters error:\n"
    'loc("k.ttadapter":3:3): error: ub overflow, requires 2097152 bits while 1572864 '
    "bits available! (possible reason: large or block number is more than what user "
    "expect due to multi-buffer feature is enabled and some ops need extra local "
    "buffer.)\n///---[ERROR][Triton][END]---\n"
)


class MLIRCompilationError(Exception):
    """As in Triton-Ascend: it derives from no RuntimeError."""


def test_overflow_tells_required_and_available_bits():
    failure = classify_npu(MLIRCompilationError(OVERFLOW), "compile")
    assert failure.status == "out_of_resources"
    assert failure.info == {
        "resource": "ub",
        "required_bits": 2097152,
        "available_bits": 1572864,
    }
    assert failure.reason == (
        "ub overflow, requires 2097152 bits while 1572864 bits available"
    )


def test_overflow_is_found_below_another_error():
    error = RuntimeError("Triton compilation failed")
    error.__cause__ = MLIRCompilationError(OVERFLOW)
    assert classify_npu(error, "compile").status == "out_of_resources"


def test_smaller_memories_of_a_core_overflow_as_well():
    text = "error: L0C overflow, requires 9 bits while 8 bits available"
    assert classify_npu(Exception(text), "compile").info["resource"] == "l0c"


def test_reason_is_the_compilers_last_error():
    text = "note: this\nloc(1): error: cannot lower\nloc(2): error: giving up\nstack"
    failure = classify_npu(MLIRCompilationError(text), "compile")
    assert failure.status == "compile_error"
    assert failure.reason == "MLIRCompilationError: giving up"


@pytest.mark.parametrize("kind", [TypeError, KeyError, AttributeError, NameError])
def test_wrong_call_is_no_compile_error(kind):
    assert classify_npu(kind("wrong"), "compile").status == "error"


@pytest.mark.parametrize(
    ("text", "status", "code"),
    [
        ("npuSynchronizeDevice: error code is 507015", "illegal_access", 507015),
        ("error code is 507035, vector core exception", "illegal_access", 507035),
        ("error code is 507014", "timeout", 507014),
        ("error code is 207001", "out_of_memory", 207001),
        ("error code is 507899", "launch_error", 507899),
    ],
)
def test_codes_of_the_device(text, status, code):
    failure = classify_npu(RuntimeError(text), "run")
    assert (failure.status, failure.info) == (status, {"code": code})


def test_full_memory_by_name():
    failure = classify_npu(RuntimeError("NPU out of memory. Tried to ..."), "run")
    assert failure.status == "out_of_memory"


def test_runtime_error_of_a_launch_is_a_launch_error():
    assert (
        classify_npu(RuntimeError("no such thing"), "launch").status == "launch_error"
    )


def test_wrong_result_keeps_its_status():
    error = WrongResultError("ub overflow, requires 2 bits while 1 bits available")
    assert classify_npu(error, "check").status == "wrong_result"


def test_timeout_keeps_its_status():
    assert classify_npu(TimeoutError("too long"), "compile").status == "timeout"


def test_unknown_stage_is_refused():
    with pytest.raises(ValueError, match="stage must be one of"):
        classify_npu(RuntimeError(), "later")


def test_numbers_are_no_codes_of_the_device():
    assert (
        device_code(RuntimeError("requires 2097152 bits, line 507 of 1572864")) is None
    )


@pytest.mark.parametrize(
    "error",
    [
        SystemError("AST constructor recursion depth mismatch (before=66, after=68)"),
        OSError(errno.EAGAIN, "fork"),
        OSError(errno.ETXTBSY, "bishengir-compile"),
        RuntimeError("Command ... died with <Signals.SIGKILL: 9>."),
    ],
)
def test_errors_that_pass(error):
    assert is_transient(error)
    outer = RuntimeError("Triton compilation failed")
    outer.__cause__ = error
    assert is_transient(outer)


@pytest.mark.parametrize(
    "error",
    [MLIRCompilationError(OVERFLOW), TypeError("wrong"), OSError(errno.ENOENT, "file")],
)
def test_errors_that_stay(error):
    assert not is_transient(error)
