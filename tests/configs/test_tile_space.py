import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fasta_learn
from fasta_learn import ActiveConfigSearch
from fasta_learn.configs import TileSpace, config_key

TILES = {"BLOCK_M": [16, 32, 64], "BLOCK_N": [32, 64], "num_warps": [1, 2, 4, 8]}


def every(parameters):
    return [
        dict(zip(parameters, values, strict=True))
        for values in itertools.product(*parameters.values())
    ]


# -- As a sequence


def test_it_is_exported_at_the_top():
    assert fasta_learn.TileSpace is TileSpace


def test_without_constraints_all_combinations_in_the_order_of_nested_loops():
    space = TileSpace(TILES)
    assert list(space) == every(TILES)
    assert len(space) == space.n_combinations == 24


def test_index_and_slices():
    space, configs = TileSpace(TILES), every(TILES)
    assert space[5] == configs[5]
    assert space[-1] == configs[-1]
    assert space[2:9:3] == configs[2:9:3]
    assert configs[7] in space
    assert space.index(configs[7]) == 7


def test_index_outside():
    with pytest.raises(IndexError):
        TileSpace(TILES)[24]


def test_configs_are_copies():
    space = TileSpace(TILES)
    space[0]["BLOCK_M"] = 7
    next(iter(space))["BLOCK_M"] = 7
    assert space[0]["BLOCK_M"] == 16


def test_search_takes_it_as_a_pool():
    space = TileSpace(TILES, constraints=["BLOCK_M * BLOCK_N <= 2048"])
    durations = [abs(math.log2(c["BLOCK_M"]) - 5) + c["num_warps"] for c in space]
    search = ActiveConfigSearch(budget=1.0).fit(space, durations)
    assert search.best_config_["BLOCK_M"] == 32
    assert search.best_config_["num_warps"] == 1
    assert search.n_measured_ == len(space)


def test_pickle_keeps_it():
    space = TileSpace(TILES, constraints=["BLOCK_M >= BLOCK_N"])
    copy = pickle.loads(pickle.dumps(space))
    assert list(copy) == list(space)
    assert copy.constraints == ["BLOCK_M >= BLOCK_N"]


def test_repr_counts():
    space = TileSpace(TILES, constraints=["num_warps < 2"])
    assert repr(space) == (
        "TileSpace(n_configs=6, n_combinations=24, "
        "parameters=['BLOCK_M', 'BLOCK_N', 'num_warps'])"
    )


def test_numpy_values_become_plain():
    space = TileSpace({"BLOCK": np.array([16, 32])})
    assert [type(config["BLOCK"]) for config in space] == [int, int]


def test_values_that_differ_in_type_only_are_different():
    assert len(TileSpace({"EVEN": [True, 1, 1.0]})) == 3


# -- Constraints


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("BLOCK_M * BLOCK_N <= 1024", lambda m, n, w: m * n <= 1024),
        ("BLOCK_M // num_warps >= 16", lambda m, n, w: m // w >= 16),
        ("BLOCK_M / BLOCK_N > 0.5", lambda m, n, w: m / n > 0.5),
        ("16 < BLOCK_M <= BLOCK_N", lambda m, n, w: 16 < m <= n),
        ("BLOCK_M > 16 and num_warps != 2", lambda m, n, w: m > 16 and w != 2),
        ("BLOCK_M == 16 or num_warps == 8", lambda m, n, w: m == 16 or w == 8),
        ("not BLOCK_M == 16", lambda m, n, w: m != 16),
        ("num_warps in (1, 8)", lambda m, n, w: w in (1, 8)),
        ("num_warps not in [1, 8]", lambda m, n, w: w not in [1, 8]),
        ("num_warps in {1, 8}", lambda m, n, w: w in {1, 8}),
        ("max(BLOCK_M, BLOCK_N) < 64", lambda m, n, w: max(m, n) < 64),
        ("abs(BLOCK_M - BLOCK_N) < 17", lambda m, n, w: abs(m - n) < 17),
        ("min(BLOCK_M, 2**5) == 32", lambda m, n, w: min(m, 32) == 32),
        ("-BLOCK_M < +-16", lambda m, n, w: -m < -16),
        ("num_warps > 2 if BLOCK_M > 16 else True", lambda m, n, w: w > 2 or m <= 16),
        ("BLOCK_M % 3 == 1", lambda m, n, w: m % 3 == 1),
        ("(BLOCK_M + BLOCK_N) * 2 <= 200", lambda m, n, w: (m + n) * 2 <= 200),
        ("  BLOCK_M > 16\n", lambda m, n, w: m > 16),
    ],
)
def test_text_means_what_it_means_in_python(text, fits):
    space = TileSpace(TILES, constraints=[text])
    expected = [config for config in every(TILES) if fits(*config.values())]
    assert 0 < len(expected) < 24
    assert list(space) == expected


