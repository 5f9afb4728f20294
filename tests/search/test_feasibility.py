"""What a search learns from failed configs."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from fasta_learn import ActiveConfigSearch
from fasta_learn.gaussian_process import AnovaGaussianProcess
from fasta_learn.search import ExpectedImprovement
from fasta_learn.search._feasibility import FeasibilityModel

CAREFUL = ExpectedImprovement(tolerated_failures=0)


def make_pool():
    """A grid whose durations fall towards a border beyond which configs fail."""
    x, y = (each.ravel() for each in np.meshgrid(np.arange(20.0), np.arange(15.0)))
    durations = 1 + 0.1 * (18 - x) + 0.02 * (y - 7) ** 2
    durations[x + y > 22] = np.inf
    return np.column_stack([x, y]), durations


def fit_model(candidates=None, n=60):
    X, durations = make_pool()
    rows = np.random.default_rng(0).choice(len(X), n, replace=False)
    model = FeasibilityModel(X / X.max(axis=0))
    return model.probability(rows, durations[rows], candidates), durations


def test_nothing_is_learned_before_a_failure():
    X, _ = make_pool()
    assert FeasibilityModel(X).probability(np.arange(5), np.ones(5), None) is None


def test_the_border_is_learned():
    probability, durations = fit_model()
    assert np.mean((probability > 0.5) == np.isfinite(durations)) > 0.95
    assert probability.min() >= 0
    assert probability.max() <= 1


def test_probabilities_are_those_of_label_regression():
    X, durations = make_pool()
    features = X / X.max(axis=0)
    rows = np.random.default_rng(0).choice(len(X), 60, replace=False)
    labels = np.isfinite(durations[rows]).astype(float)
    # Both corners are measured, so that the regressor scales features alike.
    rows[:2], labels[:2] = [0, len(X) - 1], [1, 0]
    model = AnovaGaussianProcess().fit(features[rows], labels)
    mean, std = model.predict(features, return_std=True)
    expected = norm.sf(0.5, loc=mean, scale=np.maximum(std, 0.05))
    told = np.where(labels == 1, 1.0, np.inf)
    found = FeasibilityModel(features).probability(rows, told, None)
    assert_allclose(found, expected, atol=1e-6)


def test_other_than_candidates_count_as_sure():
    rows = np.random.default_rng(0).choice(300, 60, replace=False)
    candidates = np.unique(np.concatenate([rows, np.arange(0, 300, 3)]))
    probability, _ = fit_model(candidates)
    whole, _ = fit_model()
    assert_allclose(probability[candidates], whole[candidates], atol=1e-8)
    assert (np.delete(probability, candidates) == 1).all()


def test_other_candidates_are_predicted_from_all_that_is_known():
    X, durations = make_pool()
    rng = np.random.default_rng(0)
    rows = rng.choice(len(X), 63, replace=False)
    model = FeasibilityModel(X / X.max(axis=0))
    for n, step in ((60, 3), (63, 2)):
        candidates = np.unique(np.concatenate([rows, np.arange(0, 300, step)]))
        found = model.probability(rows[:n], durations[rows[:n]], candidates)
    right = (found > 0.5) == np.isfinite(durations)
    assert right[candidates].mean() > 0.95


def make_state_with(make_state, stub, success):
    """Five free configs of equal promise, of given probabilities to run."""

    class Known:
        def probability(self, rows, durations, candidates):
            return np.array([*success, 1, 0, 1, 1])

    return make_state(
        np.eye(9),
        measured=range(5, 9),
        durations=[1, np.inf, 1, 1],
        surrogate=stub(np.zeros(9), np.ones(9)),
        feasibility=Known(),
    )


@pytest.mark.parametrize(
    ("tolerated", "expected"), [(0.2, 1), (0.24, 1), (0.25, 0), (1, 0)]
)
def test_a_small_share_of_failures_is_tolerated(make_state, stub, tolerated, expected):
    # One of four measurements failed; config 0 promises most and rather fails.
    state = make_state_with(make_state, stub, [0.1, 0.9, 0.8, 0.8, 0.8])
    state.surrogate.mean[0] = -3
    assert ExpectedImprovement(tolerated)(state, 1).tolist() == [expected]


@pytest.mark.parametrize(
    ("success", "expected"),
    [
        ([0.6, 0.9, 0.7, 0.8, 0.55], [1, 3, 2]),
        # Two that rather run are too few for three: all are compared.
        ([0.1, 0.9, 0.2, 0.8, 0.3], [1, 3, 4]),
    ],
)
def test_of_equal_promise_the_surest_is_taken(make_state, stub, success, expected):
    state = make_state_with(make_state, stub, success)
    assert CAREFUL(state, 3).tolist() == expected


def test_what_rather_fails_is_taken_last(make_state, stub):
    state = make_state_with(make_state, stub, [0.49, 0.5, 1, 1, 1])
    # Config 0 promises most by far, and 1 more than the others.
    state.surrogate.mean[:2] = [-100, -3]
    assert CAREFUL(state, 1).tolist() == [1]


def test_improvements_are_multiplied_by_the_probability(make_state, stub):
    # Three times the deviation is three times the improvement at no mean gain.
    state = make_state_with(make_state, stub, [1, 1, 1, 0.6, 1])
    state.surrogate.std[3] = 1.7
    assert CAREFUL(state, 1).tolist() == [3]
    state.surrogate.std[3] = 1.6
    assert CAREFUL(state, 1).tolist() == [0]


def test_where_most_configs_fail_the_default_avoids_them():
    X, durations = make_pool()
    durations[X[:, 0] > 6] = np.inf
    search = ActiveConfigSearch(budget=50, random_state=0).fit(X, durations)
    # Two thirds of the pool fail, and the fastest stand at their border.
    assert np.isinf(search.results_["duration"]).mean() < 0.35
    assert search.best_duration_ == durations.min()


def test_failures_are_avoided_and_the_best_is_found():
    X, durations = make_pool()
    wasted = []
    for seed in range(4):
        search = ActiveConfigSearch(
            acquisition=CAREFUL, budget=60, random_state=seed
        ).fit(X, durations)
        wasted.append(np.isinf(search.results_["duration"]).sum())
        assert search.best_duration_ <= 1.02 * durations.min()
    # A quarter of the pool fails, the fast end of it first.
    assert np.mean(wasted) < 12


def test_the_loop_equals_fit(pools):
    X, durations = make_pool()
    fitted = ActiveConfigSearch(acquisition=CAREFUL, budget=40, random_state=1).fit(
        X, durations
    )
    loop = pools.run(
        ActiveConfigSearch(acquisition=CAREFUL, budget=40, random_state=1), X, durations
    )
    assert loop.results_.equals(fitted.results_)


def test_a_search_with_failures_goes_on_after_a_pickle():
    X, durations = make_pool()
    search = ActiveConfigSearch(acquisition=CAREFUL, budget=60, random_state=0)
    for _ in range(20):
        batch = search.propose(X)
        search.partial_fit(batch, durations[batch])
    assert np.isinf(search.results_["duration"]).any()
    copy = pickle.loads(pickle.dumps(search))
    assert_array_equal(copy.propose(), search.propose())
