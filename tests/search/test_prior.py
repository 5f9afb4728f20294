"""A search that is told what to expect."""

import io
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import skops.io
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import trapezoid
from scipy.special import gammaln
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from fasta_learn import ActiveConfigSearch, ModelSelector, dynamic_filter_search
from fasta_learn.configs import Pool
from fasta_learn.search import CentredDesign
from fasta_learn.search._prior import LeaningDesign, PriorSurrogate, trusted_slope
from fasta_learn.search._surrogate import RegressorSurrogate
from fasta_learn.transfer import PoolPrior, load_default_prior


class Expected:
    """A prior of costs that a test chooses."""

    def __init__(self, costs):
        self.costs = costs

    def predict(self, configs):
        return self.costs


@pytest.fixture(scope="module")
def prior(pools):
    recorded = [Pool(*pools.tiles(seed=seed)) for seed in (1, 2)]
    return PoolPrior(n_trees=10).fit(recorded)


def regrets(pools, make_prior, budget, n_seeds=12):
    """Regret of searches over pools that differ by seed."""
    found = []
    for seed in range(n_seeds):
        configs, durations = pools.tiles(noise=0.2, seed=seed)
        search = ActiveConfigSearch(
            budget=budget, prior=make_prior(durations, seed), random_state=seed
        ).fit(configs, durations)
        found.append(search.best_duration_ / durations.min() - 1)
    return np.array(found)


def true_prior(durations, seed):
    return Expected(1 - durations.min() / durations)


def shuffled_prior(durations, seed):
    costs = 1 - durations.min() / durations
    return Expected(np.random.default_rng(seed).permutation(costs))


def test_a_true_prior_finds_the_best_at_once(pools):
    assert regrets(pools, true_prior, budget=1).max() == 0


def test_a_prior_of_similar_pools_helps(pools, prior):
    with_prior = regrets(pools, lambda durations, seed: prior, budget=5)
    without = regrets(pools, lambda durations, seed: None, budget=5)
    assert with_prior.mean() < 0.7 * without.mean()


@pytest.mark.parametrize(
    "make_prior",
    [shuffled_prior, lambda durations, seed: Expected(durations.min() / durations)],
    ids=["shuffled", "reversed"],
)
def test_a_wrong_prior_costs_little(pools, make_prior):
    wrong = regrets(pools, make_prior, budget=0.25)
    without = regrets(pools, lambda durations, seed: None, budget=0.25)
    assert wrong.mean() < without.mean() + 0.03


@pytest.mark.parametrize("costs", [np.zeros(90), np.full(90, 0.7)])
def test_a_prior_that_knows_nothing_changes_nothing(pools, costs):
    configs, durations = pools.tiles()
    search = ActiveConfigSearch(prior=None, random_state=0).fit(configs, durations)
    told = clone(search).set_params(prior=Expected(costs)).fit(configs, durations)
    pd.testing.assert_frame_equal(told.results_, search.results_, check_exact=True)


def first_sample(configs, **parameters):
    search = ActiveConfigSearch(random_state=0, **parameters)
    return search.propose(configs).tolist()


def test_triton_configs_are_searched_with_the_prior_that_ships(pools):
    configs, durations = pools.tiles()
    shipped = load_default_prior()
    by_default = first_sample(configs)
    assert by_default == first_sample(configs, prior=shipped)
    assert by_default != first_sample(configs, prior=None)
    assert by_default[0] == np.argmin(shipped.predict(configs))
    search = ActiveConfigSearch(random_state=0).fit(configs, durations)
    told = clone(search).set_params(prior=shipped).fit(configs, durations)
    pd.testing.assert_frame_equal(told.results_, search.results_, check_exact=True)


@pytest.mark.parametrize(
    ("make", "parameters"),
    [
        (lambda configs: configs[:63], {}),
        (lambda configs: configs, {"estimator": ModelSelector()}),
        (lambda configs: np.array([list(c.values()) for c in configs]), {}),
    ],
    ids=["small", "own estimator", "matrix"],
)
def test_other_pools_are_searched_without_it(pools, make, parameters):
    configs, _ = pools.tiles(shape=(6, 5, 3))
    configs = make(configs)
    assert first_sample(configs, **parameters) == first_sample(
        configs, prior=None, **parameters
    )


