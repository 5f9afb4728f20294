"""AnovaGaussianProcess against scikit-learn's Gaussian process and refitting."""

import io
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import skops.io
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from sklearn.model_selection import cross_val_score

from fasta_learn.gaussian_process import AnovaGaussianProcess


def make_data(n_samples=25, n_features=1, seed=0):
    rng = np.random.default_rng(seed)
    X = 10 * rng.random((n_samples, n_features)) - 3
    y = 5 + np.sin(X[:, 0]) + 0.05 * rng.standard_normal(n_samples)
    return X, y


def unit_kernel(model, feature):
    relevance = model.relevance_[feature]
    return ConstantKernel(1 - relevance) + ConstantKernel(relevance) * Matern(
        model.length_scales_[feature], nu=2.5
    )


def scale(X, *others):
    low, span = X.min(axis=0), np.ptp(X, axis=0)
    return [(each - low) / span for each in (X, *others)]


def test_predictions_are_those_of_scikit_learn():
    X, y = make_data()
    X_new = np.linspace(-4, 8, 30)[:, None]
    model = AnovaGaussianProcess().fit(X, y)
    mean, std = model.predict(X_new, return_std=True)
    rows, new_rows = scale(X, X_new)
    z = (y - y.mean()) / y.std()
    reference = GaussianProcessRegressor(
        unit_kernel(model, 0), alpha=model.noise_ + 1e-8, optimizer=None
    ).fit(rows, z)
    expected, expected_std = reference.predict(new_rows, return_std=True)
    signal = (z @ reference.alpha_ + 1) / (len(y) + 1)
    assert_allclose(mean, expected * y.std() + y.mean(), rtol=1e-9)
    assert_allclose(std, np.sqrt(signal) * expected_std * y.std(), rtol=1e-6)


def test_leave_one_out_equals_refitting_at_these_hyperparameters():
    X, y = make_data()
    model = AnovaGaussianProcess().fit(X, y)
    (rows,) = scale(X)
    z = (y - y.mean()) / y.std()
    expected = np.empty(len(y))
    for i in range(len(y)):
        kept = np.arange(len(y)) != i
        reference = GaussianProcessRegressor(
            unit_kernel(model, 0), alpha=model.noise_ + 1e-8, optimizer=None
        ).fit(rows[kept], z[kept])
        expected[i] = reference.predict(rows[[i]])[0]
    assert_allclose(model.loo_predictions_, expected * y.std() + y.mean(), rtol=1e-7)


def test_the_mean_alone_is_the_mean_of_both():
    X, y = make_data(n_features=2)
    model = AnovaGaussianProcess().fit(X, y)
    assert_array_equal(model.predict(X), model.predict(X, return_std=True)[0])


def test_a_smooth_function_is_learned():
    X, y = make_data(60, 3)
    scores = cross_val_score(AnovaGaussianProcess(), X, y, cv=5)
    assert scores.min() > 0.95


def test_features_without_influence_fade_out():
    X, y = make_data(60, 3)
    relevance = AnovaGaussianProcess().fit(X, y).relevance_
    # The median of the prior is one half.
    assert relevance[0] > 0.6
    assert relevance[1:].max() < 0.4


def test_noise_is_recognised():
    X, y = make_data(80)
    noisy = y + np.random.default_rng(1).standard_normal(80)
    quiet = AnovaGaussianProcess().fit(X, y).noise_
    assert AnovaGaussianProcess().fit(X, noisy).noise_ > 20 * quiet


def test_uncertainty_grows_away_from_the_samples():
    X, y = make_data()
    _, std = AnovaGaussianProcess().fit(X, y).predict([[2.0], [40.0]], return_std=True)
    assert std[1] > 5 * std[0]


@pytest.mark.parametrize("factor", [2.0**-20, 2.0**20])
def test_the_unit_of_the_target_does_not_matter(factor):
    X, y = make_data()
    model = AnovaGaussianProcess().fit(X, y)
    scaled = AnovaGaussianProcess().fit(X, factor * y)
    assert_array_equal(scaled.predict(X), factor * model.predict(X))
    assert_array_equal(scaled.length_scales_, model.length_scales_)


