"""Which answers a tree gives, and which tree is taken."""

import warnings
from typing import Any

import numpy as np
import pandas as pd

from fasta_learn.heuristics._inputs import choices_of
from fasta_learn.heuristics._objectives import durations_of, log_regret

# Rows that the mean over all leaves counts as, when the regret of a leaf is estimated.
_PRIOR_ROWS = 5.0
# PyTorch's regression learns only from inputs measured so often and so steadily.
_STABLE_REPEATS = 3
_STABLE_REL_STD = 0.05


def regret_of_leaves(
    leaf: np.ndarray, lost: np.ndarray, weight: np.ndarray, n_nodes: int
) -> np.ndarray:
    """Estimate the mean log regret in each leaf.

    Parameters
    ----------
    leaf : ndarray of shape (n_inputs,), int
        Node that each input comes to.
    lost : ndarray of shape (n_inputs,)
        Its log regret.
    weight : ndarray of shape (n_inputs,)
        Its weight.
    n_nodes : int
        Number of nodes.

    Returns
    -------
    ndarray of shape (n_nodes,)
        Means, drawn towards the mean over all inputs as if five inputs had that.
    """
    prior = _PRIOR_ROWS * np.average(lost, weights=weight)
    total = np.bincount(leaf, weights=weight * lost, minlength=n_nodes)
    count = np.bincount(leaf, weights=weight, minlength=n_nodes)
    return np.asarray((total + prior) / (count + _PRIOR_ROWS))


def regret_limit(expected: Any, realised: Any, max_regret: float) -> float:
    """Choose how much regret a leaf may expect so that the decided inputs keep a bound.

    Parameters
    ----------
    expected : array-like of shape (n_inputs,)
        Log regret that the leaf of each held-out input expects.
    realised : array-like of shape (n_inputs,)
        Its log regret in fact.
    max_regret : float
        Bound of the geometric mean of durations over the best, such as 1.002.

    Returns
    -------
    float
        The largest limit at which the inputs whose leaf expects at most that keep the
        bound; minus infinity, with a warning, if none does.

    Examples
    --------
    >>> from fasta_learn.heuristics import regret_limit
    >>> regret_limit([0.0, 0.1, 0.2], [0.0, 0.02, 0.3], max_regret=1.02)
    0.1
    """
    expected, realised = np.asarray(expected), np.asarray(realised)
    order = np.argsort(expected, kind="stable")
    means = np.cumsum(realised[order]) / np.arange(1, len(order) + 1)
    # Inputs of one leaf, or of equal leaves, are decided together.
    last = np.append(expected[order][1:] > expected[order][:-1], True)
    kept = np.flatnonzero(last & (means <= np.log(max_regret)))
    if len(kept) == 0:
        warnings.warn(
            f"no leaf keeps max_regret={max_regret} on inputs held out: every input is "
            "unsure.",
            UserWarning,
            stacklevel=4,
        )
        return -np.inf
    return float(expected[order][kept[-1]])


def regret_scorer(estimator: Any, X: Any, y: Any = None) -> float:
    """Score an estimator by the time that its decisions lose, for scikit-learn.

    Parameters
    ----------
    estimator : PadHeuristic, PadDecisionTree or PadScoreTree
        Fitted; every input is decided.
    X : array-like or DataFrame
        What it decides on.
    y : array-like of shape (n_inputs, n_choices), default=None
        Durations in ms; None reads them from the frame of inputs `X`.

    Returns
    -------
    float
        Minus the mean log regret: 0 is perfect, -0.01 is 1 % slower than the best.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import GridSearchCV
    >>> from fasta_learn.heuristics import PadDecisionTree, regret_scorer
    >>> sizes = np.arange(1.0, 101.0)[:, None]
    >>> durations = np.column_stack([sizes[:, 0], np.full(100, 40.0)])
    >>> grid = {"max_leaf_nodes": [2, 20]}
    >>> search = GridSearchCV(PadDecisionTree(), grid, scoring=regret_scorer, cv=5)
    >>> search.fit(sizes, durations).best_params_
    {'max_leaf_nodes': 2}
    """
    durations = durations_of(X) if y is None else np.asarray(y, np.float64)
    decided = np.asarray(estimator.predict(X))
    if decided.ndim == 2:
        chosen = decided.argmax(axis=1)
    else:
        chosen = np.searchsorted(estimator.classes_, decided)
    return -float(log_regret(durations)[np.arange(len(chosen)), chosen].mean())


def stable_inputs(inputs: pd.DataFrame) -> pd.DataFrame:
    """Return the inputs that PyTorch's regression would learn from.

    Parameters
    ----------
    inputs : DataFrame
        What `group_inputs` returned, or some of its rows.

    Returns
    -------
    DataFrame of shape (n_stable, n_columns)
        Those of which every choice was measured at least three times, with a standard
        deviation of at most 5 % of the mean, and never failed.

    Examples
    --------
    >>> import pandas as pd
    >>> from fasta_learn.heuristics import stable_inputs
    >>> inputs = pd.DataFrame(
    ...     {"m": [16, 32], "median_orig": [2.0, 2.0], "rel_std_orig": [0.2, 0.01]}
    ... ).assign(n_orig=3, n_failed_orig=0)
    >>> stable_inputs(inputs)["m"].tolist()
    [32]
    """
    stable = np.ones(len(inputs), bool)
    for choice in choices_of(inputs):
        often = inputs[f"n_{choice}"].to_numpy() >= _STABLE_REPEATS
        steady = inputs[f"rel_std_{choice}"].to_numpy() <= _STABLE_REL_STD
        ran = inputs[f"n_failed_{choice}"].to_numpy() == 0
        stable &= often & steady & ran
    return inputs[stable].reset_index(drop=True)
