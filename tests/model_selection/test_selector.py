"""ModelSelector as a regressor: what it picks, reports and refuses."""

import io
import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import skops.io
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, PolynomialFeatures
from sklearn.utils.estimator_checks import parametrize_with_checks

from fasta_learn.bases import (
    CubicBasis,
    FourierBasis,
    LinearBasis,
    PolynomialBasis,
    QuadraticBasis,
)
from fasta_learn.model_selection import ModelSelector

DEFAULT_BASES = {
    "linear": LinearBasis(),
    "quadratic": QuadraticBasis(),
    "full": PolynomialBasis(),
    "fourier": FourierBasis(),
    "cubic": CubicBasis(),
}
SHAPES = {
    "linear": lambda a, b: 3 + a - 2 * b,
    "quadratic": lambda a, b: 1 + (a - 0.4) ** 2 + (b - 0.7) ** 2,
    "full": lambda a, b: 1 + (a - b) ** 2 + 3 * a * b,
    "fourier": lambda a, b: 2 + np.sin(2 * np.pi * a) + np.cos(2 * np.pi * b),
    "cubic": lambda a, b: 1 + a**3 - 2 * a**2 * b + b**2 * a,
}


def make_samples(n_samples=60, n_features=2, shape="full", noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n_samples, n_features))
    y = SHAPES[shape](X[:, 0], X[:, 1]) + noise * rng.standard_normal(n_samples)
    return X, y


def ridge_without_each(design, y, alpha, weight=None):
    predictions = np.empty(len(y))
    for i in range(len(y)):
        kept = np.arange(len(y)) != i
        model = Ridge(alpha=alpha, fit_intercept=False, solver="cholesky")
        part = None if weight is None else weight[kept]
        model.fit(design[kept], y[kept], sample_weight=part)
        predictions[i] = design[i] @ model.coef_
    return predictions


@parametrize_with_checks(
    [
        ModelSelector(),
        ModelSelector(scoring="press"),
        ModelSelector(alpha=[0.01, 0.1]),
        ModelSelector([PolynomialFeatures(2), ("line", LinearBasis())]),
    ]
)
def test_selector_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("shape", SHAPES)
def test_press_finds_the_basis_that_made_the_data(shape):
    X, y = make_samples(shape=shape)
    selector = ModelSelector(alpha=1e-8, scoring="press").fit(X, y)
    assert selector.best_basis_ == shape


@pytest.mark.parametrize("weighted", [False, True])
def test_scores_are_those_of_refitting(weighted):
    X, y = make_samples(noise=0.3)
    weight = np.random.default_rng(1).random(60) if weighted else None
    selector = ModelSelector(max_leverage=1.0).fit(X, y, sample_weight=weight)
    for row in selector.scores_:
        design = DEFAULT_BASES[row["basis"]].fit_transform(X)
        predictions = ridge_without_each(design, y, 0.1, weight)
        assert row["n_terms"] == design.shape[1]
        assert_allclose(row["spearman"], spearmanr(y, predictions).statistic)
        error = np.average((y - predictions) ** 2, weights=weight)
        assert_allclose(row["neg_press"], -error)


@pytest.mark.parametrize(
    ("scoring", "key"), [("spearman",) * 2, ("press", "neg_press")]
)
def test_best_score_is_the_highest_of_its_column(scoring, key):
    X, y = make_samples(noise=0.3)
    selector = ModelSelector(scoring=scoring).fit(X, y)
    table = pd.DataFrame(selector.scores_).set_index("basis")
    assert selector.best_score_ == table[key].max()
    assert selector.best_basis_ == table[key].idxmax()


@pytest.mark.parametrize("weighted", [False, True])
def test_winner_is_fitted_on_all_samples(weighted):
    X, y = make_samples(noise=0.3)
    weight = np.random.default_rng(1).random(60) if weighted else None
    selector = ModelSelector().fit(X, y, sample_weight=weight)
    design = DEFAULT_BASES[selector.best_basis_].fit_transform(X)
    ridge = Ridge(alpha=0.1, fit_intercept=False).fit(design, y, sample_weight=weight)
    assert_allclose(selector.coef_, ridge.coef_, rtol=1e-6)
    assert_allclose(selector.predict(X), ridge.predict(design))
    assert_allclose(
        selector.r2_, r2_score(y, ridge.predict(design), sample_weight=weight)
    )


def test_loo_predictions_are_those_of_the_winner():
    X, y = make_samples(noise=0.3)
    selector = ModelSelector(max_leverage=1.0).fit(X, y)
    design = DEFAULT_BASES[selector.best_basis_].fit_transform(X)
    assert_allclose(selector.loo_predictions_, ridge_without_each(design, y, 0.1))


def test_coefficients_can_be_named():
    X, y = make_samples(shape="linear")
    frame = pd.DataFrame(X, columns=["block_m", "block_n"])
    selector = ModelSelector([LinearBasis()], alpha=1e-9).fit(frame, y)
    names = selector.best_transformer_.get_feature_names_out(selector.feature_names_in_)
    named = dict(zip(names, selector.coef_, strict=True))
    assert named == pytest.approx({"1": 3, "block_m": 1, "block_n": -2}, rel=1e-6)


