import contextvars
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import sample_kernels as kernels
import torch
import triton
from triton.runtime import _allocation
from triton.tools.tensor_descriptor import TensorDescriptor

from fasta_learn.exceptions import WrongResultError
from fasta_learn.oracles._triton_kernel import Workload

N = 1000


@pytest.fixture
def vectors():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(N, generator=generator)
    return x, torch.full_like(x, 7.0)


def grid(meta):
    return (triton.cdiv(N, meta["BLOCK"]),)


def scaling(vectors, **options):
    return Workload(kernels.scale_kernel, (*vectors, N), grid, **options)


def accumulation(vectors, **options):
    return Workload(kernels.accumulate_kernel, (*vectors, N), grid, **options)


# Compiling


def test_launch_of_a_compiled_config_compiles_nothing(simulate, vectors):
    cuda = simulate(compute=kernels.scale)
    scaling(vectors).compile({"BLOCK": 128, "num_warps": 2})
    n_compiles = len(cuda.compiles)
    x, y = vectors
    kernels.scale_kernel[grid](x, y, N, BLOCK=128, num_warps=2)
    assert n_compiles == len(cuda.compiles) == 1
    assert torch.equal(y, 2 * x)


def test_compiling_loads_and_launches_nothing(simulate, vectors):
    cuda = simulate()
    scaling(vectors).compile({"BLOCK": 128})
    assert cuda.loads == cuda.launches == []


def test_threads_compile_each_config_once_and_launches_find_them(simulate, vectors):
    cuda = simulate(compute=kernels.scale)
    workload = scaling(vectors)
    configs = [{"BLOCK": 2**i, "num_warps": w} for i in (6, 7, 8, 9) for w in (1, 2)]
    with ThreadPoolExecutor(8) as threads:
        facts = list(threads.map(workload.compile, configs))
    for config in configs:
        workload.first_launch(config)
    assert len(facts) == len(cuda.compiles) == len(cuda.loads) == len(configs)
    launched = [(c["BLOCK"], c["num_warps"]) for c in cuda.launches]
    assert launched == [(c["BLOCK"], c["num_warps"]) for c in configs]


def test_second_compile_is_answered_from_memory(simulate, vectors, tmp_path):
    cuda = simulate(cache_dir=tmp_path)
    workload = scaling(vectors)
    assert not workload.compile({"BLOCK": 64}).cached
    assert workload.compile({"BLOCK": 64}).cached
    assert len(cuda.compiles) == 1


def test_compile_is_answered_from_the_disk(simulate, vectors, tmp_path):
    cuda = simulate(cache_dir=tmp_path)
    scaling(vectors).compile({"BLOCK": 64})
    kernels.scale_kernel.device_caches.clear()
    facts = scaling(vectors).compile({"BLOCK": 64})
    assert facts.cached
    assert [cached for _, cached in cuda.compiles] == [False, True]


def test_triton_config_and_dict_are_the_same_config(simulate, vectors):
    cuda = simulate()
    workload = scaling(vectors)
    options = {"num_warps": 8, "num_stages": 2, "num_ctas": 1}
    workload.compile(triton.Config({"BLOCK": 64}, num_warps=8, num_stages=2))
    workload.compile({**options, "BLOCK": 64})
    assert [config for config, _ in cuda.compiles] == [{"BLOCK": 64, **options}]


def test_facts_of_a_loaded_kernel(simulate):
    simulate()
    a, b, c = (torch.zeros(256, 256, dtype=torch.float16) for _ in range(3))
    workload = Workload(kernels.matmul_kernel, (a, b, c, 256, 256, 256), (4, 4))
    config = {"BM": 64, "BN": 64, "BK": 32, "num_stages": 3}
    compiled, loaded = workload.compile(config), workload.load(config)
    assert (compiled.registers, compiled.spills) == (None, None)
    # 3 stages of a 64 x 32 and a 32 x 64 tile of 2-byte values.
    assert compiled.shared_bytes == loaded.shared_bytes == 3 * 2 * 64 * 32 * 2
    assert 16 <= loaded.registers <= 255
    assert loaded.spills == 0
    assert loaded.seconds == compiled.seconds > 0


