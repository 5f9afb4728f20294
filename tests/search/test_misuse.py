"""Every misuse is refused in words that help, and changes nothing."""

import pickle

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from fasta_learn import ActiveConfigSearch
from fasta_learn.exceptions import JournalMismatchError
from fasta_learn.oracles import CallableOracle, JournaledOracle


def snapshot(search):
    """All that the search knows, public and private."""
    return pickle.dumps(search)


@pytest.fixture(params=["new", "open", "proposed", "measured", "over"])
def search_at_a_stage(request, pools):
    configs, durations = pools.tiles()
    search = ActiveConfigSearch(random_state=0, budget=10)
    if request.param != "new":
        search.partial_fit((batch := search.propose(configs)), durations[batch])
    if request.param == "proposed":
        search.propose(n_configs=2)
    if request.param == "measured":
        batch = search.propose()
        search.partial_fit(batch, durations[batch])
    if request.param == "over":
        pools.run(search, configs, durations)
    return search


def refused(search, call, error, match):
    before = snapshot(search)
    with pytest.raises(error, match=match):
        call(search)
    assert snapshot(search) == before


def test_durations_and_oracle_both(search_at_a_stage, pools):
    configs, durations = pools.tiles()
    oracle = CallableOracle(lambda config: 1.0)
    refused(
        search_at_a_stage,
        lambda search: search.fit(configs, durations, oracle=oracle),
        ValueError,
        r"fit\(X, durations\), fit\(X, oracle\) or fit\(X, oracle=oracle\)",
    )


def test_neither_durations_nor_oracle(search_at_a_stage, pools):
    configs, _ = pools.tiles()
    refused(
        search_at_a_stage,
        lambda search: search.fit(configs),
        ValueError,
        r"fit\(X, durations\), fit\(X, oracle\) or fit\(X, oracle=oracle\)",
    )


@pytest.mark.parametrize(
    ("value", "error", "match"),
    [
        (np.nan, ValueError, r"durations\[3\] is NaN; use inf"),
        (-1.0, ValueError, r"durations\[3\] is negative"),
        (-np.inf, ValueError, r"durations\[3\] is negative"),
        ("fast", TypeError, r"durations\[3\] is 'fast'"),
        (None, TypeError, r"durations\[3\] is None"),
        (True, TypeError, r"durations\[3\] is True"),
        (1j, TypeError, r"durations\[3\] is 1j"),
    ],
)
def test_a_wrong_duration_is_told(search_at_a_stage, pools, value, error, match):
    configs, _ = pools.tiles()
    told = [1.0, 2.0, 3.0, value, *[1.0] * 86]
    refused(search_at_a_stage, lambda s: s.partial_fit(configs, told), error, match)


@pytest.mark.parametrize(
    ("value", "match"),
    [(np.nan, r"durations\[3\] is NaN; use inf"), (-1.0, r"durations\[3\] is neg")],
)
def test_a_wrong_duration_is_recorded(search_at_a_stage, pools, value, match):
    configs, durations = pools.tiles()
    durations[3] = value
    refused(search_at_a_stage, lambda s: s.fit(configs, durations), ValueError, match)


@pytest.mark.parametrize("index", [-1, 90, 10**6])
def test_an_index_out_of_the_pool(pools, index):
    configs, durations = pools.tiles()
    search = ActiveConfigSearch(random_state=0)
    search.partial_fit((batch := search.propose(configs)), durations[batch])
    free = int(search.propose()[0])
    for call in (
        lambda s: s.partial_fit([free, index], [1.0, 1.0]),
        lambda s: s.discard([free, index]),
    ):
        refused(search, call, IndexError, f"index {index} .*0 to 89")


def test_a_row_not_in_the_pool(pools):
    X, durations = pools.bowl(2)
    search = ActiveConfigSearch(random_state=0)
    search.partial_fit((batch := search.propose(X)), durations[batch])
    free = X[search.propose()[0]]
    refused(
        search,
        lambda s: s.partial_fit([free, [0.123, 0.456]], [1.0, 1.0]),
        ValueError,
        r"X\[1\] is not in the pool: .*0\.123",
    )


