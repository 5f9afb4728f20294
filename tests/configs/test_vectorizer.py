import pickle
from types import SimpleNamespace

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import skops.io
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_get_feature_names_out_error,
    check_set_output_transform_pandas,
    check_set_output_transform_polars,
    check_transformer_get_feature_names_out,
    check_transformer_get_feature_names_out_pandas,
    parametrize_with_checks,
)

from fasta_learn.configs import ConfigVectorizer

NEVER = ["compile_mode", "multibuffer", "split_k", "remain_programs", "using_programs"]


def make_configs():
    return [
        {"BLOCK_N": 32, "BLOCK_M": 16, "num_warps": 4, "fast": True, "order": "mn"},
        {"BLOCK_N": 64, "BLOCK_M": 16, "num_warps": 8, "fast": False, "order": "nm"},
        {"BLOCK_N": 64, "BLOCK_M": 32, "num_warps": 8, "fast": False, "GROUP": 2},
    ]


NAMES = ["BLOCK_M", "BLOCK_N", "GROUP", "num_warps"]
NUMBERS = [[16, 32, 0, 4], [16, 64, 0, 8], [32, 64, 2, 8]]


def numbers_by_hand(configs):
    """The columns of numeric keywords, one value after the other."""
    rows = {}
    for name in sorted({name for config in configs for name in config}):
        values = [config.get(name, 0) for config in configs]
        numeric = any(name in c and not isinstance(c[name], bool) for c in configs)
        if numeric and any(value != values[0] for value in values):
            rows[name] = [float(value) for value in values]
    return list(rows), np.array(list(rows.values())).T.reshape(len(configs), len(rows))


@parametrize_with_checks(
    [
        ConfigVectorizer(),
        ConfigVectorizer(log2="auto"),
        ConfigVectorizer(boolean=True, categorical=True),
    ],
    expected_failed_checks=lambda estimator: {},
)
def test_sklearn_compatible(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names")
@pytest.mark.parametrize(
    "check",
    [
        check_dataframe_column_names_consistency,
        check_get_feature_names_out_error,
        check_set_output_transform_pandas,
        check_set_output_transform_polars,
        check_transformer_get_feature_names_out,
        check_transformer_get_feature_names_out_pandas,
    ],
)
def test_names_and_frames_are_handled_as_in_sklearn(check):
    check("ConfigVectorizer", ConfigVectorizer())


def test_numeric_keywords_sorted_by_name():
    vectorizer = ConfigVectorizer()
    assert_array_equal(vectorizer.fit_transform(make_configs()), NUMBERS)
    assert list(vectorizer.get_feature_names_out()) == NAMES


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["a", "B", "c0", "c1"]),
            st.one_of(
                st.integers(-5, 5),
                st.booleans(),
                st.floats(-1e9, 1e9, allow_subnormal=False),
            ),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_equals_the_matrix_built_by_hand(configs):
    names, expected = numbers_by_hand(configs)
    vectorizer = ConfigVectorizer()
    X = vectorizer.fit_transform(configs)
    assert_array_equal(X, expected)
    assert list(vectorizer.get_feature_names_out()) == names


def test_dtype_is_float64():
    assert ConfigVectorizer().fit_transform(make_configs()).dtype == np.float64


@pytest.mark.parametrize("name", NEVER)
def test_never_features(name):
    configs = [{"a": 1, name: 1}, {"a": 2, name: 2}]
    assert_array_equal(ConfigVectorizer().fit_transform(configs), [[1], [2]])


def test_ignore_replaces_the_never_features():
    configs = [{"a": 1, "split_k": 1}, {"a": 2, "split_k": 3}]
    X = ConfigVectorizer(ignore=["a"]).fit_transform(configs)
    assert_array_equal(X, [[1], [3]])


def test_ignore_in_a_matrix():
    X = ConfigVectorizer(ignore=("x0",)).fit_transform([[1, 2], [3, 4]])
    assert_array_equal(X, [[2], [4]])


def test_none_counts_as_missing():
    configs = [{"a": None, "b": 1}, {"a": 4, "b": None}]
    assert_array_equal(ConfigVectorizer().fit_transform(configs), [[0, 1], [4, 0]])


def test_objects_equal_their_dicts():
    objects = [
        SimpleNamespace(kwargs={"BLOCK": size}, num_warps=warps, num_stages=2)
        for size, warps in [(16, 2), (32, 4)]
    ]
    vectorizer = ConfigVectorizer()
    assert_array_equal(vectorizer.fit_transform(objects), [[16, 2], [32, 4]])
    assert list(vectorizer.get_feature_names_out()) == ["BLOCK", "num_warps"]


