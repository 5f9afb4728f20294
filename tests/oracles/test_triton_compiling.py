import contextvars
from concurrent.futures import ThreadPoolExecutor

import pytest
import sample_kernels as kernels
import torch
import triton
from triton.runtime import _allocation
from workloads import N, grid, scaling

from fasta_learn.oracles._triton_kernel import Workload

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


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize(("n_errors", "is_kept"), [(1, True), (3, True), (4, False)])
def test_parsers_that_disturb_one_another_are_given_more_tries(
    simulate, vectors, monkeypatch, n_errors, is_kept, is_first
):
    simulate()
    key = kernels.scale_kernel.cache_key
    if is_first:
        # Triton parses a kernel for its key, which it keeps, and for each compile.
        monkeypatch.setattr(kernels.scale_kernel, "hash", None)
    errors = [
        SystemError("AST constructor recursion depth mismatch (before=45, after=39)")
    ] * n_errors
    parse = type(kernels.scale_kernel).parse

    def disturbed(self):
        if errors:
            raise errors.pop()
        return parse(self)

    monkeypatch.setattr(type(kernels.scale_kernel), "parse", disturbed)
    workload = scaling(vectors)
    n_stages = n_errors + 4 * is_first
    config = {"BLOCK": 64, "num_warps": 8, "num_stages": n_stages}  # a new one
    if is_kept:
        assert workload.compile(config).seconds > 0
    else:
        with pytest.raises(SystemError, match="recursion depth"):
            workload.compile(config)
    assert not errors
    if is_kept:
        assert kernels.scale_kernel.cache_key == key


def test_other_errors_of_the_interpreter_are_told(simulate, vectors, monkeypatch):
    simulate()

    def broken(self):
        raise SystemError("error return without exception set")

    monkeypatch.setattr(type(kernels.scale_kernel), "parse", broken)
    with pytest.raises(SystemError, match="without exception"):
        scaling(vectors).compile({"BLOCK": 64, "num_warps": 4, "num_stages": 7})


def test_release_of_an_unknown_config_does_nothing(simulate, vectors):
    cuda = simulate()
    workload = scaling(vectors)
    workload.first_launch({"BLOCK": 32})
    workload.release({"BLOCK": 64})
    workload.first_launch({"BLOCK": 32})
    assert len(cuda.loads) == 1


def test_closed_workload_compiles_anew(simulate, vectors):
    simulate()
    workload = scaling(vectors, restore_value=["y"])
    workload.first_launch({"BLOCK": 64})
    workload.close()
    vectors[1].fill_(1)
    workload.first_launch({"BLOCK": 64})
    workload.restore()
    assert vectors[1].eq(1).all()
