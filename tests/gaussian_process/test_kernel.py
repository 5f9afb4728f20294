"""The kernel, its priors and its likelihood against scikit-learn and mpmath."""

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from fasta_learn.gaussian_process import _kernel
from fasta_learn.gaussian_process._kernel import (
    Hyperparameters,
    HyperPrior,
    correlation,
    covariance_factor,
    fit_hyperparameters,
    leave_one_out,
    signal_variance,
    unpack,
)


def factor_by_sklearn(A, B, length_scale, relevance):
    kernel = ConstantKernel(1 - relevance) + ConstantKernel(relevance) * Matern(
        length_scale, nu=2.5
    )
    return kernel(A[:, None], B[:, None])


def make_problem(n_samples, n_features, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n_samples, n_features))
    target = np.sin(4 * X).sum(axis=1) + 0.1 * rng.standard_normal(n_samples)
    target = (target - target.mean()) / target.std()
    means, spreads = HyperPrior().moments(n_features)
    packed = means + 0.7 * spreads * rng.standard_normal(len(means))
    return X, target, packed, means, spreads


def distances_of(X):
    return np.abs(X.T[:, :, None] - X.T[:, None, :])


@pytest.mark.parametrize("length_scale", [0.01, 0.6, 30.0])
@pytest.mark.parametrize("relevance", [0.02, 0.5, 0.99])
def test_correlation_of_one_feature_is_that_of_scikit_learn(length_scale, relevance):
    rng = np.random.default_rng(0)
    A, B = rng.random((7, 1)), rng.random((5, 1))
    hyper = Hyperparameters(np.array([length_scale]), np.array([relevance]), 0.1)
    expected = factor_by_sklearn(A[:, 0], B[:, 0], length_scale, relevance)
    assert_allclose(correlation(A, B, hyper), expected, rtol=1e-12)


def test_correlation_is_the_product_over_features():
    rng = np.random.default_rng(1)
    A, B = rng.random((7, 3)), rng.random((5, 3))
    scales, relevance = np.array([0.2, 0.9, 2.0]), np.array([0.9, 0.3, 0.6])
    expected = np.ones((7, 5))
    for j in range(3):
        expected *= factor_by_sklearn(A[:, j], B[:, j], scales[j], relevance[j])
    hyper = Hyperparameters(scales, relevance, 0.1)
    assert_allclose(correlation(A, B, hyper), expected, rtol=1e-12)


def test_covariance_factor_holds_correlation_and_noise():
    X = np.random.default_rng(2).random((6, 2))
    hyper = Hyperparameters(np.array([0.3, 0.5]), np.array([0.9, 0.7]), 0.25)
    lower = covariance_factor(X, hyper)
    expected = correlation(X, X, hyper) + (0.25 + 1e-8) * np.eye(6)
    assert_allclose(lower @ lower.T, expected, rtol=1e-12)
    assert np.all(np.triu(lower, 1) == 0)


def test_repeated_rows_can_be_factorised():
    X = np.zeros((40, 2))
    hyper = Hyperparameters(np.array([0.3, 0.5]), np.array([0.9, 0.7]), 0.0)
    assert np.isfinite(covariance_factor(X, hyper)).all()


def test_prior_medians_and_packing():
    prior = HyperPrior((2.0, 0.1), (0.8, 0.2), (0.01, 0.3))
    means, spreads = prior.moments(2)
    hyper = unpack(means)
    assert_allclose(hyper.length_scales, [2.0, 2.0])
    assert_allclose(hyper.relevance, [0.8, 0.8])
    assert_allclose(hyper.noise, 0.01)
    assert_allclose(spreads, [0.1, 0.1, 0.2, 0.2, 0.3])


@pytest.mark.parametrize(
    ("residuals", "expected"), [([0.0], 0.5), ([3.0, 4.0], 26 / 3), ([1.0] * 9, 1.0)]
)
def test_signal_variance_by_hand(residuals, expected):
    assert_allclose(signal_variance(np.array(residuals)), expected)


def objective_by_mpmath(X, target, packed, means, spreads):
    """-log posterior, the signal variance at its maximum, up to a constant."""
    n, n_features = X.shape
    x = [[mpmath.mpf(float(value)) for value in row] for row in X]
    scales = [mpmath.exp(value) for value in packed[:n_features]]
    relevance = [1 / (1 + mpmath.exp(-v)) for v in packed[n_features : 2 * n_features]]
    K = mpmath.matrix(n, n)
    for i in range(n):
        for j in range(n):
            K[i, j] = mpmath.mpf(1)
            for d in range(n_features):
                r = mpmath.sqrt(5) * abs(x[i][d] - x[j][d]) / scales[d]
                matern = (1 + r + r**2 / 3) * mpmath.exp(-r)
                K[i, j] *= 1 - relevance[d] + relevance[d] * matern
        K[i, i] += mpmath.exp(packed[-1]) + mpmath.mpf("1e-8")
    y = mpmath.matrix([mpmath.mpf(float(value)) for value in target])
    fit = (y.T * mpmath.lu_solve(K, y))[0]
    penalty = sum(
        ((p - float(m)) / float(s)) ** 2
        for p, m, s in zip(packed, means, spreads, strict=True)
    )
    value = (n + 1) * mpmath.log((fit + 1) / (n + 1)) + mpmath.log(mpmath.det(K))
    return (value + penalty) / 2


