"""Acquisitions: which configs to measure next, given a fitted surrogate."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from fasta_learn.search._policies import ChoosingPolicy
from fasta_learn.search._state import SearchState
from fasta_learn.search._surrogate import PoolSurrogate


@dataclass(frozen=True)
class Greedy(ChoosingPolicy):
    """Take the configs with the best predictions.

    Examples
    --------
    >>> from fasta_learn import ActiveConfigSearch, datasets
    >>> from fasta_learn.search import Greedy
    >>> pool = datasets.load_pool("mm_2048_2048_2048")
    >>> search = ActiveConfigSearch(acquisition=Greedy(), random_state=0)
    >>> search = search.fit(pool.configs, pool.durations)
    >>> search.n_measured_, search.stop_reason_
    (40, 'budget')
    """

    def __call__(self, state: SearchState, n_configs: int) -> NDArray[np.intp]:
        surrogate, candidates = _surrogate(state), state.candidates
        order = np.argsort(surrogate.mean[candidates], kind="stable")
        return candidates[order[:n_configs]]


@dataclass(frozen=True)
class ExpectedImprovement(ChoosingPolicy):
    """Take the config that promises the largest gain over the best so far.

    In a batch, each pick counts as measured with the predicted outcome before the
    next one is taken, and so do pending proposals (Ginsbourger et al., "Kriging is
    well-suited to parallelize optimization", 2010). A surrogate without standard
    deviations makes it greedy.

    Parameters
    ----------
    tolerated_failures : float, default=0.2
        While a larger share of the measurements has failed, improvements are
        multiplied by the probability that a config runs, and configs that rather
        fail are taken only if no others are left. 0 does so from the first failure
        on, which saves measurements but loses the fastest config where that stands
        right beside those that fail; 1 never does.

    Examples
    --------
    >>> from fasta_learn import ActiveConfigSearch, datasets
    >>> from fasta_learn.search import ExpectedImprovement
    >>> pool = datasets.load_pool("mm_2048_2048_2048")
    >>> search = ActiveConfigSearch(
    ...     acquisition=ExpectedImprovement(tolerated_failures=0), random_state=0
    ... )
    >>> search = search.fit(pool.configs, pool.durations)
    >>> search.n_measured_, search.stop_reason_
    (40, 'budget')
    """

    tolerated_failures: float = 0.2

    def __call__(self, state: SearchState, n_configs: int) -> NDArray[np.intp]:
        if _surrogate(state).std is None:
            return Greedy()(state, n_configs)
        candidates, log_price = price_failures(
            state, n_configs, self.tolerated_failures
        )
        return choose_improvements(state, n_configs, candidates, log_price)


def price_failures(
    state: SearchState, n_configs: int, tolerated: float
) -> tuple[NDArray[np.intp], NDArray[np.float64] | None]:
    """Return which configs to choose from, and the price of their risk to fail.

    Parameters
    ----------
    state : SearchState
        The search, with a fitted surrogate.
    n_configs : int
        How many are to be chosen.
    tolerated : float
        Share of failed measurements up to which the risk has no price.

    Returns
    -------
    candidates : ndarray of shape (n_candidates,)
        Those that rather run than fail, if these are enough, else all.
    log_price : ndarray of shape (n_candidates,) or None
        Minus the logarithm of the probability that each runs; None if it has no price.
    """
    candidates, failed = state.candidates, np.isinf(state.durations)
    if failed.sum() <= tolerated * len(failed):
        return candidates, None
    success = state.success
    if success is None:
        return candidates, None
    likely = candidates[success[candidates] >= 0.5]
    if len(likely) >= n_configs:
        candidates = likely
    return candidates, -np.log(np.maximum(success[candidates], 1e-300))


def choose_improvements(
    state: SearchState,
    n_configs: int,
    candidates: NDArray[np.intp],
    log_price: NDArray[np.float64] | None,
) -> NDArray[np.intp]:
    """Return the pool indices of the largest expected improvements, one by one.

    Parameters
    ----------
    state : SearchState
        The search, with a surrogate that has standard deviations.
    n_configs : int
        How many to choose.
    candidates : ndarray of shape (n_candidates,)
        Available pool indices.
    log_price : ndarray of shape (n_candidates,) or None
        Logarithm of what the improvement at each of the candidates is divided by.

    Returns
    -------
    ndarray of shape (n_configs,)
        Distinct candidates, best first.
    """
    surrogate = _surrogate(state)
    std = surrogate.std
    for row in state.pending:
        std = surrogate.imagine(int(row))
    assert std is not None
    gain = surrogate.incumbent - surrogate.mean
    chosen: list[int] = []
    while len(chosen) < n_configs and len(candidates):
        if chosen:
            std = surrogate.imagine(chosen[-1])
        best = np.argmax(_promise(gain[candidates], std[candidates], log_price))
        chosen.append(int(candidates[best]))
        candidates = np.delete(candidates, best)
        log_price = None if log_price is None else np.delete(log_price, best)
    surrogate.forget()
    return np.array(chosen, dtype=np.intp)


def rank_improvements(state: SearchState, n_configs: int) -> NDArray[np.intp]:
    """Return the pool indices of the largest expected improvements, each for itself.

    Other than `choose_improvements` it does not ask what the first ones would teach.

    Parameters
    ----------
    state : SearchState
        The search, with a fitted surrogate.
    n_configs : int
        How many.

    Returns
    -------
    ndarray of shape (n_configs,)
        Candidates, best first; by predictions if there are no standard deviations.
    """
    surrogate, candidates = _surrogate(state), state.candidates
    promise = surrogate.incumbent - surrogate.mean[candidates]
    if surrogate.std is not None:
        promise = _promise(promise, surrogate.std[candidates], None)
    return candidates[np.argsort(-promise, kind="stable")[:n_configs]]


def _promise(
    gain: NDArray[np.float64],
    std: NDArray[np.float64],
    log_price: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    """Return the expected improvements for their price, or what ranks like them."""
    deviation = np.maximum(std, 1e-300)
    ratio = gain / deviation
    density = np.exp(-0.5 * ratio**2) / np.sqrt(2 * np.pi)
    improvement: NDArray[np.float64] = deviation * (ratio * ndtr(ratio) + density)
    # Far below the incumbent all improvements underflow: the least hopeless wins.
    if not improvement.max() > 1e-300:
        return ratio
    if log_price is not None:
        improvement *= np.exp(log_price.min() - log_price)
    return improvement


@dataclass(frozen=True)
class SoftmaxMarginal(ChoosingPolicy):
    """Sample by a softmax of predictions, half of it by marginal means.

    The batch rule of the dynamic filter: temperatures are in the unit of the
    surrogate's target, as there.

    Parameters
    ----------
    tau_min : float, default=0.3
        Lowest temperature.
    tau_range : float, default=0.4
        What is added when the model explains nothing and four near-optimal configs
        are known.
    marginal_features : int, default=3
        From this number of features on, half of the batch is drawn by the sum over
        features of the mean duration of the measured configs that share the value.
    tolerance : float, default=1.05
        A duration within this factor of the best is near-optimal.
    floor : float, default=1e-300
        Smallest weight of a config.

    Examples
    --------
    >>> from fasta_learn import ActiveConfigSearch, datasets
    >>> from fasta_learn.search import SoftmaxMarginal
    >>> pool = datasets.load_pool("mm_2048_2048_2048")
    >>> search = ActiveConfigSearch(acquisition=SoftmaxMarginal(), random_state=0)
    >>> search = search.fit(pool.configs, pool.durations)
    >>> search.n_measured_, search.stop_reason_
    (40, 'budget')
    """

    tau_min: float = 0.3
    tau_range: float = 0.4
    marginal_features: int = 3
    tolerance: float = 1.05
    floor: float = 1e-300

    def __call__(self, state: SearchState, n_configs: int) -> NDArray[np.intp]:
        surrogate = _surrogate(state)
        predicted = surrogate.mean[state.available]
        n_near = state.count_near_optimal(self.tolerance)
        doubt = (1.0 - surrogate.r2) * min(1.0, n_near / 4)
        tau = self.tau_min + self.tau_range * doubt
        if state.n_features < self.marginal_features:
            return self._sample(state, predicted, tau, n_configs)
        n_model = n_configs - n_configs // 2
        by_model = self._sample(state, predicted, tau, n_model)
        score = _marginal_score(state)[state.available]
        by_marginal = self._sample(state, score, self.tau_min, n_configs - n_model)
        union = np.concatenate([by_model, by_marginal])
        return union[np.sort(np.unique(union, return_index=True)[1])]

    def _sample(
        self, state: SearchState, score: NDArray[np.float64], tau: float, n_configs: int
    ) -> NDArray[np.intp]:
        weight = np.maximum(np.exp(-(score - score.min()) / tau), self.floor)
        return state.rng.choice(
            state.available, n_configs, replace=False, p=weight / weight.sum()
        )


def _marginal_score(state: SearchState) -> NDArray[np.float64]:
    """Sum over features of the mean duration of those that share the value."""
    ok = np.isfinite(state.durations)
    rows, durations = state.measured[ok], state.durations[ok]
    score = np.zeros(len(state.features))
    for column in state.features.T:
        values, level = np.unique(column, return_inverse=True)
        total = np.bincount(level[rows], durations, minlength=len(values))
        count = np.bincount(level[rows], minlength=len(values))
        mean = np.where(count > 0, total / np.maximum(count, 1), durations.mean())
        score += mean[level]
    return score


def _surrogate(state: SearchState) -> PoolSurrogate:
    if state.surrogate is None:
        raise ValueError(
            "the acquisition needs a fitted surrogate, and the search has none yet; "
            "it is called from the second round on."
        )
    return state.surrogate
