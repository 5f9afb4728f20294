import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fasta_learn.configs import TileSpace
from fasta_learn.configs._ascend_tiles import item_bytes


def programs(config, axes):
    return math.prod(
        math.ceil(size / config[f"{name.upper()}BLOCK"])
        for name, size in axes.items()
        if not name.startswith("r")
    )


def test_row_reduction_by_hand():
    space = TileSpace.ascend({"x0": 96, "r1": 40}, "float32", ub_bytes=1024, cores=4)
    # 3840 elements are few: from no less than one program on, up to two waves of 4.
    assert space.parameters == {
        "X0BLOCK": [16, 24, 48, 96],
        "X0BLOCK_SUB": [1, 2, 4, 8, 16, 32, 64, 96],
        "R1BLOCK_SUB": [8, 16, 32, 40],
        "multibuffer": [False, True],
    }
    expected = [
        dict(zip(space.parameters, row, strict=True))
        for row in itertools.product(*space.parameters.values())
        if row[1] <= row[0]
        and 2 * 4 * row[1] * row[2] * (2 if row[3] else 1) <= 1024
        and math.ceil(96 / row[0]) <= 8
    ]
    assert list(space) == expected


axes_strategy = st.lists(st.integers(1, 5000), min_size=1, max_size=3)


@settings(max_examples=40, deadline=None)
@given(
    sizes=axes_strategy,
    kinds=st.lists(st.booleans(), min_size=3, max_size=3),
    dtype=st.sampled_from(["float32", "float16", "int8"]),
    n_tensors=st.integers(1, 4),
)
def test_limits_hold_for_every_config(sizes, kinds, dtype, n_tensors):
    axes = {
        f"{'r' if is_reduced else 'x'}{i}": size
        for i, (size, is_reduced) in enumerate(zip(sizes, kinds, strict=False))
    }
    space = TileSpace.ascend(axes, dtype, n_tensors=n_tensors)
    n_bytes = np.dtype(dtype).itemsize
    unit = 32 // n_bytes
    split = [name for name in axes if name.startswith("x")]
    most = programs({k: min(v) for k, v in space.parameters.items()}, axes)
    least = 48 // 8 if math.prod(sizes) < 131072 else 48 // 2
    for config in space:
        tile = math.prod(config[f"{name.upper()}BLOCK_SUB"] for name in axes)
        copies = 2 if config["multibuffer"] else 1
        assert tile * n_bytes * n_tensors * copies <= 192 * 1024
        assert all(
            config[f"{n.upper()}BLOCK_SUB"] <= config[f"{n.upper()}BLOCK"]
            for n in split
        )
        assert programs(config, axes) <= 2 * 48
        assert not split or programs(config, axes) >= min(least, most)
        innermost = f"{list(axes)[-1].upper()}BLOCK_SUB"
        assert config[innermost] >= min(unit, list(axes.values())[-1])
        for name, value in config.items():
            if name != "multibuffer":
                assert value % unit == 0 or value <= unit or value & (value - 1) == 0


def test_persistent_reduction_is_one_sub_block():
    space = TileSpace.ascend({"x0": 4096, "r1": 1000}, "float16", persistent=True)
    assert space.parameters["R1BLOCK_SUB"] == [1008]  # whole units of 32 bytes


def test_row_that_does_not_fit_cannot_be_reduced_persistently():
    with pytest.raises(ValueError, match=r"R1BLOCK_SUB.* <= 196608' excludes"):
        TileSpace.ascend({"x0": 64, "r1": 100_000}, persistent=True)


def test_without_multibuffer_there_is_no_such_parameter():
    space = TileSpace.ascend({"x": 4096}, multibuffer=False)
    assert set(space.parameters) == {"XBLOCK", "XBLOCK_SUB"}


def test_full_reduction_has_no_block():
    space = TileSpace.ascend({"r0": 4096})
    assert set(space.parameters) == {"R0BLOCK_SUB", "multibuffer"}


def test_more_constraints_can_be_given():
    space = TileSpace.ascend({"x": 4096}, constraints=["XBLOCK_SUB >= 64"])
    assert min(config["XBLOCK_SUB"] for config in space) == 64


def test_cores_decide_the_blocks():
    few, many = (TileSpace.ascend({"x": 1 << 20}, cores=n) for n in (24, 48))
    assert min(few.parameters["XBLOCK"]) == 2 * min(many.parameters["XBLOCK"]) - 8


@pytest.mark.parametrize(
    ("dtype", "n_bytes"),
    [
        ("float32", 4),
        ("bfloat16", 2),
        ("float8_e4m3fn", 1),
        ("bool", 1),
        (torch.float16, 2),
        (torch.int64, 8),
        (np.float64, 8),
        (np.dtype("uint8"), 1),
    ],
)
def test_bytes_of_a_type(dtype, n_bytes):
    assert item_bytes(dtype) == n_bytes


@pytest.mark.parametrize("dtype", ["number", "float", "object", "int4"])
def test_unknown_type_is_refused(dtype):
    with pytest.raises(ValueError, match="dtype must be a type of one size"):
        item_bytes(dtype)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"axes": {}}, "axes must be a dict of one to 3 names"),
        ({"axes": {f"x{i}": 2 for i in range(4)}}, "axes must be a dict of one to 3"),
        ({"axes": [4, 5]}, "axes must be a dict"),
        ({"axes": {"x 0": 4}}, "the name of an axis must be a word"),
        ({"axes": {"x0": 0}}, r"axes\['x0'\] must be a positive int, got 0"),
        ({"axes": {"x0": 4}, "ub_bytes": -1}, "ub_bytes must be a positive int"),
        ({"axes": {"x0": 4}, "cores": 1.5}, "cores must be a positive int"),
        ({"axes": {"x0": 4}, "n_tensors": 0}, "n_tensors must be a positive int"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        TileSpace.ascend(**arguments)
