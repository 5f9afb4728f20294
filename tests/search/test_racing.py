"""Finalists that are measured again before the winner is named."""

import itertools
import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fasta_learn import ActiveConfigSearch
from fasta_learn.oracles import BaseOracle, JournaledOracle, Measurement
from fasta_learn.search import BudgetPlan, Racing
from fasta_learn.search._racing import Race

CONFIGS = [{"BLOCK": block} for block in range(40)]
# Config 20 is the best; at its first measurement 22 seems to be.
TRUE = np.array([1 + 0.01 * abs(i - 20) for i in range(40)])


class LuckyOracle(BaseOracle):
    """True durations, except for the first measurement of config 22."""

    def __init__(self, failing=()):
        self.asked, self.again, self.failing = [], [], set(failing)

    def measure(self, configs):
        return list(self.measure_each(configs))

    def measure_each(self, configs):
        for config in configs:
            self.asked.append(config["BLOCK"])
            lucky = config["BLOCK"] == 22
            yield Measurement(0.95 if lucky else TRUE[config["BLOCK"]])

    def remeasure_each(self, configs):
        for config in configs:
            self.again.append(config["BLOCK"])
            if config["BLOCK"] in self.failing:
                yield Measurement.failed("timeout")
            else:
                yield Measurement(TRUE[config["BLOCK"]])


def rules(**settings):
    """Twelve repeats, whatever the default is."""
    return Racing(**{"n_repeats": 12, **settings})


def make_search(racing=None, **settings):
    settings = {"budget": 40 if racing is None else 52, "random_state": 0, **settings}
    return ActiveConfigSearch(racing=racing, **settings)


def whole_pool(n_repeats=12):
    """A budget of the whole pool and the repeats."""
    n_budget = 40 + n_repeats
    return lambda n_pool, n_features: BudgetPlan(n_budget, 4, n_budget)


def start_race(finalists, **settings):
    return Race(rules(**settings), list(finalists), np.random.RandomState(0))


def answer(race, durations):
    """Measure one whole round; `durations` maps indices to ms."""
    batch = race.propose(None)
    race.record(batch, [Measurement(durations[index]) for index in batch.tolist()])
    return batch


def test_a_lucky_measurement_loses_the_race():
    racing = rules(n_finalists=3, tolerance=1.1)
    oracle = LuckyOracle()
    search = make_search(racing, budget=whole_pool()).fit(CONFIGS, oracle=oracle)
    assert search.best_config_ == {"BLOCK": 20}
    assert search.best_duration_ == TRUE[20]
    assert {20, 22} < set(oracle.again)
    lucky = make_search(budget=1.0).fit(CONFIGS, oracle=LuckyOracle())
    assert lucky.best_config_ == {"BLOCK": 22}
    assert lucky.replicates_.empty


def test_repeats_are_part_of_the_budget():
    oracle = LuckyOracle()
    search = make_search(rules(tolerance=1.2), budget=30).fit(CONFIGS, oracle=oracle)
    assert search.n_budget_ == 30
    assert len(oracle.asked) == search.n_measured_ == 18
    assert 0 < len(oracle.again) == len(search.replicates_) <= 12
    assert search.stop_reason_ == "budget"


def test_the_ordinary_part_is_that_of_a_smaller_budget():
    search = make_search(rules(), budget=30).fit(CONFIGS, oracle=LuckyOracle())
    plain = make_search(budget=18).fit(CONFIGS, oracle=LuckyOracle())
    assert search.results_.equals(plain.results_)


@pytest.mark.parametrize(
    ("durations", "expected"),
    [
        ([1.0, 1.2, 1.04, 1.05, 1.03], [10, 14, 12]),
        ([1.0, np.inf, 2.0, 3.0, 4.0], [10]),
        ([np.inf] * 5, []),
    ],
)
def test_finalists_are_the_fastest_near_the_best(durations, expected):
    assert (
        rules(n_finalists=3).finalists(np.arange(10, 15), np.array(durations))
        == expected
    )


def test_a_lone_finalist_is_not_repeated():
    durations = np.where(np.arange(40) == 7, 0.5, TRUE)
    search = make_search(rules(), budget=whole_pool()).fit(CONFIGS, durations)
    assert search.best_index_ == 7
    assert search.replicates_.empty