def test_pools_without_warps_are_searched_without_it(pools):
    configs = [{"BLOCK_M": 2**i, "BLOCK_N": 2**j} for i in range(10) for j in range(10)]
    assert first_sample(configs) == first_sample(configs, prior=None)


def test_the_dynamic_filter_knows_no_prior(pools):
    configs, durations = pools.tiles()
    search = dynamic_filter_search(random_state=0).fit(configs, durations)
    without = dynamic_filter_search(prior=None, random_state=0).fit(configs, durations)
    pd.testing.assert_frame_equal(search.results_, without.results_, check_exact=True)


def test_a_prior_of_other_keywords_changes_nothing(pools, prior):
    X, durations = pools.bowl(2)
    search = ActiveConfigSearch(random_state=0).fit(X, durations)
    told = clone(search).set_params(prior=prior).fit(X, durations)
    pd.testing.assert_frame_equal(told.results_, search.results_, check_exact=True)


@pytest.mark.parametrize("scale", [2.0**-20, 2.0**20])
def test_decisions_do_not_depend_on_the_unit(pools, prior, scale):
    configs, durations = pools.tiles()
    search = ActiveConfigSearch(prior=prior, random_state=0).fit(configs, durations)
    scaled = clone(search).fit(configs, durations * scale)
    assert_array_equal(scaled.results_["index"], search.results_["index"])


@pytest.mark.parametrize("estimator", [None, ModelSelector(), RandomForestRegressor(5)])
@pytest.mark.parametrize("target_transform", ["speed", "log", "identity"])
def test_the_loop_equals_fit(pools, prior, estimator, target_transform):
    configs, durations = pools.tiles(failed=0.1)
    if estimator is not None and "random_state" in estimator.get_params():
        estimator = clone(estimator).set_params(random_state=0)
    search = ActiveConfigSearch(
        estimator, prior=prior, target_transform=target_transform, random_state=0
    )
    loop = pools.run(clone(search), configs, durations)
    search.fit(configs, durations)
    pd.testing.assert_frame_equal(loop.results_, search.results_, check_exact=True)
    assert search.best_index_ == loop.best_index_


def through_joblib(search):
    buffer = io.BytesIO()
    joblib.dump(search, buffer)
    buffer.seek(0)
    return joblib.load(buffer)


def through_skops(search):
    data = skops.io.dumps(search)
    return skops.io.loads(data, trusted=skops.io.get_untrusted_types(data=data))


@pytest.mark.parametrize(
    "round_trip",
    [lambda search: pickle.loads(pickle.dumps(search)), through_joblib, through_skops],
    ids=["pickle", "joblib", "skops"],
)
@pytest.mark.parametrize("n_measured", [0, 1, 6])
def test_a_search_with_a_prior_continues_after_a_round_trip(
    pools, prior, round_trip, n_measured
):
    configs, durations = pools.tiles()
    search = ActiveConfigSearch(prior=prior, random_state=0)
    for _ in range(n_measured):
        batch = search.propose(configs, n_configs=1)
        search.partial_fit(batch, durations[batch])
    copy = round_trip(search)
    for each in (search, copy):
        pools.run(each, configs, durations)
    pd.testing.assert_frame_equal(copy.results_, search.results_, check_exact=True)


def test_a_clone_keeps_what_the_prior_learned(pools, prior):
    configs, durations = pools.tiles()
    search = ActiveConfigSearch(prior=prior, random_state=0).fit(configs, durations)
    copy = clone(search).fit(configs, durations)
    pd.testing.assert_frame_equal(copy.results_, search.results_, check_exact=True)


