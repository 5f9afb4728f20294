from types import SimpleNamespace

import pytest

from fasta_learn.configs import expand_multibuffer
from fasta_learn.configs._tiles import (
    check_named,
    count_circles,
    mark_of,
    sub_blocks,
)


def make_object(kwargs, **attributes):
    return SimpleNamespace(kwargs=kwargs, **attributes)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"X0BLOCK": 64, "X0BLOCK_SUB": 16}, {"X0BLOCK_SUB": 16}),
        ({"XBLOCK_SUB": 8}, {"XBLOCK_SUB": 8}),
        ({"R0BLOCK_SUB": 4, "X0BLOCK_SUB": 2}, {"R0BLOCK_SUB": 4, "X0BLOCK_SUB": 2}),
        ({"BLOCK_M": 64, "BLOCK_M_SUB": 32}, {"BLOCK_M_SUB": 32}),
        ({"BLOCK": 64, "BLOCK_SUB": 32}, {"BLOCK_SUB": 32}),
        ({"X0BLOCK_SUB": None}, {}),
        ({"BLOCK_M": 64, "MY_SUB": 3, "SUB": 2, "X0BLOCK_SUBSET": 5}, {}),
    ],
)
def test_sub_blocks_are_found_by_name(config, expected):
    assert sub_blocks(config, "config") == expected


def test_sub_blocks_do_not_depend_on_order():
    config = {"X0BLOCK_SUB": 2, "R0BLOCK_SUB": 4}
    assert list(sub_blocks(config, "config")) == ["R0BLOCK_SUB", "X0BLOCK_SUB"]


@pytest.mark.parametrize("value", [0, -4, "8", True, float("nan")])
def test_sub_block_that_is_no_size_is_refused(value):
    with pytest.raises(ValueError, match=r"configs\[3\]\['XBLOCK_SUB'\] is .*positive"):
        sub_blocks({"XBLOCK_SUB": value}, "configs[3]")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"X0BLOCK": 64, "X0BLOCK_SUB": 16}, 4),
        ({"X0BLOCK": 65, "X0BLOCK_SUB": 16}, 5),
        ({"X0BLOCK": 8, "X0BLOCK_SUB": 16}, 1),
        ({"X0BLOCK": 64, "X0BLOCK_SUB": 32, "R0BLOCK": 9, "R0BLOCK_SUB": 3}, 6),
        ({"BLOCK_M": 64, "BLOCK_M_SUB": 32}, 2),
        ({"R0BLOCK_SUB": 32}, 1),
        ({"X0BLOCK": 64}, 1),
        ({}, 1),
    ],
)
def test_circles_are_the_product_of_rounded_up_ratios(config, expected):
    subs = sub_blocks(config, "config")
    assert count_circles(config, subs, "config") == expected


def test_block_that_is_no_size_is_refused():
    config = {"XBLOCK": "big", "XBLOCK_SUB": 4}
    with pytest.raises(ValueError, match=r"configs\[0\]\['XBLOCK'\] is 'big'"):
        count_circles(config, {"XBLOCK_SUB": 4}, "configs[0]")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"from_expert": True}, True),
        ({}, None),
        (make_object({}, from_expert=True), True),
        (make_object({"from_expert": True}), True),
        (make_object({"from_expert": True}, from_expert=False), False),
        (make_object({}), None),
    ],
)
def test_mark_is_an_attribute_or_a_keyword(config, expected):
    assert mark_of(config, "from_expert") is expected


def test_single_config_is_refused():
    with pytest.raises(TypeError, match="single config; pass a list"):
        check_named({"a": 1})


def test_what_is_no_config_is_refused_with_its_position():
    with pytest.raises(TypeError, match=r"configs\[1\] is of type int"):
        expand_multibuffer([{"a": 1}, 5])


def test_config_without_the_key_is_doubled():
    assert expand_multibuffer([{"a": 1}, {"a": 2}]) == [
        {"a": 1, "multibuffer": False},
        {"a": 1, "multibuffer": True},
        {"a": 2, "multibuffer": False},
        {"a": 2, "multibuffer": True},
    ]


@pytest.mark.parametrize("flag", [True, False, None])
def test_config_with_the_key_is_kept_itself(flag):
    config = {"a": 1, "multibuffer": flag}
    expanded = expand_multibuffer([config])
    assert len(expanded) == 1
    assert expanded[0] is config


def test_exact_duplicates_are_dropped():
    first = {"a": 1, "multibuffer": True}
    expanded = expand_multibuffer([first, {"a": 1}, {"a": 1}])
    assert expanded == [first, {"a": 1, "multibuffer": False}]
    assert expanded[0] is first


def test_objects_are_copied():
    config = make_object({"a": 1}, num_warps=4, from_expert=True)
    expanded = expand_multibuffer([config])
    assert config.kwargs == {"a": 1}
    assert [c.kwargs["multibuffer"] for c in expanded] == [False, True]
    assert all(c.num_warps == 4 and c.from_expert for c in expanded)
    assert expanded[0].kwargs is not expanded[1].kwargs


def test_dicts_are_copied():
    config = {"a": 1}
    expand_multibuffer([config])
    assert config == {"a": 1}


@pytest.mark.parametrize("option", ["num_warps", "num_stages", "num_ctas"])
def test_objects_with_other_launch_options_are_no_duplicates(option):
    configs = [
        make_object({"a": 1, "multibuffer": True}, **{option: value})
        for value in (1, 2, 2)
    ]
    assert expand_multibuffer(configs) == configs[:2]


def test_nothing_expands_to_nothing():
    assert expand_multibuffer([]) == []
