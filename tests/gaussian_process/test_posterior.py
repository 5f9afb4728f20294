"""The growing posterior against conditioning by the textbook formula."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fasta_learn.gaussian_process._kernel import (
    Hyperparameters,
    correlation,
    leave_one_out,
)
from fasta_learn.gaussian_process._posterior import PoolGrid, PoolPosterior


def make_grid(copies=False):
    levels = np.linspace(0, 1, 5)
    X = np.stack(np.meshgrid(levels, levels, [0.0, 1.0]), axis=-1).reshape(-1, 3)
    return PoolGrid(np.vstack([X, X[:10]]) if copies else X)


def make_hyper(noise=0.01):
    return Hyperparameters(
        np.array([0.3, 0.9, 0.5]), np.array([0.9, 0.5, 0.2]), float(noise)
    )


def by_formula(grid, hyper, rows, target):
    K = correlation(grid.X[rows], grid.X[rows], hyper)
    K += (hyper.noise + 1e-8) * np.eye(len(rows))
    cross = correlation(grid.X[rows], grid.X, hyper)
    mean = cross.T @ np.linalg.solve(K, target)
    variance = 1 - np.einsum("ij,ij->j", cross, np.linalg.solve(K, cross))
    signal = (target @ np.linalg.solve(K, target) + 1) / (len(rows) + 1)
    return mean, variance, signal


def draw_rows(grid, n_rows, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.choice(len(grid.X), n_rows, replace=False)
    return rows, rng.standard_normal(n_rows)


def test_grid_correlation_equals_that_of_the_rows():
    grid, hyper = make_grid(), make_hyper()
    rows = np.array([3, 0, 41])
    expected = correlation(grid.X[rows], grid.X, hyper)
    assert_allclose(grid.correlation(rows, hyper), expected, rtol=1e-14)


@pytest.mark.parametrize("n_rows", [1, 2, 20])
def test_posterior_equals_the_formula(n_rows):
    grid, hyper = make_grid(), make_hyper()
    rows, target = draw_rows(grid, n_rows)
    posterior = PoolPosterior(grid, hyper, rows)
    mean, variance, signal = by_formula(grid, hyper, rows, target)
    got_mean, got_signal = posterior.mean(target)
    assert_allclose(got_mean, mean, rtol=1e-9, atol=1e-11)
    assert_allclose(posterior.variance, variance, rtol=1e-9, atol=1e-11)
    assert_allclose(got_signal, signal, rtol=1e-9)


@pytest.mark.parametrize("noise", [1.3e-5, 0.005, 2.0])
@pytest.mark.parametrize("copies", [False, True])
def test_appending_equals_conditioning_at_once(noise, copies):
    grid, hyper = make_grid(copies), make_hyper(noise)
    # With copies, the last ten rows repeat the first ten.
    rows, target = draw_rows(grid, len(grid.X))
    grown = PoolPosterior(grid, hyper, rows[:3])
    for row in rows[3:]:
        grown.append(int(row))
    at_once = PoolPosterior(grid, hyper, rows)
    assert_array_equal(grown.rows, at_once.rows)
    assert_allclose(grown.mean(target)[0], at_once.mean(target)[0], rtol=1e-9)
    assert_allclose(grown.mean(target)[1], at_once.mean(target)[1], rtol=1e-9)
    assert_allclose(grown.variance, at_once.variance, rtol=1e-7, atol=1e-13)
    assert_allclose(
        grown.leave_one_out(target), at_once.leave_one_out(target), rtol=1e-9
    )


def test_leave_one_out_is_that_of_the_factor():
    grid, hyper = make_grid(), make_hyper()
    rows, target = draw_rows(grid, 12)
    K = correlation(grid.X[rows], grid.X[rows], hyper) + (0.01 + 1e-8) * np.eye(12)
    expected = leave_one_out(np.linalg.cholesky(K), target)
    got = PoolPosterior(grid, hyper, rows).leave_one_out(target)
    assert_allclose(got, expected, rtol=1e-9)


def test_truncating_forgets_what_was_appended():
    grid, hyper = make_grid(), make_hyper()
    rows, target = draw_rows(grid, 30)
    posterior = PoolPosterior(grid, hyper, rows[:10])
    kept = posterior.variance
    before = posterior.mean(target[:10])[0]
    for row in rows[10:]:
        posterior.append(int(row))
    posterior.truncate(10, kept)
    assert_array_equal(posterior.variance, kept)
    assert_allclose(posterior.mean(target[:10])[0], before, rtol=1e-12, atol=1e-14)
    assert_array_equal(posterior.rows, rows[:10])


def test_truncating_does_not_take_over_the_array():
    grid, hyper = make_grid(), make_hyper()
    posterior = PoolPosterior(grid, hyper, np.array([0]))
    kept = posterior.variance
    copy = kept.copy()
    posterior.truncate(1, kept)
    posterior.append(7)
    assert_array_equal(kept, copy)


def test_variance_handed_out_is_not_changed_later():
    grid, hyper = make_grid(), make_hyper()
    posterior = PoolPosterior(grid, hyper, np.array([0]))
    handed_out = posterior.variance
    copy = handed_out.copy()
    posterior.append(7)
    assert_array_equal(handed_out, copy)
