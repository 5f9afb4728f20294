import math
from dataclasses import dataclass

import pytest
import torch

from fasta_learn import ActiveConfigSearch
from fasta_learn.autotuner._identity import (
    describe,
    identify_arguments,
    identify_kernel,
    key_distance,
)


@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [
        ([], [], 0.0),
        ([1024, "fp16"], [1024, "fp16"], 0.0),
        ([1024], [4096], 2.0),
        ([1024, 8], [512, 16], 2.0),
        (["fp16"], ["fp32"], 100.0),
        ([True], [4], 100.0),
        ([0], [4], 100.0),
        ([1], [1, 2], math.inf),
    ],
)
def test_key_distance(left, right, wanted):
    assert key_distance(left, right) == wanted
    assert key_distance(right, left) == wanted


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (1000, 1008, False),  # a multiple of 16 or not
        (1008, 1024, False),  # another order of magnitude
        (1024, 1040, True),
        (1, 2, False),
        (0.5, 0.25, True),
        (2, 2.0, False),
        (None, 1, False),
        (torch.zeros(16), torch.zeros(16, dtype=torch.float16), False),
        (torch.zeros(32, 32), torch.zeros(48, 32), True),
        (torch.zeros(32, 64), torch.zeros(64, 32).T, False),
        (torch.zeros(64)[1:33], torch.zeros(64)[4:36], False),  # alignment
        ((1, 2), (1, 4), False),
    ],
)
def test_arguments_are_alike(left, right, same):
    outlines = [identify_arguments({"x": value}, {}) for value in (left, right)]
    assert (outlines[0] == outlines[1]) is same


def test_constants_count_as_they_are():
    first, second = (identify_arguments({}, {"N": n}) for n in (1024, 1040))
    assert first != second


def double(x):
    return 2 * x


@dataclass
class Rule:
    """A rule."""

    share: float = 0.5

    def __call__(self):
        """Apply."""


def test_functions_are_described_by_their_source():
    assert "return 2 * x" in describe(double)[1]


def test_searches_are_described_by_their_parameters():
    texts = {
        str(describe(ActiveConfigSearch(budget=budget, stopping=stopping)))
        for budget in (0.1, 0.2)
        for stopping in (None, Rule(), Rule(0.25))
    }
    assert len(texts) == 6
    assert not any(" at 0x" in text for text in texts)


def test_kernels_are_told_apart_by_their_source():
    from sample_kernels import accumulate_kernel, heuristic_kernel, scale_kernel

    kernels = (scale_kernel, accumulate_kernel, heuristic_kernel)
    found = [identify_kernel(kernel) for kernel in kernels]
    assert len({value["source"] for value in found}) == 3
    assert "EVEN" in found[2]["heuristics"][0]
