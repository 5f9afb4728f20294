"""What trees learn from: labels, or the durations of the choices."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_consistent_length

from fasta_learn._compat import _check_sample_weight, _num_features, validate_data
from fasta_learn.heuristics._objectives import log_regret


@dataclass(frozen=True)
class Target:
    """A checked target.

    Parameters
    ----------
    X : ndarray of shape (n_inputs, n_features)
        Features as float64, without inputs of weight zero.
    classes : ndarray of shape (n_choices,)
        Names of the choices, sorted.
    durations : ndarray of shape (n_inputs, n_choices) or None
        In ms; None if labels were given.
    lost : ndarray of shape (n_inputs, n_choices)
        Log regret of each choice; for labels 0 for the right one and 1 for others.
    weights : ndarray of shape (n_inputs,)
        Weight of each input.
    kept : ndarray of shape (n_given,), bool
        Which of the inputs that were given have weight.
    """

    X: np.ndarray
    classes: np.ndarray
    durations: np.ndarray | None
    lost: np.ndarray
    weights: np.ndarray
    kept: np.ndarray

    @property
    def winner(self) -> np.ndarray:
        """Best choice of each input, as an index into the classes."""
        return np.asarray(self.lost.argmin(axis=1))


def is_durations(y: Any) -> bool:
    """Tell whether a target is a matrix of durations instead of labels or scores.

    Parameters
    ----------
    y : object
        Target.

    Returns
    -------
    bool
        True for something two-dimensional with at least two columns.
    """
    if not hasattr(y, "shape") and not isinstance(y, Sequence):
        return False
    shape = tuple(y.shape if hasattr(y, "shape") else np.shape(y))
    return len(shape) == 2 and shape[1] >= 2


def check_target(
    estimator: Any, X: Any, y: Any, choices: Sequence[str], weights: Any
) -> Target:
    """Check features, durations or labels, and weights.

    Parameters
    ----------
    estimator : estimator
        Gets n_features_in_ and feature_names_in_.
    X : array-like of shape (n_inputs, n_features)
        Features.
    y : array-like of shape (n_inputs,) or (n_inputs, n_choices)
        Labels, or durations.
    choices : sequence of str
        What the columns of durations are.
    weights : array-like of shape (n_inputs,) or None
        Weights.

    Returns
    -------
    Target
        Everything as arrays.

    Raises
    ------
    ValueError
        Something does not fit; the message says what.
    """
    if is_durations(y):
        X = validate_data(estimator, X, dtype=np.float64)
        durations = check_durations(y, choices)
        check_consistent_length(X, durations)
        lost, classes = log_regret(durations), np.array(list(choices))
    else:
        X, y = validate_data(estimator, X, y, dtype=np.float64)
        check_classification_targets(y)
        durations = None
        classes, codes = np.unique(y, return_inverse=True)
        lost = 1.0 - np.eye(len(classes))[codes]
    weights = _check_sample_weight(
        weights, X, dtype=np.float64, ensure_non_negative=True
    )
    kept = weights > 0
    if not kept.any():
        raise ValueError("all weights are zero, but at least one input must count.")
    durations = None if durations is None else durations[kept]
    return Target(X[kept], classes, durations, lost[kept], weights[kept], kept)


def check_durations(y: Any, choices: Sequence[str]) -> np.ndarray:
    """Check a matrix of durations.

    Parameters
    ----------
    y : array-like of shape (n_inputs, n_choices)
        In ms; inf for failed, NaN for not measured.
    choices : sequence of str
        What the columns are.

    Returns
    -------
    ndarray of shape (n_inputs, n_choices)
        As float64.

    Raises
    ------
    ValueError
        The columns are not the choices, the names are not sorted, or a duration is
        not positive.
    """
    durations: np.ndarray = check_array(y, dtype=np.float64, ensure_all_finite=False)
    if _num_features(durations) != len(choices):
        raise ValueError(
            f"y has {durations.shape[1]} columns, but choices names {len(choices)}: "
            f"{', '.join(choices)}. Give a column of durations for each choice."
        )
    if list(choices) != sorted(set(choices)):
        raise ValueError(f"choices must be sorted and differ, got {list(choices)}.")
    if (durations <= 0).any():
        row, column = np.argwhere(durations <= 0)[0]
        raise ValueError(
            f"y[{row}, {column}] is {durations[row, column]}; durations must be "
            "positive milliseconds, inf for a choice that failed."
        )
    return durations


def check_needs(estimator: Any, target: Target, X_drawn: Any) -> None:
    """Check that a decision tree was given what its parameters ask for.

    Parameters
    ----------
    estimator : PadDecisionTree
        Its parameters.
    target : Target
        What it learns from.
    X_drawn : array-like or None
        Inputs that were not measured.

    Raises
    ------
    ValueError
        Something is missing; the message says what.
    """
    only_two = {
        "objective='production'": estimator.objective == "production",
        "teacher": estimator.teacher is not None,
    }
    needs = {
        **only_two,
        "max_regret": estimator.max_regret is not None,
        "unsafe_ratio": estimator.unsafe_ratio is not None,
    }
    asked = [name for name, used in needs.items() if used]
    if target.durations is None and asked:
        raise ValueError(
            f"{asked[0]} needs durations, but y has labels; give a matrix with a "
            "column for each choice."
        )
    n_choices = len(target.classes)
    if n_choices != 2 and any(only_two.values()):
        raise ValueError(f"{asked[0]} compares two choices, but there are {n_choices}.")
    if estimator.teacher is not None and estimator.objective != "cost":
        raise ValueError(
            f"teacher needs objective='cost', not {estimator.objective!r}."
        )
    if X_drawn is not None and estimator.teacher is None:
        raise ValueError("X_drawn needs a teacher, who says what its inputs cost.")
