import io
import pickle
import sys
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import skops.io
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from fasta_learn.heuristics import (
    PAD_CATEGORICAL,
    PAD_NUMERICAL,
    PadFeatures,
    read_log,
)

sys.path.insert(0, str(Path(__file__).parent))
from synthetic import COLUMNS, make_input, make_log, sample_inputs

DTYPES = ("float16", "bfloat16", "float32")


@pytest.fixture(scope="module")
def contexts():
    """Contexts that torch makes of random products, before and after deriving."""
    torch = pytest.importorskip("torch")
    from torch._inductor.autoheuristic import autoheuristic_utils as utils
    from torch._inductor.fx_passes import pad_mm

    rng = np.random.default_rng(0)
    made = []
    for index in range(200):
        m, k, n = (int(size) for size in 2 ** rng.uniform(0, 17, 3))
        dtype = getattr(torch, DTYPES[index % 3])
        shapes = [(m, k), (k, n)]
        mats = [
            torch.empty(shape[::-1], dtype=dtype, device="meta").t()
            if rng.random() < 0.5
            else torch.empty(shape, dtype=dtype, device="meta")
            for shape in shapes
        ]
        alignment = pad_mm.get_alignment_size(mats[0])
        lengths = [pad_mm.get_padded_length(size, alignment) for size in (m, k, n)]
        prepadded = (rng.random(2) < 0.3).tolist()
        context = pad_mm.get_context(*mats, *prepadded, *lengths)
        raw = dict(context.context_dict)
        line = context.get_feature_names_csv(), context.get_feature_values_csv()
        context.apply_operations(utils.pad_mm_operations())
        made.append((raw, line, context.context_dict))
    return made


def test_raw_features_are_those_of_torch(contexts):
    _, (names, _), _ = contexts[0]
    assert names.split(",") == [*PAD_NUMERICAL, *PAD_CATEGORICAL]


@pytest.mark.parametrize("way", ["values", "log"])
def test_matrix_equals_the_contexts_of_torch(contexts, way):
    products = pd.DataFrame([raw for raw, _, _ in contexts])
    if way == "log":
        metadata = make_log(1).metadata.header_line()
        lines = [metadata, contexts[0][1][0] + ",choice,feedback"]
        lines += [f"{values},orig,1.0" for _, (_, values), _ in contexts]
        text = "".join(line + "\n" for line in lines)
        products = read_log(io.StringIO(text), strict=True).frame
    features = PadFeatures().fit(products)
    matrix = features.transform(products)
    assert set(features.numerical_) | set(features.categories_) == set(contexts[0][2])
    for column, (name, value) in zip(matrix.T, features.columns_, strict=True):
        theirs = [context[name] for _, _, context in contexts]
        expected = theirs if value is None else [str(v) == value for v in theirs]
        assert_array_equal(column, np.array(expected, np.float64))


def test_columns_are_numbers_then_values_of_categories():
    products = pd.DataFrame([make_input(9, 8, 8), make_input(8, 8, 7, "torch.float32")])
    names = PadFeatures().fit(products).get_feature_names_out().tolist()
    assert names[:12] == list(PAD_NUMERICAL)
    assert names[12:18] == [
        "m*k",
        "m*n",
        "k*n",
        "k/(m*n)",
        "arith_intensity",
        "num_dims_needs_padding",
    ]
    assert names[18:20] == ["mat1_dtype_torch.float16", "mat1_dtype_torch.float32"]
    assert names[22:26] == [
        "prepadded_mat1_False",
        "prepadded_mat2_False",
        "using_tf32_False",
        "using_tf32_not_float_32",
    ]
    assert names[-2:] == ["mat1_iscontig_True", "mat2_iscontig_True"]


def test_values_of_categories_are_compared_by_their_text():
    products = pd.DataFrame(
        [make_input(9, 8, 8), make_input(8, 8, 9, prepadded=(True, False))]
    )
    features = PadFeatures().fit(products)
    plain = products.assign(
        prepadded_mat1=[False, True], prepadded_mat2=np.array([False, False])
    )
    assert_array_equal(features.transform(plain), features.transform(products))
    assert not features.unsure(plain).any()


@pytest.mark.parametrize("column", [*PAD_NUMERICAL, *PAD_CATEGORICAL])
@pytest.mark.parametrize("missing", ["column", None, float("nan")])
def test_missing_features_make_unsure(column, missing):
    products = sample_inputs(20)
    features = PadFeatures().fit(products)
    if missing == "column":
        damaged = products.drop(columns=column)
        expected = np.ones(20, bool)
    else:
        damaged = products.astype({column: object})
        damaged.loc[3, column] = missing
        expected = np.arange(20) == 3
    assert_array_equal(features.unsure(damaged), expected)
    matrix = features.transform(damaged)
    assert matrix.shape == (20, len(features.columns_))
    assert_array_equal(matrix[~expected], features.transform(products)[~expected])


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("m", "s0"),
        ("m", float("inf")),
        ("m", 0),
        ("n", [3]),
        ("mat1_dtype", "torch.float8_e5m2"),
        ("using_tf32", None),
        ("prepadded_mat1", ["a"]),
        ("mat2_dtype", 3),
    ],
)
def test_odd_values_make_unsure(column, value):
    products = sample_inputs(20)
    features = PadFeatures().fit(products)
    rows = products.to_dict("records")
    rows[3][column] = value
    assert_array_equal(features.unsure(rows), np.arange(20) == 3)
    assert features.transform(rows).shape == (20, len(features.columns_))


