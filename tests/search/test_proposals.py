"""Open proposals: answered in any order, given back, or never made."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from fasta_learn import ActiveConfigSearch
from fasta_learn.oracles import Measurement


def open_search(pools, **settings):
    configs, durations = pools.tiles()
    search = ActiveConfigSearch(random_state=0, **settings)
    return search, configs, durations


def test_proposing_twice_gives_disjoint_sets(pools, make_search):
    configs, durations = pools.tiles()
    search = make_search(random_state=0)
    search.partial_fit((first := search.propose(configs)), durations[first])
    batches = [first, search.propose(n_configs=2), search.propose(n_configs=2)]
    proposed = np.concatenate(batches)
    assert len(proposed) == len(first) + 4
    assert len(set(proposed.tolist())) == len(proposed)


def test_the_blind_sample_may_be_fetched_in_parts(pools):
    whole, configs, _ = open_search(pools)
    expected = whole.propose(configs).tolist()
    search, *_ = open_search(pools)
    parts = [search.propose(configs, n_configs=4), search.propose(n_configs=4)]
    assert [len(part) for part in parts] == [4, 2]
    assert np.concatenate(parts).tolist() == expected


def test_open_proposals_count_against_the_budget(pools):
    search, configs, _ = open_search(pools, budget=10, n_initial=4)
    sizes = [len(search.propose(configs, n_configs=3)) for _ in range(5)]
    assert sizes == [3, 1, 3, 3, 0]
    assert search.stop_reason_ is None
    assert search.n_measured_ == 0


def test_answers_may_come_out_of_order(pools):
    search, configs, durations = open_search(pools)
    batch = search.propose(configs)
    search.partial_fit(batch[:2], durations[batch[:2]])
    assert search.rounds_ == []
    second = search.propose(n_configs=2)
    search.partial_fit(second, durations[second])
    search.partial_fit(batch[:1:-1], durations[batch[:1:-1]])
    expected = np.concatenate([batch[:2], second, batch[:1:-1]])
    assert search.results_["index"].tolist() == expected.tolist()
    # Each of the two calls is a round; the second was answered first.
    assert [record["n_measured"] for record in search.rounds_] == [4, len(expected)]
    pools.run(search, configs, durations)
    assert search.n_measured_ == search.n_budget_ == 18
    assert search.results_["index"].is_unique


def test_pending_proposals_are_imagined_as_measured(pools):
    # The second of two open proposals is that of a batch of two.
    one, configs, durations = open_search(pools)
    two, *_ = open_search(pools)
    for search in (one, two):
        blind = search.propose(configs)
        search.partial_fit(blind, durations[blind])
    together = two.propose(n_configs=4)
    for expected in together:
        assert one.propose(n_configs=1).tolist() == [expected]


def test_configs_never_proposed_may_be_told(pools):
    search, configs, durations = open_search(pools)
    batch = search.propose(configs)
    others = np.setdiff1d(np.arange(90), batch)[:3]
    search.partial_fit(others, durations[others])
    assert search.n_measured_ == 3
    search.partial_fit(batch, durations[batch])
    assert search.n_measured_ == 9
    assert not set(search.propose().tolist()) & {*batch.tolist(), *others.tolist()}


def test_what_was_told_is_taken_out_of_the_blind_sample(pools):
    search, configs, durations = open_search(pools)
    first = search.propose(configs, n_configs=2)
    plan = ActiveConfigSearch(random_state=0).propose(configs)
    search.partial_fit(first, durations[first])
    told = plan[2:4]
    search.partial_fit(told, durations[told])
    assert search.propose().tolist() == plan[4:].tolist()


def test_discarded_proposals_are_not_made_again(pools):
    search, configs, durations = open_search(pools, budget=1.0)
    gone = set()
    while len(batch := search.propose(configs, n_configs=3)):
        gone.add(int(batch[0]))
        assert search.discard(batch[:1]) is search
        search.partial_fit(batch[1:], durations[batch[1:]])
    measured = set(search.results_["index"])
    assert not measured & gone
    assert measured | gone == set(range(90))
    assert search.stop_reason_ == "all"


def test_discarded_proposals_cost_no_budget(pools):
    search, configs, durations = open_search(pools, budget=10)
    search.discard(search.propose(configs))
    pools.run(search, configs, durations)
    assert search.n_measured_ == 10


def test_discarded_configs_may_be_told_after_all(pools):
    search, configs, _ = open_search(pools)
    batch = search.propose(configs)
    search.discard(batch)
    search.partial_fit(batch[:1], [0.5])
    assert search.best_index_ == batch[0]


def test_discarding_everything_ends_the_search(pools):
    search, configs, _ = open_search(pools)
    while len(batch := search.propose(configs, n_configs=9)):
        search.discard(batch)
    assert search.stop_reason_ == "all"
    assert search.n_measured_ == 0


def test_discarding_the_last_open_proposal_ends_the_round(pools):
    search, configs, durations = open_search(pools)
    batch = search.propose(configs)
    search.partial_fit(batch[1:], durations[batch[1:]])
    assert search.rounds_ == []
    search.discard(batch[0])
    assert [record["n_measured"] for record in search.rounds_] == [5]


def test_telling_part_of_the_pool_by_config(pools):
    search, configs, durations = open_search(pools)
    batch = search.propose(configs)
    search.partial_fit([dict(configs[i]) for i in batch], durations[batch])
    assert search.results_["index"].tolist() == batch.tolist()


def test_telling_the_whole_pool_opens_it(pools):
    search, configs, durations = open_search(pools)
    search.partial_fit(configs, durations)
    assert search.n_measured_ == 90
    assert search.stop_reason_ == "all"
    assert search.best_index_ == np.argmin(durations)
    assert len(search.propose()) == 0


def test_telling_the_whole_pool_again_adds_what_is_new(pools):
    search, configs, durations = open_search(pools, budget=90)
    batch = search.propose(configs)
    search.partial_fit(batch, durations[batch])
    search.partial_fit(configs, durations)
    assert search.n_measured_ == 90
    assert search.results_["index"].tolist()[:6] == batch.tolist()


def test_telling_rows_of_a_matrix(pools):
    X, durations = pools.bowl(2)
    search = ActiveConfigSearch(random_state=0)
    batch = search.propose(X)
    search.partial_fit(X[batch], durations[batch])
    assert_array_equal(search.results_["index"], batch)


@pytest.mark.parametrize(
    "container",
    [
        list,
        tuple,
        np.array,
        pd.Series,
        pd.Index,
        pl.Series,
        lambda x: np.array(x, dtype=np.uint8),
    ],
)
def test_indices_come_in_any_container(pools, container):
    search, configs, durations = open_search(pools)
    batch = search.propose(configs)
    search.partial_fit(container(batch.tolist()), container(durations[batch].tolist()))
    assert search.results_["index"].tolist() == batch.tolist()


def test_indices_may_be_a_range(pools):
    search, configs, durations = open_search(pools)
    search.propose(configs)
    search.partial_fit(range(3), durations[:3])
    assert search.results_["index"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("nothing", [[], (), np.array([]), range(0)])
def test_telling_nothing_changes_nothing(pools, nothing):
    search, configs, _ = open_search(pools)
    search.propose(configs)
    search.partial_fit(nothing, [])
    assert search.n_measured_ == 0
    assert search.rounds_ == []


def test_durations_and_measurements_may_be_mixed(pools):
    search, configs, _ = open_search(pools)
    batch = search.propose(configs)[:3]
    search.partial_fit(batch, [2.0, Measurement(1.0), np.float32(3.0)])
    assert search.results_["duration"].tolist() == [2.0, 1.0, 3.0]


def test_proposing_with_the_same_pool_again(pools):
    search, configs, durations = open_search(pools)
    batch = search.propose(configs)
    search.partial_fit(batch, durations[batch])
    assert len(search.propose([dict(config) for config in configs])) == 1
    assert len(search.propose()) == 1
