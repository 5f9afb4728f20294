"""The recipe of PyTorch's own trainers, with its seeds, grids and thresholds.

After torchgen/_autoheuristic/train_decision.py and train_regression.py; what they
measure decides here as there, so that their results can be reproduced and compared.
"""

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from fasta_learn.heuristics._trees_flat import FlatTree

_SEED = 42
_DEPTHS = (5, 6, 7)
_DECISION_LEAVES = (1, 5, 10, 0.01, 0.05, 0.02)
_DECISION_CRITERIA = ("gini", "entropy")
_SCORE_LEAVES = (1, 2, 5, 10)
# 15 % of all inputs validate a decision tree, 15 % test it; 20 % and 20 % a score tree.
_DECISION_VALIDATION = 0.15 / 0.85
_SCORE_VALIDATION = 0.25
_ALLOWED_WRONG = 0.01


def train_decision(X: np.ndarray, winner: np.ndarray) -> tuple[FlatTree, float]:
    """Train a decision tree as PyTorch does.

    Parameters
    ----------
    X : ndarray of shape (n_inputs, n_features)
        All inputs but those that test.
    winner : ndarray of shape (n_inputs,), int
        Faster choice of each.

    Returns
    -------
    tree : FlatTree
        The tree of the grid that has the most right answers on the validation inputs
        while at most 1 % are wrong.
    threshold : float
        Probability up to which a leaf answers nothing.

    Raises
    ------
    ValueError
        No tree of the grid is that often right.
    """
    train, validation = train_test_split(
        np.arange(len(X)), test_size=_DECISION_VALIDATION, random_state=_SEED
    )
    best: tuple[int, FlatTree, float] | None = None
    for depth, leaf, criterion in product(
        _DEPTHS, _DECISION_LEAVES, _DECISION_CRITERIA
    ):
        fitted = DecisionTreeClassifier(
            max_depth=depth,
            min_samples_leaf=leaf,
            criterion=criterion,
            random_state=_SEED,
        ).fit(X[train], winner[train])
        tree = FlatTree.from_sklearn(fitted)
        shares = tree.value[tree.apply(X[validation])]
        right = fitted.classes_[shares.argmax(axis=1)] == winner[validation]
        confidence = shares.max(axis=1)
        threshold = _safe_probability(confidence, right)
        sure = (confidence == 1.0) | (confidence > threshold)
        n_right, n_wrong = int((sure & right).sum()), int((sure & ~right).sum())
        allowed = n_wrong <= len(validation) * _ALLOWED_WRONG
        if allowed and n_right > (best[0] if best else 0):
            best = n_right, tree, threshold
    if best is None:
        raise ValueError(
            "every tree of the grid has more than 1 % wrong answers on the validation "
            "inputs; measure more inputs, or use objective='cost'."
        )
    return best[1:]


def order_columns(features: Any, X: pd.DataFrame) -> np.ndarray:
    """Return the columns in the order in which PyTorch's trainer has them.

    Which of equally good splits scikit-learn takes depends on it.

    Parameters
    ----------
    features : PadFeatures
        Fitted.
    X : DataFrame of shape (n_inputs, n_columns)
        Raw features of the inputs.

    Returns
    -------
    ndarray of shape (n_columns_out,), int
        Columns: numbers first, then for each category its values as they appear when
        the inputs are sorted.
    """
    inputs = X.sort_values(list(features.feature_names_in_), kind="stable")
    matrix = features.transform(inputs)
    places: dict[str, int] = {}
    keys = []
    for column, (name, value) in enumerate(features.columns_):
        place = places.setdefault(name, len(places))
        appears = 0 if value is None else int((matrix[:, column] == 1).argmax())
        keys.append((place, appears))
    return np.array(sorted(range(len(keys)), key=keys.__getitem__))


def _safe_probability(confidence: np.ndarray, right: np.ndarray) -> float:
    """Return the probability up to which answers must be dropped."""
    wrong = np.sort(confidence[~right])
    too_many = len(wrong) - int(len(confidence) * _ALLOWED_WRONG)
    if too_many <= 0:
        return 0.0
    return float(wrong[min(too_many, len(wrong) - 1)])


def train_score(X: np.ndarray, durations: np.ndarray) -> tuple[FlatTree, float]:
    """Train a regression tree of scores as PyTorch does.

    Parameters
    ----------
    X : ndarray of shape (n_inputs, n_features)
        All inputs but those that test.
    durations : ndarray of shape (n_inputs, n_choices)
        In ms.

    Returns
    -------
    tree : FlatTree
        Of the features, and a column of 0 and 1 for each choice behind them.
    threshold : float
        Ratio of the best to the second score up to which nothing is answered: the
        largest at which a validation input was wrong, 1 if none was.
    """
    train, validation = train_test_split(
        np.arange(len(X)), test_size=_SCORE_VALIDATION, random_state=_SEED
    )
    scores = durations.mean(axis=1, keepdims=True) / durations
    winner = durations[validation].argmin(axis=1)
    best: tuple[int, FlatTree, float] | None = None
    for depth, leaf in product(_DEPTHS, _SCORE_LEAVES):
        fitted = DecisionTreeRegressor(
            max_depth=depth, min_samples_leaf=leaf, random_state=_SEED
        ).fit(stack_choices(X[train], durations.shape[1]), scores[train].ravel())
        tree = FlatTree.from_sklearn(fitted)
        predicted = predict_scores(tree, X[validation], durations.shape[1])
        right = predicted.argmax(axis=1) == winner
        ratio = score_ratio(predicted)
        threshold = float(ratio[~right].max(initial=1.0))
        n_right = int((right & (ratio > threshold)).sum())
        if best is None or n_right > best[0]:
            best = n_right, tree, threshold
    assert best is not None  # the grid is not empty
    return best[1:]


def stack_choices(X: np.ndarray, n_choices: int) -> np.ndarray:
    """Repeat each row for each choice.

    Parameters
    ----------
    X : ndarray of shape (n_inputs, n_features)
        Inputs.
    n_choices : int
        Number of choices.

    Returns
    -------
    ndarray of shape (n_inputs * n_choices, n_features + n_choices)
        The first input with each choice, then the second; the last columns are 1 for
        the choice of the row.
    """
    one_hot = np.tile(np.eye(n_choices), (len(X), 1))
    return np.hstack([np.repeat(X, n_choices, axis=0), one_hot])


def predict_scores(tree: FlatTree, X: np.ndarray, n_choices: int) -> np.ndarray:
    """Return the score of each choice.

    Parameters
    ----------
    tree : FlatTree
        Of rows such as `stack_choices` makes.
    X : ndarray of shape (n_inputs, n_features)
        Inputs.
    n_choices : int
        Number of choices.

    Returns
    -------
    ndarray of shape (n_inputs, n_choices)
        Scores.
    """
    leaves = tree.apply(stack_choices(X, n_choices))
    return np.asarray(tree.value[leaves, 0]).reshape(len(X), n_choices)


def score_ratio(scores: np.ndarray) -> np.ndarray:
    """Return the best score of each input over its second best.

    Parameters
    ----------
    scores : ndarray of shape (n_inputs, n_choices)
        At least two choices.

    Returns
    -------
    ndarray of shape (n_inputs,)
        Ratios, at least one.
    """
    ordered = np.sort(scores, axis=1)
    return np.asarray(ordered[:, -1] / ordered[:, -2])