# 1 + 6 + 1 + 2 = 10 terms of two features.
@pytest.mark.parametrize(
    ("n_samples", "gate", "skipped"),
    [(20, 0.5, True), (21, 0.5, False), (10, 1.0, True), (11, 1.0, False)],
)
def test_cubic_competes_only_below_its_gate(n_samples, gate, skipped):
    X, y = make_samples(n_samples)
    selector = ModelSelector(cubic_gate=gate).fit(X, y)
    row = selector.scores_[-1]
    assert bool(row["skipped"]) == np.isnan(row["spearman"]) == skipped


def test_only_cubic_is_gated():
    X, y = make_samples(4)
    rows = ModelSelector().fit(X, y).scores_
    assert [row["basis"] for row in rows if row["skipped"]] == ["cubic"]


def test_no_gate_lets_cubic_compete_always():
    X, y = make_samples(4)
    rows = ModelSelector(cubic_gate=None).fit(X, y).scores_
    assert not any(row["skipped"] for row in rows)


def test_samples_of_weight_zero_do_not_open_the_gate():
    X, y = make_samples(21)
    weight = np.r_[0.0, np.ones(20)]
    rows = ModelSelector().fit(X, y, sample_weight=weight).scores_
    assert rows[-1]["skipped"]


def test_all_skipped_is_an_error_that_says_why():
    X, y = make_samples(20)
    with pytest.raises(
        ValueError, match=r"cubic has 10 terms, not fewer than 0\.5 × 20"
    ):
        ModelSelector([CubicBasis()]).fit(X, y)


def test_equal_scores_go_to_the_smaller_basis():
    X, _ = make_samples(30)
    bases = [FourierBasis(), CubicBasis(), LinearBasis()]
    assert ModelSelector(bases).fit(X, np.ones(30)).best_basis_ == "linear"


@pytest.mark.parametrize("scoring", ["spearman", "press"])
@pytest.mark.parametrize("seed", range(10))
def test_rounding_does_not_decide_between_equal_scores(seed, scoring):
    X, y = make_samples(30, noise=0.5, seed=seed)
    padded = FunctionTransformer(
        lambda X: np.hstack([X[:, ::-1], 0 * X, X[:, :1] ** 0])
    )
    bases = [("padded", padded), ("linear", LinearBasis())]
    selector = ModelSelector(bases, scoring=scoring).fit(X, y)
    assert selector.best_basis_ == "linear"


def test_equal_scores_and_sizes_go_to_the_first():
    X, y = make_samples(30)
    bases = [("second", LinearBasis()), ("first", LinearBasis())]
    assert ModelSelector(bases).fit(X, y).best_basis_ == "second"


@pytest.mark.parametrize("scoring", ["spearman", "press"])
@pytest.mark.parametrize("scale", [2.0**-30, 1e-3, 3.7, 1e6])
def test_scaling_the_durations_changes_no_decision(scale, scoring):
    for seed in range(20):
        X, y = make_samples(25, noise=0.5, seed=seed)
        selector = ModelSelector(scoring=scoring).fit(X, y)
        scaled = ModelSelector(scoring=scoring).fit(X, scale * y)
        assert scaled.best_basis_ == selector.best_basis_
        assert_allclose(scaled.predict(X), scale * selector.predict(X))


@pytest.mark.parametrize("scoring", ["spearman", "press"])
def test_each_basis_takes_the_alpha_of_smallest_error(scoring):
    X, y = make_samples(40, noise=0.5)
    alphas = [10.0, 1e-3, 0.3]
    selector = ModelSelector(alpha=alphas, scoring=scoring).fit(X, y)
    single = [ModelSelector(alpha=alpha).fit(X, y).scores_ for alpha in alphas]
    for row, *candidates in zip(selector.scores_, *single, strict=True):
        best = max(candidates, key=lambda candidate: candidate["neg_press"])
        assert row["alpha"] == best["alpha"]
        assert_allclose(row["neg_press"], best["neg_press"])
        assert_allclose(row["spearman"], best["spearman"])


def test_alpha_of_the_winner_is_used():
    X, y = make_samples(40, noise=0.5)
    selector = ModelSelector(alpha=[10.0, 1e-3, 0.3]).fit(X, y)
    [row] = [r for r in selector.scores_ if r["basis"] == selector.best_basis_]
    design = DEFAULT_BASES[selector.best_basis_].fit_transform(X)
    ridge = Ridge(alpha=row["alpha"], fit_intercept=False).fit(design, y)
    assert selector.alpha_ == row["alpha"]
    assert_allclose(selector.predict(X), ridge.predict(design))


def test_nested_bases_score_as_each_by_itself():
    X, y = make_samples(40, noise=0.5)
    together = ModelSelector().fit(X, y).scores_
    for row, (name, basis) in zip(together, DEFAULT_BASES.items(), strict=True):
        [alone] = ModelSelector([(name, basis)]).fit(X, y).scores_
        assert_allclose(row["spearman"], alone["spearman"])
        assert_allclose(row["neg_press"], alone["neg_press"])


