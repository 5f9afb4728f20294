import numpy as np
import pandas as pd
import pytest

from fasta_learn.experiments import replay, summarize

REGRETS = {"a": [0.0, 0.04, 0.10, 0.20], "b": [0.0, 0.0, 0.03, 0.3]}


def make_results(regrets=REGRETS, search="mine", budget=0.1, n_measured=10):
    rows = [
        {
            "pool": pool,
            "search": search,
            "budget": budget,
            "n_configs": {"a": 100, "b": 50}[pool],
            "n_measured": n_measured,
            "regret": regret,
            "catch": regret <= 0.05,
            "n_near": {"a": 1, "b": 4}[pool],
        }
        for pool, values in regrets.items()
        for regret in values
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("n_pools", 2),
        ("n_runs", 8),
        ("catch", (2 / 4 + 3 / 4) / 2),
        ("mean_regret", (0.34 / 4 + 0.33 / 4) / 2),
        ("median_regret", 0.03),  # 0 0 0 .03 | .04 .1 .2 .3
        ("p95_regret", 0.3),
        ("worst_catch", 0.5),
        ("savings", 1 - (0.1 + 0.2) / 2),
        ("n_near", 2.5),
    ],
)
def test_number(column, expected):
    assert summarize(make_results())[column][0] == pytest.approx(expected)


def test_worst_pool():
    assert summarize(make_results())["worst_pool"].tolist() == ["a"]


def test_of_equal_catches_the_worse_regret_is_worst():
    results = make_results({"a": [0.0, 0.1], "b": [0.0, 0.2]})
    assert summarize(results)["worst_pool"].tolist() == ["b"]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("catch", (1 / 1 + 1 / 3) / 2),
        ("mean_regret", (0.0 + 0.3) / 2),
        # Weights 1/2 for the run of a, 1/6 for each of b.
        ("median_regret", 0.0),
        ("p95_regret", 0.6),
        ("savings", 1 - (0.1 + 0.2) / 2),
        ("n_near", 2.5),
    ],
)
def test_pools_of_fewer_runs_weigh_the_same(column, expected):
    results = make_results({"a": [0.0], "b": [0.3, 0.6, 0.0]})
    assert summarize(results)[column][0] == pytest.approx(expected)


def test_interval_holds_the_mean():
    row = summarize(make_results()).iloc[0]
    assert row["catch_low"] < row["catch"] < row["catch_high"]
    assert row["mean_regret_low"] < row["mean_regret"] < row["mean_regret_high"]


def test_narrower_at_less_confidence():
    wide, narrow = (
        summarize(make_results(), confidence=confidence).iloc[0]
        for confidence in (0.95, 0.5)
    )
    assert narrow["catch_low"] > wide["catch_low"]
    assert narrow["mean_regret_high"] < wide["mean_regret_high"]


def test_a_run_without_result_makes_the_mean_infinite():
    row = summarize(make_results({"a": [0.0, np.inf], "b": [0.0, 0.1]})).iloc[0]
    assert row["mean_regret"] == np.inf
    assert (row["median_regret"], row["p95_regret"]) == (0.0, np.inf)


def test_rows_are_in_order_of_appearance():
    results = pd.concat(
        [make_results(search=s, budget=b) for s in ("z", "a") for b in (0.2, 0.1)]
    )
    found = summarize(results)[["search", "budget"]].to_numpy().tolist()
    assert found == [["z", 0.2], ["z", 0.1], ["a", 0.2], ["a", 0.1]]


def test_a_group_does_not_depend_on_the_others():
    mine, other = make_results(), make_results({"a": [0.3, 0.0]}, search="other")
    alone = summarize(other)
    after = summarize(pd.concat([mine, other])).iloc[[1]].reset_index(drop=True)
    pd.testing.assert_frame_equal(alone, after)


def test_by_pool():
    table = summarize(make_results(), by=["search", "pool"])
    assert table["pool"].tolist() == ["a", "b"]
    assert table["catch"].tolist() == [0.5, 0.75]


def test_mixed_budgets_stay_apart_with_their_types(pool):
    table = summarize(replay(pool, ["default"], [0.2, 3, "own"], 2))
    assert table["budget"].tolist() == [0.2, 3, "own"]
    assert [type(budget) for budget in table["budget"]] == [float, int, str]


def test_missing_column_is_refused():
    with pytest.raises(ValueError, match="no column regret, n_near"):
        summarize(make_results().drop(columns=["regret", "n_near"]))


def test_unknown_group_is_refused():
    with pytest.raises(ValueError, match="no column kernel"):
        summarize(make_results(), by="kernel")


def test_no_runs_are_refused():
    with pytest.raises(ValueError, match="results is empty"):
        summarize(make_results().iloc[:0])