def test_the_unit_of_a_feature_does_not_matter():
    X, y = make_data(n_features=2)
    model = AnovaGaussianProcess().fit(X, y)
    scaled = AnovaGaussianProcess().fit(X * [1024, 0.5], y)
    assert_array_equal(scaled.predict(X * [1024, 0.5]), model.predict(X))


def test_many_samples_are_thinned_to_the_fastest():
    X, y = make_data(200)
    model = AnovaGaussianProcess(max_samples=40).fit(X, y)
    assert model.loo_predictions_.shape == (40,)
    fast = np.argsort(y)[:30]
    assert_allclose(model.predict(X[fast]), y[fast], atol=0.2)


def test_one_sample_is_predicted_everywhere():
    model = AnovaGaussianProcess().fit([[3.0, 1.0]], [2.0])
    mean, std = model.predict([[3.0, 1.0], [9.0, 0.0]], return_std=True)
    assert_allclose(mean, 2.0)
    assert (std > 0).all()


def test_a_constant_target_is_predicted_everywhere():
    X, y = make_data(n_features=2)
    model = AnovaGaussianProcess().fit(X, np.full(len(y), 7.0))
    assert_allclose(model.predict(3 * X), 7.0)


def test_repeated_rows_are_averaged():
    X = np.repeat(np.arange(6.0), 4)[:, None]
    y = np.repeat(np.arange(6.0) ** 2, 4) + np.tile([-0.3, 0.3, -0.1, 0.1], 6)
    predicted = AnovaGaussianProcess().fit(X, y).predict(np.arange(6.0)[:, None])
    assert_allclose(predicted, np.arange(6.0) ** 2, atol=0.4)


def test_a_constant_feature_does_not_matter():
    X, y = make_data()
    wider = np.column_stack([X, np.full(len(y), 5.0)])
    mean = AnovaGaussianProcess(max_iter=100).fit(wider, y).predict(wider)
    expected = AnovaGaussianProcess(max_iter=100).fit(X, y).predict(X)
    assert_allclose(mean, expected, rtol=1e-4)


def test_names_of_the_features_are_kept():
    X, y = make_data(n_features=2)
    model = AnovaGaussianProcess().fit(pd.DataFrame(X, columns=["a", "b"]), y)
    assert_array_equal(model.feature_names_in_, ["a", "b"])
    assert model.length_scales_.shape == model.relevance_.shape == (2,)


@pytest.mark.parametrize(
    ("parameters", "name"), [({"max_iter": 0}, "max_iter"), ({"max_samples": 3}, "max")]
)
def test_parameters_out_of_range_are_refused(parameters, name):
    with pytest.raises(ValueError, match=name):
        AnovaGaussianProcess(**parameters).fit([[0.0], [1.0]], [0.0, 1.0])


def test_predicting_needs_a_fit():
    with pytest.raises(NotFittedError):
        AnovaGaussianProcess().predict([[0.0]])


def joblib_round_trip(model):
    buffer = io.BytesIO()
    joblib.dump(model, buffer)
    buffer.seek(0)
    return joblib.load(buffer)


def skops_round_trip(model):
    data = skops.io.dumps(model)
    unknown = skops.io.get_untrusted_types(data=data)
    assert all(name.startswith("fasta_learn.") for name in unknown)
    return skops.io.loads(data, trusted=unknown)


@pytest.mark.parametrize(
    "round_trip",
    [
        lambda model: pickle.loads(pickle.dumps(model)),
        joblib_round_trip,
        skops_round_trip,
    ],
    ids=["pickle", "joblib", "skops"],
)
def test_round_trips_predict_alike(round_trip):
    X, y = make_data(n_features=2)
    model = AnovaGaussianProcess().fit(X, y)
    copy = round_trip(model)
    assert_array_equal(
        copy.predict(X, return_std=True), model.predict(X, return_std=True)
    )


def test_clone_is_unfitted_with_equal_parameters():
    model = AnovaGaussianProcess(max_iter=7, max_samples=9).fit([[0.0], [1.0]], [0, 1])
    copy = clone(model)
    assert copy.get_params() == {"max_iter": 7, "max_samples": 9}
    assert not hasattr(copy, "noise_")
