"""Tests of the pools of generated kernels."""

import math

import pytest

from fasta_learn.configs import config_key
from fasta_learn.inductor._pointwise_pool import KernelFacts, axis_of, make_pool

MOST = {"x": 4096, "y": 1024, "z": 1024, "r0_": 65536, "r1_": 32768}
WARPS = {"num_warps": 4, "num_stages": 1}


def facts(kind, sizes, blocks, **more):
    return KernelFacts(
        kind=kind, sizes=sizes, stock=[{**blocks, **WARPS}], most=MOST, **more
    )


KERNELS = [
    facts("pointwise", {"x": 2**24}, {"XBLOCK": 1024}),
    facts("pointwise", {"y": 4096, "x": 4096}, {"YBLOCK": 32, "XBLOCK": 32}),
    facts(
        "pointwise",
        {"z": 64, "y": 512, "x": 4096},
        {"ZBLOCK": 1, "YBLOCK": 32, "XBLOCK": 32},
    ),
    facts("reduction", {"x": 512, "r0_": 32768}, {"XBLOCK": 1, "R0_BLOCK": 2048}),
    facts("reduction", {"x": 2048, "r0_": 256}, {"XBLOCK": 64, "R0_BLOCK": 8}),
    facts("persistent_reduction", {"x": 8192, "r0_": 1024}, {"XBLOCK": 1}),
    facts(
        "reduction",
        {"x": 512, "r0_": 64, "r1_": 128},
        {"XBLOCK": 1, "R0_BLOCK": 16, "R1_BLOCK": 64},
    ),
]


@pytest.mark.parametrize("kernel", KERNELS)
def test_blocks_are_what_the_generated_code_is_right_for(kernel):
    for config in make_pool(kernel):
        for name, block in config.items():
            if not name.endswith("BLOCK"):
                continue
            axis = axis_of(name)
            assert MOST[axis] % block == 0
            assert block <= kernel.sizes[axis]
        assert 1 <= config["num_warps"] <= 32
        assert list(config) == list(kernel.stock[0])


@pytest.mark.parametrize("kernel", KERNELS)
def test_pools_are_large_enough_to_search_and_small_enough_to_decide(kernel):
    pool = make_pool(kernel)
    assert 20 <= len(pool) <= 601
    assert len({config_key(config) for config in pool}) == len(pool)


@pytest.mark.parametrize("kernel", KERNELS)
def test_stock_comes_first(kernel):
    assert make_pool(kernel)[: len(kernel.stock)] == kernel.stock


def test_a_row_can_be_taken_whole():
    kernel = KERNELS[3]
    assert any(config["R0_BLOCK"] == 32768 for config in make_pool(kernel))


def test_a_persistent_kernel_counts_its_whole_rows():
    for config in make_pool(KERNELS[5]):
        assert config["XBLOCK"] * 1024 <= 64 * 32 * config["num_warps"]


def test_there_are_enough_blocks_for_the_device():
    for config in make_pool(KERNELS[1]):
        n_blocks = math.prod(4096 // config[name] for name in ("XBLOCK", "YBLOCK"))
        assert n_blocks >= 132 // 4


def test_a_grid_has_no_more_blocks_than_cuda_allows():
    kernel = facts("pointwise", {"y": 2**20, "x": 64}, {"YBLOCK": 64, "XBLOCK": 64})
    assert all(2**20 // c["YBLOCK"] <= 65535 for c in make_pool(kernel))


def test_a_size_of_one_has_a_block_of_one():
    kernel = facts("reduction", {"x": 1, "r0_": 65536}, {"XBLOCK": 1, "R0_BLOCK": 2048})
    assert {config["XBLOCK"] for config in make_pool(kernel)} == {1}


def test_without_an_x_block_only_the_others_vary():
    kernel = facts("reduction", {"x": 1, "r0_": 65536}, {"R0_BLOCK": 2048})
    pool = make_pool(kernel)
    assert len(pool) > 10
    assert all("XBLOCK" not in config for config in pool)


def test_least_blocks_are_kept():
    kernel = facts(
        "reduction",
        {"x": 4096, "r0_": 4096},
        {"XBLOCK": 8, "R0_BLOCK": 512},
        least={"XBLOCK": 4, "R0_BLOCK": 16},
    )
    pool = make_pool(kernel)
    assert min(config["XBLOCK"] for config in pool) == 4
    assert min(config["R0_BLOCK"] for config in pool) == 16


def test_blocks_of_a_mix_order_reduction_divide_its_split():
    kernel = facts(
        "persistent_reduction",
        {"x": 32768, "r0_": 1024},
        {"XBLOCK": 4, "RSPLIT_SIZE": 64, "NUM_STAGES": 1},
        split=64,
        most_stages=3,
    )
    pool = make_pool(kernel)
    assert {config["RSPLIT_SIZE"] for config in pool} == {64}
    assert {config["NUM_STAGES"] for config in pool} == {1, 2, 3}
    assert max(config["XBLOCK"] for config in pool) <= 64


def test_a_tiny_kernel_still_has_configs():
    pool = make_pool(facts("pointwise", {"x": 1024}, {"XBLOCK": 256}))
    assert len(pool) > 3


def test_what_no_rule_fits_is_left_to_stock():
    kernel = facts("pointwise", {"x": 1}, {"XBLOCK": 1})
    assert make_pool(kernel)[0] == kernel.stock[0]