def test_each_round_measures_each_finalist_once():
    race = start_race([3, 5, 8], n_repeats=9, confidence=0.999)
    rng = np.random.default_rng(0)
    rounds = [answer(race, rng.uniform(0.9, 1.1, 9)) for _ in range(3)]
    assert all(sorted(batch) == [3, 5, 8] for batch in rounds)
    assert race.is_over
    orders = {tuple(start_race_with(seed).propose(None).tolist()) for seed in range(40)}
    assert len(orders) == 6


def start_race_with(seed):
    return Race(rules(), [3, 5, 8], np.random.RandomState(seed))


def test_only_whole_rounds_are_measured():
    race = start_race([3, 5, 8], n_repeats=8)
    n_repeats = 0
    while len(batch := race.propose(None)):
        race.record(batch, [Measurement(1.0)] * len(batch))
        n_repeats += len(batch)
    assert n_repeats == 6


def test_a_surely_slower_finalist_leaves_after_three_rounds():
    # Log differences to the leader: .10, .11, .12 for 5 (t = 19) and -.3, .3, .1
    # for 8 (t = .19); the limit is the quantile 2.92 of two degrees of freedom.
    race = start_race([3, 5, 8], n_repeats=99)
    for difference, other in ((0.10, -0.3), (0.11, 0.3), (0.12, 0.1)):
        assert race.alive == [3, 5, 8]
        answer(race, {3: 1.0, 5: np.exp(difference), 8: np.exp(other)})
    assert race.alive == [3, 8]


def test_drift_of_the_device_does_not_hide_a_difference():
    # Between rounds everything becomes slower by far more than they differ.
    race = start_race([3, 5], n_repeats=99)
    for drift, difference in ((1.0, 0.010), (1.5, 0.011), (2.0, 0.012)):
        answer(race, {3: drift, 5: drift * np.exp(difference)})
    assert race.alive == [3]
    assert race.is_over


def test_the_winner_has_the_smallest_median():
    race = start_race([3, 5], n_repeats=6, confidence=0.999)
    for first, second in ((1.0, 0.9), (1.0, 1.1), (1.05, 9.0)):
        answer(race, {3: first, 5: second})
    assert race.winner == (3, 1.0)


def test_a_finalist_that_fails_cannot_win():
    oracle = LuckyOracle(failing=[20])
    racing = rules(n_finalists=4, tolerance=1.1)
    search = make_search(racing, budget=whole_pool()).fit(CONFIGS, oracle=oracle)
    assert oracle.again.count(20) == 1
    assert search.best_config_["BLOCK"] in (19, 21)
    failed = search.replicates_.query("index == 20")
    assert failed["status"].tolist() == ["timeout"]


def test_if_all_finalists_fail_the_first_measurements_count():
    oracle = LuckyOracle(failing=range(40))
    search = make_search(rules(tolerance=1.1), budget=whole_pool())
    search.fit(CONFIGS, oracle=oracle)
    assert search.best_config_ == {"BLOCK": 22}
    assert search.best_duration_ == 0.95


@pytest.mark.parametrize("n_configs", [None, 1, 3])
def test_the_loop_equals_fit(n_configs):
    # Rounds of a race may be answered in parts; the blind sample and what follows
    # are always taken as proposed.
    fitted = make_search(rules(tolerance=1.2), budget=30).fit(CONFIGS, TRUE)
    loop = make_search(rules(tolerance=1.2), budget=30)
    batch = loop.propose(CONFIGS)
    while len(batch):
        loop.partial_fit(batch, TRUE[batch])
        batch = loop.propose(n_configs=n_configs if loop.n_measured_ == 18 else None)
    assert loop.replicates_.equals(fitted.replicates_)
    assert loop.best_index_ == fitted.best_index_
    assert loop.stop_reason_ == fitted.stop_reason_


def open_race():
    """A search whose race is open, and its proposals."""
    search = make_search(rules(tolerance=1.2), budget=30)
    while True:
        batch = search.propose(CONFIGS)
        if set(batch) & set(search.results_["index"]):
            return search, batch
        search.partial_fit(batch, TRUE[batch])


