"""Scores against SciPy and by hand."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import spearmanr
from sklearn.metrics import r2_score

from fasta_learn.model_selection._scores import (
    clipped_r2,
    merge_ties,
    press,
    spearman,
)

FEW_VALUES = st.integers(0, 4).map(float)


@given(hnp.arrays(float, (4, 9), elements=FEW_VALUES))
def test_spearman_matches_scipy_with_ties(values):
    assume(all(np.ptp(row) > 0 for row in values))
    expected = [spearmanr(values[0], row).statistic for row in values[1:]]
    assert_allclose(spearman(values[0], values[1:]), expected, atol=1e-12)


def test_spearman_matches_scipy_without_ties():
    values = np.random.default_rng(0).random((5, 200))
    expected = [spearmanr(values[0], row).statistic for row in values[1:]]
    assert_allclose(spearman(values[0], values[1:]), expected, atol=1e-12)


def test_spearman_of_shared_ranks_by_hand():
    # Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: 4.5 / sqrt(4.5 * 5).
    [score] = spearman(np.array([1.0, 2, 2, 3]), np.array([[1.0, 2, 3, 4]]))
    assert_allclose(score, np.sqrt(0.9))


def test_spearman_of_ties_does_not_depend_on_their_order():
    durations = np.array([3.0, 1, 1, 1, 2])
    predictions = np.array([[9.0, 1, 2, 3, 4], [9.0, 3, 1, 2, 4]])
    first, second = spearman(durations, predictions)
    assert first == second


@pytest.mark.parametrize(
    ("durations", "prediction"),
    [([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [5, 5, 5]), ([1, 1], [2, 2]), ([1], [2])],
)
def test_spearman_of_a_constant_is_zero(durations, prediction):
    scores = spearman(np.array(durations, float), np.array([prediction], float))
    assert_array_equal(scores, [0])


def test_spearman_is_one_and_minus_one_at_its_ends():
    durations = np.array([1.0, 4, 9, 16])
    scores = spearman(durations, np.vstack([np.sqrt(durations), -durations]))
    assert_array_equal(scores, [1, -1])


def test_merge_ties_joins_only_what_rounding_separates():
    merged = merge_ties(np.array([[3.0, 1.0, 1.0 + 1e-14, 2.0, 1.0 - 1e-14]]), 1e-12)
    assert_array_equal(merged, [[3, 1 - 1e-14, 1 - 1e-14, 2, 1 - 1e-14]])


@given(hnp.arrays(float, (3, 7), elements=st.floats(-9, 9)))
def test_merge_ties_without_tolerance_changes_nothing(values):
    assert_array_equal(merge_ties(values, 0.0), values)


def test_press_by_hand():
    errors = press(np.array([1.0, 2]), np.array([[1.0, 4], [0, 2]]), None)
    assert_allclose(errors, [2, 0.5])


def test_press_is_a_weighted_mean():
    durations, weight = np.array([1.0, 2]), np.array([3.0, 1])
    errors = press(durations, np.array([[1.0, 4], [0, 2]]), weight)
    assert_allclose(errors, [1, 0.75])


@pytest.mark.parametrize("weighted", [False, True])
def test_r2_matches_scikit_learn(weighted):
    rng = np.random.default_rng(0)
    durations, noise, weight = rng.random((3, 20))
    weight = weight if weighted else None
    fitted = durations + 0.2 * noise
    expected = r2_score(durations, fitted, sample_weight=weight)
    assert_allclose(clipped_r2(durations, fitted, weight), expected)


def test_r2_is_clipped_at_zero():
    assert clipped_r2(np.array([1.0, 2]), np.array([9.0, -9]), None) == 0


def test_r2_of_constant_durations_is_zero():
    assert clipped_r2(np.full(3, 0.1), np.full(3, 0.1), None) == 0