@given(
    st.integers(-3, 3), st.integers(1, 4), st.sampled_from(["+", "-", "*", "//", "%"])
)
def test_arithmetic_agrees_with_python(left, right, sign):
    space = TileSpace({"x": [left]}, constraints=[f"(x {sign} {right}) < 99"])
    assert len(space) == 1
    value = eval(f"({left}) {sign} {right}")
    exact = TileSpace({"x": [left]}, constraints=[f"x {sign} {right} == {value}"])
    assert len(exact) == 1


def test_text_compares_text():
    space = TileSpace({"kind": ["row", "column"]}, constraints=["kind == 'row'"])
    assert list(space) == [{"kind": "row"}]


def test_callable_gets_the_config():
    space = TileSpace(TILES, constraints=[lambda config: config["BLOCK_M"] == 32])
    assert list(space) == [c for c in every(TILES) if c["BLOCK_M"] == 32]


def test_all_constraints_hold():
    space = TileSpace(TILES, constraints=["BLOCK_M > 16", lambda c: c["BLOCK_N"] == 64])
    assert {(c["BLOCK_M"], c["BLOCK_N"]) for c in space} == {(32, 64), (64, 64)}


def test_later_constraints_see_only_what_the_earlier_ones_leave():
    parameters = {"SPLIT": [0, 1, 2]}
    space = TileSpace(parameters, constraints=["SPLIT > 0", "8 / SPLIT > 4"])
    assert list(space) == [{"SPLIT": 1}]


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "BLOCK_M.__class__",
        "(lambda: True)()",
        "[x for x in (1, 2)]",
        "BLOCK_M[0]",
        "f'{BLOCK_M}'",
        "(BLOCK_M := 3) > 1",
        "max(1, 2, key=abs)",
        "print(BLOCK_M)",
        "BLOCK_M << 2",
        "max(*(1, 2)) > 1",
    ],
)
def test_text_can_do_nothing_else(text):
    with pytest.raises(ValueError, match=r"which a text can't; .* Pass a function"):
        TileSpace(TILES, constraints=[text])


def test_unknown_name_is_refused_with_a_hint():
    message = r"uses 'BLOCK_K', which is no parameter \(do you mean BLOCK_\w\?\)"
    with pytest.raises(ValueError, match=message):
        TileSpace(TILES, constraints=["BLOCK_K > 16"])


@pytest.mark.parametrize("text", ["BLOCK_M >", "", "BLOCK_M = 16", "a b"])
def test_text_that_is_no_expression(text):
    with pytest.raises(ValueError, match="is no expression"):
        TileSpace(TILES, constraints=[text])


def test_constraint_that_fails_is_named_with_the_config():
    with pytest.raises(
        ValueError,
        match=r"'BLOCK_M / \(num_warps - 1\) > 1' fails for .*'num_warps': 1",
    ):
        TileSpace(TILES, constraints=["BLOCK_M / (num_warps - 1) > 1"])


def test_callable_with_a_wrong_name_is_named():
    def small_enough(config):
        return config["BLOCK"] < 3

    with pytest.raises(ValueError, match=r"small_enough fails .* KeyError: 'BLOCK'"):
        TileSpace(TILES, constraints=[small_enough])


