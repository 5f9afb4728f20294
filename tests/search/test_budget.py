"""Budgets and batch sizes, with numbers computed by hand."""

import numpy as np
import pytest

from fasta_learn import dynamic_filter_search
from fasta_learn.search import (
    BudgetPlan,
    EqualBatches,
    FixedBatch,
    GrowingBatch,
    RoutedBudget,
)
from fasta_learn.search._budget import plan_budget


def budget_of(profile):
    return dynamic_filter_search(profile).budget


# (N, D): total, first sample, class, total of the coverage path
PRODUCTION = {
    # D <= 3 and N <= 150: high, .40
    (60, 2): (24, 18, "high", 24),
    (150, 3): (60, 45, "high", 60),
    (150, 1): (60, 45, "high", 60),
    # D <= 3 and N > 150: base, .35
    (151, 3): (52, 45, "base", 60),
    (250, 2): (87, 75, "base", 100),
    (500, 2): (175, 150, "base", 200),
    # D >= 4 and N >= 150: low, .25, and .12 at first
    (150, 4): (37, 18, "low", 60),
    (200, 4): (50, 24, "low", 80),
    (1000, 9): (250, 120, "low", 400),
    # D >= 4 and N < 150: high where the first sample is below 5 (1 + D)
    (80, 4): (32, 24, "high", 32),
    (83, 4): (33, 24, "high", 33),
    (84, 4): (29, 25, "base", 33),
    (149, 7): (52, 44, "base", 59),
    (149, 8): (59, 44, "high", 59),
    # Small pools: at least one config.
    (1, 0): (1, 1, "high", 1),
    (2, 1): (1, 1, "high", 1),
    (3, 1): (1, 1, "high", 1),
    (4, 2): (1, 1, "high", 1),
    (5, 2): (2, 1, "high", 2),
}
REFERENCE = {
    # base .35 unless D >= 4 and the first sample (.15) is below 5 (1 + D): high, .50
    (60, 2): (21, 9, "base", 30),
    (250, 2): (87, 37, "base", 125),
    (500, 2): (175, 75, "base", 250),
    (150, 3): (52, 22, "base", 75),
    (150, 4): (75, 22, "high", 75),
    (166, 4): (83, 24, "high", 83),
    (167, 4): (58, 25, "base", 83),
    (200, 4): (70, 30, "base", 100),
    (200, 5): (70, 30, "base", 100),
    (200, 6): (100, 30, "high", 100),
    (1000, 9): (350, 150, "base", 500),
    (1, 0): (1, 1, "base", 1),
}


@pytest.mark.parametrize(("pool", "expected"), PRODUCTION.items())
def test_production_budget(pool, expected):
    plan = budget_of("production")(*pool)
    got = plan.n_budget, plan.n_initial, plan.label, plan.n_coverage
    assert got == expected


@pytest.mark.parametrize(("pool", "expected"), REFERENCE.items())
def test_reference_budget(pool, expected):
    plan = budget_of("reference")(*pool)
    got = plan.n_budget, plan.n_initial, plan.label, plan.n_coverage
    assert got == expected


def route_as_specified(profile, n, d):
    """The specification's text, word for word; exact arithmetic in percents."""
    production = profile == "production"
    r1 = min(n, max((30 if production else 15) * n // 100, 10 * n // 100))
    share, label = (35, "base")
    high = 40 if production else 50
    if production and d <= 3 and n <= 150:
        share, label = high, "high"
    elif production and d >= 4 and n >= 150:
        share, label = 25, "low"
        r1 = max(12 * n // 100, 10 * n // 100)
    elif d >= 4 and r1 / (1 + d) < 5:
        share, label = high, "high"
    r1 = max(1, r1)
    return max(share * n // 100, r1), r1, label


@pytest.mark.parametrize("profile", ["production", "reference"])
def test_routing_over_all_small_pools(profile):
    budget = budget_of(profile)
    for n in range(1, 400):
        for d in range(12):
            plan = budget(n, d)
            total, first, label = route_as_specified(profile, n, d)
            assert plan.label == label
            # Shares are floats: where the product is whole it may be cut by one.
            assert total - plan.n_budget in (0, 1)
            assert first - plan.n_initial in (0, 1)
            assert 1 <= plan.n_initial <= plan.n_budget <= plan.n_coverage <= n


@pytest.mark.parametrize("profile", ["production", "reference"])
@pytest.mark.parametrize("d", [1, 3, 6])
def test_a_model_needs_two_measurements_for_each_linear_term(profile, d):
    assert budget_of(profile)(100, d).min_samples == 2 * (1 + d)


@pytest.mark.parametrize("profile", ["production", "reference"])
def test_without_features_no_model_is_fitted(profile):
    assert budget_of(profile)(100, 0).min_samples > 100


def test_first_sample_has_a_floor():
    budget = RoutedBudget(
        base=0.35, high=0.4, low=None, first=0.05, first_floor=0.1, first_low=None
    )
    assert budget(100, 2).n_initial == 10


@pytest.mark.parametrize(
    ("budget", "n_initial", "expected"),
    [
        (0.2, "auto", (20, 5)),
        (0.2, 0.1, (20, 10)),
        (0.2, 0.9, (20, 20)),
        (30, 12, (30, 12)),
        (500, 500, (100, 100)),
        (0.001, "auto", (1, 1)),
        (np.int64(7), "auto", (7, 4)),
        (8, "auto", (8, 5)),
        (1, "auto", (1, 1)),
        (1.0, "auto", (100, 5)),
    ],
)
def test_plain_budgets(budget, n_initial, expected):
    plan = plan_budget(budget, n_initial, n_pool=100, n_features=2)
    assert (plan.n_budget, plan.n_initial) == expected
    assert plan.n_coverage == plan.n_budget
    assert plan.min_samples == 1


def test_a_budget_may_be_a_function():
    plan = BudgetPlan(9, 3, 9)
    asked = []
    assert plan_budget(lambda *pool: asked.append(pool) or plan, "auto", 40, 6) is plan
    assert asked == [(40, 6)]


@pytest.mark.parametrize(
    ("n_measured", "expected"), [(0, 1), (31, 1), (63, 1), (64, 2), (330, 10)]
)
def test_growing_batches(make_state, n_measured, expected):
    state = make_state(
        np.zeros((400, 1)), measured=range(n_measured), durations=np.ones(n_measured)
    )
    assert GrowingBatch()(state) == expected


def test_fixed_batches(make_state):
    assert FixedBatch(7)(make_state(np.zeros((9, 1)))) == 7


@pytest.mark.parametrize(
    ("n_budget", "max_rounds", "path", "expected"),
    [(24, 2, "model", 12), (87, 5, "model", 17), (3, 5, "model", 1),
     (24, 2, "coverage", 18), (6, 2, "coverage", 1)],
)  # fmt: skip
def test_equal_batches(make_state, n_budget, max_rounds, path, expected):
    state = make_state(
        np.zeros((90, 1)),
        measured=range(6),
        durations=np.ones(6),
        n_budget=n_budget,
        path=path,
    )
    assert EqualBatches(max_rounds)(state) == expected
