import numpy as np
import pandas as pd
import pytest

from fasta_learn import ActiveConfigSearch
from fasta_learn.oracles import BaseOracle, JournaledOracle, Measurement
from fasta_learn.search import CertaintyStop, Racing, SoftmaxMarginal

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
    """Measures like the recorded durations and notes what it is told ahead."""

    def __init__(self, lookahead, n_parallel=1, interrupt_after=None):
        self.lookahead, self.n_parallel = lookahead, n_parallel
        self.interrupt_after = interrupt_after
        self.prepared, self.measured, self.groups, self.n_ready = [], [], [], 0

    def prepare(self, configs):
        self.prepared.append(list(configs))

    def measure(self, configs):
        return list(self.measure_each(configs))

    def measure_each(self, configs):
        configs = list(configs)
        self.groups.append(len(configs))
        for config in configs:
            if len(self.measured) == self.interrupt_after:
                raise KeyboardInterrupt
            self.n_ready += any(config in batch[1:] for batch in self.prepared)
            self.measured.append(config)
            yield Measurement(duration_of(config))


class KnowsAll:
    """A prior that is right."""

    def predict(self, configs):
        return np.array([duration_of(config) for config in configs]) / max(DURATIONS)


def searched(oracle, **parameters):
    search = ActiveConfigSearch(**{"budget": 30, "random_state": 0, **parameters})
    return search.fit(CONFIGS, oracle=oracle)


@pytest.mark.parametrize("acquisition", ["auto", "greedy", SoftmaxMarginal()])
@pytest.mark.parametrize("lookahead", [1, 8])
def test_guesses_change_no_decision(lookahead, acquisition):
    settings = {"acquisition": acquisition, "batch_size": 2}
    ahead = searched(AheadOracle(lookahead), **settings)
    alone = searched(AheadOracle(0), **settings)
    pd.testing.assert_frame_equal(ahead.results_, alone.results_, check_exact=True)
    assert ahead.best_index_ == alone.best_index_
    assert ahead.rounds_ == alone.rounds_ or str(ahead.rounds_) == str(alone.rounds_)


@pytest.mark.parametrize("lookahead", [0, 4, 20])
def test_everything_measured_was_announced_before(lookahead):
    oracle = AheadOracle(lookahead)
    search = searched(oracle)
    announced = [config for batch in oracle.prepared for config in batch]
    assert all(config in announced for config in oracle.measured)
    assert search.n_measured_ == len(oracle.measured) == 30


def test_most_proposals_were_guessed_before():
    oracle = AheadOracle(12)
    searched(oracle)
    n_blind = len(oracle.measured) - len(oracle.prepared) + 1
    assert oracle.n_ready >= n_blind + 0.8 * (len(oracle.measured) - n_blind)


def test_guesses_follow_what_each_measurement_taught():
    oracle = AheadOracle(5)
    searched(oracle, n_initial=6)
    assert len(oracle.prepared) == 1 + 30 - 6
    for batch, following in zip(oracle.prepared, oracle.prepared[1:], strict=False):
        assert batch != following


def test_an_announcement_begins_with_what_is_measured_next():
    oracle = AheadOracle(5)
    searched(oracle, n_initial=6, prior=None)
    assert oracle.prepared[0] == oracle.measured[:6]
    last = [len(batch) for batch in oracle.prepared[1:]]
    assert last == [6] * len(last)
    for config, batch in zip(oracle.measured[6:], oracle.prepared[1:], strict=True):
        assert batch[0] == config
        assert len({str(config) for config in batch}) == len(batch)


def test_a_prior_guesses_before_anything_is_measured():
    oracle = AheadOracle(5)
    search = searched(oracle, n_initial=6, prior=KnowsAll())
    blind, guesses = oracle.prepared[0][:6], oracle.prepared[0][6:]
    assert search.results_["index"].tolist()[:6] == [CONFIGS.index(c) for c in blind]
    others = [c for c in sorted(CONFIGS, key=duration_of) if c not in blind]
    assert guesses == others[:5]


def test_guesses_are_configs_that_were_not_measured():
    oracle = AheadOracle(6)
    seen = []
    oracle.prepare = lambda configs: seen.append((list(configs), len(oracle.measured)))
    searched(oracle)
    for batch, n_measured in seen:
        assert not any(config in oracle.measured[:n_measured] for config in batch)


def test_several_devices_are_given_several_configs_at_a_time():
    oracle = AheadOracle(4, n_parallel=3)
    search = searched(oracle, n_initial=6)
    assert oracle.groups == [6] + [3] * 8
    assert search.n_measured_ == 30


def test_proposals_for_several_devices_are_those_of_the_loop_by_hand():
    parallel = searched(AheadOracle(0, n_parallel=2), n_initial=6)
    by_hand = ActiveConfigSearch(budget=30, n_initial=6, random_state=0)
    batch = by_hand.propose(CONFIGS)
    while len(batch):
        by_hand.partial_fit(batch, [DURATIONS[i] for i in batch])
        batch = np.concatenate([by_hand.propose(), by_hand.propose()])
    assert by_hand.results_["index"].tolist() == parallel.results_["index"].tolist()
    assert by_hand.rounds_ == parallel.rounds_ or str(by_hand.rounds_) == str(
        parallel.rounds_
    )


def test_each_proposal_is_a_round_of_its_own():
    search = searched(AheadOracle(5, n_parallel=2), n_initial=8)
    assert search.results_["round"].tolist()[:8] == [1] * 8
    assert [record["n_measured"] for record in search.rounds_] == [8, *range(10, 31, 2)]


def test_an_early_stop_is_obeyed_at_once():
    oracle = AheadOracle(6)
    stop = CertaintyStop(probability=0.5)
    search = searched(oracle, budget=0.9, stopping=stop)
    assert search.stop_reason_ == "confident"
    assert search.n_measured_ == len(oracle.measured) < 67
    assert search.propose().tolist() == []


def test_a_race_announces_no_guesses():
    oracle = AheadOracle(4)
    search = searched(oracle, racing=Racing(n_repeats=8))
    assert search.n_measured_ == 22
    n_repeats = len(search.replicates_)
    assert 2 <= n_repeats <= 8
    assert len(oracle.measured) == 22 + n_repeats
    for batch in oracle.prepared:
        assert not any(config in oracle.measured[22:] for config in batch[1:]) or (
            any(config in oracle.measured[:22] for config in batch)
        )


@pytest.mark.parametrize("n_parallel", [1, 2])
def test_an_interrupted_search_holds_no_open_proposals(n_parallel):
    oracle = AheadOracle(4, n_parallel, interrupt_after=15)
    search = ActiveConfigSearch(budget=30, n_initial=6, random_state=0)
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
    assert len(second.measured) == 14
    for batch in second.prepared:
        assert not any(config in first.measured for config in batch)
    expected = searched(AheadOracle(3, n_parallel=2))
    assert search.results_["index"].tolist() == expected.results_["index"].tolist()
