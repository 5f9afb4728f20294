import pickle
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest
import skops.io
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from fasta_learn.heuristics import (
    BoostedAdvantage,
    ChoiceRanker,
    PadDecisionTree,
    PadScoreTree,
    regret_limit,
    regret_scorer,
)
from fasta_learn.heuristics._trees_upstream import train_decision, train_score

sys.path.insert(0, str(Path(__file__).parent))


@parametrize_with_checks(
    [
        PadDecisionTree(),
        PadScoreTree(),
        ChoiceRanker(min_samples_leaf=1),
        BoostedAdvantage(1, n_trees=20),
    ],
    expected_failed_checks=lambda estimator: {},
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def make_durations(n_inputs=200, seed=0):
    """Orig is faster below a threshold of the first column, by what the second says."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 10, (n_inputs, 3))
    gain = np.exp((0.02 + 0.05 * X[:, 1]) * np.where(X[:, 0] < 4, -1, 1))
    return X, np.column_stack([gain, np.ones(n_inputs)])


def test_time_counts_and_not_how_often_it_is_right():
    # Nine inputs lose 1 % if padded, one loses a factor of two if not.
    X = np.zeros((10, 1))
    durations = np.array([[1.0, 1.01]] * 9 + [[2.0, 1.0]])
    assert PadDecisionTree().fit(X, durations).predict(X[:1]) == ["pad"]
    labels = np.where(durations[:, 0] < durations[:, 1], "orig", "pad")
    assert PadDecisionTree().fit(X, labels).predict(X[:1]) == ["orig"]


def test_weights_count_inputs_several_times():
    X, durations = np.zeros((2, 1)), np.array([[1.0, 1.5], [1.4, 1.0]])
    tree = PadDecisionTree().fit(X, durations, weights=[1, 3])
    assert tree.predict(X[:1]) == ["pad"]


def test_inputs_without_weight_change_nothing():
    X, durations = make_durations()
    wrong = np.vstack([durations, durations[:, ::-1]])
    weights = np.repeat([1.0, 0.0], len(X))
    weighted = PadDecisionTree(random_state=0).fit(
        np.vstack([X, X]), wrong, weights=weights
    )
    plain = PadDecisionTree(random_state=0).fit(X, durations)
    assert_allclose(weighted.predict_proba(X), plain.predict_proba(X))


def test_production_objective_takes_padding_only_beyond_the_margin():
    X = np.array([[0.0]] * 30 + [[1.0]] * 30)
    durations = np.array([[1.05, 1.0]] * 30 + [[1.3, 1.0]] * 30)
    tree = PadDecisionTree("production").fit(X, durations)
    assert tree.predict([[0.0], [1.0]]).tolist() == ["orig", "pad"]
    lossless = PadDecisionTree("cost").fit(X, durations)
    assert lossless.predict([[0.0], [1.0]]).tolist() == ["pad", "pad"]


def test_a_failed_choice_is_not_taken():
    X = np.array([[0.0]] * 25 + [[1.0]] * 25)
    durations = np.array([[np.inf, 1.0]] * 25 + [[1.0, np.inf]] * 25)
    assert PadDecisionTree().fit(X, durations).predict([[0.0], [1.0]]).tolist() == [
        "pad",
        "orig",
    ]


def test_scaling_the_durations_changes_nothing():
    X, durations = make_durations()
    first = PadDecisionTree(random_state=0).fit(X, durations)
    second = PadDecisionTree(random_state=0).fit(X, durations * 1000)
    assert (first.predict(X) == second.predict(X)).all()


def test_decide_is_none_where_a_leaf_is_unsure():
    X = np.array([[0.0]] * 40 + [[1.0]] * 40)
    durations = np.array([[1.5, 1.0]] * 40 + [[1.0, 1.5]] * 39 + [[3.0, 1.0]])
    tree = PadDecisionTree(unsafe_ratio=2.0).fit(X, durations)
    assert tree.decide([[0.0], [1.0]]).tolist() == ["pad", None]
    assert tree.predict([[0.0], [1.0]]).tolist() == ["pad", "orig"]


@pytest.mark.parametrize("max_regret", [1.005, 1.02])
def test_decided_inputs_keep_the_bound_of_regret(max_regret):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (4000, 1)).astype(float)
    # In region r a share of the inputs goes the other way: 0, 2, 10 and 50 %.
    flipped = rng.random(4000) < np.array([0, 0.02, 0.1, 0.5])[X[:, 0].astype(int)]
    gain = np.exp(0.4 * np.where(flipped, -1, 1) * np.where(X[:, 0] % 2, 1, -1))
    durations = np.column_stack([gain, np.ones(4000)])
    tree = PadDecisionTree(max_regret=max_regret, random_state=0)
    tree.fit(X[:2000], durations[:2000])
    decided = tree.decide(X[2000:])
    sure = np.array([choice is not None for choice in decided])
    column = np.array([choice == "pad" for choice in decided]).astype(int)
    later = durations[2000:]
    lost = np.log(later[np.arange(2000), column] / later.min(axis=1))[sure]
    assert 0.2 < sure.mean() < 1
    assert np.exp(lost.mean()) < max_regret * 1.003


def test_regret_limit_decides_equal_leaves_together():
    # Three inputs of one leaf: taking only the harmless ones of it is no option.
    expected, realised = [0.0, 0.1, 0.1, 0.1], [0.0, 0.0, 0.0, 0.2]
    assert regret_limit(expected, realised, 1.01) == 0.0
    assert regret_limit(expected, realised, 1.06) == 0.1


def test_regret_limit_warns_if_nothing_keeps_the_bound():
    with pytest.warns(UserWarning, match="every input is unsure"):
        assert regret_limit([0.1], [0.5], 1.01) == -np.inf


def test_a_teacher_corrects_measurements_that_are_noise():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (600, 1))
    truth = np.where(X[:, 0] < 0.5, -0.1, 0.1)
    noisy = truth + rng.normal(0, 0.3, 600)
    durations = np.column_stack([np.exp(noisy), np.ones(600)])
    drawn = rng.uniform(0, 1, (3000, 1))
    forest = RandomForestRegressor(100, min_samples_leaf=60, random_state=0)
    taught = PadDecisionTree(min_samples_leaf=1, teacher=forest, random_state=0)
    taught.fit(X, durations, X_drawn=drawn)
    alone = PadDecisionTree(min_samples_leaf=1, random_state=0).fit(X, durations)
    new = rng.uniform(0, 1, (2000, 1))
    best = np.where(new[:, 0] < 0.5, "orig", "pad")
    assert (taught.predict(new) == best).mean() > (alone.predict(new) == best).mean()


def test_boosted_advantage_predicts_the_ratio():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1000, 2))
    y = X[:, 0] * 0.5
    predicted = BoostedAdvantage(1, random_state=0).fit(X, y).predict(X)
    assert np.corrcoef(predicted, y)[0, 1] > 0.98


@pytest.mark.parametrize("sign", [-1, 1])
def test_boosted_advantage_learns_from_ratios_on_one_side(sign):
    X = np.arange(50.0)[:, None]
    fitted = BoostedAdvantage(1, n_trees=20).fit(X, sign * (1 + X[:, 0]))
    assert (np.sign(fitted.predict(X)) == sign).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"teacher": "boosting"}, "teacher needs durations"),
        ({"max_regret": 1.01}, "max_regret needs durations"),
        ({"objective": "production"}, "production' needs durations"),
        ({"unsafe_ratio": 2.0}, "unsafe_ratio needs durations"),
    ],
)
def test_labels_are_not_enough_for_what_needs_durations(options, message):
    with pytest.raises(ValueError, match=message):
        PadDecisionTree(**options).fit(np.eye(4), ["a", "b", "a", "b"])


@pytest.mark.parametrize(
    ("durations", "message"),
    [
        ([[1.0, 2.0, 3.0]], "y has 3 columns, but choices names 2"),
        ([[1.0, 0.0]], r"y\[0, 1\] is 0.0"),
        ([[1.0, -2.0]], r"y\[0, 1\] is -2.0"),
    ],
)
def test_durations_that_do_not_fit_are_refused(durations, message):
    with pytest.raises(ValueError, match=message):
        PadDecisionTree().fit([[1.0]], durations)


def test_drawn_inputs_need_a_teacher():
    X, durations = make_durations(40)
    with pytest.raises(ValueError, match="X_drawn needs a teacher"):
        PadDecisionTree().fit(X, durations, X_drawn=X)


def test_choices_must_be_sorted():
    with pytest.raises(ValueError, match="choices must be sorted"):
        PadDecisionTree(choices=["pad", "orig"]).fit([[1.0]], [[1.0, 2.0]])


def reference_decision(X, winner):
    """PyTorch's grid in plain loops; returns the answers on the validation inputs."""
    rows = np.arange(len(X))
    train, held = train_test_split(rows, test_size=0.15 / 0.85, random_state=42)
    best = (0, None, None)
    for depth in (5, 6, 7):
        for leaf in (1, 5, 10, 0.01, 0.05, 0.02):
            for criterion in ("gini", "entropy"):
                model = DecisionTreeClassifier(
                    max_depth=depth,
                    min_samples_leaf=leaf,
                    criterion=criterion,
                    random_state=42,
                ).fit(X[train], winner[train])
                shares = model.predict_proba(X[held])
                wrong = sorted(
                    max(share)
                    for share, true in zip(shares, winner[held], strict=True)
                    if model.classes_[share.argmax()] != true
                )
                allowed = int(len(held) * 0.01)
                threshold = 0.0
                if allowed < len(wrong):
                    threshold = wrong[min(len(wrong) - allowed, len(wrong) - 1)]
                right = bad = 0
                for share, true in zip(shares, winner[held], strict=True):
                    if max(share) != 1.0 and max(share) <= threshold:
                        continue
                    correct = model.classes_[share.argmax()] == true
                    right, bad = right + correct, bad + (not correct)
                if bad <= len(held) * 0.01 and right > best[0]:
                    best = (right, model, threshold)
    return best


def test_upstream_objective_is_the_recipe_of_pytorch():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 50, (400, 4)).astype(float)
    # Beyond 40 of the second column nobody can tell, elsewhere everybody.
    flipped = (X[:, 1] > 40) & (rng.random(400) < 0.4)
    winner = ((X[:, 0] > 20) ^ flipped).astype(int)
    _, model, threshold = reference_decision(X, winner)
    tree, ours = train_decision(X, winner)
    assert ours == threshold > 0.5
    assert_allclose(tree.value[tree.apply(X)], model.predict_proba(X))


