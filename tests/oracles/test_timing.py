import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import bootstrap

from fasta_learn.oracles._timing import Timing, TimingPlan

DURATIONS = st.lists(st.floats(0, 1e6), min_size=1, max_size=60)


# ---- TimingPlan


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"relative_error": 0}, "relative_error must be a number above 0, got 0"),
        ({"relative_error": math.nan}, "relative_error must be a number"),
        ({"relative_error": "1"}, "relative_error must be a number"),
        ({"n_warmup": -1}, "n_warmup must be an integer of at least 0, got -1"),
        ({"n_warmup": 1.0}, "n_warmup must be an integer"),
        ({"min_launches": 0}, "min_launches must be an integer of at least 1"),
        ({"min_launches": True}, "min_launches must be an integer"),
        ({"max_launches": 0, "min_launches": 1}, "max_launches must be an integer"),
        ({"max_launches": 6}, r"max_launches \(6\) is less than min_launches \(7\)"),
        ({"max_ms": 0.0}, "max_ms must be a number above 0"),
        ({"max_ms": math.inf}, "max_ms must be a number above 0, got inf"),
        ({"cutoff": 1.0}, "cutoff must be a number above 1, got 1.0"),
    ],
)
def test_plan_refuses_invalid_values(arguments, message):
    with pytest.raises(ValueError, match=message):
        TimingPlan(**arguments)


def test_plan_takes_keywords_only():
    with pytest.raises(TypeError, match="positional"):
        TimingPlan(0.01)


def test_plan_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        TimingPlan().max_ms = 1.0


# ---- Timing


@pytest.mark.parametrize(
    ("durations", "message"),
    [
        ([], "not empty"),
        ([[1.0]], r"got the shape \(1, 1\)"),
        ([1.0, math.nan], r"durations\[1\] is nan"),
        ([math.inf], r"durations\[0\] is inf"),
        ([1.0, 2.0, -1.0], r"durations\[2\] is -1.0"),
    ],
)
def test_timing_refuses_invalid_durations(durations, message):
    with pytest.raises(ValueError, match=message):
        Timing(durations)


def test_timing_keeps_a_read_only_copy():
    durations = np.array([1.0, 2.0])
    timing = Timing(durations)
    durations[0] = 5.0
    assert timing.durations.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        timing.durations[0] = 5.0


def test_summary_of_six_launches():
    timing = Timing([6.0, 1.0, 3.0, 2.0, 5.0, 4.0])
    assert (timing.n_launches, timing.median) == (6, 3.5)
    assert (timing.p20, timing.p80) == (2.0, 5.0)


def test_one_launch_says_nothing_about_its_error():
    assert Timing([2.0]).standard_error == math.inf


@pytest.mark.parametrize(
    "durations",
    [[1.0, 2.0, 4.0], [0.5, 0.51, 0.49, 0.53, 0.9], [3.0, 3.0, 3.0, 7.0, 1]],
)
def test_standard_error_is_the_sd_of_all_bootstrap_medians(durations):
    resamples = itertools.product(durations, repeat=len(durations))
    medians = np.median(list(resamples), axis=1)
    assert_allclose(Timing(durations).standard_error, medians.std(), rtol=1e-12)


@pytest.mark.parametrize("n_launches", [7, 20, 101])
def test_standard_error_is_near_scipys_bootstrap(n_launches):
    durations = np.random.default_rng(n_launches).gamma(4.0, size=n_launches)
    expected = bootstrap(
        (durations,), np.median, n_resamples=20_000, method="percentile", rng=0
    ).standard_error
    # For even numbers, the median of a resample is a mean of two.
    assert_allclose(Timing(durations).standard_error, expected, rtol=0.08)


def test_standard_error_is_right_for_normal_noise():
    rng = np.random.default_rng(0)
    samples = rng.standard_normal((2000, 21)) + 100
    errors = [Timing(sample).standard_error for sample in samples]
    assert_allclose(
        np.sqrt(np.mean(np.square(errors))), np.median(samples, axis=1).std(), rtol=0.1
    )


def test_disturbed_launches_hardly_move_the_standard_error():
    durations = 1 + 0.01 * np.random.default_rng(0).standard_normal(30)
    disturbed = np.where(np.arange(30) < 3, 5.0, durations)
    assert np.std(disturbed) > 1
    assert Timing(disturbed).standard_error < 1.5 * 0.01 / math.sqrt(30)


@given(DURATIONS, st.randoms(use_true_random=False))
def test_order_of_the_launches_does_not_matter(durations, random):
    shuffled = random.sample(durations, len(durations))
    first, second = Timing(durations), Timing(shuffled)
    assert first.standard_error == second.standard_error
    assert first.median == second.median


@given(st.lists(st.floats(0.001, 1e3), min_size=2, max_size=60), st.integers(-10, 10))
def test_the_unit_does_not_matter(durations, power):
    factor = 2.0**power
    scaled = Timing(np.array(durations) * factor)
    assert_allclose(
        [scaled.standard_error, scaled.median, scaled.p20, scaled.p80],
        [
            factor * value
            for value in (
                Timing(durations).standard_error,
                Timing(durations).median,
                Timing(durations).p20,
                Timing(durations).p80,
            )
        ],
        rtol=1e-9,
        atol=1e-12,
    )


@given(st.floats(0, 1e6), st.integers(2, 60))
def test_equal_launches_have_no_error(duration, n_launches):
    error = Timing([duration] * n_launches).standard_error
    assert_allclose(error, 0, atol=1e-9 * duration)
