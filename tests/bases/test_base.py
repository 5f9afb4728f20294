"""Every basis as a scikit-learn transformer."""

import io
import pickle

import joblib
import numpy as np
import pytest
import skops.io
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from fasta_learn.bases import (
    BaseBasis,
    CubicBasis,
    FourierBasis,
    LinearBasis,
    PolynomialBasis,
    QuadraticBasis,
)

BASES = [LinearBasis, QuadraticBasis, PolynomialBasis, CubicBasis, FourierBasis]
# Table p(D) of the specification, and D = 0: the intercept alone.
PUBLISHED_COUNTS = {
    LinearBasis: {0: 1, 3: 4, 6: 7},
    QuadraticBasis: {0: 1, 3: 7, 6: 13},
    PolynomialBasis: {0: 1, 3: 10, 6: 28},
    FourierBasis: {0: 1, 3: 16, 6: 31},
    CubicBasis: {0: 1, 3: 20, 6: 84},
}


class ReciprocalBasis(BaseBasis):
    """What a user would write."""

    def n_terms(self, n_features):
        return 1 + n_features

    def _expand(self, X):
        return np.hstack([np.ones((len(X), 1)), 1 / (1 + np.abs(X))])

    def _term_names(self, names):
        return ["1", *(f"1/(1 + |{name}|)" for name in names)]


@parametrize_with_checks([basis() for basis in BASES])
def test_bases_pass_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("basis", BASES)
def test_counts_match_the_published_table(basis):
    counts = PUBLISHED_COUNTS[basis]
    assert {d: basis.n_terms(d) for d in counts} == counts


@pytest.mark.parametrize("n_features", range(1, 9))
@pytest.mark.parametrize("basis", BASES)
def test_count_is_the_number_of_columns(basis, n_features):
    X = np.random.default_rng(0).random((3, n_features))
    assert basis().fit_transform(X).shape == (3, basis.n_terms(n_features))


@pytest.mark.parametrize("basis", BASES)
def test_without_features_only_the_intercept_is_left(basis):
    assert_array_equal(basis()._expand(np.empty((4, 0))), np.ones((4, 1)))


@pytest.mark.parametrize("n_features", range(1, 6))
@pytest.mark.parametrize("basis", BASES)
def test_names_are_as_many_as_columns_and_distinct(basis, n_features):
    fitted = basis().fit(np.zeros((2, n_features)))
    names = fitted.get_feature_names_out()
    assert len(set(names)) == len(names) == basis.n_terms(n_features)


@pytest.mark.parametrize("basis", [*BASES, ReciprocalBasis])
def test_first_column_is_the_intercept(basis):
    columns = basis().fit_transform([[0.25, 0.5], [1.0, 0.0]])
    assert_array_equal(columns[:, 0], [1, 1])


@pytest.mark.parametrize("basis", BASES)
def test_rows_expand_independently(basis):
    X = np.random.default_rng(1).random((6, 3))
    fitted = basis().fit(X)
    assert_array_equal(fitted.transform(X[[4]]), fitted.transform(X)[[4]])


@pytest.mark.parametrize("basis", BASES)
def test_single_precision_stays_single(basis):
    X = np.random.default_rng(1).random((6, 3)).astype(np.float32)
    assert basis().fit_transform(X).dtype == np.float32


@pytest.mark.parametrize("basis", BASES)
def test_transform_leaves_the_input_alone(basis):
    X = np.random.default_rng(2).random((5, 3))
    before = X.copy()
    basis().fit_transform(X)[:] = -1
    assert_array_equal(X, before)


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("basis", BASES)
def test_set_output_gives_named_tables(basis, library):
    frame_of = pytest.importorskip(library).DataFrame
    X = frame_of({"a": [0.0, 0.5], "b": [1.0, 0.25]})
    fitted = basis().set_output(transform=library).fit(X)
    table = fitted.transform(X)
    assert isinstance(table, frame_of)
    assert list(table.columns) == list(fitted.get_feature_names_out())


@pytest.mark.parametrize("basis", BASES)
def test_names_use_the_columns_of_a_table(basis):
    pandas = pytest.importorskip("pandas")
    fitted = basis().fit(pandas.DataFrame({"block_m": [0.0, 1.0]}))
    assert fitted.get_feature_names_out()[1] == "block_m"


def test_names_can_be_given():
    fitted = LinearBasis().fit([[0.0, 1.0]])
    assert fitted.get_feature_names_out(["m", "n"]).tolist() == ["1", "m", "n"]


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
@pytest.mark.parametrize("basis", BASES)
def test_round_trips_transform_alike(basis, copy):
    X = np.random.default_rng(3).random((5, 3))
    fitted = basis().fit(X)
    assert_array_equal(copy(fitted).transform(X), fitted.transform(X))


@pytest.mark.parametrize("basis", BASES)
def test_transform_needs_fit(basis):
    with pytest.raises(NotFittedError):
        basis().transform([[0.0]])


@pytest.mark.parametrize("basis", BASES)
def test_no_features_is_the_usual_error(basis):
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        basis().fit(np.empty((3, 0)))


def test_base_class_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        BaseBasis()


@parametrize_with_checks([ReciprocalBasis()])
def test_own_basis_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_own_basis_can_be_cloned_and_named():
    fitted = clone(ReciprocalBasis()).fit([[1.0]])
    assert fitted.get_feature_names_out(["a"]).tolist() == ["1", "1/(1 + |a|)"]