def test_upstream_objective_raises_if_no_tree_is_right_enough():
    X = np.zeros((200, 1))
    winner = np.arange(200) % 2
    # One leaf with a share of one half: its answers are all dropped, none is right.
    with pytest.raises(ValueError, match="more than 1 % wrong"):
        train_decision(X, winner)


def test_upstream_score_is_the_recipe_of_pytorch():
    X, durations = make_durations(200)
    durations *= np.exp(np.random.default_rng(1).normal(0, 0.2, durations.shape))
    rows = np.arange(200)
    train, held = train_test_split(rows, test_size=0.25, random_state=42)
    score = durations.mean(axis=1, keepdims=True) / durations
    best = (-1, None, None)
    for depth in (5, 6, 7):
        for leaf in (1, 2, 5, 10):
            design, target = [], []
            for row in train:
                for choice in range(2):
                    design.append([*X[row], choice == 0, choice == 1])
                    target.append(score[row, choice])
            model = DecisionTreeRegressor(
                max_depth=depth, min_samples_leaf=leaf, random_state=42
            ).fit(design, target)
            first = model.predict([[*X[row], 1, 0] for row in held])
            second = model.predict([[*X[row], 0, 1] for row in held])
            ratio = np.maximum(first, second) / np.minimum(first, second)
            right = (second > first).astype(int) == durations[held].argmin(axis=1)
            threshold = ratio[~right].max(initial=1.0)
            count = (right & (ratio > threshold)).sum()
            if count > best[0]:
                best = (count, model, threshold)
    tree, threshold = train_score(X, durations)
    assert threshold == best[2]
    design = np.column_stack([X, np.ones(200), np.zeros(200)])
    assert_allclose(tree.value[tree.apply(design), 0], best[1].predict(design))