def test_booleans_on_request():
    vectorizer = ConfigVectorizer(boolean=True).fit(make_configs())
    names = list(vectorizer.get_feature_names_out())
    column = vectorizer.transform(make_configs())[:, names.index("fast")]
    assert_array_equal(column, [1, 0, 0])


def test_categories_on_request():
    vectorizer = ConfigVectorizer(categorical=True).fit(make_configs())
    names = list(vectorizer.get_feature_names_out())
    assert names[3:5] == ["num_warps", "order=mn"]
    X = vectorizer.transform(make_configs())
    assert_array_equal(X[:, names.index("order=mn")], [1, 0, 0])
    assert_array_equal(X[:, names.index("order=nm")], [0, 1, 0])


def test_unknown_category_is_zero_in_all_columns():
    configs = [{"order": "mn"}, {"order": "nm"}]
    vectorizer = ConfigVectorizer(categorical=True).fit(configs)
    assert_array_equal(vectorizer.transform([{"order": "xy"}]), [[0, 0]])


def test_keyword_with_numbers_and_text_is_categorical():
    configs = [{"a": 1, "b": 1}, {"a": "auto", "b": 2}]
    assert_array_equal(ConfigVectorizer().fit_transform(configs), [[1], [2]])
    vectorizer = ConfigVectorizer(categorical=True).fit(configs)
    assert list(vectorizer.get_feature_names_out()) == ["a=1", "a=auto", "b"]


def test_transform_of_other_configs():
    vectorizer = ConfigVectorizer().fit([{"a": 1, "b": 2}, {"a": 2, "b": 3}])
    assert_array_equal(vectorizer.transform([{"b": 7, "new": 1}, {}]), [[0, 7], [0, 0]])


def test_no_varying_column_gives_no_feature():
    vectorizer = ConfigVectorizer()
    assert vectorizer.fit_transform([{"a": 1}, {"a": 1, "s": "x"}]).shape == (2, 0)
    assert list(vectorizer.get_feature_names_out()) == []


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_equal_dicts(frame):
    vectorizer = ConfigVectorizer(boolean=True, categorical=True)
    expected = clone(vectorizer).fit(make_configs())
    vectorizer.fit(
        frame(
            {
                "BLOCK_N": [32, 64, 64],
                "BLOCK_M": [16, 16, 32],
                "num_warps": [4, 8, 8],
                "fast": [True, False, False],
                "order": ["mn", "nm", None],
                "GROUP": [0, 0, 2],
            }
        )
    )
    assert_array_equal(vectorizer._rows, expected.transform(make_configs()))
    assert_array_equal(
        vectorizer.get_feature_names_out(), expected.get_feature_names_out()
    )
    assert vectorizer.n_features_in_ == 6
    assert vectorizer.feature_names_in_[0] == "BLOCK_N"


@pytest.mark.parametrize(
    "frame",
    [
        pl.DataFrame({"a": [1, None], "b": [1, 2]}),
        pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [1, 2]}),
        pd.DataFrame({"a": [1, None], "b": [1, 2]}, dtype=object),
    ],
)
def test_null_in_a_frame_is_missing(frame):
    assert_array_equal(ConfigVectorizer().fit_transform(frame), [[1, 1], [0, 2]])


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_nan_in_a_frame_is_refused(frame):
    with pytest.raises(ValueError, match=r"configs\[1\]\['a'\] is nan"):
        ConfigVectorizer().fit(frame({"a": [1.0, np.nan]}))


def test_frame_with_other_names_is_refused():
    vectorizer = ConfigVectorizer().fit(pd.DataFrame({"a": [1, 2]}))
    with pytest.raises(ValueError, match="feature names should match"):
        vectorizer.transform(pd.DataFrame({"b": [1, 2]}))


def test_frame_without_columns_gives_no_feature():
    frame = pd.DataFrame(index=range(2))
    assert ConfigVectorizer().fit_transform(frame).shape == (2, 0)


def test_matrix_after_a_frame_goes_by_position_with_a_warning():
    vectorizer = ConfigVectorizer().fit(pd.DataFrame({"b": [1, 2], "a": [3, 5]}))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        X = vectorizer.transform([[7.0, 9.0]])
    assert_array_equal(X, [[9, 7]])


def test_dicts_after_a_frame():
    vectorizer = ConfigVectorizer().fit(pd.DataFrame({"a": [1, 2], "b": [3, 5]}))
    assert_array_equal(vectorizer.transform([{"b": 4, "a": 9}]), [[9, 4]])


