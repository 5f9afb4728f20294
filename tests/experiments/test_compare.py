import numpy as np
import pandas as pd
import pytest

from fasta_learn.experiments import compare, replay


def make_results(**regrets):
    """Return runs of two pools with two seeds each, in this order."""
    rows = [
        {
            "pool": pool,
            "search": search,
            "budget": 0.1,
            "seed": seed,
            "n_configs": 40,
            "n_measured": 4,
            "regret": values[2 * (pool == "q") + seed],
            "catch": values[2 * (pool == "q") + seed] <= 0.05,
            "n_near": 1,
        }
        for search, values in regrets.items()
        for pool in "pq"
        for seed in (0, 1)
    ]
    return pd.DataFrame(rows)


RESULTS = make_results(a=[0.0, 0.1, 0.02, 0.0], b=[0.2, 0.1, 0.0, 0.3])


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("n_pools", 2),
        ("n_pairs", 4),
        ("catch_difference", 0.5),
        ("regret_difference", (-0.2 + 0 + 0.02 - 0.3) / 4),
    ],
)
def test_difference(column, expected):
    assert compare(RESULTS, "a", "b")[column][0] == pytest.approx(expected)


def test_exchange_turns_the_sign():
    forth, back = compare(RESULTS, "a", "b"), compare(RESULTS, "b", "a")
    assert forth["catch_difference"][0] == -back["catch_difference"][0]
    assert forth["regret_difference"][0] == -back["regret_difference"][0]


def test_order_of_rows_does_not_matter():
    shuffled = RESULTS.sample(frac=1, random_state=1)
    assert compare(shuffled, "a", "b")["catch_difference"][0] == 0.5


def test_pairing_removes_what_both_share():
    rng = np.random.default_rng(0)
    shared = rng.random(4)
    row = compare(make_results(a=shared, b=shared + 0.01), "a", "b").iloc[0]
    assert row["regret_difference_low"] == pytest.approx(-0.01)
    assert row["regret_difference_high"] == pytest.approx(-0.01)


def test_both_finding_nothing_is_a_tie():
    results = make_results(a=[np.inf, 0.0, 0.0, 0.0], b=[np.inf, 0.1, 0.1, 0.1])
    assert compare(results, "a", "b")["regret_difference"][0] == pytest.approx(-0.075)


def test_one_finding_nothing_is_infinitely_worse():
    results = make_results(a=[np.inf, 0.0, 0.0, 0.0], b=[0.0] * 4)
    assert compare(results, "a", "b")["regret_difference"][0] == np.inf


def test_budgets_are_apart_and_keep_their_types(pool):
    table = compare(
        replay(pool, ["default", "random"], [0.2, 3], 2), "default", "random"
    )
    assert [(type(b), b) for b in table["budget"]] == [(float, 0.2), (int, 3)]


def test_unknown_search_is_refused():
    with pytest.raises(ValueError, match="no search 'c'; it has a, b"):
        compare(RESULTS, "a", "c")


def test_unpaired_runs_are_refused():
    with pytest.raises(
        ValueError,
        match="1 runs have no counterpart, such as pool q,",
    ):
        compare(RESULTS.iloc[:-1], "a", "b")


def test_repeated_runs_are_refused():
    with pytest.raises(ValueError, match="several runs of 'a' for one seed"):
        compare(pd.concat([RESULTS, RESULTS]), "a", "b")
