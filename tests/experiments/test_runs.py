import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fasta_learn.configs import Pool
from fasta_learn.experiments._plan import plan_replay
from fasta_learn.experiments._runs import as_frame, run_chunks

# The best is 1.0; 1.05 is just near, two fail.
DURATIONS = [2.0, np.inf, 1.05, 1.0, np.inf, 1.06]


def measure(*indices):
    return lambda pool, n_budget, seed: np.array(indices)


def table(searches, budgets=(6,), n_seeds=1, traces=False):
    pool = Pool([{"B": i} for i in range(6)], DURATIONS, name="six")
    plan = plan_replay(pool, searches, list(budgets), n_seeds, None)
    return as_frame(plan, run_chunks(plan, None), traces=traces)


def test_scores_of_a_run():
    row = table({"x": measure(0, 1, 5)}).iloc[0].to_dict()
    assert row.pop("regret") == pytest.approx(0.06)
    assert row == {
        "pool": "six",
        "search": "x",
        "budget": 6,
        "seed": 0,
        "n_configs": 6,
        "n_measured": 3,
        "n_failed": 1,
        "best_duration": 1.06,
        "catch": False,
        "n_near": 2,
    }


def test_five_percent_is_a_catch():
    assert table({"x": measure(2)})["catch"].tolist() == [True]


def test_finding_nothing_is_an_infinite_regret():
    row = table({"x": measure(1, 4)}).iloc[0]
    assert row["best_duration"] == row["regret"] == np.inf
    assert not row["catch"]


def test_trace_is_the_regret_after_each_measurement():
    trace = table({"x": measure(1, 0, 5, 2, 4)}, traces=True)["trace"][0]
    assert_allclose(trace, [np.inf, 1.0, 0.06, 0.05, 0.05])


def test_no_trace_unless_asked():
    assert "trace" not in table({"x": measure(0)}).columns


def test_rows_are_ordered_as_given():
    rows = table({"z": measure(0), "a": measure(0)}, budgets=(6, 5), n_seeds=2)
    found = list(zip(rows["search"], rows["budget"], rows["seed"], strict=True))
    assert found == [(s, b, i) for s in "za" for b in (6, 5) for i in (0, 1)]


def test_each_row_is_of_its_own_run():
    # The index tells the run: 2 seeds, 2 budgets.
    rows = table({"x": lambda _, n, seed: [3 * (n - 5) + seed]}, (5, 6), 2)
    expected = [DURATIONS[i] for i in (0, 1, 3, 4)]
    assert_array_equal(rows["best_duration"], expected)


def test_mixed_budgets_keep_their_types():
    budgets = table({"x": measure(0)}, budgets=(0.5, 2))["budget"].tolist()
    assert [type(budget) for budget in budgets] == [float, int]


def test_error_says_which_run():
    with pytest.raises(ValueError, match="twice") as caught:
        table({"odd": measure(0, 0)})
    assert caught.value.__notes__ == [
        "The search was 'odd' on the pool 'six' with seed 0 and budget 6."
    ]


def test_generator_gives_the_same(pools):
    plan = plan_replay(pools, ["random"], [0.2], 3, None)
    lists = [run_chunks(plan, 1), run_chunks(plan, 1, return_as="generator")]
    for first, second in zip(*lists, strict=True):
        assert [run.order.tolist() for run in first] == [
            run.order.tolist() for run in second
        ]
