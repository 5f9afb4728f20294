"""Any regressor as the surrogate of a search."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fasta_learn import ActiveConfigSearch, ModelSelector
from fasta_learn.gaussian_process import AnovaGaussianProcess
from fasta_learn.search._surrogate import (
    GaussianProcessSurrogate,
    RegressorSurrogate,
    SelectorSurrogate,
    make_surrogate,
)

REGRESSORS = {
    "selector": ModelSelector(),
    "gaussian process": GaussianProcessRegressor(Matern(nu=2.5), alpha=1e-6),
    "forest": RandomForestRegressor(20, random_state=0),
    "pipeline": make_pipeline(StandardScaler(), Ridge()),
    "anova": AnovaGaussianProcess(),
}


class Subclass(ModelSelector):
    pass


@pytest.fixture(params=REGRESSORS)
def regressor(request):
    return clone(REGRESSORS[request.param])


@pytest.mark.parametrize(
    ("estimator", "kind"),
    [
        (AnovaGaussianProcess(), GaussianProcessSurrogate),
        (ModelSelector(), SelectorSurrogate),
        (Subclass(), RegressorSurrogate),
        (Ridge(), RegressorSurrogate),
    ],
)
def test_each_regressor_has_its_surrogate(estimator, kind):
    assert type(make_surrogate(estimator, np.eye(3))) is kind


def test_any_regressor_searches(pools, regressor):
    configs, durations = pools.tiles(noise=0.01, failed=0.1)
    search = ActiveConfigSearch(regressor, budget=0.3, random_state=0)
    search.fit(configs, durations)
    assert search.n_measured_ == 27
    assert search.results_["index"].is_unique
    assert search.best_duration_ <= 1.15 * durations.min()
    assert type(search.best_estimator_) is type(regressor)
    assert not hasattr(regressor, "n_features_in_")


def test_any_regressor_fits_like_the_loop(pools, regressor):
    configs, durations = pools.tiles(failed=0.1)
    search = ActiveConfigSearch(regressor, random_state=0)
    fitted = clone(search).fit(configs, durations)
    told = pools.run(clone(search), configs, durations)
    assert_array_equal(fitted.results_["index"], told.results_["index"])


def test_a_regressor_learns_log_ratios_of_what_ran(pools):
    configs, durations = pools.tiles(failed=0.2)
    search = ActiveConfigSearch(Ridge(), budget=0.4, random_state=0)
    search.fit(configs, durations)
    rows = search.results_["index"].to_numpy()
    rows = rows[np.isfinite(durations[rows])]
    target = np.log(durations[rows] / durations[rows].min())
    features = np.log2([list(config.values()) for config in configs])
    features = (features - features.min(axis=0)) / np.ptp(features, axis=0)
    ridge = Ridge().fit(features[rows], target)
    expected = durations[rows].min() * np.exp(ridge.predict(features))
    assert_allclose(search.predict(configs), expected, rtol=1e-8)


def test_mean_deviation_and_fit_of_a_regressor(pools):
    X, durations = pools.bowl(2)
    rows = np.arange(0, 150, 11)
    regressor = REGRESSORS["gaussian process"]
    surrogate = make_surrogate(regressor, X)
    surrogate.fit(rows, durations[rows])
    reference = clone(regressor).fit(X[rows], durations[rows])
    mean, std = reference.predict(X, return_std=True)
    assert_allclose(surrogate.mean, mean, rtol=1e-6)
    assert_allclose(surrogate.std, std, rtol=1e-4, atol=1e-5)
    assert surrogate.incumbent == durations[rows].min()
    assert_allclose(surrogate.r2, reference.score(X[rows], durations[rows]))
    assert_array_equal(surrogate.imagine(3), surrogate.std)


def test_without_deviations_nothing_can_be_imagined(pools):
    X, durations = pools.bowl(2)
    surrogate = make_surrogate(Ridge(), X)
    surrogate.fit(np.arange(9), durations[:9])
    assert surrogate.std is None
    with pytest.raises(ValueError, match="Ridge has no standard deviations"):
        surrogate.imagine(3)


def test_a_selector_on_the_pool_is_a_selector_on_its_rows(pools):
    X, durations = pools.bowl(3, noise=0.1)
    rows = np.arange(0, 150, 4)
    surrogate = make_surrogate(ModelSelector(), X)
    surrogate.fit(rows, durations[rows])
    reference = ModelSelector().fit(X[rows], durations[rows])
    assert surrogate.basis == reference.best_basis_
    assert_allclose(surrogate.r2, reference.r2_)
    assert_allclose(surrogate.mean, reference.predict(X), rtol=1e-8)


def test_fit_of_equal_targets_is_nought():
    surrogate = make_surrogate(Ridge(), np.eye(3))
    surrogate.fit(np.arange(3), np.ones(3))
    assert surrogate.r2 == 0.0


def test_the_process_explains_what_it_predicts_left_out(pools):
    X, durations = pools.bowl(2)
    rows = np.random.default_rng(0).permutation(150)[:25]
    surrogate = make_surrogate(AnovaGaussianProcess(), X)
    surrogate.fit(rows, durations[rows])
    assert surrogate.r2 > 0.9
    noise = np.random.default_rng(1).random(25)
    surrogate.fit(rows, noise)
    assert surrogate.r2 < 0.5


@pytest.mark.parametrize("n_told", [1, 2, 3])
def test_few_measurements_make_a_surrogate(pools, regressor, n_told):
    configs, durations = pools.tiles()
    search = ActiveConfigSearch(regressor, n_initial=n_told, random_state=0)
    batch = search.propose(configs)
    search.partial_fit(batch, durations[batch])
    assert np.isfinite(search.predict(configs)).all()
    assert len(search.propose()) == 1
