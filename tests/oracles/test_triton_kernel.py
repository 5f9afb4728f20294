from concurrent.futures import ThreadPoolExecutor

import pytest
import sample_kernels as kernels
import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor
from workloads import N, accumulation, scaling

from fasta_learn.exceptions import WrongResultError
from fasta_learn.oracles._triton_kernel import Workload

# Descriptors and hooks


def set_block_shapes(arguments):
    for name in ("source", "target"):
        arguments[name].block_shape = [arguments["M"], arguments["N"]]


def test_hook_sets_descriptors_before_its_config_is_compiled(simulate):
    cuda = simulate()
    source, target = torch.zeros(2, 64, 64, dtype=torch.float16)
    given = [TensorDescriptor.from_tensor(t, [1, 16]) for t in (source, target)]
    workload = Workload(kernels.descriptor_kernel, given, (1,))
    configs = [
        triton.Config({"M": m, "N": 32}, pre_hook=set_block_shapes) for m in (16, 64)
    ]
    with ThreadPoolExecutor(2) as threads:
        facts = list(threads.map(workload.compile, configs))
    # The block is staged in shared memory, next to the barrier that guards it.
    for fact, m in zip(facts, (16, 64), strict=True):
        assert m * 32 * 2 <= fact.shared_bytes <= m * 32 * 2 + 64
    for config in configs:
        workload.first_launch(config)
    assert len(cuda.compiles) == 2
    assert given[0].block_shape == [1, 16]


def test_hook_that_writes_tensors_runs_before_launches_only(simulate, vectors):
    simulate(compute=kernels.accumulate)
    x, y = vectors
    calls = []

    def clear(arguments):
        calls.append(arguments["BLOCK"])
        arguments["y"].zero_()

    workload = accumulation(vectors, check=lambda args: torch.equal(args["y"], x))
    config = triton.Config({"BLOCK": 64}, pre_hook=clear)
    workload.compile(config)
    assert calls == []
    assert y[0] == 7
    workload.first_launch(config)
    assert calls == [64]


def test_pre_run_hooks_of_the_kernel_run_before_launches_only(simulate, vectors):
    simulate()
    calls = []
    record = lambda *args, **named: calls.append((args, named))  # noqa: E731
    kernels.scale_kernel.add_pre_run_hook(record)
    try:
        workload = scaling(vectors)
        workload.compile({"BLOCK": 64, "num_warps": 2})
        assert calls == []
        workload.first_launch({"BLOCK": 64, "num_warps": 2})
        [(args, named)] = calls
        assert [id(arg) for arg in args] == [*map(id, vectors), id(N)]
        assert named == {"BLOCK": 64, "num_warps": 2}
    finally:
        kernels.scale_kernel.pre_run_hooks.clear()


def test_hooks_of_the_workload_surround_each_launch(simulate, vectors):
    cuda = simulate()
    calls = []
    workload = scaling(
        vectors,
        pre_hook=lambda args, reset_only: calls.append(("before", reset_only)),
        post_hook=lambda args, exception: calls.append(("after", exception)),
    )
    workload.first_launch({"BLOCK": 64})
    launch = workload.launcher({"BLOCK": 64})
    cuda.clock.time_batch(launch, 2, workload.prepare)
    workload.restore()
    around = [("before", False), ("after", None)]
    assert calls == [*around, *around, *around, ("before", True)]


def test_hook_after_a_failed_launch_gets_the_error(simulate, vectors):
    def fail(config, stage):
        if stage == "launch":
            raise RuntimeError("Triton Error [CUDA]: invalid argument")

    simulate(fault=fail)
    seen = []
    workload = scaling(
        vectors, post_hook=lambda args, exception: seen.append(exception)
    )
    with pytest.raises(RuntimeError, match="invalid argument") as raised:
        workload.first_launch({"BLOCK": 64})
    assert seen == [raised.value]


# Launching


