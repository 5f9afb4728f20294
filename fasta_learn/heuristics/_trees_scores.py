"""A tree that predicts a score for each choice."""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.model_selection import GroupKFold, KFold
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from fasta_learn._compat import Interval, StrOptions, _fit_context, validate_data
from fasta_learn.heuristics._objectives import log_regret
from fasta_learn.heuristics._selection import regret_limit
from fasta_learn.heuristics._trees_flat import FlatTree
from fasta_learn.heuristics._trees_targets import Target, check_target, is_durations
from fasta_learn.heuristics._trees_upstream import (
    predict_scores,
    score_ratio,
    stack_choices,
    train_score,
)

_N_FOLDS = 5


class PadScoreTree(RegressorMixin, BaseEstimator):
    """Predict for each choice how well it does; the best score decides.

    One regression tree of the features and the choice, as PyTorch's regression route
    has it. The score of a choice is a duration typical of the input over that of the
    choice: above one is faster.

    Parameters
    ----------
    objective : {"cost", "upstream"}, default="cost"
        "cost" predicts the logarithm of the score, so that equal factors count the
        same. "upstream" is the recipe of PyTorch's trainer, its splits, seeds, grid
        and threshold included; of the other parameters only `choices` matters then.
        It should be given `stable_inputs` only.
    max_leaf_nodes : int, default=200
        Most leaves.
    max_depth : int, default=None
        Most comparisons on a way to a leaf; None does not limit them.
    min_samples_leaf : int or float, default=5
        Least rows, or share of them, in a leaf; an input has a row for each choice.
    max_regret : float, default=None
        Bound of the geometric mean of durations over the best, such as 1.002: where
        the two best scores differ least nothing is answered, as often as held-out
        inputs show to be needed. None decides every input.
    choices : sequence of str, default=("orig", "pad")
        Names of the columns of durations, sorted.
    random_state : int, RandomState or None, default=None
        Which of equally good splits is taken.

    Attributes
    ----------
    classes_ : ndarray of shape (n_choices,)
        Names of the choices; absent after fitting scores.
    tree_ : FlatTree
        The tree, of the features and a column of 0 and 1 for each choice.
    n_leaves_ : int
        Number of leaves.
    threshold_ : float
        Ratio of the two best scores up to which nothing is answered.
    n_features_in_ : int
        Number of features, without the choices.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if `X` had some.

    See Also
    --------
    PadDecisionTree : Decides without scores.

    Examples
    --------
    >>> import numpy as np
    >>> from fasta_learn.heuristics import PadScoreTree
    >>> sizes = np.arange(1.0, 101.0)[:, None]
    >>> durations = np.column_stack([sizes[:, 0], np.full(100, 40.0)])
    >>> tree = PadScoreTree(random_state=0).fit(sizes, durations)
    >>> tree.decide([[10.0], [90.0]]).tolist()
    ['orig', 'pad']
    """

    _parameter_constraints: dict[str, Any] = {
        "objective": [StrOptions({"cost", "upstream"})],
        "max_leaf_nodes": [Interval(Integral, 2, None, closed="left")],
        "max_depth": [Interval(Integral, 1, None, closed="left"), None],
        "min_samples_leaf": [
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="neither"),
        ],
        "max_regret": [Interval(Real, 1, None, closed="left"), None],
        "choices": ["array-like"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        objective: str = "cost",
        *,
        max_leaf_nodes: int = 200,
        max_depth: int | None = None,
        min_samples_leaf: float = 5,
        max_regret: float | None = None,
        choices: Sequence[str] = ("orig", "pad"),
        random_state: Any = None,
    ):
        self.objective = objective
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.max_regret = max_regret
        self.choices = choices
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self, X: Any, y: Any, *, weights: Any = None, groups: Any = None
    ) -> "PadScoreTree":
        """Grow the tree.

        Parameters
        ----------
        X : array-like of shape (n_inputs, n_features)
            Features, finite numbers.
        y : array-like of shape (n_inputs, n_choices) or (n_inputs,)
            Durations of the choices in ms, inf for failed; or scores of one choice,
            which are predicted as they are.
        weights : array-like of shape (n_inputs,), default=None
            How much each input counts.
        groups : array-like of shape (n_inputs,), default=None
            Inputs of a group are held out together by `max_regret`.

        Returns
        -------
        PadScoreTree
            The fitted tree.

        Raises
        ------
        ValueError
            The parameters ask for durations but scores were given, or the durations
            do not fit `choices`.
        """
        self.threshold_ = 1.0
        if not is_durations(y):
            self._fit_scores(X, y, weights)
        else:
            target = check_target(self, X, y, self.choices, weights)
            self.classes_ = target.classes
            if self.objective == "upstream" and target.durations is not None:
                self.tree_, self.threshold_ = train_score(target.X, target.durations)
            else:
                self._grow(target)
            if self.max_regret is not None:
                groups = None if groups is None else np.asarray(groups)[target.kept]
                self.threshold_ = self._sure_ratio(target, groups)
        self.n_leaves_ = self.tree_.n_leaves
        return self

    def _regressor(self) -> DecisionTreeRegressor:
        return DecisionTreeRegressor(
            max_leaf_nodes=self.max_leaf_nodes,
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            random_state=check_random_state(self.random_state),
        )

    def _fit_scores(self, X: Any, y: Any, weights: Any) -> None:
        if self.max_regret is not None or self.objective == "upstream":
            raise ValueError(
                "max_regret and objective='upstream' need durations, but y has scores "
                "of one choice; give a matrix with a column for each choice."
            )
        X, y = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        fitted = self._regressor().fit(X, y, sample_weight=weights)
        self.tree_ = FlatTree.from_sklearn(fitted)
        if hasattr(self, "classes_"):
            del self.classes_

    def _grow(self, target: Target) -> None:
        n_choices = len(target.classes)
        log_scores = target.lost.mean(axis=1, keepdims=True) - target.lost
        fitted = self._regressor().fit(
            stack_choices(target.X, n_choices),
            log_scores.ravel(),
            sample_weight=np.repeat(target.weights, n_choices),
        )
        tree = FlatTree.from_sklearn(fitted)
        self.tree_ = FlatTree(
            tree.feature, tree.threshold, tree.left, tree.right, np.exp(tree.value)
        )

    def _sure_ratio(self, target: Target, groups: np.ndarray | None) -> float:
        """Return the ratio of scores up to which held-out inputs lose too much."""
        n_units = len(target.X) if groups is None else len(np.unique(groups))
        kind = KFold if groups is None else GroupKFold
        splitter = kind(min(_N_FOLDS, n_units), shuffle=True, random_state=0)
        ratio, lost = np.empty(len(target.X)), np.empty(len(target.X))
        for train, test in splitter.split(target.X, groups=groups):
            other = clone(self).set_params(max_regret=None)
            durations = target.durations[train]  # type: ignore[index]
            other.fit(target.X[train], durations, weights=target.weights[train])
            scores = other.predict(target.X[test])
            ratio[test] = score_ratio(scores)
            lost[test] = target.lost[test, scores.argmax(axis=1)]
        limit = regret_limit(-ratio, lost, self.max_regret)  # type: ignore[arg-type]
        # Ratios above the threshold are answered, and the limit is to be.
        return max(1.0, float(np.nextafter(-limit, 0.0)))

    def predict(self, X: Any) -> np.ndarray:
        """Predict scores.

        Parameters
        ----------
        X : array-like of shape (n_inputs, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_inputs, n_choices) or (n_inputs,)
            A score for each choice; one if scores of one choice were learned.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        if not hasattr(self, "classes_"):
            return np.asarray(self.tree_.value[self.tree_.apply(X), 0])
        return predict_scores(self.tree_, X, len(self.classes_))

    def decide(self, X: Any) -> np.ndarray:
        """Decide as generated code does.

        Parameters
        ----------
        X : array-like of shape (n_inputs, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_inputs,), object
            Choices, None where the tree is unsure.

        Raises
        ------
        ValueError
            The tree learned scores of one choice.
        """
        scores = self.predict(X)
        if scores.ndim == 1:
            raise ValueError("the tree knows one choice only; fit it with durations.")
        decided: np.ndarray = self.classes_[scores.argmax(axis=1)].astype(object)
        decided[score_ratio(scores) <= self.threshold_] = None
        return decided

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return how good the decisions, or the predicted scores, are.

        Parameters
        ----------
        X : array-like of shape (n_inputs, n_features)
            Features.
        y : array-like of shape (n_inputs, n_choices) or (n_inputs,)
            Durations, or scores of one choice.
        sample_weight : array-like of shape (n_inputs,), default=None
            How much each input counts.

        Returns
        -------
        float
            For durations minus the mean log regret when every input is decided; for
            scores the coefficient of determination.
        """
        if not is_durations(y):
            return float(super().score(X, y, sample_weight))
        chosen = self.predict(X).argmax(axis=1)
        lost = log_regret(y)[np.arange(len(chosen)), chosen]
        return -float(np.average(lost, weights=sample_weight))
