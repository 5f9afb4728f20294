import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fasta_learn.inductor._npu_pool import (
    cannot_fit,
    describe_work,
    find_candidates,
)

WORK = "elements_of_busiest_core"


def entry(number, variant, **config):
    return {
        "candidate_id": f"c{number}",
        "variant_id": variant,
        "full_config": config,
        "runtime_blocks": (),
    }


def test_candidates_are_in_the_order_of_the_plan_each_once():
    first = {"X0BLOCK": 8, "X0BLOCK_SUB": 4, "split_axis": (0,), "split_blocks": (8,)}
    entries = [
        entry(0, "v0", **first),
        entry(1, "v1", X0BLOCK=8, X0BLOCK_SUB=8),
        entry(2, "v0", X0BLOCK=16, X0BLOCK_SUB=4),
        entry(3, "v0", **first),
    ]
    found = find_candidates({"candidate_entries": entries})
    assert found.configs == [
        {"X0BLOCK": 8, "X0BLOCK_SUB": 4},
        {"X0BLOCK": 8, "X0BLOCK_SUB": 8},
        {"X0BLOCK": 16, "X0BLOCK_SUB": 4},
    ]
    assert found.variants == ["v0", "v1", "v0"]
    assert found.full[0] == first
    assert len(found) == len(set(found.keys)) == 3


def test_plan_may_be_empty():
    assert len(find_candidates({"candidate_entries": ()})) == 0


def busiest_core(config, sizes, n_cores):
    """Hand the programs out in turn and count what each core works through."""
    work = [0] * n_cores
    ranges = []
    for axis, size in sizes.items():
        block = config.get(f"{axis.upper()}BLOCK", size)
        ranges.append([min(block, size)] * math.ceil(size / block))
    for number, program in enumerate(itertools.product(*ranges)):
        elements = 1
        for (axis, _), length in zip(sizes.items(), program, strict=True):
            sub = min(config.get(f"{axis.upper()}BLOCK_SUB", length), length)
            elements *= sub * math.ceil(length / sub)
        work[number % n_cores] += elements
    return max(work)


@given(
    size=st.integers(1, 300),
    block=st.integers(1, 300),
    sub=st.integers(1, 64),
    part=st.integers(1, 40),
    n_cores=st.integers(1, 12),
)
def test_work_is_that_of_the_busiest_core(size, block, sub, part, n_cores):
    sizes = {"x0": size, "r1": 32}
    config = {"X0BLOCK": block, "X0BLOCK_SUB": sub, "R1BLOCK_SUB": part, "num_warps": 1}
    (described,) = describe_work([config], sizes, n_cores)
    assert described == {**config, WORK: busiest_core(config, sizes, n_cores)}


@pytest.mark.parametrize("sizes", [None, [4096, 1024]])
def test_nothing_is_added_without_sizes(sizes):
    config = {"X0BLOCK": 8}
    (described,) = describe_work([config], sizes, 48)
    assert described == config
    assert described is not config


TILE = {"X0BLOCK": 64, "X0BLOCK_SUB": 8, "R1BLOCK_SUB": 32, "multibuffer": False}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"X0BLOCK": 8}, True),  # is no part of what is compiled
        ({"X0BLOCK_SUB": 16}, True),
        ({"multibuffer": True}, True),
        ({"X0BLOCK_SUB": 7, "R1BLOCK_SUB": 64}, False),
        ({"X0BLOCK_SUB": 7}, False),
        ({"compile_mode": "simt"}, False),
    ],
)
def test_what_is_no_smaller_can_not_fit(change, expected):
    assert cannot_fit({**TILE, **change}, TILE) is expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"X0BLOCK_SUB": 4}, True),  # half of 3000 bits is more than 1400
        ({"X0BLOCK_SUB": 3}, False),
        ({"X0BLOCK_SUB": 4, "multibuffer": True}, False),
        ({"X0BLOCK_SUB": 4, "R1BLOCK_SUB": 64}, False),
    ],
)
def test_part_of_what_was_far_too_large_can_not_fit(change, expected):
    assert cannot_fit({**TILE, **change}, TILE, 3000, 1400) is expected


def test_other_value_of_what_is_compiled_in_tells_nothing():
    config = {**TILE, "compile_mode": "simt"}
    assert not cannot_fit(config, {**TILE, "compile_mode": "simd"})


TILES = st.fixed_dictionaries(
    {
        "X0BLOCK_SUB": st.integers(1, 64),
        "R1BLOCK_SUB": st.integers(1, 64),
        "multibuffer": st.booleans(),
    }
)


@given(
    config=TILES,
    other=TILES,
    fixed=st.integers(0, 3000),
    each=st.integers(1, 32),
    available=st.integers(100, 60_000),
)
def test_nothing_that_fits_is_ruled_out(config, other, fixed, each, available):
    def required(tile):
        elements = tile["X0BLOCK_SUB"] * tile["R1BLOCK_SUB"]
        return fixed + each * elements * (1 + tile["multibuffer"])

    if required(other) > available and cannot_fit(
        config, other, required(other), available
    ):
        assert required(config) > available