def test_spills_of_a_tile_that_exceeds_the_registers(simulate):
    simulate()
    a, b, c = (torch.zeros(256, 256, dtype=torch.float16) for _ in range(3))
    workload = Workload(kernels.matmul_kernel, (a, b, c, 256, 256, 256), (2, 1))
    # Each of 128 threads has to hold 256 sums and their operands.
    facts = workload.load({"BM": 128, "BN": 256, "BK": 32, "num_warps": 4})
    assert facts.registers == 255
    assert facts.spills > 0


def test_load_fails_again_when_it_has_failed(simulate, vectors):
    simulate(limits={"max_shared_mem": 100})
    a, b, c = (torch.zeros(64, 64, dtype=torch.float16) for _ in range(3))
    workload = Workload(kernels.matmul_kernel, (a, b, c, 64, 64, 64), (1, 1))
    for _ in range(2):
        with pytest.raises(triton.runtime.errors.OutOfResources):
            workload.load({"BM": 64, "BN": 64, "BK": 32})


def test_unaligned_and_aligned_arguments_are_compiled_apart(simulate, vectors):
    cuda = simulate(compute=kernels.scale)
    x, y = vectors
    shifted = torch.zeros(N + 1)[1:]
    for source in (x, shifted):
        scaling((source, y)).compile({"BLOCK": 64})
        kernels.scale_kernel[grid](source, y, N, BLOCK=64)
    assert len(cuda.compiles) == 2


def test_released_config_is_found_on_the_disk_only(simulate, vectors):
    cuda = simulate()
    workload = scaling(vectors)
    for config in ({"BLOCK": 64}, {"BLOCK": 128}):
        workload.load(config)
    workload.release({"BLOCK": 64})
    n_compiles = len(cuda.compiles)
    workload.compile({"BLOCK": 128})
    assert len(cuda.compiles) == n_compiles
    workload.compile({"BLOCK": 64})
    assert cuda.compiles[n_compiles:] == [(cuda.compiles[0][0], True)]


def test_threads_compile_for_the_device_of_the_workload(simulate, vectors):
    cuda = simulate(n_devices=2)
    driver = triton.runtime.driver.active
    with driver.get_device_interface().device(1):
        workload = scaling(vectors)
        assert workload.device == 1
        with ThreadPoolExecutor(1) as thread:  # where device 0 is current
            thread.submit(workload.compile, {"BLOCK": 64}).result()
        kernels.scale_kernel[grid](*vectors, N, BLOCK=64)
    assert len(cuda.compiles) == 1


def test_hook_of_triton_that_keeps_it_from_compiling_is_named(simulate, vectors):
    simulate()
    with triton.knobs.runtime.scope():
        triton.knobs.runtime.jit_cache_hook = lambda **_: True
        with pytest.raises(RuntimeError, match="jit_cache_hook"):
            scaling(vectors).compile({"BLOCK": 64})


def test_kernel_with_scratch_memory_gets_an_allocator(simulate):
    def load_in_a_fresh_context():
        workload.load({"BLOCK": 16})
        return _allocation._allocator.get()(64, 16, None)

    simulate()
    x = torch.zeros(64, 64)
    workload = Workload(
        kernels.scratch_kernel, (x, x.clone()), (1,), constants={"N": 64}
    )
    memory = contextvars.Context().run(load_in_a_fresh_context)
    assert memory.numel() * memory.element_size() == 64


def test_allocator_of_the_user_is_kept(simulate):
    def allocate(size, alignment, stream):
        raise NotImplementedError

    def load_with_allocator():
        triton.set_allocator(allocate)
        workload.load({"BLOCK": 16})
        return _allocation._allocator.get()

    simulate()
    x = torch.zeros(64, 64)
    workload = Workload(
        kernels.scratch_kernel, (x, x.clone()), (1,), constants={"N": 64}
    )
    assert contextvars.Context().run(load_with_allocator) is allocate


