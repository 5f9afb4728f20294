"""The Gaussian process over one pool: growth, imagination and thinning."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fasta_learn.gaussian_process._kernel import HyperPrior, correlation
from fasta_learn.gaussian_process._pool import PoolGaussianProcess, thin


def make_process(max_samples=512, n_levels=8):
    levels = np.linspace(0, 1, n_levels)
    X = np.stack(np.meshgrid(levels, levels), axis=-1).reshape(-1, 2)
    return PoolGaussianProcess(X, HyperPrior(), 20, max_samples)


def bowl(process, rows):
    X = process.grid.X[rows]
    return (X[:, 0] - 0.3) ** 2 + 0.5 * (X[:, 1] - 0.6) ** 2


def draw(process, n_rows, seed=0):
    rows = np.random.default_rng(seed).permutation(len(process.grid.X))[:n_rows]
    return rows, bowl(process, rows)


def conditioned_by_hand(process, rows, target):
    """Mean and standard deviation over the pool at the current hyperparameters."""
    hyper, X = process.hyper, process.grid.X
    centre, scale = target.mean(), target.std() or 1.0
    z = (target - centre) / scale
    K = correlation(X[rows], X[rows], hyper) + (hyper.noise + 1e-8) * np.eye(len(rows))
    cross = correlation(X[rows], X, hyper)
    solved = np.linalg.solve(K, cross)
    signal = (z @ np.linalg.solve(K, z) + 1) / (len(rows) + 1)
    variance = np.maximum(1 - np.sum(cross * solved, axis=0), 1e-12)
    return z @ solved * scale + centre, np.sqrt(signal * variance) * scale


def test_predictions_are_those_of_the_formula():
    process = make_process()
    rows, target = draw(process, 15)
    process.fit(rows, target)
    mean, std = conditioned_by_hand(process, rows, target)
    assert_allclose(process.predict()[0], mean, rtol=1e-8)
    assert_allclose(process.predict()[1], std, rtol=1e-6)


def test_fitting_one_by_one_conditions_on_all():
    process = make_process()
    rows, target = draw(process, 40)
    for n_rows in range(3, 41):
        process.fit(rows[:n_rows], target[:n_rows])
        mean, std = conditioned_by_hand(process, rows[:n_rows], target[:n_rows])
        assert_allclose(process.predict()[0], mean, rtol=1e-7)
        assert_allclose(process.predict()[1], std, rtol=1e-5)


def test_targets_of_earlier_rows_may_change():
    process = make_process()
    rows, target = draw(process, 31)
    process.fit(rows[:30], target[:30])
    process.fit(rows, 2 * target)
    mean, _ = conditioned_by_hand(process, rows, 2 * target)
    assert_allclose(process.predict()[0], mean, rtol=1e-8)


def test_hyperparameters_are_kept_until_the_data_grew_by_a_tenth():
    process = make_process()
    rows, target = draw(process, 45)
    process.fit(rows[:40], target[:40])
    first = process.packed.copy()
    process.fit(rows[:43], target[:43])
    assert_array_equal(process.packed, first)
    process.fit(rows[:45], target[:45])
    assert not np.array_equal(process.packed, first)


def test_imagining_conditions_on_the_row():
    process = make_process()
    rows, target = draw(process, 20)
    process.fit(rows, target)
    mean, _ = process.predict()
    row = int(np.argmax(process.predict()[1]))
    # What was imagined has the predicted outcome, which leaves the mean; the scale
    # of the signal stays too.
    signal = process._signal
    imagined = process.imagine(row)
    more = np.append(rows, row)
    hyper, X = process.hyper, process.grid.X
    K = correlation(X[more], X[more], hyper) + (hyper.noise + 1e-8) * np.eye(21)
    cross = correlation(X[more], X, hyper)
    variance = 1 - np.sum(cross * np.linalg.solve(K, cross), axis=0)
    expected = np.sqrt(signal * np.maximum(variance, 1e-12)) * target.std()
    assert_allclose(imagined, expected, rtol=1e-5)
    assert_array_equal(process.predict()[0], mean)


@pytest.mark.parametrize("n_cycles", [1, 3])
def test_forgetting_restores_the_state_exactly(n_cycles):
    process = make_process()
    rows, target = draw(process, 20)
    process.fit(rows, target)
    process.leave_one_out()
    mean, std = process.predict()
    imagined = [process.imagine(int(row)) for row in range(5)]
    process.forget()
    for _ in range(n_cycles):
        again = [process.imagine(int(row)) for row in range(5)]
        assert_array_equal(again, imagined)
        process.forget()
    assert_array_equal(process.predict()[0], mean)
    assert_array_equal(process.predict()[1], std)


def test_imagining_does_not_change_later_fits():
    quiet, dreamer = make_process(), make_process()
    rows, target = draw(quiet, 41)
    for process in (quiet, dreamer):
        process.fit(rows[:40], target[:40])
    for row in (60, 61, 62):
        dreamer.imagine(row)
    for process in (quiet, dreamer):
        process.fit(rows, target)
    assert_array_equal(dreamer.predict(), quiet.predict())


def test_leave_one_out_equals_conditioning_without_each():
    process = make_process()
    rows, target = draw(process, 12)
    process.fit(rows, target)
    z, predicted = process.leave_one_out()
    assert_allclose(z, (target - target.mean()) / target.std())
    hyper, X = process.hyper, process.grid.X
    K = correlation(X[rows], X[rows], hyper)
    for i in range(12):
        kept = np.arange(12) != i
        noisy = K[np.ix_(kept, kept)] + (hyper.noise + 1e-8) * np.eye(11)
        expected = K[i, kept] @ np.linalg.solve(noisy, z[kept])
        assert_allclose(predicted[i], expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("target", [[0.7], [0.7, 0.7, 0.7]])
def test_equal_targets_are_predicted_everywhere(target):
    process = make_process()
    process.fit(np.arange(len(target)), np.array(target))
    mean, std = process.predict()
    assert_allclose(mean, 0.7)
    assert np.isfinite(std).all()
    assert (std > 0).all()


def test_many_rows_are_thinned():
    process = make_process(max_samples=20)
    rows, target = draw(process, 60)
    process.fit(rows, target)
    kept = thin(target, 20)
    mean, _ = conditioned_by_hand(process, rows[kept], target[kept])
    assert_allclose(process.predict()[0], mean, rtol=1e-7)


def test_pickled_process_goes_on_alike():
    process = make_process()
    rows, target = draw(process, 41)
    process.fit(rows[:40], target[:40])
    copy = pickle.loads(pickle.dumps(process))
    for each in (process, copy):
        each.fit(rows, target)
    assert_array_equal(copy.predict(), process.predict())


@pytest.mark.parametrize("n_rows", [0, 1, 8])
def test_few_rows_are_all_kept(n_rows):
    assert_array_equal(thin(np.arange(float(n_rows)), 8), np.arange(n_rows))


@pytest.mark.parametrize(("n_rows", "limit"), [(9, 8), (50, 8), (1000, 101)])
def test_thinning_keeps_the_fastest_three_quarters(n_rows, limit):
    target = np.random.default_rng(0).permutation(n_rows).astype(float)
    kept = thin(target, limit)
    assert len(kept) == limit
    assert np.all(np.diff(kept) > 0)
    n_fast = 3 * limit // 4
    assert set(np.argsort(target)[:n_fast]) <= set(kept)


def test_thinning_spreads_the_rest_evenly():
    target = np.arange(100.0)
    kept = thin(target, 8)
    # The six fastest, and both ends of what is left.
    assert_array_equal(kept, [0, 1, 2, 3, 4, 5, 6, 99])
