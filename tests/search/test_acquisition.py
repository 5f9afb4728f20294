"""Acquisitions against formulas, brute force and expected frequencies."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.stats import norm

from fasta_learn.search import ExpectedImprovement, Greedy, SoftmaxMarginal
from fasta_learn.search._acquisition import _marginal_score

ACQUISITIONS = [Greedy(), ExpectedImprovement(), SoftmaxMarginal()]


def grid(*n_levels):
    axes = [np.linspace(0, 1, n) for n in n_levels]
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(n_levels))


def marginal_by_hand(features, measured, durations):
    """Sum over features of the mean duration of those that share the value."""
    ok = [(i, d) for i, d in zip(measured, durations, strict=True) if np.isfinite(d)]
    overall = np.mean([d for _, d in ok])
    score = np.zeros(len(features))
    for i, row in enumerate(features):
        for j, value in enumerate(row):
            same = [d for m, d in ok if features[m, j] == value]
            score[i] += np.mean(same) if same else overall
    return score


@pytest.fixture
def problem(make_state, stub):
    """A state after ten measurements, two of them failed."""

    def make(n_levels=(6, 5, 3), r2=0.4, seed=0, scale=1.0, with_std=True):
        rng = np.random.default_rng(seed)
        features = grid(*n_levels)
        n_pool = len(features)
        durations = scale * (1 + rng.random(10))
        durations[[2, 6]] = np.inf
        durations[4] = 1.04 * durations.min()
        return make_state(
            features,
            measured=rng.permutation(n_pool)[:10],
            durations=durations,
            surrogate=stub(
                scale * (1 + rng.random(n_pool)),
                0.3 * scale * rng.random(n_pool) if with_std else None,
                r2=r2,
                incumbent=scale * 1.1,
            ),
            seed=seed,
        )

    return make


@pytest.mark.parametrize("acquisition", ACQUISITIONS, ids=lambda a: type(a).__name__)
@pytest.mark.parametrize("n_configs", [1, 7, 80])
def test_configs_are_distinct_and_available(problem, acquisition, n_configs):
    state = problem()
    chosen = acquisition(state, n_configs)
    assert 1 <= len(chosen) <= n_configs
    assert len(set(chosen.tolist())) == len(chosen)
    assert np.isin(chosen, state.available).all()


@pytest.mark.parametrize("acquisition", ACQUISITIONS, ids=lambda a: type(a).__name__)
def test_a_surrogate_is_needed(make_state, acquisition):
    with pytest.raises(ValueError, match="needs a fitted surrogate"):
        acquisition(make_state(grid(4)), 1)


def test_greedy_takes_the_best_predictions(problem):
    state = problem()
    by_mean = sorted(state.available, key=lambda i: state.surrogate.mean[i])
    assert Greedy()(state, 5).tolist() == by_mean[:5]


def improvement_by_integral(mean, std, incumbent):
    """Expected amount by which a normal outcome is below the incumbent."""

    def gain(outcome):
        return (incumbent - outcome) * norm.pdf(outcome, mean, std)

    return quad(gain, mean - 12 * std, incumbent, points=[mean], limit=200)[0]


@pytest.mark.parametrize("seed", range(4))
def test_expected_improvement_takes_the_largest_integral(problem, seed):
    state = problem(seed=seed)
    surrogate = state.surrogate
    improvement = [
        improvement_by_integral(surrogate.mean[i], surrogate.std[i], 1.1)
        if surrogate.mean[i] - 12 * surrogate.std[i] < 1.1
        else 0.0
        for i in state.available
    ]
    best = state.available[np.argmax(improvement)]
    assert ExpectedImprovement()(state, 1).tolist() == [best]


def test_expected_improvement_imagines_what_it_took(make_state, stub):
    # The first row gains most, but not twice; imagined, its copy is left behind.
    class Twins(stub):
        def imagine(self, row):
            self._std = self._std.copy()
            if row in (0, 1):
                self._std[[0, 1]] = 1e-3
            return self._std

    surrogate = Twins([1.0, 1.0, 1.0], [0.5, 0.5, 0.4], incumbent=1.0)
    state = make_state(grid(3), surrogate=surrogate)
    assert ExpectedImprovement()(state, 2).tolist() == [0, 2]
    assert_array_equal(surrogate._std, [0.5, 0.5, 0.4])


def test_expected_improvement_imagines_open_proposals(make_state, stub):
    class Twins(stub):
        def imagine(self, row):
            self._std = np.where(np.arange(3) < 2, 1e-3, self._std)
            return self._std

    surrogate = Twins([1.0, 1.0, 1.0], [0.5, 0.5, 0.4], incumbent=1.0)
    state = make_state(grid(3), pending=[0], surrogate=surrogate)
    assert ExpectedImprovement()(state, 1).tolist() == [2]


def test_without_deviations_expected_improvement_is_greedy(problem):
    state = problem(with_std=False)
    assert_array_equal(ExpectedImprovement()(state, 6), Greedy()(state, 6))


def test_hopeless_configs_are_still_ordered(make_state, stub):
    surrogate = stub([9.0, 5.0, 7.0], [1e-9, 1e-9, 1e-9], incumbent=0.0)
    state = make_state(grid(3), surrogate=surrogate)
    assert ExpectedImprovement()(state, 1).tolist() == [1]


@pytest.mark.parametrize("n_levels", [(8,), (6, 5), (6, 5, 3), (3, 4, 2, 3)])
def test_marginal_score_is_the_sum_of_shared_means(problem, n_levels):
    state = problem((12,) if n_levels == (8,) else n_levels)
    expected = marginal_by_hand(state.features, state.measured, state.durations)
    assert_allclose(_marginal_score(state), expected, rtol=1e-12)


def softmax(score, tau):
    weight = np.array([max(np.exp((score.min() - s) / tau), 1e-300) for s in score])
    return weight / weight.sum()


def temperature(state, r2):
    """tau_min + tau_range (1 - R2) min(1, k / 4)."""
    ok = state.durations[np.isfinite(state.durations)]
    k = sum(d <= 1.05 * ok.min() for d in ok)
    return 0.3 + 0.4 * (1 - r2) * min(1, k / 4)


@pytest.mark.parametrize("n_configs", [1, 4, 10])
@pytest.mark.parametrize("r2", [0.0, 0.4, 1.0])
def test_few_features_are_drawn_by_a_softmax_of_predictions(problem, r2, n_configs):
    state = problem((12, 8), r2=r2, seed=3)
    weights = softmax(state.surrogate.mean[state.available], temperature(state, r2))
    expected = np.random.RandomState(3).choice(
        state.available, n_configs, replace=False, p=weights
    )
    assert_array_equal(SoftmaxMarginal()(state, n_configs), expected)


@pytest.mark.parametrize("n_configs", [1, 2, 5, 12])
def test_from_three_features_on_half_is_drawn_by_marginals(problem, n_configs):
    state = problem(seed=4)
    rng = np.random.RandomState(4)
    score = marginal_by_hand(state.features, state.measured, state.durations)
    by_model = rng.choice(
        state.available,
        n_configs - n_configs // 2,
        replace=False,
        p=softmax(state.surrogate.mean[state.available], temperature(state, 0.4)),
    )
    by_marginal = rng.choice(
        state.available,
        n_configs // 2,
        replace=False,
        p=softmax(score[state.available], 0.3),
    )
    union = list(dict.fromkeys([*by_model.tolist(), *by_marginal.tolist()]))
    assert SoftmaxMarginal()(state, n_configs).tolist() == union


def test_a_union_may_be_smaller_than_asked(problem):
    state = problem(seed=1)
    sizes = [len(SoftmaxMarginal()(state, 60)) for _ in range(10)]
    assert max(sizes) < 60
    assert min(sizes) >= 30


@pytest.mark.parametrize(
    ("n_near", "r2", "expected"),
    [(1, 0.0, 0.4), (2, 0.0, 0.5), (4, 0.0, 0.7), (9, 0.0, 0.7), (4, 0.5, 0.5),
     (9, 1.0, 0.3)],
)  # fmt: skip
def test_temperature_by_hand(make_state, stub, n_near, r2, expected):
    durations = np.r_[np.full(n_near, 1.0), 3.0]
    mean = np.arange(40.0) / 10
    state = make_state(
        grid(40),
        measured=range(n_near + 1),
        durations=durations,
        surrogate=stub(mean, r2=r2),
        seed=7,
    )
    weights = softmax(mean[state.available], expected)
    drawn = np.random.RandomState(7).choice(
        state.available, 8, replace=False, p=weights
    )
    assert_array_equal(SoftmaxMarginal()(state, 8), drawn)


def test_frequencies_are_those_of_the_softmax(make_state, stub):
    # Gaps of log 2 at temperature one: each config twice as likely as the next.
    mean = np.log(2) * np.arange(5)
    state = make_state(grid(5), surrogate=stub(mean))
    rule = SoftmaxMarginal(tau_min=1.0, tau_range=0.0)
    counts = np.bincount([int(rule(state, 1)[0]) for _ in range(4000)], minlength=5)
    expected = 4000 * np.array([16, 8, 4, 2, 1]) / 31
    assert np.all(np.abs(counts - expected) < 5 * np.sqrt(expected))


def test_absurd_predictions_can_still_be_drawn(make_state, stub):
    mean = np.array([0.0, 1e9, 1e12, -1e12, 5.0])
    state = make_state(grid(5), surrogate=stub(mean))
    assert SoftmaxMarginal()(state, 5)[0] == 3
    assert sorted(SoftmaxMarginal()(state, 5).tolist()) == [0, 1, 2, 3, 4]
