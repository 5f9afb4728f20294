import pickle
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fasta_learn.heuristics import (
    FORMULAS,
    PAD_CATEGORICAL,
    PAD_NUMERICAL,
)
from fasta_learn.heuristics._formulas import Formula, derive

sys.path.insert(0, str(Path(__file__).parent))
from synthetic import make_input

PAD = {formula.name: formula for formula in FORMULAS["pad_mm"]}
SIZES = st.one_of(st.integers(1, 70_000), st.integers(0, 2**40))
PRODUCTS = st.builds(
    dict,
    **dict.fromkeys(["m", "k", "n", *PAD_NUMERICAL[3:7]], SIZES),
    **dict.fromkeys(PAD_NUMERICAL[7:10], st.integers(0, 7)),
    **dict.fromkeys(PAD_NUMERICAL[10:], st.sampled_from([0, 4, 8])),
    **dict.fromkeys(
        PAD_CATEGORICAL[:2], st.sampled_from(["torch.bfloat16", "torch.float32"])
    ),
    **dict.fromkeys(PAD_CATEGORICAL[2:4], st.sampled_from(["True", "False"])),
    using_tf32=st.sampled_from(["True", "False", "not_float_32"]),
)


def columns_of(products):
    frame = pd.DataFrame(products)
    numbers = {name: frame[name].to_numpy(np.int64) for name in PAD_NUMERICAL}
    return {**numbers, **{name: frame[name].to_numpy() for name in PAD_CATEGORICAL}}


def operations(name):
    """Return torch's own operations by name."""
    pytest.importorskip("torch")
    from torch._inductor.autoheuristic import autoheuristic_utils as utils

    return {operation.name: operation for operation in getattr(utils, name)()}


@pytest.mark.parametrize("name", ["pad_mm", "mm"])
def test_names_order_and_kinds_are_those_of_torch(name):
    theirs = operations(f"{name}_operations")
    ours = {formula.name: formula for formula in FORMULAS[name]}
    assert list(ours) == list(theirs)
    assert {n: f.categorical for n, f in ours.items()} == {
        n: operation.is_categorical for n, operation in theirs.items()
    }


@settings(deadline=None, max_examples=300)
@given(PRODUCTS)
def test_each_formula_equals_the_operation_of_torch(product):
    theirs = operations("pad_mm_operations")
    for name, formula in PAD.items():
        if name == "k/(m*n)" and product["m"] * product["n"] == 0:
            continue  # no value: both divide by zero
        expected = theirs[name].func(product)
        value = formula.of_row(product)
        assert type(value) is type(expected)
        assert value == expected


@settings(deadline=None, max_examples=200)
@given(st.lists(PRODUCTS, min_size=1, max_size=5))
def test_columns_equal_single_products_exactly(products):
    derived = derive(columns_of(products), FORMULAS["pad_mm"])
    for index, product in enumerate(products):
        for name, formula in PAD.items():
            if name == "k/(m*n)" and product["m"] * product["n"] == 0:
                assert not np.isfinite(derived[name][index])
            else:
                assert derived[name][index] == formula.of_row(product)


def test_ratios_of_huge_sizes_are_rounded_once():
    product = make_input(2**31 - 1, 2**33 + 7, 3)
    m, k, n = product["m"], product["k"], product["n"]
    exact = Fraction(m * k * n, m * k + k * n + m * n)
    derived = derive(columns_of([product]), FORMULAS["pad_mm"])
    assert derived["arith_intensity"].item() == float(exact)


@pytest.mark.parametrize("factor", [2, 4, 8, 16, 32])
def test_multiples(factor):
    for size, expected in ((3 * factor, True), (3 * factor + 1, False)):
        product = make_input(8, size, 8)
        assert PAD[f"k_multiple_{factor}"].of_row(product) is expected


@pytest.mark.parametrize(
    ("k", "dtype", "expected"),
    [
        (8 * 1024 + 1, "torch.bfloat16", True),
        (8 * 1024, "torch.bfloat16", False),
        (8 * 1024 + 1, "torch.float16", False),
    ],
)
def test_large_k_is_a_hit_for_bfloat16_alone(k, dtype, expected):
    product = make_input(8, k, 8, dtype)
    assert PAD["bfloat_perf_hit"].of_row(product) is expected


@pytest.mark.parametrize(
    ("sizes", "transposed", "expected"),
    [
        ((9, 8, 8), (False, False), (False, False)),
        ((9, 8, 8), (True, False), (True, False)),
        ((8, 9, 8), (False, True), (True, True)),
        ((8, 8, 9), (True, False), (False, True)),
    ],
)
def test_innermost_needs_padding(sizes, transposed, expected):
    product = make_input(*sizes, transposed=transposed)
    sides = [f"{side}_innermost_needs_padding" for side in ("mat1", "mat2")]
    assert tuple(PAD[side].of_row(product) for side in sides) == expected


def test_formulas_say_what_they_need():
    assert set(PAD["k/(m*n)"].needs) == {"m", "k", "n"}
    assert set(PAD["bfloat_perf_hit"].needs) == {"m", "k", "n", "mat1_dtype"}


def test_formulas_can_be_pickled_after_use():
    formula = Formula("twice", "2 * m")
    assert formula.of_row({"m": 3}) == 6
    assert pickle.loads(pickle.dumps(formula)) == formula
