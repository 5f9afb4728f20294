import pytest

from fasta_learn.experiments._plan import plan_replay, resolve_budget


@pytest.mark.parametrize(
    ("budget", "n_configs", "limit", "expected"),
    [
        (0.1, 190, None, 19),
        (0.1, 199, None, 19),
        (0.001, 190, None, 1),
        (1.0, 190, None, 190),
        (0.1, 4000, 200, 200),
        (8, 29, None, 8),
        (40, 29, None, 29),
        (300, 4000, 200, 200),
        ("own", 100, 5, None),
    ],
)
def test_budget_in_configs(budget, n_configs, limit, expected):
    assert resolve_budget(budget, n_configs, limit) == expected


@pytest.mark.parametrize("budget", [0.1, 3, "own"])
def test_one_budget_is_as_good_as_a_list(pool, budget):
    assert plan_replay(pool, ["default"], budget, 1, None).budgets == [budget]


@pytest.mark.parametrize("budget", [0, 0.0, 1.5, -3, True, "all", None, float("nan")])
def test_wrong_budgets_are_refused(pool, budget):
    with pytest.raises(ValueError, match=r"budgets\[1\] is"):
        plan_replay(pool, ["default"], [0.1, budget], 1, None)


def test_equal_budgets_are_refused(pool):
    with pytest.raises(ValueError, match=r"budgets\[1\] is 1.0, which is there"):
        plan_replay(pool, ["default"], [1, 1.0], 1, None)


def test_no_budget_is_refused(pool):
    with pytest.raises(ValueError, match="no budget is given"):
        plan_replay(pool, ["default"], [], 1, None)


@pytest.mark.parametrize("count", [0, -1, 2.0])
def test_wrong_counts_are_refused(pool, count):
    with pytest.raises(ValueError, match="n_seeds must be"):
        plan_replay(pool, ["default"], [0.1], count, None)
    with pytest.raises(ValueError, match="max_measurements must be"):
        plan_replay(pool, ["default"], [0.1], 1, count)


def test_tasks_are_counted(pools):
    assert plan_replay(pools, ["default"], [0.1, 0.2], 3, None).n_chunks == 6