def test_huge_power_is_refused():
    with pytest.raises(ValueError, match="the exponent 387420489 is above 64"):
        TileSpace(TILES, constraints=["9**9**9 > BLOCK_M"])


def test_empty_space_says_which_constraint_excludes_what():
    def none_left(config):
        return False

    with pytest.raises(ValueError) as caught:
        TileSpace(TILES, constraints=["BLOCK_M > 16", none_left])
    assert str(caught.value) == (
        "none of the 24 combinations satisfies the constraints: 'BLOCK_M > 16' "
        "excludes 8, then none_left excludes 16. Relax one or add values."
    )


# -- Wrong parameters


@pytest.mark.parametrize("parameters", [{}, None, [("BLOCK", [1])]])
def test_parameters_must_be_a_dict(parameters):
    with pytest.raises(TypeError, match="parameters must be a dict"):
        TileSpace(parameters)


@pytest.mark.parametrize("values", [4, "abc", {"a": 1}, None])
def test_values_must_be_a_list(values):
    with pytest.raises(TypeError, match="the values of 'BLOCK' must be a list"):
        TileSpace({"BLOCK": values})


def test_names_must_be_text():
    with pytest.raises(TypeError, match="name of a parameter must be text, got 3"):
        TileSpace({3: [1]})


def test_no_values():
    with pytest.raises(ValueError, match="'BLOCK' has no values"):
        TileSpace({"BLOCK": []})


@pytest.mark.parametrize("values", [[16, 32, 16], [np.int64(16), 16]])
def test_repeated_value(values):
    with pytest.raises(ValueError, match="'BLOCK' has the value 16 twice"):
        TileSpace({"BLOCK": values})


@pytest.mark.parametrize("constraints", ["a > 1", len])
def test_single_constraint_must_be_in_a_list(constraints):
    with pytest.raises(TypeError, match="constraints must be a list"):
        TileSpace({"a": [1]}, constraints=constraints)


def test_constraint_of_another_type():
    with pytest.raises(TypeError, match=r"constraints\[1\] must be text or a callable"):
        TileSpace({"a": [1]}, constraints=["a > 0", 3])


# -- Helpers


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(1, 1, [1]), (1, 8, [1, 2, 4, 8]), (64, 256, [64, 128, 256])],
)
def test_powers_of_two(low, high, expected):
    assert TileSpace.powers_of_two(low, high) == expected


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (3, 8, "low must be a power of two, got 3"),
        (0, 8, "low must be a power of two, got 0"),
        (1, 12, "high must be a power of two, got 12"),
        (1, 8.0, "high must be a power of two, got 8.0"),
        (True, 8, "low must be a power of two, got True"),
        (16, 8, "high must be at least low = 16, got 8"),
    ],
)
def test_powers_of_something_else(low, high, message):
    with pytest.raises(ValueError, match=message):
        TileSpace.powers_of_two(low, high)


def test_sample_is_a_subset_in_order():
    space = TileSpace(TILES, constraints=["BLOCK_M >= 16 * num_warps"])
    keys = [config_key(config) for config in space]
    positions = [keys.index(config_key(config)) for config in space.sample(5, 3)]
    assert len(set(positions)) == 5
    assert positions == sorted(positions)


def test_sample_is_repeatable_and_depends_on_the_seed():
    space = TileSpace(TILES)
    assert space.sample(8, random_state=1) == space.sample(8, random_state=1)
    assert space.sample(8, random_state=1) != space.sample(8, random_state=2)


def test_sample_of_all_is_all():
    space = TileSpace(TILES)
    assert space.sample(24, random_state=0) == list(space)


@pytest.mark.parametrize("n", [0, -1, 25])
def test_sample_of_a_wrong_size(n):
    with pytest.raises(ValueError, match="at least 1 and at most 24"):
        TileSpace(TILES).sample(n)