def test_a_config_not_in_the_pool(pools):
    configs, durations = pools.tiles()
    search = ActiveConfigSearch(random_state=0)
    search.partial_fit((batch := search.propose(configs)), durations[batch])
    free = configs[search.propose()[0]]
    refused(
        search,
        lambda s: s.partial_fit([free, {"BLOCK_M": 5}], [1.0, 1.0]),
        ValueError,
        r"X\[1\] is not in the pool: \{'BLOCK_M': 5\}",
    )


def test_a_row_that_the_pool_holds_twice(pools):
    X, _ = pools.bowl(2)
    X[7] = X[3]
    search = ActiveConfigSearch(random_state=0)
    search.propose(X)
    refused(
        search,
        lambda s: s.partial_fit(X[[7]], [1.0]),
        ValueError,
        "several times in the pool.*by its index",
    )
    search.partial_fit([7], [1.0])
    assert search.best_index_ == 7


def test_a_config_measured_already(pools):
    configs, durations = pools.tiles()
    search = ActiveConfigSearch(random_state=0)
    search.partial_fit((batch := search.propose(configs)), durations[batch])
    free, known = int(search.propose()[0]), int(batch[2])
    for call in (
        lambda s: s.partial_fit([free, known], [1.0, 1.0]),
        lambda s: s.partial_fit([configs[free], configs[known]], [1.0, 1.0]),
        lambda s: s.partial_fit(configs, durations + 1),
    ):
        refused(search, call, ValueError, "measured already")


def test_a_config_twice_in_a_batch(pools):
    configs, durations = pools.tiles()
    search = ActiveConfigSearch(random_state=0)
    search.partial_fit((batch := search.propose(configs)), durations[batch])
    free = int(search.propose()[0])
    for call in (
        lambda s: s.partial_fit([free, free], [1.0, 1.0]),
        lambda s: s.partial_fit([configs[free]] * 2, [1.0, 1.0]),
        lambda s: s.discard([free, free]),
    ):
        refused(search, call, ValueError, f"config {free} occurs twice")


@pytest.mark.parametrize("n_durations", [0, 5, 7])
def test_a_batch_of_the_wrong_length(pools, n_durations):
    configs, _ = pools.tiles()
    search = ActiveConfigSearch(random_state=0)
    batch = search.propose(configs)
    refused(
        search,
        lambda s: s.partial_fit(batch, [1.0] * n_durations),
        ValueError,
        f"X names 6 configs and y holds {n_durations}",
    )


def test_a_pool_and_durations_of_other_lengths(search_at_a_stage, pools):
    configs, durations = pools.tiles()
    refused(
        search_at_a_stage,
        lambda s: s.partial_fit(configs, durations[:-1]),
        ValueError,
        "90 configs and y holds 89",
    )
    refused(
        search_at_a_stage,
        lambda s: s.fit(configs, durations[:-1]),
        ValueError,
        "inconsistent numbers of samples",
    )


def test_duplicate_configs_in_a_pool(search_at_a_stage, pools):
    configs, durations = pools.tiles()
    configs[5], configs[80] = dict(configs[2]), dict(configs[79])
    match = r"2 duplicate configs, at 5 \(like 2\), 80 \(like 79\)"
    refused(search_at_a_stage, lambda s: s.fit(configs, durations), ValueError, match)
    refused(ActiveConfigSearch(), lambda s: s.propose(configs), ValueError, match)
    refused(
        ActiveConfigSearch(),
        lambda s: s.partial_fit(configs, durations),
        ValueError,
        match,
    )


