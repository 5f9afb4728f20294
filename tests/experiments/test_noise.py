"""Replays of measurements that scatter."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator

from fasta_learn import ActiveConfigSearch
from fasta_learn.configs import Pool
from fasta_learn.experiments import compare, replay
from fasta_learn.experiments._one_run import run_search
from fasta_learn.oracles import RecordedOracle
from fasta_learn.search import Racing


@pytest.fixture
def noisy_pool(pool):
    """The pool with percentiles 10 % below and above, at which its order is unsure."""
    return with_percentiles(pool, 0.1)


def with_percentiles(pool, width):
    quantiles = {
        "duration_p20_ms": pool.durations / (1 + width),
        "duration_p80_ms": pool.durations * (1 + width),
    }
    frame = pd.DataFrame(quantiles).replace(np.inf, np.nan)
    return Pool(pool.configs, pool.durations, name=pool.name, extra=frame)


def first_answers(pool, noise, seed):
    oracle = RecordedOracle.from_pool(pool, noise=noise, seed=seed)
    return np.array([answer.duration for answer in oracle.measure(pool.configs)])


class Answers(BaseEstimator):
    """Estimator that measures configs by an oracle, some again, and names one."""

    def __init__(self, order=(0,), again=(), named=0, budget=1, random_state=None):
        self.order = order
        self.again = again
        self.named = named
        self.budget = budget
        self.random_state = random_state

    def fit(self, X, y=None, *, oracle=None):
        list(oracle.measure_each(X[i] for i in self.order))
        again = list(oracle.remeasure_each(X[i] for i in self.again))
        self.results_ = pd.DataFrame({"index": list(self.order)})
        self.replicates_ = pd.DataFrame({"duration": [m.duration for m in again]})
        self.best_index_ = self.named
        return self


class Recorded(BaseEstimator):
    """Estimator that takes durations only."""

    def __init__(self, budget=1, random_state=None):
        self.budget = budget
        self.random_state = random_state

    def fit(self, X, y):
        self.results_ = pd.DataFrame({"index": np.argsort(y)[: self.budget]})
        return self


def test_function_sees_durations_that_scatter(noisy_pool):
    seen = []
    run_search(lambda pool, *_: seen.append(pool) or [0], noisy_pool, 1, 3, noise=2.0)
    assert_allclose(seen[0].durations, first_answers(noisy_pool, 2.0, 3))
    assert not np.allclose(seen[0].durations[:20], noisy_pool.durations[:20])


def test_function_without_noise_sees_the_pool(pool):
    seen = []
    run_search(lambda pool, *_: seen.append(pool) or [0], pool, 1, 3)
    assert seen[0] is pool


def test_estimator_without_oracle_sees_durations_that_scatter(noisy_pool):
    expected = np.argsort(first_answers(noisy_pool, 1.0, 4))[:6]
    run = run_search(Recorded(), noisy_pool, 6, 4, noise=1.0)
    assert_array_equal(run.order, expected)


def test_function_names_what_seemed_the_fastest(noisy_pool):
    results = replay(
        noisy_pool, {"all": lambda *_: range(24)}, [24], 30, noise=3.0, traces=True
    )
    for row in results.to_dict("records"):
        seen = first_answers(noisy_pool, 3.0, row["seed"])
        named = noisy_pool.durations[[seen[: i + 1].argmin() for i in range(24)]]
        assert_allclose(row["trace"], named / noisy_pool.best_duration - 1)
        assert row["best_duration"] == named[-1]
    assert results["regret"].max() > 0


def test_estimator_is_judged_by_what_it_names(noisy_pool):
    search = Answers(order=(5, 7, 9), named=7)
    row = replay(noisy_pool, {"x": search}, [3], 1, noise=1.0).iloc[0]
    assert row["best_duration"] == noisy_pool.durations[7]


def test_regret_of_the_selection_compares_with_the_fastest_measured(noisy_pool):
    durations = noisy_pool.durations[[5, 7, 9]]
    searches = {str(i): Answers(order=(5, 7, 9), named=i) for i in (5, 7, 9)}
    found = replay(noisy_pool, searches, [3], 1, noise=1.0)["selection_regret"]
    assert_allclose(found, durations / durations.min() - 1)


def test_nothing_that_runs_is_no_wrong_selection(noisy_pool):
    failing = np.flatnonzero(np.isinf(noisy_pool.durations))[:1]
    row = replay(noisy_pool, {"x": lambda *_: failing}, [1], 1, noise=1.0).iloc[0]
    assert (row["regret"], row["selection_regret"]) == (np.inf, 0.0)


def test_no_regret_of_the_selection_without_noise(noisy_pool):
    assert "selection_regret" not in replay(noisy_pool, ["random"], [3], 1).columns


def test_repeats_are_measurements(noisy_pool):
    search = Answers(order=(5, 7), again=(5, 7, 5), named=7)
    row = replay(noisy_pool, {"x": search}, [5], 1, noise=1.0, traces=True).iloc[0]
    seen = first_answers(noisy_pool, 1.0, 0)
    leader = 5 if seen[5] <= seen[7] else 7
    assert row["n_measured"] == 5
    named = [5, leader, leader, leader, 7]
    expected = noisy_pool.durations[named] / noisy_pool.best_duration - 1
    assert_allclose(row["trace"], expected)


def test_repeats_count_in_the_budget(noisy_pool):
    search = Answers(order=(5, 7), again=(5, 7), named=7)
    with pytest.raises(ValueError, match="and 2 times anew, but may measure 3"):
        replay(noisy_pool, {"x": search}, [3], 1, noise=1.0)


def test_repeats_of_a_race_count_without_noise_too(pool):
    race = ActiveConfigSearch(racing=Racing(n_repeats=4, tolerance=3.0))
    found = replay(pool, {"race": race}, [14], 2)
    assert found["n_measured"].tolist() == [14, 14]


def test_every_seed_has_its_own_noise(noisy_pool):
    seen = []
    for seed in range(20):
        run_search(lambda pool, *_: seen.append(pool) or [0], noisy_pool, 1, seed, 1.0)
    assert len({tuple(pool.durations) for pool in seen}) == 20


def test_same_to_the_bit_in_parallel(noisy_pool):
    searches = {
        "race": ActiveConfigSearch(racing=Racing(4)),
        "none": ActiveConfigSearch(),
    }
    one, two = (
        replay(noisy_pool, searches, [12], 3, n_jobs=n_jobs, noise=1.0)
        for n_jobs in (None, 2)
    )
    pd.testing.assert_frame_equal(one, two, check_exact=True)


def test_race_names_better_configs():
    # Durations 1 % apart, answers that scatter by 3 %: once is not enough.
    pool = Pool([{"B": i} for i in range(60)], 1 + np.arange(60) / 100)
    pool = with_percentiles(pool, 0.025)
    searches = {
        "race": ActiveConfigSearch(racing=Racing(n_repeats=24)),
        "none": ActiveConfigSearch(),
    }
    difference = compare(replay(pool, searches, [54], 20, noise=1.0), "race", "none")
    assert difference["regret_difference_high"].item() < 0


def test_pool_without_percentiles_is_refused(pool, noisy_pool):
    with pytest.raises(ValueError, match="pool 'plain' lacks the column duration_p20"):
        replay({"noisy": noisy_pool, "plain": pool}, ["random"], [3], 1, noise=1.0)


@pytest.mark.parametrize("noise", [-1, np.nan, "recorded"])
def test_wrong_noise_is_refused(noisy_pool, noise):
    with pytest.raises(ValueError, match="noise must be a finite number"):
        replay(noisy_pool, ["random"], [3], 1, noise=noise)