def test_frame_after_dicts():
    vectorizer = ConfigVectorizer().fit([{"a": 1, "b": 3}, {"a": 2, "b": 5}])
    assert_array_equal(vectorizer.transform(pd.DataFrame({"b": [4]})), [[0, 4]])


def test_frame_with_a_repeated_name_is_refused():
    frame = pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"])
    vectorizer = ConfigVectorizer().fit([{"a": 1}, {"a": 2}])
    with pytest.raises(ValueError, match=r"several columns of the same name: \['a'\]"):
        vectorizer.transform(frame)


def test_frame_without_rows_is_refused():
    with pytest.raises(ValueError, match="no rows"):
        ConfigVectorizer().fit(pd.DataFrame({"a": []}))


def test_matrix_keeps_the_order_of_its_columns():
    vectorizer = ConfigVectorizer()
    X = vectorizer.fit_transform([[3.0, 7.0, 1.0], [2.0, 7.0, 5.0]])
    assert_array_equal(X, [[3, 1], [2, 5]])
    assert list(vectorizer.get_feature_names_out()) == ["x0", "x2"]
    assert list(vectorizer.get_feature_names_out(["a", "b", "c"])) == ["a", "c"]


def test_names_of_a_matrix_must_have_its_length():
    vectorizer = ConfigVectorizer().fit([[1.0, 2.0], [2.0, 3.0]])
    with pytest.raises(ValueError, match="length"):
        vectorizer.get_feature_names_out(["a"])


def test_matrix_after_configs_is_refused():
    vectorizer = ConfigVectorizer().fit(make_configs())
    with pytest.raises(ValueError, match=r"fitted on configs.*pass configs"):
        vectorizer.transform(np.ones((2, 4)))


def test_configs_after_a_matrix_are_refused():
    vectorizer = ConfigVectorizer().fit([[1.0], [2.0]])
    with pytest.raises(ValueError, match=r"fitted on a matrix; pass a matrix"):
        vectorizer.transform([{"x0": 1.0}])


def test_unfitted():
    with pytest.raises(NotFittedError):
        ConfigVectorizer().transform(make_configs())


def test_fit_forgets():
    vectorizer = ConfigVectorizer().fit(pd.DataFrame({"a": [1, 2], "b": [1, 2]}))
    vectorizer.fit([{"c": 1}, {"c": 2}])
    assert not hasattr(vectorizer, "feature_names_in_")
    assert vectorizer.n_features_in_ == 1


@pytest.mark.parametrize(
    ("output", "frame"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)]
)
def test_set_output(output, frame):
    vectorizer = ConfigVectorizer().set_output(transform=output)
    X = vectorizer.fit_transform(make_configs())
    assert isinstance(X, frame)
    assert list(X.columns) == NAMES
    assert vectorizer.inverse_transform(X) == make_configs()


def round_trip_joblib(estimator, path):
    joblib.dump(estimator, path / "vectorizer.joblib")
    return joblib.load(path / "vectorizer.joblib")


def round_trip_skops(estimator, path):
    data = skops.io.dumps(estimator)
    return skops.io.loads(data, trusted=skops.io.get_untrusted_types(data=data))


@pytest.mark.parametrize(
    "round_trip",
    [
        lambda e, path: pickle.loads(pickle.dumps(e)),
        round_trip_joblib,
        round_trip_skops,
    ],
    ids=["pickle", "joblib", "skops"],
)
def test_persistence(round_trip, tmp_path):
    vectorizer = ConfigVectorizer(log2="auto", categorical=True).fit(make_configs())
    X = vectorizer.transform(make_configs())
    again = round_trip(vectorizer, tmp_path)
    assert_array_equal(again.transform(make_configs()), X)
    assert again.inverse_transform(X) == make_configs()


def test_html_repr():
    html = ConfigVectorizer().fit(make_configs())._repr_html_()
    assert "ConfigVectorizer" in html


@pytest.mark.parametrize(
    "parameters",
    [
        {"log2": "all"},
        {"log2": 2},
        {"ignore": "split_k"},
        {"boolean": "yes"},
        {"categorical": 3},
    ],
)
def test_wrong_parameters_are_refused(parameters):
    with pytest.raises(ValueError, match=next(iter(parameters))):
        ConfigVectorizer(**parameters).fit(make_configs())


def test_only_the_first_parameter_is_positional():
    assert ConfigVectorizer("auto").log2 == "auto"
    with pytest.raises(TypeError):
        ConfigVectorizer("auto", ("a",))


def test_object_array_of_configs():
    configs = np.empty(2, dtype=object)
    configs[:] = [{"a": 1}, {"a": 2}]
    assert_array_equal(ConfigVectorizer().fit_transform(configs), [[1], [2]])