def test_release_of_an_unknown_config_does_nothing(simulate, vectors):
    simulate()
    scaling(vectors).release({"BLOCK": 64})


def test_closed_workload_compiles_anew(simulate, vectors):
    simulate()
    workload = scaling(vectors, restore_value=["y"])
    workload.first_launch({"BLOCK": 64})
    workload.close()
    vectors[1].fill_(1)
    workload.first_launch({"BLOCK": 64})
    workload.restore()
    assert vectors[1].eq(1).all()


# Arguments


def test_defaults_and_none_are_as_in_a_plain_launch(simulate, vectors):
    cuda = simulate(compute=kernels.options)
    x, y = vectors
    workload = Workload(
        kernels.options_kernel, {"x": x, "y": y, "n": N}, grid, check={"y": 3 * x}
    )
    workload.first_launch({"num_warps": 2})
    kernels.options_kernel[grid](x, y, N, num_warps=2)
    assert len(cuda.compiles) == 1
    assert cuda.launches[0]["FACTOR"] == 3


def test_constants_are_arguments_and_options(simulate, vectors):
    cuda = simulate()
    x, y = vectors
    constants = {"FACTOR": 5, "bias": x, "num_warps": 8}
    workload = Workload(kernels.options_kernel, (x, y, N), grid, constants=constants)
    workload.launch({"BLOCK": 128})
    assert cuda.launches[0]["FACTOR"] == 5
    assert cuda.launches[0]["num_warps"] == 8


def test_sequence_may_include_leading_constexprs(simulate, vectors):
    cuda = simulate()
    workload = Workload(kernels.options_kernel, (*vectors, N, None, 9), grid)
    workload.launch({"BLOCK": 128})
    assert cuda.launches[0]["FACTOR"] == 9


def test_grid_sees_all_parameters(simulate, vectors):
    simulate()
    seen = []

    def record(meta):
        seen.append(dict(meta))
        return (1,)

    x, y = vectors
    workload = Workload(kernels.options_kernel, (x, y, N), record)
    workload.launch({"BLOCK": 32, "num_warps": 1})
    assert seen[0].keys() == {"x", "y", "n", "bias", "FACTOR", "BLOCK"}
    assert (seen[0]["BLOCK"], seen[0]["FACTOR"], seen[0]["n"]) == (32, 3, N)


def test_heuristics_are_computed_for_each_config(simulate, vectors):
    cuda = simulate()
    workload = Workload(kernels.heuristic_kernel, (*vectors, N), grid)
    for block in (64, 8):
        workload.compile({"BLOCK": block})
        kernels.heuristic_kernel[grid](*vectors, N, BLOCK=block)
    assert [config["EVEN"] for config, _ in cuda.compiles] == [False, True]


def test_autotuner_is_unwrapped_with_its_tensors_to_restore(simulate, vectors):
    cuda = simulate(compute=kernels.accumulate)
    x, y = vectors
    expected = {"y": x + 7}
    workload = Workload(kernels.tuned_kernel, (x, y, N), grid, check=expected)
    for block in (32, 128):
        workload.first_launch({"BLOCK": block})
    assert [config["BLOCK"] for config in cuda.launches] == [32, 128]


@pytest.mark.parametrize(
    ("args", "options", "error", "message"),
    [
        ((1, 2, 3, 4, 5), {}, ValueError, "5 values.* only 4 parameters"),
        ({"z": 1}, {}, ValueError, r"args has \['z'\].*x, y, n, BLOCK"),
        ({"n": 1}, {"constants": {"n": 2}}, ValueError, r"\['n'\] are in both"),
        ({"n": 1}, {"reset_to_zero": ["y"]}, ValueError, "reset_to_zero has 'y'"),
        ({"n": 1}, {"restore_value": ["n"]}, ValueError, "'n', which is a int"),
        ({"n": 1}, {"check": {"n": 1}}, ValueError, "check has 'n'"),
    ],
)
def test_wrong_arguments_are_refused_at_once(args, options, error, message):
    with pytest.raises(error, match=message):
        Workload(kernels.scale_kernel, args, (1,), **options)