@parametrize_with_checks(
    [
        ActiveConfigSearch(
            prior=PoolPrior(n_trees=2).fit(
                [Pool([{"x0": i} for i in range(9)], np.arange(1.0, 10.0))]
            )
        )
    ],
    expected_failed_checks=lambda estimator: {},
)
def test_it_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_an_unfitted_prior_is_refused(pools):
    configs, durations = pools.tiles()
    with pytest.raises(NotFittedError, match="PoolPrior has learned nothing"):
        ActiveConfigSearch(prior=PoolPrior()).fit(configs, durations)


@pytest.mark.parametrize("costs", [np.zeros(3), np.full(90, np.nan), 0.5])
def test_wrong_answers_of_a_prior_are_refused(pools, costs):
    configs, durations = pools.tiles()
    with pytest.raises(ValueError, match=r"prior\.predict answered .* for 90 configs"):
        ActiveConfigSearch(prior=Expected(costs)).fit(configs, durations)


@pytest.mark.parametrize(("budget", "size"), [(30, 6), (10, 6), (9, 5), (5, 3)])
def test_the_first_sample_begins_with_the_least_cost(pools, budget, size):
    configs, _ = pools.tiles()
    costs = np.linspace(0, 1, 90)[::-1]
    search = ActiveConfigSearch(budget=budget, prior=Expected(costs), random_state=0)
    batch = search.propose(configs)
    assert len(batch) == size
    assert batch[0] == 89


@pytest.mark.parametrize("n_initial", [1, 7])
def test_a_given_size_of_the_first_sample_stays(pools, n_initial):
    configs, _ = pools.tiles()
    search = ActiveConfigSearch(
        prior=Expected(np.linspace(0, 1, 90)), n_initial=n_initial, random_state=0
    )
    assert len(search.propose(configs)) == n_initial


def test_an_own_initial_design_stays(pools):
    configs, _ = pools.tiles()
    search = ActiveConfigSearch(
        prior=Expected(np.linspace(0, 1, 90)),
        initial_design=lambda state, n_configs: state.available[-n_configs:],
    )
    assert_array_equal(search.propose(configs), [84, 85, 86, 87, 88, 89])


def test_init_configs_come_before_the_prior(pools):
    configs, _ = pools.tiles()
    costs = np.linspace(0, 1, 90)
    search = ActiveConfigSearch(prior=Expected(costs), init_configs=[0, 50])
    assert_array_equal(search.propose(configs)[:3], [0, 50, 1])


def test_leaning_design_skips_what_is_gone(make_state):
    state = make_state(np.linspace(0, 1, 9)[:, None], gone=[0], measured=[1])
    chosen = LeaningDesign(costs=np.arange(9.0))(state, 7)
    assert chosen[0] == 2
    assert sorted(chosen) == list(range(2, 9))


def test_leaning_design_prefers_low_costs(make_state):
    features = np.random.default_rng(1).random((40, 2))
    costs = np.random.default_rng(0).random(40)
    drawn = [], []
    for seed in range(50):
        for design, found in zip(
            (CentredDesign(), LeaningDesign(costs=costs)), drawn, strict=True
        ):
            found.extend(costs[design(make_state(features, seed=seed), 3)[1:]])
    assert np.mean(drawn[1]) < np.mean(drawn[0]) - 0.1


def open_surrogate(costs, transform="speed"):
    inner = RegressorSurrogate(LinearRegression(), np.zeros((len(costs), 1)))
    return PriorSurrogate(inner, np.asarray(costs, dtype=float), transform)


def test_two_fifths_of_what_measurements_confirm_are_the_mean():
    costs = np.linspace(0, 0.8, 9)
    surrogate = open_surrogate(costs)
    rows = np.array([0, 4, 8])
    surrogate.fit(rows, costs[rows])
    # The inner surrogate knows nothing but the mean of what is left.
    assert_allclose(surrogate.mean, 0.4 * costs + 0.6 * 0.4, atol=1e-12)
    assert surrogate.incumbent == 0
    assert surrogate.r2 == pytest.approx(1 - 0.6**2)