def test_scores_decide_like_the_durations():
    X, durations = make_durations()
    tree = PadScoreTree(random_state=0).fit(X, durations)
    best = np.where(durations[:, 0] < durations[:, 1], "orig", "pad")
    assert (tree.decide(X) == best).mean() > 0.98


def test_scores_of_a_leaf_are_geometric_means():
    durations = np.array([[1.0, 4.0], [1.0, 1.0]])
    tree = PadScoreTree(min_samples_leaf=1).fit(np.zeros((2, 1)), durations)
    # log 4 and log 1 of difference: half of the mean on either side of one.
    assert_allclose(tree.predict([[0.0]]), [[np.sqrt(2), 1 / np.sqrt(2)]])


def test_equal_scores_decide_nothing():
    tree = PadScoreTree().fit(np.zeros((4, 1)), np.ones((4, 2)))
    assert tree.decide([[0.0]]).tolist() == [None]


def test_scores_of_one_choice_decide_nothing():
    tree = PadScoreTree().fit(np.eye(3), [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="one choice"):
        tree.decide(np.eye(3))


@pytest.mark.parametrize("estimator", [PadDecisionTree(), PadScoreTree()])
def test_score_is_minus_the_mean_log_regret(estimator):
    X, durations = make_durations(60)
    fitted = clone(estimator).fit(X, durations)
    chosen = [{"orig": 0, "pad": 1}[choice] for choice in fitted.decide(X)]
    lost = np.log(durations[np.arange(60), chosen] / durations.min(axis=1))
    assert_allclose(fitted.score(X, durations), -lost.mean())
    assert_allclose(regret_scorer(fitted, X, durations), -lost.mean())


@pytest.mark.parametrize(
    "estimator", [PadDecisionTree(max_regret=1.05), PadScoreTree(), ChoiceRanker()]
)
@pytest.mark.parametrize("way", ["pickle", "joblib", "skops"])
def test_round_trips(estimator, way, tmp_path):
    X, durations = make_durations()
    fitted = clone(estimator).set_params(random_state=0).fit(X, durations)
    if way == "pickle":
        again = pickle.loads(pickle.dumps(fitted))
    elif way == "joblib":
        joblib.dump(fitted, tmp_path / "tree")
        again = joblib.load(tmp_path / "tree")
    else:
        data = skops.io.dumps(fitted)
        again = skops.io.loads(data, trusted=skops.io.get_untrusted_types(data=data))
    assert (again.decide(X) == fitted.decide(X)).all()
