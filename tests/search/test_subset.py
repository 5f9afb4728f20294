"""The working set of a large pool."""

import pickle
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge

from fasta_learn import ActiveConfigSearch, ModelSelector
from fasta_learn.gaussian_process import AnovaGaussianProcess
from fasta_learn.search import ExpectedImprovement, _subset
from fasta_learn.search._subset import (
    MAX_WHOLE,
    WorkingSetSurrogate,
    nearest,
    open_surrogate,
)
from fasta_learn.search._surrogate import make_surrogate

CAREFUL = ExpectedImprovement(tolerated_failures=0)


def make_pool(shape=(20, 20, 15), seed=0):
    """A grid as a matrix, and durations in ms with one best config."""
    axes = [np.arange(n, dtype=float) for n in shape]
    X = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(shape))
    unit = X / (np.array(shape) - 1)
    durations = np.exp(((unit - [0.3, 0.6, 0.8]) ** 2).sum(axis=1))
    noise = 0.01 * np.random.default_rng(seed).standard_normal(len(X))
    return X, durations * np.exp(noise)


@pytest.fixture
def small_sets(monkeypatch):
    """Make every pool a large one, and its working set a few hundred configs."""
    monkeypatch.setattr(_subset, "MAX_WHOLE", 0)
    monkeypatch.setattr(WorkingSetSurrogate, "_N_RANDOM", 200)
    monkeypatch.setattr(WorkingSetSurrogate, "_N_PROMISING", 50)
    monkeypatch.setattr(WorkingSetSurrogate, "_N_NEIGHBOURS", 40)


def make_surrogate_over_part(estimator=None):
    X, durations = make_pool()
    features = X / X.max(axis=0)
    estimator = AnovaGaussianProcess() if estimator is None else estimator
    surrogate = open_surrogate(estimator, features, np.random.RandomState(0))
    rows = np.random.default_rng(1).choice(len(X), 30, replace=False)
    return surrogate, features, rows, np.log(durations)


@pytest.mark.parametrize(
    ("estimator", "n_pool", "whole"),
    [
        (Ridge(), MAX_WHOLE, True),
        (Ridge(), MAX_WHOLE + 1, False),
        (AnovaGaussianProcess(), MAX_WHOLE + 1, False),
        (ModelSelector(), MAX_WHOLE + 1, True),
    ],
)
def test_only_large_pools_have_a_working_set(estimator, n_pool, whole):
    rng = np.random.RandomState(0)
    features = np.linspace(0, 1, n_pool)[:, None]
    surrogate = open_surrogate(estimator, features, rng)
    assert isinstance(surrogate, WorkingSetSurrogate) is not whole
    # Below the limit the random numbers of the search stay as they are.
    assert rng.randint(1000) == np.random.RandomState(0).randint(1000)


def test_predictions_are_those_of_a_surrogate_of_the_set(small_sets):
    surrogate, features, rows, target = make_surrogate_over_part(Ridge())
    surrogate.fit(rows, target[rows])
    candidates = surrogate.candidates
    assert set(rows) <= set(candidates)
    assert 200 < len(candidates) < 800
    expected = Ridge().fit(features[rows], target[rows]).predict(features[candidates])
    assert_allclose(surrogate.mean[candidates], expected)
    assert surrogate.std is None


def test_other_configs_promise_nothing(small_sets):
    surrogate, features, rows, target = make_surrogate_over_part()
    surrogate.fit(rows, target[rows])
    outside = np.setdiff1d(np.arange(len(features)), surrogate.candidates)
    assert_array_equal(surrogate.mean[outside], target[rows].max())
    assert surrogate.std[outside].max() <= surrogate.std[surrogate.candidates].min()


def test_the_set_is_kept_until_the_data_has_grown_by_a_tenth(small_sets):
    surrogate, _, rows, target = make_surrogate_over_part()
    surrogate.fit(rows, target[rows])
    first = surrogate.candidates
    more = np.setdiff1d(first, rows)[:3]
    for n in (1, 2):
        grown = np.concatenate([rows, more[:n]])
        surrogate.fit(grown, target[grown])
        assert surrogate.candidates is first
    grown = np.concatenate([rows, more])
    surrogate.fit(grown, target[grown])
    assert surrogate.candidates is not first


def test_a_measured_config_outside_the_set_renews_it(small_sets):
    surrogate, features, rows, target = make_surrogate_over_part()
    surrogate.fit(rows, target[rows])
    outside = np.setdiff1d(np.arange(len(features)), surrogate.candidates)[:1]
    grown = np.concatenate([rows, outside])
    surrogate.fit(grown, target[grown])
    assert outside[0] in surrogate.candidates


def test_the_set_keeps_promising_configs_and_enters_the_fast_region(small_sets):
    surrogate, features, rows, target = make_surrogate_over_part()
    surrogate.fit(rows, target[rows])
    hope = (surrogate.mean - surrogate.std)[surrogate.candidates]
    promising = surrogate.candidates[np.argsort(hope)[:50]]
    more = np.setdiff1d(surrogate.candidates, rows)[:3]
    grown = np.concatenate([rows, more])
    surrogate.fit(grown, target[grown])
    assert set(promising) <= set(surrogate.candidates)
    fastest = grown[np.argmin(target[grown])]
    one_step = np.abs(features - features[fastest]).sum(axis=1) < 1 / 13
    assert set(np.flatnonzero(one_step)) <= set(surrogate.candidates)