def test_a_whole_sample_does_not_lean(make_state):
    features = np.random.default_rng(1).random((40, 2))
    costs = np.random.default_rng(0).random(40)
    first = int(np.argmin(costs))
    chosen = LeaningDesign(costs=costs)(make_state(features, seed=3), 5)
    centred = CentredDesign()(make_state(features, gone=[first], seed=3), 4)
    assert chosen[0] == first
    assert len(set(chosen) & set(centred)) >= 3


def slope_by_integration(expected, target):
    """Posterior mean of the slope, clipped, with the evidence integrated on a grid."""
    x, y = expected - expected.mean(), target - target.mean()
    n_free = len(y) - 1
    known = (y @ y) / n_free / 0.25
    b = np.linspace(-60, 60, 2_000_001)
    loss = (y @ y) - 2 * b * (x @ y) + b**2 * (x @ x) + known * (b - 1) ** 2
    density = np.sqrt(known / (2 * np.pi)) * np.exp(
        gammaln((n_free + 1) / 2) - (n_free + 1) / 2 * np.log(loss / 2)
    )
    useful = trapezoid(density, b)
    useless = np.exp(gammaln(n_free / 2) - n_free / 2 * np.log(y @ y / 2))
    slope = trapezoid(density * b, b) / useful
    return np.clip(slope, 0, 1) * 0.7 * useful / (0.7 * useful + 0.3 * useless)


@pytest.mark.parametrize("slope", [-0.5, 0.0, 0.3, 1.0])
@pytest.mark.parametrize("n", [4, 7, 15])
def test_the_slope_is_that_of_a_mixture(slope, n):
    rng = np.random.default_rng(n)
    expected = rng.random(n)
    target = slope * expected + 0.2 * rng.standard_normal(n)
    expected_slope = slope_by_integration(expected, target)
    assert trusted_slope(np.ones(n), expected, target) == pytest.approx(
        expected_slope, rel=1e-4
    )


def test_whitened_measurements_count_as_their_covariance_says():
    rng = np.random.default_rng(0)
    expected, target = rng.random(6), rng.random(6)
    scale = rng.uniform(0.5, 2, 6)
    by_weight = trusted_slope(scale, scale * expected, scale * target)
    weights = scale**2
    x = expected - np.average(expected, weights=weights)
    y = target - np.average(target, weights=weights)
    known = (weights @ y**2) / 5 / 0.25
    slope = np.clip((weights @ (x * y) + known) / (weights @ x**2 + known), 0, 1)
    assert 0 < by_weight < slope


def test_one_measurement_tells_nothing_about_a_prior():
    assert trusted_slope(np.ones(1), np.ones(1), np.ones(1)) == 0.7


def test_equal_targets_contradict_a_prior():
    for value in (0.0, 0.2):
        slope = trusted_slope(np.ones(3), np.arange(3.0), np.full(3, value))
        assert slope == pytest.approx(0, abs=1e-12)


def test_the_slope_is_never_negative():
    costs = np.linspace(0, 1, 9)
    surrogate = open_surrogate(costs)
    rows = np.arange(9)
    surrogate.fit(rows, 1 - costs)
    assert_allclose(surrogate.mean, np.full(9, 0.5))


@pytest.mark.parametrize("transform", ["log", "identity"])
def test_costs_are_turned_into_the_unit_of_the_target(transform):
    durations = np.array([2.0, 4.0, 8.0])
    surrogate = open_surrogate(1 - 2.0 / durations, transform)
    target = np.log(durations / 2.0) if transform == "log" else durations
    surrogate.fit(np.arange(3), target)
    assert_allclose(surrogate.mean, 0.4 * target + 0.6 * target.mean())


def test_only_the_first_sample_leans_in_a_very_large_pool(pools, monkeypatch):
    monkeypatch.setattr("fasta_learn.search._subset.MAX_WHOLE", 50)
    configs, durations = pools.tiles(shape=(13, 10, 6))
    search = ActiveConfigSearch(
        budget=12, prior=true_prior(durations, 0), random_state=0
    )
    search.fit(configs, durations)
    assert not isinstance(search._engine.surrogate, PriorSurrogate)
    assert search.results_["duration"][0] == durations.min()
