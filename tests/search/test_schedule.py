from collections import deque

import numpy as np
import pytest

from fasta_learn import ActiveConfigSearch
from fasta_learn.oracles import BaseOracle, JournaledOracle, Measurement
from fasta_learn.search import CertaintyStop, Racing

CONFIGS = [
    {"BLOCK_M": 2**i, "BLOCK_N": 2**j, "num_warps": w}
    for i in range(4, 9)
    for j in range(4, 9)
    for w in (1, 2, 4)
]


def duration_of(config):
    m, n = np.log2(config["BLOCK_M"]), np.log2(config["BLOCK_N"])
    return float(
        1 + 0.2 * (m - 6) ** 2 + 0.1 * (n - 7) ** 2 + 0.05 * config["num_warps"]
    )


DURATIONS = [duration_of(config) for config in CONFIGS]


class AheadOracle(BaseOracle):
    """Measures like the recorded durations and notes what it is asked for."""

    def __init__(self, lookahead, n_parallel=1, interrupt_after=None):
        self.lookahead, self.n_parallel = lookahead, n_parallel
        self.interrupt_after = interrupt_after
        self.prepared, self.measured, self.groups, self.n_open = [], [], [], []

    def prepare(self, configs):
        self.prepared += list(configs)

    def measure(self, configs):
        return list(self.measure_each(configs))

    def measure_each(self, configs):
        configs = list(configs)
        self.groups.append(len(configs))
        self.n_open.append(len(self.prepared) - len(self.measured))
        for config in configs:
            if len(self.measured) == self.interrupt_after:
                raise KeyboardInterrupt
            self.measured.append(config)
            yield Measurement(duration_of(config))


def searched(oracle, **parameters):
    search = ActiveConfigSearch(**{"budget": 30, "random_state": 0, **parameters})
    return search.fit(CONFIGS, oracle=oracle)


def loop_with_window(n_window, **parameters):
    """The same by hand: one proposal after the other, answered in their order."""
    search = ActiveConfigSearch(**{"budget": 30, "random_state": 0, **parameters})
    waiting = deque(search.propose(CONFIGS).tolist())
    n_initial = len(waiting)
    while waiting:
        index = waiting.popleft()
        search.partial_fit([index], [DURATIONS[index]])
        while len(waiting) < n_window and (
            not waiting or search.n_measured_ >= 0.8 * n_initial
        ):
            proposed = search.propose().tolist()
            if not proposed:
                break
            waiting += proposed
    return search


@pytest.mark.parametrize("lookahead", [1, 3, 8])
def test_what_is_proposed_first_is_measured_first(lookahead):
    oracle = AheadOracle(lookahead)
    search = searched(oracle)
    assert oracle.prepared == oracle.measured
    assert len(oracle.measured) == search.n_measured_ == 30
    assert search.stop_reason_ == "budget"


@pytest.mark.parametrize("lookahead", [1, 3, 8])
def test_look_ahead_equals_a_window_kept_by_hand(lookahead):
    ahead = searched(AheadOracle(lookahead)).results_
    by_hand = loop_with_window(lookahead + 1).results_
    assert ahead["index"].tolist() == by_hand["index"].tolist()
    np.testing.assert_array_equal(ahead["predicted"], by_hand["predicted"])


def test_look_ahead_is_used():
    oracle = AheadOracle(4)
    searched(oracle, n_initial=6)
    assert max(oracle.n_open[6:]) == 5
    without, ahead = searched(AheadOracle(0)), searched(AheadOracle(4))
    assert without.results_["index"].tolist() != ahead.results_["index"].tolist()


def test_nothing_is_proposed_ahead_before_most_of_the_first_sample_is_known():
    oracle = AheadOracle(8)
    searched(oracle, n_initial=10)
    # Ten are open, then nine …; the ninth measurement begins with nine open at most.
    assert oracle.n_open[:8] == [10, 9, 8, 7, 6, 5, 4, 3]
    assert oracle.n_open[8] == 9


def test_several_devices_are_given_several_configs_at_a_time():
    oracle = AheadOracle(4, n_parallel=2)
    search = searched(oracle)
    assert set(oracle.groups) == {2}
    assert search.n_measured_ == 30


def test_devices_without_look_ahead_measure_together():
    oracle = AheadOracle(0, n_parallel=3)
    searched(oracle, n_initial=6)
    assert oracle.groups == [6] + [3] * 8


def test_each_proposal_is_a_round_of_its_own():
    search = searched(AheadOracle(5), n_initial=8)
    assert [record["n_measured"] for record in search.rounds_] == list(range(8, 31))
    assert search.results_["round"].tolist() == [1] * 8 + list(range(2, 24))


def test_an_early_stop_takes_back_what_was_proposed_ahead():
    oracle = AheadOracle(6)
    stop = CertaintyStop(probability=0.5)
    search = searched(oracle, budget=0.9, stopping=stop)
    assert search.stop_reason_ == "confident"
    assert search.n_measured_ == len(oracle.measured) < len(oracle.prepared)
    assert search.propose().tolist() == []


def test_a_race_follows_what_was_proposed_ahead():
    oracle = AheadOracle(4)
    search = searched(oracle, racing=Racing(n_repeats=8))
    assert search.n_measured_ == 22
    assert 2 <= len(search.replicates_) <= 8
    assert len(oracle.measured) == 22 + len(search.replicates_)
    assert search.best_duration_ == min(search.results_["duration"])


def test_an_interrupted_search_holds_no_open_proposals():
    oracle = AheadOracle(4, interrupt_after=15)
    search = ActiveConfigSearch(budget=30, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        search.fit(CONFIGS, oracle=oracle)
    assert search.n_measured_ == 15
    n_left = 0
    while len(batch := search.propose()):
        n_left += len(batch)
        search.partial_fit(batch, [DURATIONS[i] for i in batch])
    assert n_left == 15


def test_a_journal_passes_look_ahead_on_and_prepares_only_what_it_lacks(tmp_path):
    first = AheadOracle(3, n_parallel=2, interrupt_after=16)
    path = tmp_path / "journal.jsonl"
    with pytest.raises(KeyboardInterrupt):
        searched(JournaledOracle(first, path))
    second = AheadOracle(3, n_parallel=2)
    journal = JournaledOracle(second, path)
    assert (journal.lookahead, journal.n_parallel) == (3, 2)
    search = searched(journal)
    assert second.prepared == second.measured
    assert len(second.measured) == 14
    expected = searched(AheadOracle(3, n_parallel=2))
    assert search.results_["index"].tolist() == expected.results_["index"].tolist()
