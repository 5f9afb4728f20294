"""Acquisition by what a measurement costs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fasta_learn.gaussian_process import AnovaGaussianProcess
from fasta_learn.search._acquisition import (
    ExpectedImprovement,
    choose_improvements,
    price_failures,
)
from fasta_learn.search._policies import ChoosingPolicy
from fasta_learn.search._state import SearchState


@dataclass(frozen=True)
class ExpectedImprovementPerSecond(ChoosingPolicy):
    """Take the config that promises the largest gain for each second it costs.

    A second Gaussian process learns the logarithm of the seconds that measurements
    took, compiling and running, and the expected improvement is divided by what it
    predicts (Snoek et al., "Practical Bayesian optimization of machine learning
    algorithms", 2012). It suits a search that is limited by time: the same number
    of measurements may find less. As long as few seconds are known, and for a
    surrogate without standard deviations, it is `ExpectedImprovement`.

    Parameters
    ----------
    min_known : int, default=5
        Measurements of known seconds from which on they are learned.
    max_samples : int, default=128
        The seconds of that many measurements are learned, the latest ones, which
        bounds the time of a choice.
    tolerated_failures : float, default=0.2
        As in `ExpectedImprovement`.

    Examples
    --------
    >>> from fasta_learn import ActiveConfigSearch
    >>> from fasta_learn.oracles import CallableOracle, Measurement
    >>> from fasta_learn.search import ExpectedImprovementPerSecond
    >>> def measure(config):
    ...     duration = 1 + 0.1 * abs(config["BLOCK"] - 40)
    ...     return Measurement(duration, compile_seconds=0.1 * config["BLOCK"])
    >>> search = ActiveConfigSearch(
    ...     budget=20, acquisition=ExpectedImprovementPerSecond(), random_state=0
    ... )
    >>> configs = [{"BLOCK": block} for block in range(1, 101)]
    >>> search.fit(configs, oracle=CallableOracle(measure)).best_config_
    {'BLOCK': 40}
    """

    min_known: int = 5
    max_samples: int = 128
    tolerated_failures: float = 0.2

    def __call__(self, state: SearchState, n_configs: int) -> NDArray[np.intp]:
        known = np.flatnonzero(state.seconds > 0)
        has_std = state.surrogate is not None and state.surrogate.std is not None
        if len(known) < self.min_known or not has_std:
            return ExpectedImprovement(self.tolerated_failures)(state, n_configs)
        latest = known[-self.max_samples :]
        model = AnovaGaussianProcess(max_samples=self.max_samples)
        model.fit(state.features[state.measured[latest]], np.log(state.seconds[latest]))
        candidates, risk = price_failures(state, n_configs, self.tolerated_failures)
        log_price = np.asarray(model.predict(state.features[candidates]))
        if risk is not None:
            log_price += risk
        return choose_improvements(state, n_configs, candidates, log_price)