def test_an_empty_pool(search_at_a_stage):
    refused(search_at_a_stage, lambda s: s.fit([], []), ValueError, "no config")
    refused(ActiveConfigSearch(), lambda s: s.propose([]), ValueError, "no config")


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.propose(),
        lambda s: s.partial_fit([0], [1.0]),
        lambda s: s.discard([0]),
        lambda s: s.predict([{"BLOCK": 1}]),
        lambda s: s.best_estimator_,
        lambda s: s.results_,
    ],
)
def test_before_a_pool_is_open(call):
    refused(ActiveConfigSearch(), call, NotFittedError, "no pool yet.*propose")


def test_predicting_before_anything_ran(pools):
    configs, _ = pools.tiles()
    search = ActiveConfigSearch(random_state=0)
    batch = search.propose(configs)
    refused(search, lambda s: s.predict(configs), NotFittedError, "no surrogate: the 0")
    search.partial_fit(batch, np.full(6, np.inf))
    refused(search, lambda s: s.predict(configs), NotFittedError, "6 .*all failed")


def test_predicting_without_features():
    search = ActiveConfigSearch().fit([{"a": "x"}], [1.0])
    with pytest.raises(NotFittedError, match="no features"):
        search.predict([{"a": "x"}])


def test_proposing_for_another_pool(pools):
    configs, _ = pools.tiles()
    search = ActiveConfigSearch(random_state=0)
    search.propose(configs)
    for other in (configs[:-1], configs[::-1], [{"BLOCK": 1}], np.zeros((90, 3))):
        refused(search, lambda s, X=other: s.propose(X), ValueError, "another pool")


def test_the_configs_of_a_batch_are_no_pool(pools):
    configs, durations = pools.tiles()
    search = ActiveConfigSearch(random_state=0)
    batch = search.propose(configs)
    rows = [configs[i] for i in batch]
    search.partial_fit(rows, durations[batch])
    refused(search, lambda s: s.propose(rows), ValueError, "another pool")


@pytest.mark.parametrize("n_configs", [0, -3, 2.0, "two"])
def test_proposing_no_number_of_configs(pools, n_configs):
    configs, _ = pools.tiles()
    search = ActiveConfigSearch(random_state=0)
    search.propose(configs)
    refused(
        search,
        lambda s: s.propose(n_configs=n_configs),
        ValueError,
        "n_configs must be an int of at least 1",
    )


def test_discarding_what_is_no_open_proposal(pools):
    configs, durations = pools.tiles()
    search = ActiveConfigSearch(random_state=0)
    search.partial_fit((batch := search.propose(configs)), durations[batch])
    free = int(search.propose()[0])
    known = int(batch[0])
    refused(
        search,
        lambda s: s.discard([free, known]),
        ValueError,
        rf"\[{known}\] are no open proposals",
    )
    refused(search, lambda s: s.discard([free + 0.5]), ValueError, "whole numbers")


def test_an_oracle_that_is_none(search_at_a_stage, pools):
    configs, _ = pools.tiles()
    refused(
        search_at_a_stage,
        lambda s: s.fit(configs, oracle=lambda config: 1.0),
        TypeError,
        "CallableOracle",
    )


def test_a_journal_of_another_pool(search_at_a_stage, pools, tmp_path):
    configs, _ = pools.tiles()

    def fit(search, configs, name):
        inner = CallableOracle(lambda config: 1.0, fingerprint={"device": name})
        search.fit(configs, oracle=JournaledOracle(inner, tmp_path / "journal.jsonl"))

    fit(ActiveConfigSearch(random_state=0), configs, "one")
    refused(
        search_at_a_stage,
        lambda s: fit(s, configs[1:], "one"),
        JournalMismatchError,
        "pool",
    )
    refused(
        search_at_a_stage,
        lambda s: fit(s, configs, "other"),
        JournalMismatchError,
        "(?s)one.*other|other.*one",
    )


def test_a_policy_without_its_surrogate(pools):
    from fasta_learn.search import Greedy

    configs, durations = pools.tiles()
    search = ActiveConfigSearch(initial_design=Greedy())
    with pytest.raises(ValueError, match="needs a fitted surrogate"):
        search.fit(configs, durations)
