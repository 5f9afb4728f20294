"""Rank many choices, so that only the best few need a benchmark."""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from fasta_learn._compat import Interval, StrOptions, _fit_context, validate_data
from fasta_learn.heuristics._objectives import log_regret
from fasta_learn.heuristics._trees_flat import LEAF, FlatTree
from fasta_learn.heuristics._trees_targets import check_target, is_durations


class ChoiceRanker(ClassifierMixin, BaseEstimator):
    """Rank choices such as the configs of a matrix product, as PyTorch does for mm.

    Each input is learned from with every choice that is nearly as fast as the best,
    weighted by how near. A split that would leave a side with fewer choices than are
    asked for is taken back.

    Parameters
    ----------
    choices : sequence of str, default=("orig", "pad")
        Names of the columns of durations, sorted.
    top_k : int, default=10
        How many choices are wanted.
    near_best : float, default=0.98
        Least duration of the best over that of a choice that is learned.
    always_included : sequence of str, default=()
        Choices that stand behind the ranked ones if they are not among them.
    max_depth : int, default=5
        Most comparisons on a way to a leaf.
    min_samples_leaf : int or float, default=0.01
        Least rows, or share of them, in a leaf.
    criterion : {"gini", "entropy"}, default="entropy"
        What splits reduce.
    random_state : int, RandomState or None, default=None
        Which of equally good splits is taken.

    Attributes
    ----------
    classes_ : ndarray of shape (n_ranked,)
        Choices that are nearly the fastest of some input, sorted.
    tree_ : FlatTree
        The tree; the values of a leaf are the share of each choice.
    n_leaves_ : int
        Number of leaves.
    threshold_ : float
        Share up to which generated code answers nothing: 0.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if `X` had some.

    Examples
    --------
    >>> import numpy as np
    >>> from fasta_learn.heuristics import ChoiceRanker
    >>> sizes = np.arange(1.0, 61.0)[:, None]
    >>> durations = np.column_stack([sizes[:, 0], np.full(60, 30.0), 61 - sizes[:, 0]])
    >>> ranker = ChoiceRanker(["a", "b", "c"], top_k=1).fit(sizes, durations)
    >>> ranker.rank([[5.0], [55.0]])
    [['a'], ['c']]
    """

    _parameter_constraints: dict[str, Any] = {
        "choices": ["array-like"],
        "top_k": [Interval(Integral, 1, None, closed="left")],
        "near_best": [Interval(Real, 0, 1, closed="right")],
        "always_included": ["array-like"],
        "max_depth": [Interval(Integral, 1, None, closed="left")],
        "min_samples_leaf": [
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="neither"),
        ],
        "criterion": [StrOptions({"gini", "entropy"})],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        choices: Sequence[str] = ("orig", "pad"),
        *,
        top_k: int = 10,
        near_best: float = 0.98,
        always_included: Sequence[str] = (),
        max_depth: int = 5,
        min_samples_leaf: float = 0.01,
        criterion: str = "entropy",
        random_state: Any = None,
    ):
        self.choices = choices
        self.top_k = top_k
        self.near_best = near_best
        self.always_included = always_included
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.criterion = criterion
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, weights: Any = None) -> "ChoiceRanker":
        """Grow the tree.

        Parameters
        ----------
        X : array-like of shape (n_inputs, n_features)
            Features, finite numbers.
        y : array-like of shape (n_inputs, n_choices) or (n_inputs,)
            Durations of the choices in ms, inf for failed and NaN for not measured;
            or the best choice of each input, for which nothing is taken back.
        weights : array-like of shape (n_inputs,), default=None
            How much each input counts.

        Returns
        -------
        ChoiceRanker
            The fitted ranker.
        """
        target = check_target(self, X, y, self.choices, weights)
        rows, codes = np.nonzero(target.lost <= -np.log(self.near_best))
        nearness = np.exp(-target.lost[rows, codes]) * target.weights[rows]
        fitted = DecisionTreeClassifier(
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            criterion=self.criterion,
            random_state=check_random_state(self.random_state),
        ).fit(target.X[rows], codes, sample_weight=nearness)
        self.classes_ = target.classes[fitted.classes_]
        self.threshold_ = 0.0
        self.tree_ = FlatTree.from_sklearn(fitted)
        if target.durations is not None:
            self.tree_ = _without_small_sides(
                self.tree_, target.X[rows], codes, self.top_k
            )
        self.n_leaves_ = self.tree_.n_leaves
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the share of each choice in the leaf of each input.

        Parameters
        ----------
        X : array-like of shape (n_inputs, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_inputs, n_ranked)
            Shares, in the order of `classes_`.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray(self.tree_.value[self.tree_.apply(X)])

    def predict(self, X: Any) -> np.ndarray:
        """Return the first choice of each input.

        Parameters
        ----------
        X : array-like of shape (n_inputs, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_inputs,)
            Choices.
        """
        shares = self.predict_proba(X)
        return np.asarray(self.classes_[shares.argmax(axis=1)])

    def decide(self, X: Any) -> np.ndarray:
        """Return the first choice of each input, as generated code does.

        Parameters
        ----------
        X : array-like of shape (n_inputs, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_inputs,), object
            Choices.
        """
        return self.predict(X).astype(object)

    def rank(self, X: Any) -> list[list[Any]]:
        """Return the choices that are worth a benchmark.

        Parameters
        ----------
        X : array-like of shape (n_inputs, n_features)
            Features.

        Returns
        -------
        list of list
            For each input at most `top_k` choices by falling share, then those that
            are always included.
        """
        all_shares = self.predict_proba(X)
        ranked, known = [], self.classes_.tolist()
        for shares in all_shares:
            order = np.argsort(-shares, kind="stable")[: self.top_k]
            names = [known[code] for code in order if shares[code] > 0]
            names += [name for name in self.always_included if name not in names]
            ranked.append(names)
        return ranked

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return how good the best of the ranked choices is.

        Parameters
        ----------
        X : array-like of shape (n_inputs, n_features)
            Features.
        y : array-like of shape (n_inputs, n_choices) or (n_inputs,)
            Durations, or the best choice of each input.
        sample_weight : array-like of shape (n_inputs,), default=None
            How much each input counts.

        Returns
        -------
        float
            For durations minus the mean log regret of the fastest ranked choice; for
            labels the accuracy of the first choice.
        """
        if not is_durations(y):
            return float(super().score(X, y, sample_weight))
        lost = log_regret(y)
        column = {name: index for index, name in enumerate(self.choices)}
        best = [
            min(lost[row, column[name]] for name in names)
            for row, names in enumerate(self.rank(X))
        ]
        return -float(np.average(best, weights=sample_weight))


def _without_small_sides(
    tree: FlatTree, X: np.ndarray, codes: np.ndarray, top_k: int
) -> FlatTree:
    """Turn splits into leaves that leave a side with fewer choices than wanted."""
    feature, left, right = tree.feature.copy(), tree.left.copy(), tree.right.copy()

    def visit(node: int, rows: np.ndarray) -> None:
        if feature[node] == LEAF:
            return
        goes_left = X[rows, feature[node]] <= tree.threshold[node]
        sides = rows[goes_left], rows[~goes_left]
        if min(len(np.unique(codes[side])) for side in sides) < top_k:
            feature[node] = left[node] = right[node] = LEAF
            return
        visit(int(left[node]), sides[0])
        visit(int(right[node]), sides[1])

    visit(0, np.arange(len(X)))
    return FlatTree(feature, tree.threshold, left, right, tree.value)
