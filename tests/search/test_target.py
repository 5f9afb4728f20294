"""What a surrogate learns, and the way back to milliseconds."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fasta_learn.search._target import TRANSFORMS, from_target, to_target

DURATIONS = np.array([2.0, 1.0, np.inf, 4.0])


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        ("identity", [2.0, 1.0, np.nan, 4.0]),
        ("log", [np.log(2), 0.0, np.nan, np.log(4)]),
        ("speed", [0.5, 0.0, np.nan, 0.75]),
    ],
)
def test_targets_by_hand(transform, expected):
    assert_allclose(to_target(DURATIONS, transform), expected, atol=1e-15)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_smaller_targets_are_faster(transform):
    durations = np.geomspace(1e-9, 1e9, 40)
    target = to_target(durations, transform)
    assert np.all(np.diff(target) >= 0)
    assert target[0] < target[5]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_predictions_come_back_as_durations(transform):
    durations = np.geomspace(0.01, 0.9, 12)
    target = to_target(durations, transform)
    assert_allclose(from_target(target, 0.01, transform), durations, rtol=1e-9)


@pytest.mark.parametrize("transform", ["log", "speed"])
@pytest.mark.parametrize("factor", [2.0**-40, 2.0**40])
def test_the_unit_does_not_matter(transform, factor):
    durations = np.random.default_rng(0).random(50)
    target = to_target(durations, transform)
    scaled = to_target(durations * factor, transform)
    if transform == "speed":
        assert_array_equal(scaled, target)
    assert_allclose(scaled, target, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_extreme_durations_stay_finite(transform):
    durations = np.array([0.0, 1e-300, 1e-9, 1.0, 1e9, 1e300])
    target = to_target(durations, transform)
    assert np.isfinite(target).all()
    for best in (0.0, 1e-300, 1e9):
        assert np.isfinite(from_target(target, best, transform)).all()


@pytest.mark.parametrize("transform", ["log", "speed"])
def test_wild_predictions_stay_finite_and_positive(transform):
    wild = np.array([-1e6, -1.0, 0.0, 0.999, 1.0, 1e6])
    durations = from_target(wild, 0.5, transform)
    assert np.isfinite(durations).all()
    assert np.all(durations > 0)
    assert np.all(np.diff(durations) >= 0)