@pytest.mark.parametrize(
    ("kind", "match"),
    [
        ("twice", "no open proposal"),
        ("foreign", "no open proposal"),
        ("short", "one duration for each"),
    ],
)
def test_what_was_not_proposed_is_refused(kind, match):
    search, batch = open_race()
    told = {
        "twice": batch[[0, 0]],
        "foreign": np.setdiff1d(np.arange(40), batch)[:2],
        "short": batch[:3],
    }[kind]
    with pytest.raises(ValueError, match=match):
        search.partial_fit(told, [1.0, 1.0])
    assert search.replicates_.empty
    search.partial_fit(batch, TRUE[batch])
    assert len(search.replicates_) == len(batch)


def test_discarded_finalists_leave_the_race():
    search, batch = open_race()
    search.discard(batch[:2])
    search.partial_fit(batch[2:], TRUE[batch[2:]])
    assert sorted(search.propose()) == sorted(batch[2:])


def test_discarding_all_finalists_ends_the_search():
    search, batch = open_race()
    search.discard(batch)
    assert len(search.propose()) == 0
    assert search.stop_reason_ == "budget"


def test_a_race_goes_on_after_a_pickle():
    search, batch = open_race()
    copy = pickle.loads(pickle.dumps(search))
    for one in (search, copy):
        one.partial_fit(batch, TRUE[batch])
    assert_array_equal(search.propose(), copy.propose())


def test_an_interrupted_round_is_finished_later():
    class Interrupted(LuckyOracle):
        def remeasure_each(self, configs):
            for answer in super().remeasure_each(configs):
                yield answer
                raise KeyboardInterrupt

    search = make_search(rules(tolerance=1.2), budget=30)
    with pytest.raises(KeyboardInterrupt):
        search.fit(CONFIGS, oracle=Interrupted())
    done = search.replicates_["index"].tolist()
    assert len(done) == 1
    rest = search.propose()
    assert len(rest) == 3
    assert done[0] not in rest


def test_a_journal_replays_repeats(tmp_path):
    racing, path = rules(tolerance=1.1), tmp_path / "tiles.jsonl"
    first, second = LuckyOracle(), LuckyOracle()
    searches = [
        make_search(racing, budget=30).fit(CONFIGS, oracle=JournaledOracle(o, path))
        for o in (first, second)
    ]
    assert len(first.again) > 0
    assert second.asked == second.again == []
    assert searches[0].replicates_.equals(searches[1].replicates_)


def test_a_callback_or_the_time_ends_a_search_without_a_race():
    search = make_search(rules(), budget=30, time_budget=1e-9)
    assert len(search.propose(CONFIGS)) == 0
    assert search.stop_reason_ == "time"


def test_a_stopping_rule_starts_the_race_early():
    def soon(state, rounds):
        return "converged" if len(state.measured) >= 10 else None

    search = make_search(rules(tolerance=1.3), budget=30, stopping=soon)
    search.fit(CONFIGS, TRUE)
    assert search.stop_reason_ == "converged"
    assert search.n_measured_ == 10
    assert len(search.replicates_) > 0


def test_too_small_a_budget_is_refused():
    with pytest.raises(ValueError, match="allows 12 measurements, of which racing"):
        make_search(rules(n_repeats=12), budget=12).fit(CONFIGS, TRUE)


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_repeats", 1), ("n_finalists", 1), ("tolerance", 0.9), ("confidence", 1.0)],
)
def test_rules_out_of_range_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} must be"):
        Racing(**{name: value})


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_unit_of_durations_decides_nothing(scale):
    one, other = (
        make_search(rules(tolerance=1.2), budget=30).fit(CONFIGS, TRUE * factor)
        for factor in (1.0, scale)
    )
    assert_array_equal(one.replicates_["index"], other.replicates_["index"])


def test_oracles_without_repeats_measure_as_usual():
    class Plain(BaseOracle):
        def __init__(self):
            self.asked = []

        def measure(self, configs):
            self.asked += [config["BLOCK"] for config in configs]
            return [Measurement(TRUE[config["BLOCK"]]) for config in configs]

    oracle = Plain()
    search = make_search(rules(tolerance=1.2), budget=30).fit(CONFIGS, oracle=oracle)
    n_all = search.n_measured_ + len(search.replicates_)
    assert len(oracle.asked) == n_all > search.n_measured_
    repeats = [
        asked
        for asked, group in itertools.groupby(sorted(oracle.asked))
        if len(list(group)) > 1
    ]
    assert set(repeats) == set(search.replicates_["index"])
