"""Seconds as the price of an improvement."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fasta_learn import ActiveConfigSearch
from fasta_learn.oracles import BaseOracle, Measurement
from fasta_learn.search import ExpectedImprovement, ExpectedImprovementPerSecond
from fasta_learn.search._ledger import Ledger

PER_SECOND = ExpectedImprovementPerSecond()


class PricedOracle(BaseOracle):
    """Durations of a bowl; compiling takes up to a hundred times longer by stages."""

    def __init__(self, scale=1.0):
        self.scale, self.spent = scale, []

    def measure(self, configs):
        return [self._answer(**config) for config in configs]

    def _answer(self, M, N, stages):
        duration = 1 + 0.05 * (M - 6) ** 2 + 0.08 * (N - 3) ** 2
        duration += 0.1 * abs(stages - 1) + 0.01 * np.sin(5.0 * M + 3.0 * N + stages)
        self.spent.append(0.1 * 10 ** (0.5 * stages) + 0.02 * M)
        seconds = self.scale * self.spent[-1]
        return Measurement(duration, compile_seconds=seconds - 0.01, run_seconds=0.01)


CONFIGS = [
    {"M": m, "N": n, "stages": s}
    for m in range(10)
    for n in range(10)
    for s in range(5)
]


def seconds_until(search_seed, acquisition, regret):
    """Seconds of measurements until the best one is this close to the pool's best."""
    oracle = PricedOracle()
    search = ActiveConfigSearch(
        budget=30, acquisition=acquisition, random_state=search_seed
    )
    durations = search.fit(CONFIGS, oracle=oracle).results_["duration"]
    best = min(m.duration for m in PricedOracle().measure(CONFIGS))
    reached = np.flatnonzero(durations <= (1 + regret) * best)
    # A search that misses it has spent everything for nothing.
    n_needed = reached[0] + 1 if len(reached) else len(durations)
    return sum(oracle.spent[:n_needed])


def test_the_same_regret_costs_fewer_seconds():
    plain, priced = (
        np.array([seconds_until(seed, acquisition, 0.02) for seed in range(12)])
        for acquisition in ("expected_improvement", PER_SECOND)
    )
    assert priced.mean() < 0.9 * plain.mean()
    assert np.sum(priced < plain) >= 9


def make_line(make_state, stub, seconds, mean=None, std=None, **settings):
    """Ten configs on a line, of which every other one was measured."""
    surrogate = stub(
        np.zeros(10) if mean is None else mean, np.ones(10) if std is None else std
    )
    return make_state(
        np.linspace(0, 1, 10)[:, None],
        measured=range(0, 10, 2),
        durations=np.ones(5),
        surrogate=surrogate,
        seconds=np.asarray(seconds, dtype=float),
        **settings,
    )


def test_of_equal_improvements_the_cheapest_is_taken(make_state, stub):
    # Seconds double from one measured config to the next.
    state = make_line(make_state, stub, [1, 2, 4, 8, 16])
    assert PER_SECOND(state, 5).tolist() == [1, 3, 5, 7, 9]
    state = make_line(make_state, stub, [16, 8, 4, 2, 1])
    assert PER_SECOND(state, 5).tolist() == [9, 7, 5, 3, 1]


def test_a_larger_improvement_is_worth_more_seconds(make_state, stub):
    # Three times the deviation gives three times the improvement at no mean gain; the
    # interpolated price is about twice, or about sixteen times, that of config 1.
    std = np.ones(10)
    for better, expected in ((3, 3), (9, 1)):
        std[:] = 1
        std[better] = 3
        state = make_line(make_state, stub, [1, 2, 4, 8, 16], std=std)
        assert PER_SECOND(state, 1).tolist() == [expected]


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_the_unit_of_the_seconds_decides_nothing(make_state, stub, scale):
    seconds = np.array([3.0, 1.0, 4.0, 1.0, 5.0])
    one, other = (
        PER_SECOND(make_line(make_state, stub, seconds * factor), 5)
        for factor in (1.0, scale)
    )
    assert_array_equal(one, other)


@pytest.mark.parametrize(
    "seconds",
    [[np.nan] * 5, [9, np.nan, 1, 1, 1], [9, 0, 1, 1, 1], [7] * 5],
    ids=["unknown", "too few", "zero", "equal"],
)
def test_without_prices_it_is_expected_improvement(make_state, stub, seconds):
    mean = np.random.default_rng(0).normal(size=10)
    state = make_line(make_state, stub, seconds, mean=mean)
    assert_array_equal(PER_SECOND(state, 4), ExpectedImprovement()(state, 4))


def test_without_deviations_the_best_predictions_are_taken(make_state, stub):
    mean = np.arange(10.0)[::-1]
    state = make_state(
        np.linspace(0, 1, 10)[:, None],
        measured=range(0, 10, 2),
        durations=np.ones(5),
        surrogate=stub(mean),
        seconds=np.arange(1.0, 6),
    )
    assert PER_SECOND(state, 2).tolist() == [9, 7]


def test_hopeless_configs_are_still_ordered(make_state, stub):
    mean = np.full(10, 1e6)
    mean[5] = 1e5
    state = make_line(make_state, stub, [1, 2, 4, 8, 16], mean=mean, std=1e-3 * mean**0)
    assert PER_SECOND(state, 1).tolist() == [5]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({}, np.nan),
        ({"compile_seconds": 2.0}, 2.0),
        ({"run_seconds": 0.5}, 0.5),
        ({"compile_seconds": 2.0, "run_seconds": 0.5}, 2.5),
    ],
)
def test_the_ledger_keeps_the_seconds(parts, expected):
    ledger = Ledger(3)
    ledger.add(np.array([1]), [Measurement(1.0, **parts)], 1)
    ledger.add(np.array([2]), [Measurement.failed("error", **parts)], 1)
    assert_array_equal(ledger.seconds, [expected, expected])


def test_policies_see_the_seconds_of_each_measurement():
    seen = []

    def watch(state, n_configs):
        seen.append(state.seconds)
        return ExpectedImprovement()(state, n_configs)

    oracle = PricedOracle()
    search = ActiveConfigSearch(budget=10, acquisition=watch, random_state=0)
    search.fit(CONFIGS, oracle=oracle)
    np.testing.assert_allclose(seen[-1], oracle.spent[: len(seen[-1])])


def test_the_loop_equals_fit():
    settings = {"budget": 20, "acquisition": PER_SECOND, "random_state": 0}
    fitted = ActiveConfigSearch(**settings).fit(CONFIGS, oracle=PricedOracle())
    loop, oracle = ActiveConfigSearch(**settings), PricedOracle()
    while len(batch := loop.propose(CONFIGS)):
        loop.partial_fit(batch, oracle.measure([CONFIGS[i] for i in batch]))
    assert loop.results_.equals(fitted.results_)
