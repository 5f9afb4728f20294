import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from fasta_learn.experiments import regret_curves, replay, summarize


def make_results(*runs, budget=0.5):
    """Return runs given as (pool, n_configs, trace)."""
    rows = [
        {
            "pool": pool,
            "search": "mine",
            "budget": budget,
            "n_configs": n_configs,
            "n_measured": len(trace),
            "regret": trace[-1],
            "catch": trace[-1] <= 0.05,
            "n_near": 1,
            "trace": np.array(trace),
        }
        for pool, n_configs, trace in runs
    ]
    return pd.DataFrame(rows)


RESULTS = make_results(
    ("p", 10, [0.8, 0.4, 0.0]), ("p", 10, [0.4, 0.4, 0.4]), ("q", 20, [0.2, 0.05])
)


def test_mean_regret_against_the_number():
    curves = regret_curves(RESULTS, against="number")
    assert curves["n_measured"].tolist() == [1, 2, 3]
    # The run of q has ended before the third.
    assert_allclose(curves["mean_regret"], [0.4, 0.225, 0.125])


def test_interval_of_equal_runs_is_a_point():
    results = make_results(*[("p", 10, [0.4, 0.1])] * 3, ("q", 10, [0.4, 0.1]))
    curves = regret_curves(results, against="number")
    for column in ("mean_regret_low", "mean_regret_high"):
        assert_allclose(curves[column], [0.4, 0.1])


def test_interval_is_that_of_the_summary_at_the_end(pool):
    results = replay(pool, ["random"], [6], 8, traces=True)
    options = {"n_resamples": 500, "random_state": 3, "confidence": 0.8}
    last = regret_curves(results, against="number", **options).iloc[-1]
    summary = summarize(results, **options).iloc[0]
    for column in ("mean_regret_low", "mean_regret_high"):
        assert_allclose(last[column], summary[column])


def test_without_resamples_there_is_no_interval():
    assert "mean_regret_low" not in regret_curves(RESULTS, n_resamples=0).columns


def test_catch_against_the_number():
    curves = regret_curves(RESULTS, against="number")
    assert_allclose(curves["catch"], [0.0, 0.5, 0.75])


def test_share_is_of_each_pool():
    curves = regret_curves(RESULTS)
    assert_allclose(curves["share"].iloc[[0, -1]], [0.003, 0.3])
    at = curves.set_index(curves["share"].round(3))["mean_regret"]
    # 1 and 1, 1 and 2, 2 and 2 (ended) configs.
    assert_allclose(at[[0.051, 0.102, 0.201]], [0.4, 0.325, 0.225])


def test_share_of_a_whole_number_reaches_it():
    # In floats 0.07 * 100 is above 7 and 0.29 * 100 below 29.
    trace = np.r_[np.ones(28), 0.0]
    curves = regret_curves(make_results(("p", 100, trace)))
    assert_allclose(curves["share"].iloc[-1], 0.29)
    assert curves["mean_regret"].iloc[-1] == 0


def test_runs_of_the_largest_budget_count(pool):
    results = replay(pool, ["random"], [9, 3], 4, traces=True)
    curves = regret_curves(results, against="number")
    largest = summarize(results)["mean_regret"][0]
    assert len(curves) == 9
    assert curves["mean_regret"].iloc[-1] == pytest.approx(largest)


def test_each_search_has_its_curve(pool):
    results = replay(pool, ["random", "default"], [4], 2, traces=True)
    curves = regret_curves(results, against="number")
    assert curves["search"].tolist() == ["random"] * 4 + ["default"] * 4


def test_infinite_until_something_runs():
    curves = regret_curves(make_results(("p", 4, [np.inf, 0.1])), against="number")
    assert_allclose(curves["mean_regret"], [np.inf, 0.1])


def test_traces_are_needed():
    with pytest.raises(ValueError, match=r"replay\(..., traces=True\)"):
        regret_curves(RESULTS.drop(columns="trace"))


def test_unknown_axis_is_refused():
    with pytest.raises(ValueError, match="against must be"):
        regret_curves(RESULTS, against="time")