def test_unseen_category_is_zero_in_all_its_columns():
    products = sample_inputs(20)
    features = PadFeatures().set_output(transform="pandas").fit(products)
    products.loc[3, "using_tf32"] = "new"
    matrix = features.transform(products)
    columns = [name for name in matrix.columns if name.startswith("using_tf32_")]
    assert_array_equal(matrix[columns].sum(axis=1), np.arange(20) != 3)


def test_unseen_value_of_a_derived_category_makes_unsure():
    features = PadFeatures().fit(pd.DataFrame([make_input(9, 8, 8)]))
    assert features.categories_["m_multiple_2"] == ["False"]
    unsure = features.unsure([make_input(9, 8, 8), make_input(10, 8, 8)])
    assert unsure.tolist() == [False, True]


def test_no_products_give_an_empty_matrix():
    products = sample_inputs(5)
    features = PadFeatures().fit(products)
    assert features.transform(products[:0]).shape == (0, len(features.columns_))
    assert features.unsure(products[:0]).shape == (0,)


def test_other_columns_and_their_order_do_not_matter():
    products = sample_inputs(20)
    features = PadFeatures().fit(products)
    shuffled = products[COLUMNS[::-1]].assign(choice="orig", feedback=np.inf)
    assert_array_equal(features.transform(shuffled), features.transform(products))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X.drop(columns=["k", "using_tf32"]), "lacks the features k, using"),
        (lambda X: X[:0], "no rows"),
        (lambda X: X.assign(m=[1.0, np.nan, 2.0]), "m is missing in row 1"),
        (lambda X: X.assign(mat1_dtype=[None, "a", "b"]), "mat1_dtype is missing in"),
        (
            lambda X: X.assign(m=[1, 2, 0]),
            r"k/\(m\*n\) is not a finite number in row 2",
        ),
        (lambda X: X.assign(m=["a", "b", "c"]), "m is not a finite number in row 0"),
    ],
)
def test_fit_says_what_is_wrong(change, message):
    with pytest.raises(ValueError, match=message):
        PadFeatures().fit(change(sample_inputs(3)))


@pytest.mark.parametrize("X", [[[1.0, 2.0]], np.ones((2, 17)), "text", {"m": [1]}])
def test_fit_wants_names(X):
    with pytest.raises(TypeError, match="frame"):
        PadFeatures().fit(X)


def test_formulas_must_have_what_they_need():
    features = PadFeatures("mm", numerical=["m", "k"], categorical=[])
    with pytest.raises(ValueError, match="lack n, which the formulas 'mm' need"):
        features.fit(pd.DataFrame({"m": [1], "k": [1], "n": [1]}))


def test_other_heuristics_have_features_of_their_own():
    products = pd.DataFrame({"m": [2, 3], "k": [5, 7], "n": [11, 13], "t": ["a", "b"]})
    features = PadFeatures("mm", numerical=["m", "k", "n"], categorical=["t"])
    expected = [
        [2, 5, 11, 10, 22, 55, 110 / 87, 1, 0],
        [3, 7, 13, 21, 39, 91, 273 / 151, 0, 1],
    ]
    assert_array_equal(features.fit_transform(products), expected)


def test_unknown_formulas_are_an_error():
    with pytest.raises(ValueError, match="The 'formulas' parameter"):
        PadFeatures("bmm").fit(sample_inputs(3))


def test_transform_needs_fit():
    for method in (PadFeatures().transform, PadFeatures().unsure):
        with pytest.raises(NotFittedError):
            method(sample_inputs(3))


def test_names_out_refuse_other_names_in():
    features = PadFeatures().fit(sample_inputs(3))
    with pytest.raises(ValueError, match="input_features"):
        features.get_feature_names_out(["a"])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output(library):
    products = sample_inputs(20)
    frame = PadFeatures().set_output(transform=library).fit_transform(products)
    features = PadFeatures().fit(products)
    assert list(frame.columns) == features.get_feature_names_out().tolist()
    assert_array_equal(frame.to_numpy(), features.transform(products))


def test_polars_frames_are_read():
    products = sample_inputs(20)
    features = PadFeatures().fit(pl.from_pandas(products))
    expected = PadFeatures().fit(products).transform(products)
    assert_array_equal(features.transform(pl.from_pandas(products)), expected)


@pytest.mark.parametrize("way", ["pickle", "joblib", "skops"])
def test_round_trips(way, tmp_path):
    products = sample_inputs(20)
    features = PadFeatures().fit(products)
    if way == "pickle":
        again = pickle.loads(pickle.dumps(features))
    elif way == "joblib":
        joblib.dump(features, tmp_path / "features")
        again = joblib.load(tmp_path / "features")
    else:
        data = skops.io.dumps(features)
        trusted = skops.io.get_untrusted_types(data=data)
        assert trusted == ["fasta_learn.heuristics._features.PadFeatures"]
        again = skops.io.loads(data, trusted=trusted)
    assert_array_equal(again.transform(products), features.transform(products))
    assert_array_equal(again.unsure(products[:3]), features.unsure(products[:3]))


# Its tags say that the input is a frame with text in it, so these are the checks of
# everything but data.
@parametrize_with_checks([PadFeatures()], expected_failed_checks=lambda estimator: {})
def test_sklearn_compatible(estimator, check):
    check(estimator)


def test_clone_keeps_parameters():
    features = PadFeatures("mm", numerical=["m", "k", "n"], categorical=[])
    assert clone(features).get_params() == features.get_params()


def test_it_stands_in_a_pipeline():
    inputs = make_log(60).inputs()
    model = make_pipeline(PadFeatures(), DecisionTreeClassifier(random_state=0))
    assert model.fit(inputs, inputs["winner"]).score(inputs, inputs["winner"]) > 0.9
