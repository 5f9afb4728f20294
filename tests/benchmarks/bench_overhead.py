"""What a search costs itself: the time of one propose() and partial_fit().

    python tests/benchmarks/bench_overhead.py

prints median, mean and 95th percentile of single steps, one config each, with one
thread (now and then the default search fits its hyperparameters anew, which the median
hides), and the ratio of the mean to what the same machine takes in the same run for a
Cholesky factor of as many measurements, and for a fit and a prediction of the pool by
scikit-learn's Gaussian process.
"""

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from threadpoolctl import threadpool_limits

from fasta_learn import ActiveConfigSearch, ModelSelector

SIZES = ((250, 6, 50), (18_000, 10, 200))
ESTIMATORS = {"default": None, "ModelSelector": ModelSelector()}


def make_pool(n_pool: int, n_features: int) -> tuple[list[dict], NDArray]:
    """Return distinct configs of tile sizes and durations with ratios that matter."""
    rng = np.random.default_rng(0)
    n_levels = 2
    while n_levels**n_features < 2 * n_pool:
        n_levels += 1
    levels = np.empty((0, n_features), dtype=int)
    while len(levels) < n_pool:
        more = rng.integers(n_levels, size=(2 * n_pool, n_features))
        levels = np.unique(np.concatenate([levels, more]), axis=0)
    levels = rng.permutation(levels)[:n_pool]
    centre = rng.uniform(0, n_levels - 1, n_features)
    slope = rng.uniform(0.02, 0.2, n_features)
    log = ((levels - centre) ** 2) @ slope + 0.05 * rng.standard_normal(n_pool)
    names = [f"BLOCK_{i}" for i in range(n_features)]
    configs = [
        dict(zip(names, (2 ** (4 + row)).tolist(), strict=True)) for row in levels
    ]
    return configs, 0.1 * np.exp(log)


def step_times(estimator, configs, durations, n_measured, n_steps) -> NDArray:
    """Seconds of each of the steps after so many measurements."""
    search = ActiveConfigSearch(
        estimator,
        budget=n_measured + n_steps,
        n_initial=n_measured,
        initial_design="random",
        batch_size=1,
        random_state=0,
    )
    first = search.propose(configs)
    search.partial_fit(first, durations[first])
    seconds = np.empty(n_steps)
    for i in range(n_steps):
        started = time.perf_counter()
        batch = search.propose()
        search.partial_fit(batch, durations[batch])
        seconds[i] = time.perf_counter() - started
    return seconds


def median_time(action: Callable[[], object], n_repeats: int) -> float:
    seconds = np.empty(n_repeats)
    for i in range(n_repeats):
        started = time.perf_counter()
        action()
        seconds[i] = time.perf_counter() - started
    return float(np.median(seconds))


def references(configs, durations, n_measured) -> dict[str, float]:
    """Seconds of what the steps are compared with."""
    X = np.log2(np.array([list(config.values()) for config in configs], dtype=float))
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    y = np.log(durations)[:n_measured]
    kernel = ConstantKernel() * Matern(np.ones(X.shape[1]), nu=2.5) + WhiteKernel()
    covariance = kernel(X[:n_measured])

    def gaussian_process() -> None:
        model = GaussianProcessRegressor(kernel, normalize_y=True)
        model.fit(X[:n_measured], y).predict(X, return_std=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of lengthscales at their bounds
        return {
            "Cholesky": median_time(lambda: cholesky(covariance, lower=True), 50),
            "scikit-learn GP": median_time(gaussian_process, 3),
        }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    print("| N, D, n | search | median | mean | p95 | / Cholesky | / scikit-learn GP |")
    print("|---|---|---|---|---|---|---|")
    for n_pool, n_features, n_measured in SIZES:
        configs, durations = make_pool(n_pool, n_features)
        scale = references(configs, durations, n_measured)
        for name, estimator in ESTIMATORS.items():
            times = step_times(estimator, configs, durations, n_measured, args.steps)
            median, p95 = np.quantile(times, [0.5, 0.95])
            mean = times.mean()
            print(
                f"| {n_pool}, {n_features}, {n_measured} | {name} "
                f"| {1e3 * median:.2f} ms | {1e3 * mean:.2f} ms | {1e3 * p95:.2f} ms "
                f"| {mean / scale['Cholesky']:.0f} "
                f"| {mean / scale['scikit-learn GP']:.1%} |",
                flush=True,
            )


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
