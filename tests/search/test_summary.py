"""The record of a whole search."""

import numpy as np
import pytest

from fasta_learn import ActiveConfigSearch, dynamic_filter_search
from fasta_learn.search import BudgetPlan

CONFIGS = [{"A": 2**i, "B": 2**j} for i in range(10) for j in range(6)]
DURATIONS = [
    1 + 0.1 * (i - 5) ** 2 + 0.1 * (j - 2) ** 2 for i in range(10) for j in range(6)
]


def test_summary_of_a_dynamic_filter_search():
    search = dynamic_filter_search(random_state=0).fit(CONFIGS, DURATIONS)
    summary = search.summary_
    assert summary.pop("overhead_seconds") > 0
    assert summary == {
        "n_configs": 60,
        "n_features": 2,
        "budget_class": "high",
        "path": "model",
        "n_measured": search.n_measured_,
        "savings": 1 - search.n_measured_ / 60,
        "n_rounds": len(search.rounds_),
        "best_duration": search.best_duration_,
        "stop_reason": search.stop_reason_,
        "confidence": search.confidence_,
        "confidence_label": search.confidence_label_,
    }


def test_summary_tells_the_coverage_path():
    search = dynamic_filter_search(random_state=0)
    search.fit([{"A": "x" * i} for i in range(1, 21)], np.arange(1.0, 21.0))
    assert search.summary_["path"] == "coverage"


def test_summary_before_any_measurement():
    search = ActiveConfigSearch(random_state=0)
    search.propose(CONFIGS)
    assert search.summary_["n_measured"] == 0
    assert search.summary_["best_duration"] == np.inf


@pytest.mark.parametrize(
    ("profile", "amount", "n_budget", "n_initial"),
    [
        ("production", 0.35, 21, 18),
        ("production", 14, 14, 12),
        ("reference", 0.35, 21, 9),
        ("reference", 14, 14, 6),
    ],
)
def test_a_number_as_budget_scales_the_filter(profile, amount, n_budget, n_initial):
    search = dynamic_filter_search(profile, budget=amount, random_state=0)
    assert len(search.propose(CONFIGS)) == n_initial
    assert search.n_budget_ == n_budget
    assert search.summary_["budget_class"] == "scaled"


def test_an_own_budget_function_is_taken_as_it_is():
    plan = BudgetPlan(n_budget=9, n_initial=4, n_coverage=9)
    search = dynamic_filter_search(budget=lambda n_pool, n_features: plan)
    assert len(search.propose(CONFIGS)) == 4
