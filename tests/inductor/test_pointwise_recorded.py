"""The search for configs of Inductor's kernels, replayed on those of an H200."""

import importlib.util
import math
from pathlib import Path

import pytest

from fasta_learn.inductor._settings import Settings

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "bench_pointwise_budget.py"


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location(SCRIPT.stem, SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def kernels(bench):
    return bench.load_kernels(bench.POOLS)


def test_the_default_budget_finds_nearly_the_best(bench, kernels):
    budget = Settings().pointwise_budget
    losses = [
        math.log(bench.replay(kernel, budget, seed=0) / min(kernel["durations"]))
        for kernel in kernels
    ]
    assert len(losses) == 8
    assert math.expm1(sum(losses) / len(losses)) < 0.005
    assert math.expm1(max(losses)) < 0.04


def test_the_recorded_pools_hold_more_than_inductors_own_configs(kernels):
    ratios = []
    for kernel in kernels:
        stock = kernel["durations"][: len(kernel["facts"].stock)]
        ratios.append(min(stock) / min(kernel["durations"]))
    assert min(ratios) >= 1
    assert sum(ratio > 1.05 for ratio in ratios) == 7