@pytest.mark.parametrize("n_features", [1, 2])
def test_objective_and_gradient_are_those_of_higher_precision(n_features):
    X, target, packed, means, spreads = make_problem(6, n_features)
    value, gradient = _kernel._negative_log_posterior(
        packed, distances_of(X), target, means, spreads
    )
    with mpmath.workdps(40):
        point = [mpmath.mpf(float(v)) for v in packed]
        expected = objective_by_mpmath(X, target, point, means, spreads)
        step = mpmath.mpf("1e-12")
        slopes = []
        for i in range(len(point)):
            ends = []
            for sign in (1, -1):
                moved = list(point)
                moved[i] += sign * step
                ends.append(objective_by_mpmath(X, target, moved, means, spreads))
            slopes.append(float((ends[0] - ends[1]) / (2 * step)))
        assert_allclose(value, float(expected), rtol=1e-9)
    assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("n_samples", "n_features"), [(3, 5), (30, 1), (25, 4)])
def test_gradient_is_the_slope_of_the_objective(n_samples, n_features, seed):
    X, target, packed, means, spreads = make_problem(n_samples, n_features, seed)
    arguments = distances_of(X), target, means, spreads

    def value(point):
        return _kernel._negative_log_posterior(point, *arguments)[0]

    _, gradient = _kernel._negative_log_posterior(packed, *arguments)
    numeric = approx_fprime(packed, value, 1e-7)
    assert_allclose(gradient, numeric, rtol=1e-3, atol=1e-4)


def test_without_features_the_objective_is_that_of_pure_noise():
    X, target = np.empty((4, 0)), np.array([1.0, -1.0, 1.0, -1.0])
    means, spreads = HyperPrior().moments(0)
    value, gradient = _kernel._negative_log_posterior(
        means, distances_of(X), target, means, spreads
    )
    K = np.ones((4, 4)) + (0.005 + 1e-8) * np.eye(4)
    fit = target @ np.linalg.solve(K, target)
    expected = 2.5 * np.log((fit + 1) / 5) + 0.5 * np.linalg.slogdet(K)[1]
    assert_allclose(value, expected)
    assert gradient.shape == (1,)


@pytest.mark.parametrize("seed", range(3))
def test_fitted_hyperparameters_are_a_minimum(seed):
    X, target, _, means, spreads = make_problem(30, 2, seed)
    packed, n_iter = fit_hyperparameters(X, target, means, HyperPrior(), 200)

    def value(point):
        return _kernel._negative_log_posterior(
            point, distances_of(X), target, means, spreads
        )[0]

    assert n_iter > 1
    assert value(packed) < value(means)
    for step in 0.05 * np.vstack([np.eye(5), -np.eye(5)]):
        assert value(packed + step) > value(packed)


def test_iterations_are_limited():
    X, target, _, means, _ = make_problem(30, 2)
    _, n_iter = fit_hyperparameters(X, target, means, HyperPrior(), 3)
    assert n_iter <= 3


def test_hyperparameters_stay_near_the_prior():
    X, _, _, means, spreads = make_problem(30, 2)
    target = np.where(X[:, 0] > 0.5, 1.0, -1.0)
    packed, _ = fit_hyperparameters(X, target, means, HyperPrior(), 200)
    assert np.all(np.abs(packed - means) <= 4 * spreads + 1e-12)


@pytest.mark.parametrize("noise", [1e-3, 0.5])
def test_leave_one_out_equals_solving_without_each(noise):
    X, target, *_ = make_problem(12, 2)
    hyper = Hyperparameters(np.array([0.4, 0.8]), np.array([0.8, 0.6]), noise)
    K = correlation(X, X, hyper)
    expected = []
    for i in range(12):
        kept = np.arange(12) != i
        noisy = K[np.ix_(kept, kept)] + (noise + 1e-8) * np.eye(11)
        expected.append(K[i, kept] @ np.linalg.solve(noisy, target[kept]))
    predicted = leave_one_out(covariance_factor(X, hyper), target)
    assert_allclose(predicted, expected, rtol=1e-8, atol=1e-10)


def test_leave_one_out_of_a_single_sample_is_the_prior_mean():
    hyper = Hyperparameters(np.array([0.4]), np.array([0.8]), 0.1)
    factor = covariance_factor(np.zeros((1, 1)), hyper)
    assert_allclose(leave_one_out(factor, np.array([2.0])), [0.0], atol=1e-12)
