import numpy as np
import pytest
from numpy.testing import assert_allclose

from fasta_learn.experiments._bootstrap import interval


def ends(samples, confidence=0.95, n_resamples=400, random_state=0):
    low, high = interval(
        samples,
        confidence=confidence,
        n_resamples=n_resamples,
        random_state=random_state,
    )
    return np.concatenate([low, high])


def make_samples(rng, n_pools, n_seeds, between, within):
    centres = rng.normal(scale=between, size=(n_pools, 1, 1))
    return list(centres + rng.normal(scale=within, size=(n_pools, n_seeds, 1)))


@pytest.mark.parametrize(("between", "within"), [(1.0, 0.2), (0.05, 1.0), (1.0, 1.0)])
def test_interval_covers_the_mean(between, within):
    rng = np.random.default_rng(0)
    covered = 0
    for trial in range(200):
        low, high = ends(make_samples(rng, 25, 6, between, within), 0.9, 150, trial)
        covered += low <= 0 <= high
    # Close to .9 where pools differ more than seeds, above where they differ less;
    # resampling all runs as if they were independent gives about .5 for the first.
    assert covered >= 165


def test_width_where_only_pools_differ():
    rng = np.random.default_rng(1)
    samples = make_samples(rng, 400, 3, between=1.0, within=0.0)
    low, high = ends(samples, n_resamples=4000)
    spread = np.std([sample[0, 0] for sample in samples])
    assert_allclose(high - low, 2 * 1.96 * spread / 20, rtol=0.1)


def test_width_of_one_pool_is_that_of_its_seeds():
    runs = np.random.default_rng(2).normal(size=(400, 1))
    low, high = ends([runs], n_resamples=4000)
    assert_allclose(high - low, 2 * 1.96 * runs.std() / 20, rtol=0.1)


def test_pools_weigh_the_same_whatever_their_number_of_seeds():
    samples = [np.zeros((90, 1)), np.ones((10, 1))]
    # Both, one or the other pool are drawn: means 0, 1/2 and 1.
    assert_allclose(ends(samples, confidence=0.4), [0.5, 0.5])


def test_constant_runs_have_no_width():
    assert_allclose(ends([np.full((3, 2), 0.25)] * 4), 0.25)


def test_infinite_runs_give_infinite_ends_and_no_nan():
    samples = [np.array([[0.0], [0.0]]), np.array([[0.0], [np.inf]])]
    low, high = ends(samples)
    assert (low, high) == (0.0, np.inf)


def test_repeatable_by_seed():
    samples = make_samples(np.random.default_rng(3), 5, 4, 1.0, 1.0)
    assert ends(samples).tolist() == ends(samples).tolist()
    assert ends(samples).tolist() != ends(samples, random_state=1).tolist()


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95, float("nan")])
def test_wrong_confidence_is_refused(confidence):
    with pytest.raises(ValueError, match="confidence must be"):
        ends([np.zeros((1, 1))], confidence=confidence)


def test_wrong_number_of_resamples_is_refused():
    with pytest.raises(ValueError, match="n_resamples must be"):
        ends([np.zeros((1, 1))], n_resamples=0)