def test_expected_tensor_of_another_shape_is_refused(vectors):
    with pytest.raises(ValueError, match=r"shape \(1000,\), got \(3,\)"):
        scaling(vectors, check={"y": torch.zeros(3)})


def test_function_without_jit_is_refused():
    with pytest.raises(TypeError, match=r"decorated by triton\.jit, got a function"):
        Workload(grid, (), (1,))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"BLOCK": 64, "n": 3}, r"config sets \['n'\]"),
        ({}, r"no value for \['BLOCK'\]"),
    ],
)
def test_config_that_does_not_fit_is_refused(simulate, vectors, config, message):
    simulate()
    with pytest.raises(TypeError, match=message):
        scaling(vectors).compile(config)


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


# Identity


def test_fingerprint_is_json_and_tells_alignment(vectors):
    _, y = vectors
    aligned = scaling(vectors).fingerprint()
    shifted = scaling((torch.zeros(N + 1)[1:], y)).fingerprint()
    assert json.loads(json.dumps(aligned)) == aligned
    assert aligned["args"]["x"] == {
        "dtype": "torch.float32",
        "shape": [N],
        "stride": [1],
        "aligned": True,
    }
    assert not shifted["args"]["x"]["aligned"]
    assert aligned != shifted


@pytest.mark.parametrize("other", ["values", "same"])
def test_fingerprint_does_not_depend_on_the_values_of_tensors(vectors, other):
    _, y = vectors
    changed = (torch.ones(N), y) if other == "values" else vectors
    assert scaling(vectors).fingerprint() == scaling(changed).fingerprint()


def test_fingerprint_depends_on_kernel_numbers_and_constants(vectors):
    x, y = vectors
    made = [
        Workload(kernels.options_kernel, (x, y, N), (1,)),
        Workload(kernels.options_kernel, (x, y, N - 1), (1,)),
        Workload(kernels.options_kernel, (x, y, N), (1,), constants={"FACTOR": 2}),
        Workload(kernels.options_kernel, (x, y, N), (2,)),
        Workload(kernels.options_kernel, (x, y, N, x), (1,)),
        Workload(kernels.scale_kernel, (x, y, N), (1,)),
    ]
    texts = {json.dumps(workload.fingerprint()) for workload in made}
    assert len(texts) == len(made)


def test_fingerprint_describes_arguments_of_all_kinds():
    descriptor = TensorDescriptor.from_tensor(torch.zeros(32, 32), [8, 16])
    args = {"x": descriptor, "y": (np.int64(3), None, 2.5), "n": torch.float16}
    described = Workload(kernels.scale_kernel, args, (1,)).fingerprint()["args"]
    assert described["x"]["base"]["shape"] == [32, 32]
    assert described["x"]["block_shape"] == [8, 16]
    assert described["y"] == [3, None, 2.5]
    assert described["n"] == "torch.float16"


def test_fingerprint_tells_functions_among_the_arguments_apart(vectors):
    made = [
        Workload(kernels.scale_kernel, vectors, (1,), constants={"n": function})
        for function in (kernels.scale_kernel, kernels.accumulate_kernel)
    ]
    first, second = (workload.fingerprint()["constants"]["n"] for workload in made)
    assert first != second
    assert len(first) == len(second) == 64


def test_name_and_target(simulate, vectors):
    simulate()
    workload = scaling(vectors)
    assert workload.name == "scale_kernel"
    assert (workload.target.backend, workload.target.arch) == ("cuda", 90)


def test_module_imports_neither_torch_nor_triton():
    code = (
        "import sys; import fasta_learn.oracles._triton_kernel; "
        "sys.exit(bool({'torch', 'triton'} & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0