def test_any_transformer_can_compete():
    X, y = make_samples(40, shape="cubic")
    bases = [LinearBasis(), ("sklearn", PolynomialFeatures(3))]
    selector = ModelSelector(bases, alpha=1e-8, scoring="press").fit(X, y)
    assert selector.best_basis_ == "sklearn"
    assert_allclose(selector.predict(X), y, atol=1e-5)


def test_given_bases_stay_unfitted():
    basis = LinearBasis()
    ModelSelector([basis]).fit(*make_samples())
    assert not hasattr(basis, "n_features_in_")


def test_repeating_samples_is_weighting_them():
    X, y = make_samples(25, noise=0.5)
    weight = np.random.default_rng(2).integers(0, 4, 25)
    weighted = ModelSelector().fit(X, y, sample_weight=weight)
    repeated = ModelSelector().fit(X.repeat(weight, axis=0), y.repeat(weight))
    assert repeated.best_basis_ == weighted.best_basis_
    assert_allclose(repeated.coef_, weighted.coef_)
    assert_allclose(repeated.loo_predictions_, weighted.loo_predictions_.repeat(weight))


@pytest.mark.parametrize("n_samples", [1, 2, 3])
@pytest.mark.parametrize("scoring", ["spearman", "press"])
def test_few_samples_give_finite_results_without_warnings(scoring, n_samples):
    X, y = make_samples(n_samples)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        selector = ModelSelector(scoring=scoring).fit(X, y)
    assert np.isfinite([selector.best_score_, selector.r2_]).all()
    assert np.isfinite(selector.predict(X)).all()
    assert np.isfinite(selector.loo_predictions_).all()


@pytest.mark.parametrize("value", [0.0, 0.1, 7.0])
@pytest.mark.parametrize("n_samples", [1, 2, 30])
def test_constant_durations_have_no_rank_to_learn(n_samples, value):
    X, _ = make_samples(n_samples)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        selector = ModelSelector().fit(X, np.full(n_samples, value))
    assert (selector.best_basis_, selector.best_score_) == ("linear", 0)
    assert selector.r2_ == 0


def test_constant_features_behave():
    X, y = np.zeros((10, 2)), np.arange(10.0)
    selector = ModelSelector().fit(X, y)
    assert selector.best_basis_ == "linear"
    assert_allclose(selector.predict(X[:1]), [45 / 10.1])


@pytest.mark.parametrize("alpha", [0.0, 1e-12])
def test_without_penalty_interpolating_bases_stay_finite(alpha):
    X, y = make_samples(8, n_features=3)
    selector = ModelSelector(alpha=alpha, max_leverage=1.0).fit(X, y)
    assert np.isfinite(selector.predict(X)).all()
    assert all(np.isfinite(r["spearman"]) or r["skipped"] for r in selector.scores_)


def test_integer_durations_are_fine():
    X, y = make_samples(30)
    whole = (10 * y).astype(int)
    expected = ModelSelector().fit(X, whole.astype(float)).coef_
    assert_array_equal(ModelSelector().fit(X, whole).coef_, expected)


def test_works_in_a_pipeline_with_a_grid():
    X, y = make_samples(60, noise=0.1)
    pipeline = make_pipeline(MinMaxScaler(), ModelSelector())
    grid = {
        "modelselector__alpha": [1e-3, 10.0],
        "modelselector__scoring": ["spearman", "press"],
    }
    search = GridSearchCV(pipeline, grid, cv=3).fit(100 * X - 7, y)
    assert search.best_params_["modelselector__alpha"] == 1e-3
    assert search.best_score_ > 0.9


def test_clone_keeps_the_bases():
    selector = ModelSelector([("line", LinearBasis()), CubicBasis()], alpha=[1, 2])
    copy = clone(selector)
    assert [type(copy.bases[0][1]), type(copy.bases[1])] == [LinearBasis, CubicBasis]
    assert copy.alpha == [1, 2]


def _by_pickle(estimator):
    return pickle.loads(pickle.dumps(estimator))


def _by_joblib(estimator):
    buffer = io.BytesIO()
    joblib.dump(estimator, buffer)
    buffer.seek(0)
    return joblib.load(buffer)


def _by_skops(estimator):
    data = skops.io.dumps(estimator)
    return skops.io.loads(data, trusted=skops.io.get_untrusted_types(data=data))


@pytest.mark.parametrize("copy", [_by_pickle, _by_joblib, _by_skops])
def test_round_trips_predict_alike(copy):
    X, y = make_samples(noise=0.3)
    selector = ModelSelector().fit(X, y)
    restored = copy(selector)
    assert_array_equal(restored.predict(X), selector.predict(X))
    assert restored.best_basis_ == selector.best_basis_


def test_html_names_the_estimator():
    selector = ModelSelector([("line", LinearBasis())]).fit(*make_samples())
    assert "ModelSelector" in selector._repr_html_()
