"""Other tools as searches for `fasta_learn.experiments.replay`.

Each takes ``(pool, n_budget, seed)`` and answers the pool indices that it measured, in
order. All get the same: the configs, the budget, and durations only of what they ask
for. The packages they need are imported when they run.
"""

import contextlib
import functools
import io
import json
import math
import random
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from scipy.stats.qmc import LatinHypercube

from fasta_learn import ConfigVectorizer
from fasta_learn.configs import Pool, config_key


def scaled_features(pool: Pool) -> NDArray:
    """Features in the unit range, tile sizes by their logarithm, as ours are."""
    vectorizer = ConfigVectorizer(log2="auto", boolean=True, categorical=True)
    features = np.asarray(vectorizer.fit_transform(pool.configs), dtype=float)
    span = np.ptp(features, axis=0)
    return (features - features.min(axis=0)) / np.where(span > 0, span, 1.0)


@dataclass(frozen=True)
class ModelSearch:
    """Expected improvement by a regressor that knows its uncertainty.

    The blind sample and the size of the batches are those of our default search; a
    failed config counts as the slowest seen.

    Parameters
    ----------
    make_model : callable
        Function of ``(n_features, seed)`` that answers a model with ``fit(X, y)`` and
        ``mean_and_std(X)``.
    """

    make_model: Callable

    def __call__(self, pool: Pool, n_budget: int, seed: int) -> list[int]:
        features = scaled_features(pool)
        model = self.make_model(features.shape[1], seed)
        first = min(n_budget, features.shape[1] + 3)
        order = np.random.default_rng(seed).permutation(len(pool))[:first].tolist()
        while len(order) < n_budget:
            log = np.log(pool.durations[order])
            failed = np.isinf(log)
            log[failed] = log[~failed].max(initial=0.0)
            model.fit(features[order], log)
            rest = np.setdiff1d(np.arange(len(pool)), order)
            mean, std = model.mean_and_std(features[rest])
            gain = log.min() - mean
            z = gain / np.maximum(std, 1e-12)
            improvement = gain * norm.cdf(z) + std * norm.pdf(z)
            batch = min(max(1, len(order) // 32), n_budget - len(order))
            order += rest[np.argsort(-improvement, kind="stable")[:batch]].tolist()
        return order


class GaussianProcess:
    """scikit-learn's Gaussian process: Matérn 5/2, a lengthscale for each feature.

    Lengthscales are fitted anew when there is a tenth more data: each fit takes from
    tenths of a second to seconds.
    """

    def __init__(self, n_features: int, seed: int):
        from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

        matern = Matern(np.ones(n_features), (0.05, 20.0), nu=2.5)
        self.kernel = ConstantKernel() * matern + WhiteKernel(1e-3, (1e-6, 1.0))
        self.seed = seed
        self.n_fitted = 0

    def fit(self, X, y):
        from sklearn.gaussian_process import GaussianProcessRegressor

        anew = len(X) >= 1.1 * self.n_fitted
        self.model = GaussianProcessRegressor(
            self.kernel,
            optimizer="fmin_l_bfgs_b" if anew else None,
            normalize_y=True,
            random_state=self.seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of lengthscales at their bounds
            self.model.fit(X, y)
        if anew:
            self.kernel, self.n_fitted = self.model.kernel_, len(X)

    def mean_and_std(self, X):
        return self.model.predict(X, return_std=True)


class Forest:
    """scikit-learn's random forest; its trees differ by their uncertainty."""

    def __init__(self, n_features: int, seed: int):
        from sklearn.ensemble import RandomForestRegressor

        self.forest = RandomForestRegressor(100, max_features=0.8, random_state=seed)

    def fit(self, X, y):
        self.forest.fit(X, y)

    def mean_and_std(self, X):
        X = X.astype(np.float32)
        trees = [tree.predict(X, check_input=False) for tree in self.forest.estimators_]
        return np.mean(trees, axis=0), np.std(trees, axis=0)


class OptunaSearch:
    """Optuna's TPE over the ranks of the values of each parameter.

    A pool is not a full grid, so a suggestion becomes the nearest config that is not
    measured, and Optuna is told of that one.
    """

    def __call__(self, pool: Pool, n_budget: int, seed: int) -> list[int]:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        space, ranks = _ranked(pool, optuna.distributions)
        scale = np.maximum(1, ranks.max(axis=0))
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
        order: list[int] = []
        free = np.ones(len(pool), dtype=bool)
        while len(order) < n_budget:
            asked = study.ask(space)
            study.tell(asked, state=optuna.trial.TrialState.FAIL)
            point = np.array([asked.params[name] for name in space])
            distance = np.abs((ranks - point) / scale).sum(axis=1)
            index = int(np.where(free, distance, np.inf).argmin())
            order.append(index)
            free[index] = False
            params = dict(zip(space, ranks[index].tolist(), strict=True))
            study.add_trial(
                optuna.trial.create_trial(
                    params=params,
                    distributions=space,
                    value=float(pool.durations[index]),
                )
            )
        return order


def _ranked(pool: Pool, distributions):
    """Distributions of the parameters that vary, and the rank of each value."""
    space, columns = {}, []
    for name, values in _parameters(pool).items():
        if len(values) < 2:
            continue
        if any(isinstance(value, (str, bool)) for value in values):
            space[name] = distributions.CategoricalDistribution(range(len(values)))
        else:
            space[name] = distributions.IntDistribution(0, len(values) - 1)
        columns.append([values.index(config[name]) for config in pool.configs])
    return space, np.array(columns).T


def _parameters(pool: Pool) -> dict[str, list]:
    """Values of each parameter, numbers in order."""
    return {
        name: sorted(
            {config[name] for config in pool.configs},
            key=lambda value: (isinstance(value, str), value),
        )
        for name in pool.configs[0]
    }


@dataclass(frozen=True)
class KernelTunerSearch:
    """A strategy of Kernel Tuner, which replays a cache file in simulation mode."""

    strategy: str

    def __call__(self, pool: Pool, n_budget: int, seed: int) -> list[int]:
        import kernel_tuner
        from kernel_tuner.strategies import bayes_opt

        # The strategies draw from the global generators, and one from a fresh one.
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        latin = functools.partial(LatinHypercube, rng=np.random.default_rng(seed))
        parameters = _parameters(pool)
        with (
            tempfile.TemporaryDirectory() as folder,
            contextlib.redirect_stdout(io.StringIO()),
            warnings.catch_warnings(),
            mock.patch.object(bayes_opt, "LatinHypercube", latin),
        ):
            warnings.simplefilter("ignore")
            cache = Path(folder) / "cache.json"
            cache.write_text(_cache_text(pool, parameters))
            results, _ = kernel_tuner.tune_kernel(
                "kernel",
                "",
                1,
                [],
                parameters,
                restrictions=[_only_configs_of(pool)],
                lang="C",
                quiet=True,
                simulation_mode=True,
                cache=str(cache),
                strategy=self.strategy,
                strategy_options={"max_fevals": n_budget},
            )
        position = {config_key(config): i for i, config in enumerate(pool.configs)}
        measured = [
            position[config_key({name: result[name] for name in parameters})]
            for result in results
        ]
        return list(dict.fromkeys(measured))[:n_budget]


def _cache_text(pool: Pool, parameters: dict[str, list]) -> str:
    entries = {}
    for config, duration in zip(pool.configs, pool.durations.tolist(), strict=True):
        row = {name: config[name] for name in parameters}
        row["time"] = duration if math.isfinite(duration) else "RuntimeFailedConfig"
        entries[",".join(str(row[name]) for name in parameters)] = row
    cache = {
        "device_name": "recorded",
        "kernel_name": "kernel",
        "problem_size": 1,
        "tune_params_keys": list(parameters),
        "tune_params": parameters,
        "objective": "time",
        "cache": entries,
    }
    return json.dumps(cache)


def _only_configs_of(pool: Pool):
    """Let only configs of the pool pass, as early as their first values tell.

    A function of all parameters would make Kernel Tuner enumerate the full grid.
    """
    from constraint import Constraint

    class Known(Constraint):
        def __init__(self):
            self.projections = {}

        def __call__(self, variables, domains, assignments, *_):
            names = tuple(name for name in variables if name in assignments)
            if names not in self.projections:
                self.projections[names] = {
                    tuple(config[name] for name in names) for config in pool.configs
                }
            return tuple(assignments[name] for name in names) in self.projections[names]

    return Known()


PEERS = {
    "Optuna TPE": OptunaSearch(),
    "scikit-learn GP, EI": ModelSearch(GaussianProcess),
    "scikit-learn forest, EI": ModelSearch(Forest),
    "Kernel Tuner bayes_opt": KernelTunerSearch("bayes_opt"),
    "Kernel Tuner genetic": KernelTunerSearch("genetic_algorithm"),
    "Kernel Tuner hybrid_vndx": KernelTunerSearch("hybrid_vndx"),
    "Kernel Tuner tabu_greywolf": KernelTunerSearch("adaptive_tabu_greywolf"),
}