def test_imagined_rows_lower_deviations_until_they_are_forgotten(small_sets):
    surrogate, features, rows, target = make_surrogate_over_part()
    surrogate.fit(rows, target[rows])
    free = np.setdiff1d(surrogate.candidates, rows)
    before = surrogate.std.copy()
    imagined = surrogate.imagine(int(free[0]))
    reference = make_surrogate(AnovaGaussianProcess(), features[surrogate.candidates])
    reference.fit(np.searchsorted(surrogate.candidates, rows), target[rows])
    expected = reference.imagine(int(np.searchsorted(surrogate.candidates, free[0])))
    assert_allclose(imagined[surrogate.candidates], expected)
    outside = np.setdiff1d(np.arange(len(features)), surrogate.candidates)
    assert_array_equal(surrogate.imagine(int(outside[0])), imagined)
    surrogate.forget()
    assert_array_equal(surrogate.imagine(int(outside[0])), before)


def test_nearest_rows_change_few_features():
    features = np.array([[0.5, 0.5], [0.5, 0.9], [0.62, 0.62], [0.5, 0.4], [0, 0]])
    # Sums of roots: 0, .63, .69, .32, 1.41
    assert set(nearest(features, features[0], 3)) == {0, 1, 3}


def test_the_loop_equals_fit(small_sets, pools):
    X, durations = make_pool()
    fitted = ActiveConfigSearch(budget=60, random_state=3).fit(X, durations)
    loop = pools.run(ActiveConfigSearch(budget=60, random_state=3), X, durations)
    assert loop.results_.equals(fitted.results_)
    assert fitted.best_duration_ <= 1.02 * durations.min()


def test_failures_are_learned_over_the_working_set(small_sets, pools):
    X, durations = make_pool()
    # Two thirds of the pool fail, and the fastest configs stand at the border.
    durations[X[:, 0] > 6] = np.inf
    settings = {"acquisition": CAREFUL, "budget": 60, "random_state": 0}
    fitted = ActiveConfigSearch(**settings).fit(X, durations)
    loop = pools.run(ActiveConfigSearch(**settings), X, durations)
    assert loop.results_.equals(fitted.results_)
    assert np.isinf(fitted.results_["duration"]).sum() < 20
    assert fitted.best_duration_ <= 1.02 * durations.min()


@pytest.mark.parametrize("n_failing", [0, 9])
def test_a_search_goes_on_after_a_pickle(small_sets, n_failing):
    X, durations = make_pool()
    durations[X[:, 0] < n_failing] = np.inf
    search = ActiveConfigSearch(acquisition=CAREFUL, budget=60, random_state=0)
    for _ in range(12):
        batch = search.propose(X)
        search.partial_fit(batch, durations[batch])
    copy = pickle.loads(pickle.dumps(search))
    assert copy.propose().tolist() == search.propose().tolist()


def test_open_proposals_are_not_proposed_again(small_sets):
    X, durations = make_pool()
    search = ActiveConfigSearch(budget=100, random_state=0)
    batch = search.propose(X)
    search.partial_fit(batch, durations[batch])
    seen = [search.propose(n_configs=3) for _ in range(4)]
    search.partial_fit(seen[3], durations[seen[3]])
    seen += [search.propose(n_configs=2)]
    assert len(np.unique(np.concatenate(seen))) == 14


@pytest.mark.parametrize("acquisition", ["greedy", "expected_improvement"])
def test_a_used_up_set_gives_way_to_the_rest(monkeypatch, small_sets, acquisition):
    monkeypatch.setattr(WorkingSetSurrogate, "_N_RANDOM", 10)
    monkeypatch.setattr(WorkingSetSurrogate, "_N_NEIGHBOURS", 2)
    X, durations = make_pool((5, 5, 4))
    search = ActiveConfigSearch(
        budget=1.0, batch_size=50, acquisition=acquisition, random_state=0
    )
    assert search.fit(X, durations).n_measured_ == 100


@pytest.mark.parametrize(("kind", "n_pool"), [("matrix", 200_000), ("configs", 50_000)])
def test_memory_stays_bounded(kind, n_pool):
    n_features, budget = 6, 60
    rng = np.random.default_rng(0)
    cells = rng.choice(8**n_features, n_pool, replace=False)
    X = 2.0 ** np.stack(np.unravel_index(cells, (8,) * n_features), axis=1)
    durations = 1 + (np.log2(X) - 3) ** 2 @ rng.uniform(0.1, 1, n_features)
    names = [f"B{i}" for i in range(n_features)]
    if kind == "configs":
        X = [dict(zip(names, row, strict=True)) for row in X.tolist()]
    search = ActiveConfigSearch(budget=budget, random_state=0)
    tracemalloc.start()
    batch = search.propose(X)
    search.partial_fit(batch, durations[batch])
    tracemalloc.reset_peak()
    held = tracemalloc.get_traced_memory()[0]
    while len(batch := search.propose()):
        search.partial_fit(batch, durations[batch])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert search.n_measured_ == budget
    # A posterior over the whole pool alone would take budget * n_pool * 8 bytes.
    assert peak - held < 0.8 * budget * n_pool * 8
    # The open pool itself: features, rows and hashes, but no object a config.
    assert held < (12 * n_features + 12) * 8 * n_pool
