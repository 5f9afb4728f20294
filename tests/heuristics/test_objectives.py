import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fasta_learn.heuristics import (
    decision_costs,
    durations_of,
    group_inputs,
    log_regret,
    noise_weights,
    production_costs,
)

sys.path.insert(0, str(Path(__file__).parent))
from synthetic import make_log


def test_log_regret_is_the_logarithm_of_the_slowdown():
    assert_allclose(np.exp(log_regret([[3.0, 2.0, 6.0]])), [[1.5, 1.0, 3.0]])


@pytest.mark.parametrize("missing", [np.inf, np.nan])
def test_a_choice_that_failed_counts_as_ten_times_slower(missing):
    assert_allclose(np.exp(log_regret([[missing, 2.0]])), [[10.0, 1.0]])


def test_a_choice_that_failed_is_not_better_than_a_slower_one_that_ran():
    assert_allclose(np.exp(log_regret([[np.inf, 2.0, 50.0]])), [[25.0, 1.0, 25.0]])


def test_rows_of_which_nothing_ran_cost_nothing():
    assert_allclose(log_regret([[np.inf, np.nan]]), [[0.0, 0.0]])


def test_scaling_all_durations_changes_no_cost():
    durations = np.random.default_rng(0).uniform(1, 5, (20, 3))
    assert_allclose(decision_costs(durations * 1e-6), decision_costs(durations))


def test_slow_choices_cost_a_penalty_beyond_the_margin():
    costs = decision_costs([[1.05, 1.0], [1.2, 1.0]], margin=1.1, slow_penalty=0.5)
    assert_allclose(costs[:, 0], [np.log(1.05), np.log(1.2) + 0.5])


@pytest.mark.parametrize(("orig", "pads"), [(1.09, False), (1.11, True), (0.9, False)])
def test_production_pads_only_beyond_its_margin(orig, pads):
    cheapest = production_costs([[orig, 1.0]]).argmin()
    assert cheapest == int(pads)


def test_noise_weights_are_one_half_at_five_per_cent():
    inputs = group_inputs(make_log(3))
    spread = 0.05 / np.sqrt(2) * np.sqrt(3)  # of both choices, three repetitions each
    inputs["rel_std_orig"] = inputs["rel_std_pad"] = [0.0, spread, np.nan]
    weights = noise_weights(inputs)
    assert_allclose(weights[:2], [1.0, 0.5])
    assert 0 < weights[2] < 1


def test_durations_are_columns_by_choice():
    inputs = group_inputs(make_log(4))
    expected = np.column_stack([inputs["median_orig"], inputs["median_pad"]])
    assert_allclose(durations_of(inputs), expected)