def test_launcher_enqueues_the_kernel_with_bound_arguments(simulate, vectors):
    cuda = simulate(duration=lambda c: 64 / c["BLOCK"], compute=kernels.scale)
    x, y = vectors
    launch = scaling(vectors).launcher({"BLOCK": 128})
    assert list(cuda.clock.time_batch(launch, 3)) == [0.5] * 3
    assert torch.equal(y, 2 * x)
    assert len(cuda.compiles) == len(cuda.loads) == 1


def test_accumulating_kernel_starts_from_the_same_values_each_time(simulate, vectors):
    cuda = simulate(compute=kernels.accumulate)
    x, y = vectors
    workload = accumulation(vectors, restore_value=["y"], check={"y": x + 7})
    workload.first_launch({"BLOCK": 64})
    launch = workload.launcher({"BLOCK": 64})
    cuda.clock.time_batch(launch, 3, workload.prepare)
    workload.verify()
    workload.restore()
    assert torch.equal(y, torch.full_like(y, 7.0))


def test_reset_tensor_starts_from_zero_each_time(simulate, vectors):
    cuda = simulate(compute=kernels.accumulate)
    x, y = vectors
    workload = accumulation(vectors, reset_to_zero=["y"], check={"y": x})
    workload.first_launch({"BLOCK": 64})
    launch = workload.launcher({"BLOCK": 64})
    cuda.clock.time_batch(launch, 3, workload.prepare)
    workload.verify()
    workload.restore()
    assert not y.any()


def test_asynchronous_fault_comes_out_of_the_first_launch(simulate, vectors):
    from simulated_cuda import StickyError, illegal_access

    def fail(config, stage):
        if stage == "run" and config["BLOCK"] == 128:
            raise illegal_access()

    simulate(fault=fail)
    workload = scaling(vectors)
    workload.first_launch({"BLOCK": 64})
    for block in (128, 64):  # the second one finds the device broken
        with pytest.raises(StickyError, match="illegal memory access"):
            workload.first_launch({"BLOCK": block})


# Results


def test_config_with_a_wrong_result_is_found(simulate, vectors):
    def compute(args):
        kernels.scale(args)
        if args["BLOCK"] == 128:
            args["y"][5] += 1

    simulate(compute=compute)
    x, _ = vectors
    workload = scaling(vectors, check={"y": 2 * x})
    workload.first_launch({"BLOCK": 64})
    with pytest.raises(WrongResultError, match=r"y is wrong at 1 of 1000.*at \[5\]"):
        workload.first_launch({"BLOCK": 128})


def test_right_result_of_an_earlier_config_does_not_hide_that_nothing_is_written(
    simulate, vectors
):
    def compute(args):
        if args["BLOCK"] == 64:
            kernels.scale(args)

    simulate(compute=compute)
    x, _ = vectors
    workload = scaling(vectors, check={"y": 2 * x})
    workload.first_launch({"BLOCK": 64})
    with pytest.raises(WrongResultError, match=r"at 1000 of 1000.*not written"):
        workload.first_launch({"BLOCK": 128})


@pytest.mark.parametrize("answer", [None, True, torch.tensor(True)])
def test_check_function_that_is_content(simulate, vectors, answer):
    simulate()
    seen = []
    workload = scaling(vectors, check=lambda args: (seen.append(args), answer)[1])
    workload.first_launch({"BLOCK": 64})
    assert seen[0].keys() == {"x", "y", "n"}


def test_check_function_that_says_no(simulate, vectors):
    simulate()
    workload = scaling(vectors, check=lambda args: False)
    with pytest.raises(WrongResultError, match="returned False"):
        workload.first_launch({"BLOCK": 64})


def test_check_function_that_asserts(simulate, vectors):
    simulate()
    x, _ = vectors
    workload = scaling(
        vectors, check=lambda args: torch.testing.assert_close(args["y"], 2 * x)
    )
    with pytest.raises(WrongResultError, match="not close"):
        workload.first_launch({"BLOCK": 64})
