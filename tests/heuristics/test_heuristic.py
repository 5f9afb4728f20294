import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.utils.estimator_checks import (
    check_get_params_invariance as check_get_params,
)
from sklearn.utils.estimator_checks import (
    check_no_attributes_set_in_init,
    parametrize_with_checks,
)

from fasta_learn.heuristics import (
    PAD_CATEGORICAL,
    PAD_NUMERICAL,
    BoostedAdvantage,
    PadDecisionTree,
    PadHeuristic,
    draw_inputs,
    group_inputs,
    regret_scorer,
    stable_inputs,
)

sys.path.insert(0, str(Path(__file__).parent))
from synthetic import COLUMNS, make_log


@pytest.fixture(scope="module")
def inputs():
    return group_inputs(make_log(300, seed=0))


@parametrize_with_checks([PadHeuristic(PadDecisionTree())])
def test_scikit_learn_checks(estimator, check):
    check(estimator)  # few of them, since its input is a frame with text in it


@pytest.mark.parametrize("check", [check_no_attributes_set_in_init, check_get_params])
def test_parameters_are_those_of_an_estimator(check):
    check("PadHeuristic", PadHeuristic(PadDecisionTree()))


def test_fitting_sets_what_scikit_learn_expects_and_no_parameter(inputs):
    heuristic = PadHeuristic(PadDecisionTree(), n_drawn=10, random_state=0)
    before = {name: repr(value) for name, value in heuristic.get_params().items()}
    assert heuristic.fit(inputs) is heuristic
    after = {name: repr(value) for name, value in heuristic.get_params().items()}
    assert after == before
    assert heuristic.classes_.tolist() == ["orig", "pad"]
    assert heuristic.n_features_in_ == len(heuristic.feature_names_in_)
    assert set(heuristic.feature_names_in_) == {*PAD_NUMERICAL, *PAD_CATEGORICAL}
    again = clone(heuristic)
    with pytest.raises(NotFittedError):
        again.predict(inputs)
    assert (again.fit(inputs).predict(inputs) == heuristic.predict(inputs)).all()


def test_grid_search_finds_the_better_size(inputs):
    search = GridSearchCV(
        PadHeuristic(PadDecisionTree(random_state=0)),
        {"tree__max_leaf_nodes": [2, 30]},
        scoring=regret_scorer,
        cv=GroupKFold(3),
    )
    search.fit(inputs, groups=inputs["group"])
    scores = search.cv_results_["mean_test_score"]
    assert search.best_params_["tree__max_leaf_nodes"] == [2, 30][scores.argmax()]
    assert (scores < 0).all()


def test_heuristic_is_unsure_of_what_it_has_not_seen(inputs):
    heuristic = PadHeuristic(PadDecisionTree(), random_state=0).fit(inputs)
    strange = inputs.head(3).copy()
    strange["mat1_dtype"] = "torch.float64"
    assert heuristic.decide(strange).tolist() == [None] * 3


def test_heuristic_is_unsure_where_a_feature_is_missing(inputs):
    heuristic = PadHeuristic(PadDecisionTree(), random_state=0).fit(inputs)
    assert heuristic.decide(inputs.head(2).drop(columns="k")).tolist() == [None] * 2


def test_heuristic_leaves_out_inputs_that_are_not_complete(inputs):
    incomplete = inputs.copy()
    incomplete.loc[5, "median_pad"] = np.nan
    kept = inputs.drop(index=5)
    first, second = (
        PadHeuristic(PadDecisionTree(), random_state=0).fit(frame)
        for frame in (incomplete, kept)
    )
    assert (first.predict(inputs) == second.predict(inputs)).all()


def test_heuristic_with_a_teacher_is_reproducible(inputs):
    teacher = BoostedAdvantage(1, n_trees=10, random_state=0)
    first, second = (
        PadHeuristic(PadDecisionTree(teacher=teacher), n_drawn=500, random_state=3)
        .fit(inputs)
        .predict(inputs)
        for _ in range(2)
    )
    assert (first == second).all()


def test_drawn_inputs_are_consistent(inputs):
    drawn = draw_inputs(inputs[COLUMNS], 500, 0)
    for size, matrix in (("m", "mat1"), ("k", "mat1"), ("n", "mat2")):
        padded = drawn[size] + drawn[f"{size}_padded_length"]
        assert (padded % drawn[f"{matrix}_align_size"] == 0).all()
        assert (drawn[f"{size}_padded_length"] < drawn[f"{matrix}_align_size"]).all()
        assert drawn[size].between(inputs[size].min(), inputs[size].max()).all()
    strides = zip(drawn["mat1_stride_0"], drawn["mat1_stride_1"], strict=True)
    rows = zip(drawn["m"], drawn["k"], strict=True)
    assert all(
        stride in ((k, 1), (1, m)) for stride, (m, k) in zip(strides, rows, strict=True)
    )


def test_drawn_inputs_all_need_padding(inputs):
    drawn = draw_inputs(inputs[COLUMNS], 500, 0)
    lengths = drawn[["m_padded_length", "k_padded_length", "n_padded_length"]]
    assert (lengths.sum(axis=1) > 0).all()


def test_drawn_inputs_are_mostly_new(inputs):
    sizes = ["m", "k", "n"]
    drawn = draw_inputs(inputs[COLUMNS], 500, 0)
    known = set(map(tuple, inputs[sizes].to_numpy()))
    assert sum(tuple(row) in known for row in drawn[sizes].to_numpy()) < 100


def test_stable_inputs_were_measured_often_and_steadily(inputs):
    changed = inputs.head(4).copy()
    changed.loc[0, "n_pad"] = 2
    changed.loc[1, "rel_std_orig"] = 0.06
    changed.loc[2, "n_failed_pad"] = 1
    assert stable_inputs(changed)["m"].tolist() == inputs["m"].iloc[[3]].tolist()
