import pytest
import torch
from sample_kernels import broken_kernel, matmul_kernel, scale_kernel
from simulated_cuda import illegal_access

from fasta_learn.exceptions import WrongResultError
from fasta_learn.oracles import Measurement
from fasta_learn.oracles._triton_failures import classify, is_sticky
from fasta_learn.oracles._triton_kernel import Workload


def error_of(call, *arguments):
    with pytest.raises(Exception) as raised:
        call(*arguments)
    return raised.value


def vectors(kernel, n=256):
    return Workload(kernel, (torch.zeros(n), torch.zeros(n), n), (1,))


@pytest.fixture
def product(simulate):
    simulate()
    a, b, c = (torch.zeros(256, 256, dtype=torch.float16) for _ in range(3))
    return Workload(matmul_kernel, (a, b, c, 256, 256, 256), (1, 1))


# Errors that Triton's own compiler raises.


def test_static_assertion_is_a_compile_error_that_tells_the_message(simulate):
    simulate()
    error = error_of(vectors(scale_kernel).compile, {"BLOCK": 8192})
    failure = classify(error, "compile")
    assert failure.status == "compile_error"
    assert failure.reason == (
        "CompileTimeAssertionFailure: BLOCK is too large (line 2 of the kernel)"
    )
    assert not is_sticky(error)


def test_shape_error_is_a_compile_error_that_tells_the_shapes(simulate):
    simulate()
    failure = classify(
        error_of(vectors(broken_kernel).compile, {"BLOCK": 64}), "compile"
    )
    assert failure.status == "compile_error"
    assert "incompatible dimensions at index 0: 64 and 128" in failure.reason
    assert failure.reason.endswith("(line 3 of the kernel)")


def test_too_much_shared_memory_tells_need_and_limit(product):
    config = {"BM": 256, "BN": 256, "BK": 64, "num_warps": 8, "num_stages": 4}
    # 4 stages of a 256 x 64 and a 64 x 256 tile of 2-byte values.
    assert product.compile(config).shared_bytes == 4 * 2 * 256 * 64 * 2
    failure = classify(error_of(product.load, config), "launch")
    assert failure.status == "out_of_resources"
    assert failure.info == {
        "resource": "shared memory",
        "required": 262144,
        "limit": 232448,
    }


def test_ptxas_error_tells_the_line_of_ptxas(product, capsys):
    config = {"BM": 128, "BN": 128, "BK": 32, "num_warps": 8, "maxnreg": 24}
    failure = classify(error_of(product.compile, config), "compile")
    assert failure.status == "compile_error"
    assert failure.reason.startswith("PTXASError: ")
    assert "registers (24)" in failure.reason


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"BM": 100}, "arange's range must be a power of 2"),
        ({"num_warps": 3}, "num_warps must be a power of 2"),
        ({"BM": 2048, "BN": 2048}, "exceeds triton maximum tensor numel"),
    ],
)
def test_config_that_the_compiler_refuses_is_a_compile_error(product, change, text):
    config = {"BM": 64, "BN": 64, "BK": 32, **change}
    failure = classify(error_of(product.compile, config), "compile")
    assert failure.status == "compile_error"
    assert text in failure.reason


@pytest.mark.parametrize("change", [{"NO_SUCH_NAME": 1}, {"M": 256}])
def test_wrong_call_is_no_compile_error(product, change):
    config = {"BM": 64, "BN": 64, "BK": 32, **change}
    assert classify(error_of(product.compile, config), "compile").status == "error"


# Errors that need a device: made by hand, with the words of CUDA, Triton and PyTorch.


def named(name, text, base=RuntimeError):
    return type(name, (base,), {})(text)


STICKY = [
    "an illegal memory access was encountered",
    "misaligned address",
    "device-side assert triggered",
    "unspecified launch failure",
    "an illegal instruction was encountered",
]


@pytest.mark.parametrize("text", STICKY)
@pytest.mark.parametrize("prefix", ["CUDA error: ", "Triton Error [CUDA]: "])
@pytest.mark.parametrize("stage", ["launch", "run", "check"])
def test_faults_of_the_device_are_sticky_illegal_accesses(text, prefix, stage):
    error = RuntimeError(prefix + text + "\nCompile with `TORCH_USE_CUDA_DSA`.")
    assert classify(error, stage).status == "illegal_access"
    assert classify(error, stage).reason == f"RuntimeError: {prefix}{text}"
    assert is_sticky(error)


def test_same_words_from_elsewhere_are_not_sticky():
    assert not is_sticky(ValueError("the docs mention misaligned address"))
    assert classify(ValueError("misaligned address"), "run").status == "error"


