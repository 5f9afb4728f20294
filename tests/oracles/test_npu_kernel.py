import pytest
import torch
import triton
import triton.language as tl

from fasta_learn.oracles._npu_kernel import NPUWorkload, _alike, _check_grid


@triton.jit
def tiled_kernel(x, n, XBLOCK, XBLOCK_SUB: tl.constexpr):
    tl.store(x + tl.program_id(0), n + XBLOCK + XBLOCK_SUB)


@triton.heuristics({"XBLOCK_SUB": lambda arguments: arguments["XBLOCK"] // 2})
@triton.jit
def derived_kernel(x, n, XBLOCK, XBLOCK_SUB: tl.constexpr):
    tl.store(x + tl.program_id(0), n + XBLOCK + XBLOCK_SUB)


def make(kernel):
    return NPUWorkload(kernel, [torch.zeros(4), 4], (1,))


def test_candidates_of_a_variant_differ_in_arguments_read_at_run_time():
    workload = make(tiled_kernel)
    one, same = (workload.variant({"XBLOCK": b, "XBLOCK_SUB": 8}) for b in (64, 128))
    other = workload.variant({"XBLOCK": 64, "XBLOCK_SUB": 16})
    assert one == same != other


def test_options_belong_to_the_variant():
    workload = make(tiled_kernel)
    found = [
        workload.variant({"XBLOCK": 64, "XBLOCK_SUB": 8, "multibuffer": flag})
        for flag in (False, True)
    ]
    assert found[0] != found[1]


def test_heuristics_may_compile_anything_in():
    workload = make(derived_kernel)
    assert workload.variant({"XBLOCK": 64}) != workload.variant({"XBLOCK": 128})


@pytest.mark.parametrize(
    ("values", "n_kinds"),
    [
        ((1, 1), 1),
        ((16, 64, 4096), 1),
        ((3, 24, 7), 1),
        ((1, 3, 16), 3),
        ((16, 2**33), 2),
        ((2**33, 2**34), 1),
        ((2**33, 2**33 + 1), 2),
        ((True, 1), 1),
        (("a", "b"), 2),
    ],
)
def test_kinds_of_arguments_that_triton_compiles_apart(values, n_kinds):
    assert len({_alike(value) for value in values}) == n_kinds


def test_largest_grid_that_a_launch_may_have():
    _check_grid((65535, 1, 1))
    with pytest.raises(RuntimeError, match="65536 programs"):
        _check_grid((256, 256, 1))


def test_larger_grid_if_all_blocks_run_in_parallel(monkeypatch):
    monkeypatch.setenv("TRITON_ALL_BLOCKS_PARALLEL", "1")
    _check_grid((256, 256, 1))