def test_error_raised_because_of_a_sticky_one_is_sticky():
    error = ValueError("the check could not look at the result")
    error.__cause__ = illegal_access()
    assert is_sticky(error)


OUT_OF_MEMORY = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")
NO_IMAGE = "CUDA error: no kernel image is available for execution on the device"
TOO_MANY = "Triton Error [CUDA]: too many resources requested for launch"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (OUT_OF_MEMORY, "out_of_memory"),
        (RuntimeError("Triton Error [CUDA]: out of memory"), "out_of_memory"),
        (RuntimeError("CUDA error: out of memory"), "out_of_memory"),
        (MemoryError(), "out_of_memory"),
        (RuntimeError("Triton Error [CUDA]: invalid argument"), "launch_error"),
        (RuntimeError(NO_IMAGE), "launch_error"),
        (RuntimeError(TOO_MANY), "launch_error"),
        (TimeoutError("no answer within 3 s"), "timeout"),
        (RuntimeError("something else"), "error"),
        (KeyError("no such thing"), "error"),
    ],
)
def test_errors_that_leave_the_device_usable(error, status):
    assert classify(error, "run").status == status
    assert not is_sticky(error)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("the launch timed out and was terminated", "timeout"),
        ("uncorrectable ECC error encountered", "error"),
        ("context is destroyed", "error"),
    ],
)
def test_other_errors_that_break_the_device(text, status):
    error = torch.AcceleratorError(f"CUDA error: {text}")
    assert classify(error, "run").status == status
    assert is_sticky(error)


@pytest.mark.parametrize("stage", ["compile", "launch", "run", "check"])
def test_wrong_result_is_one_at_every_stage(stage):
    assert classify(WrongResultError("y is wrong"), stage).status == "wrong_result"


def test_assertion_is_a_wrong_result_only_in_the_check():
    assert classify(AssertionError("not close"), "check").status == "wrong_result"
    assert classify(AssertionError("not close"), "run").status == "error"


def test_runtime_error_of_the_compiler_is_a_compile_error_only_while_compiling():
    error = RuntimeError("PassManager::run failed")
    assert classify(error, "compile").status == "compile_error"
    assert classify(error, "run").status == "error"


@pytest.mark.parametrize(
    ("text", "info"),
    [
        (
            "out of resource: threads, Required: 512, Hardware limit: 384. Reducing "
            "block sizes or `num_stages` may help.",
            {"resource": "threads", "required": 512, "limit": 384},
        ),
        (
            "`ptxas` stderr:\nptxas error   : Entry function 'k' uses too much shared "
            "data (0x60000 bytes, 0x38c00 max)",
            {"resource": "shared memory", "required": 393216, "limit": 232448},
        ),
        (
            "ptxas error   : Entry function 'k' uses too much shared data (0x3a000 "
            "bytes + 0x400 bytes system, 0x38c00 max)",
            {"resource": "shared memory", "required": 237568, "limit": 232448},
        ),
    ],
)
def test_need_and_limit_are_read_from_texts(text, info):
    for stage in ("compile", "launch"):
        failure = classify(named("PTXASError", text), stage)
        assert (failure.status, failure.info) == ("out_of_resources", info)


def test_attributes_tell_more_than_the_text():
    error = named("OutOfResources", "nothing to read here")
    error.required, error.limit, error.name = 600, 512, "tensor memory"
    assert classify(error, "launch").info == {
        "resource": "tensor memory",
        "required": 600,
        "limit": 512,
    }


def test_innermost_message_of_nested_functions_is_the_reason():
    outer = named("CompilationError", "at 9:4:\n    inner(x)\n    ^")
    middle = named("CompilationError", "at 3:4:\n    x + y\n    ^")
    middle.error_message = "shapes differ"
    outer.__cause__ = middle
    assert classify(outer, "compile").reason == "CompilationError: shapes differ"


@pytest.mark.parametrize("stage", ["compile", "launch", "run", "check"])
def test_reason_is_one_bounded_line_that_a_measurement_takes(stage):
    failure = classify(RuntimeError("many\nlines " * 1000), stage)
    assert len(failure.reason) <= 200
    assert "\n" not in failure.reason
    measurement = Measurement.failed(failure.status, failure.reason, info=failure.info)
    assert measurement.reason == failure.reason


def test_error_whose_message_fails_is_classified():
    class Silent(RuntimeError):
        def __str__(self):
            raise ValueError("no message")

    assert classify(Silent(), "run").status == "error"


def test_unknown_stage_is_refused():
    with pytest.raises(ValueError, match="stage must be one of"):
        classify(ValueError(), "cook")
