"""A tree that decides for each input which choice to take."""

from collections.abc import Sequence
from dataclasses import fields
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import GroupKFold, KFold
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from fasta_learn._compat import (
    HasMethods,
    Interval,
    StrOptions,
    _fit_context,
    validate_data,
)
from fasta_learn.heuristics._objectives import (
    PRODUCTION_MARGIN,
    log_regret,
    penalized,
    production_costs,
)
from fasta_learn.heuristics._selection import regret_limit, regret_of_leaves
from fasta_learn.heuristics._trees_growing import Growth, grow_tree
from fasta_learn.heuristics._trees_targets import (
    Target,
    check_needs,
    check_target,
    is_durations,
)
from fasta_learn.heuristics._trees_teacher import BoostedAdvantage, teach
from fasta_learn.heuristics._trees_upstream import train_decision

_N_FOLDS = 5
# What is known of each input beside its features and durations, by name.
_About = dict[str, np.ndarray | None]


class PadDecisionTree(ClassifierMixin, BaseEstimator):
    """Decide which choice to take, by one small tree that loses little time.

    Learns from durations: what counts is not how often the tree is right, but how much
    slower its choices are than the best. It may say that it is unsure.

    Parameters
    ----------
    objective : {"cost", "production", "upstream"}, default="cost"
        What the tree minimises. "cost" is the logarithm of the duration over that of
        the best choice, plus `slow_penalty` beyond `margin`. "production" has as the
        best choice what torch's own benchmark would choose: padding only if that is
        faster by `margin`. "upstream" is the recipe of PyTorch's trainer, its splits,
        seeds, grid and threshold included; of the other parameters only `choices` and
        `unsafe_ratio` matter then.
    max_leaf_nodes : int, default=100
        Most leaves.
    max_depth : int, default=None
        Most comparisons on a way to a leaf; None does not limit them.
    min_samples_leaf : int or float, default=20
        Least inputs, or share of them, on each side of a split, drawn ones included.
        Refinements may leave fewer.
    criterion : {"gini", "entropy"}, default="gini"
        What splits reduce while the tree grows.
    n_refinements : int, default=4
        How often each split is replaced by the one that costs least.
    margin : float, default=1.1
        How many times slower than the best a choice is called slow.
    slow_penalty : float, default=0.1
        What a slow choice costs beside its log regret.
    teacher : {"boosting"} or regressor, default=None
        Predicts the logarithm of the duration of the first choice over that of the
        second; smooths the costs, and gives those of `X_drawn`. "boosting" is
        `BoostedAdvantage`. Needs durations of two choices.
    max_regret : float, default=None
        Bound of the geometric mean of durations over the best, such as 1.002: leaves
        that expect most regret are unsure, as many as held-out inputs show to be
        needed. None decides every input.
    unsafe_ratio : float, default=None
        A leaf in which a training input would be slower than its best choice by more
        than this factor is unsure.
    choices : sequence of str, default=("orig", "pad")
        Names of the columns of durations, sorted.
    random_state : int, RandomState or None, default=None
        Which of equally good splits is taken, and the seed of "boosting".

    Attributes
    ----------
    classes_ : ndarray of shape (n_choices,)
        Names of the choices, or the labels.
    tree_ : FlatTree
        The tree; the values of a leaf are the share of each choice.
    n_leaves_ : int
        Number of leaves.
    threshold_ : float
        Share up to which a leaf is unsure; 0 but for "upstream".
    unsure_nodes_ : ndarray of shape (n_nodes,), bool
        Leaves that answer nothing.
    expected_regret_ : ndarray of shape (n_nodes,)
        Log regret that a leaf expects; shares of wrong labels without durations.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if `X` had some.

    See Also
    --------
    PadScoreTree : Predicts a score for each choice instead.
    PadHeuristic : The same on raw inputs of a log.

    Examples
    --------
    >>> import numpy as np
    >>> from fasta_learn.heuristics import PadDecisionTree
    >>> sizes = np.arange(1.0, 101.0)[:, None]
    >>> durations = np.column_stack([sizes[:, 0], np.full(100, 40.0)])
    >>> tree = PadDecisionTree(random_state=0).fit(sizes, durations)
    >>> tree.decide([[10.0], [90.0]]).tolist()
    ['orig', 'pad']
    >>> tree.n_leaves_
    2
    """

    _parameter_constraints: dict[str, Any] = {
        "objective": [StrOptions({"cost", "production", "upstream"})],
        "max_leaf_nodes": [Interval(Integral, 2, None, closed="left")],
        "max_depth": [Interval(Integral, 1, None, closed="left"), None],
        "min_samples_leaf": [
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="neither"),
        ],
        "criterion": [StrOptions({"gini", "entropy"})],
        "n_refinements": [Interval(Integral, 0, None, closed="left")],
        "margin": [Interval(Real, 1, None, closed="left")],
        "slow_penalty": [Interval(Real, 0, None, closed="left")],
        "teacher": [StrOptions({"boosting"}), HasMethods(["fit", "predict"]), None],
        "max_regret": [Interval(Real, 1, None, closed="left"), None],
        "unsafe_ratio": [Interval(Real, 1, None, closed="left"), None],
        "choices": ["array-like"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        objective: str = "cost",
        *,
        max_leaf_nodes: int = 100,
        max_depth: int | None = None,
        min_samples_leaf: float = 20,
        criterion: str = "gini",
        n_refinements: int = 4,
        margin: float = PRODUCTION_MARGIN,
        slow_penalty: float = 0.1,
        teacher: Any = None,
        max_regret: float | None = None,
        unsafe_ratio: float | None = None,
        choices: Sequence[str] = ("orig", "pad"),
        random_state: Any = None,
    ):
        self.objective = objective
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.criterion = criterion
        self.n_refinements = n_refinements
        self.margin = margin
        self.slow_penalty = slow_penalty
        self.teacher = teacher
        self.max_regret = max_regret
        self.unsafe_ratio = unsafe_ratio
        self.choices = choices
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        weights: Any = None,
        trust: Any = None,
        groups: Any = None,
        X_drawn: Any = None,
    ) -> "PadDecisionTree":
        """Grow the tree.

        Parameters
        ----------
        X : array-like of shape (n_inputs, n_features)
            Features, finite numbers.
        y : array-like of shape (n_inputs, n_choices) or (n_inputs,)
            Durations of the choices in ms, inf for failed and NaN for not measured;
            or labels, all of which count the same.
        weights : array-like of shape (n_inputs,), default=None
            How much each input counts.
        trust : array-like of shape (n_inputs,), default=None
            How far a teacher is to trust the measurement of each input, in (0, 1],
            such as `noise_weights`; None trusts all.
        groups : array-like of shape (n_inputs,), default=None
            Inputs of a group are held out together, by `max_regret` and by a teacher.
        X_drawn : array-like of shape (n_drawn, n_features), default=None
            Inputs that were not measured; the teacher says what they cost.

        Returns
        -------
        PadDecisionTree
            The fitted tree.

        Raises
        ------
        ValueError
            The parameters ask for durations but labels were given, the durations do
            not fit `choices`, or "upstream" found no tree that is often enough right.
        """
        target = check_target(self, X, y, self.choices, weights)
        check_needs(self, target, X_drawn)
        self.classes_ = target.classes
        given = {"trust": trust, "groups": groups}
        about = {
            name: None if values is None else np.asarray(values)[target.kept]
            for name, values in given.items()
        }
        self.threshold_ = 0.0
        if self.objective == "upstream":
            self.tree_, self.threshold_ = train_decision(target.X, target.winner)
        else:
            self._grow(target, about, X_drawn)
        self.n_leaves_ = self.tree_.n_leaves
        self._judge_leaves(target)
        if self.max_regret is not None:
            held_out = self._held_out(target, about, X_drawn)
            limit = regret_limit(*held_out, self.max_regret)
            self.unsure_nodes_ |= self.expected_regret_ > limit
        return self

    def _grow(self, target: Target, about: _About, X_drawn: Any) -> None:
        seed = int(
            check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        )
        names = (field.name for field in fields(Growth) if field.name != "seed")
        growth = Growth(**{name: getattr(self, name) for name in names}, seed=seed)
        X = target.X
        if target.durations is None:
            costs = target.lost
        elif self.objective == "production":
            costs = production_costs(target.durations, margin=self.margin)
        else:
            costs = penalized(target.lost, self.margin, self.slow_penalty)
        costs = target.weights[:, None] * costs
        if self.teacher is not None:
            if X_drawn is not None:
                X_drawn = validate_data(self, X_drawn, dtype=np.float64, reset=False)
            lesson = teach(
                self._teacher(seed),
                X,
                target.lost[:, 0] - target.lost[:, 1],
                weight=target.weights,
                trust=np.ones(len(X)) if about["trust"] is None else about["trust"],
                groups=about["groups"],
                drawn=X_drawn,
                margin=self.margin,
                slow_penalty=self.slow_penalty,
            )
            X, costs = lesson.X, lesson.costs
        self.tree_ = grow_tree(X, costs, growth)

    def _teacher(self, seed: int) -> Any:
        if isinstance(self.teacher, str):
            return BoostedAdvantage(random_state=seed)
        return self.teacher

    def _judge_leaves(self, target: Target) -> None:
        leaf = self.tree_.apply(target.X)
        decided = self.tree_.value.argmax(axis=1)[leaf]
        lost = target.lost[np.arange(len(leaf)), decided]
        n_nodes = len(self.tree_.feature)
        self.expected_regret_ = regret_of_leaves(leaf, lost, target.weights, n_nodes)
        self.unsure_nodes_ = np.zeros(n_nodes, bool)
        if self.unsafe_ratio is not None:
            self.unsure_nodes_[leaf[lost > np.log(self.unsafe_ratio)]] = True
        if self.threshold_ > 0:
            self.unsure_nodes_ |= self.tree_.value.max(axis=1) <= self.threshold_

    def _held_out(
        self, target: Target, about: _About, X_drawn: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return what leaves expect and what happens, for inputs not learned from."""
        groups = about["groups"]
        n_units = len(target.X) if groups is None else len(np.unique(groups))
        kind = KFold if groups is None else GroupKFold
        splitter = kind(min(_N_FOLDS, n_units), shuffle=True, random_state=0)
        expected, realised = np.empty(len(target.X)), np.empty(len(target.X))
        for train, test in splitter.split(target.X, groups=groups):
            other = clone(self).set_params(max_regret=None)
            other.fit(
                target.X[train],
                target.durations[train],  # type: ignore[index]
                weights=target.weights[train],
                X_drawn=X_drawn,
                **{
                    name: None if values is None else values[train]
                    for name, values in about.items()
                },
            )
            leaf = other.tree_.apply(target.X[test])
            decided = other.tree_.value.argmax(axis=1)[leaf]
            expected[test] = other.expected_regret_[leaf]
            realised[test] = target.lost[test, decided]
        return expected, realised

    def apply(self, X: Any) -> np.ndarray:
        """Return the leaf of each input.

        Parameters
        ----------
        X : array-like of shape (n_inputs, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_inputs,), int
            Nodes of `tree_`.
        """
        check_is_fitted(self)
        return self.tree_.apply(validate_data(self, X, dtype=np.float64, reset=False))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the share of each choice in the leaf of each input.

        Parameters
        ----------
        X : array-like of shape (n_inputs, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_inputs, n_choices)
            What each choice saves over the dearest one, as a share of the sum.
        """
        leaf = self.apply(X)
        return np.asarray(self.tree_.value[leaf])

    def predict(self, X: Any) -> np.ndarray:
        """Decide for every input, also where the tree is unsure.

        Parameters
        ----------
        X : array-like of shape (n_inputs, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_inputs,)
            Choices.
        """
        leaf = self.apply(X)
        return np.asarray(self.classes_[self.tree_.value.argmax(axis=1)[leaf]])

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
        """
        leaf = self.apply(X)
        decided = self.classes_[self.tree_.value.argmax(axis=1)[leaf]].astype(object)
        decided[self.unsure_nodes_[leaf]] = None
        return np.asarray(decided)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return how good the decisions on all inputs are.

        Parameters
        ----------
        X : array-like of shape (n_inputs, n_features)
            Features.
        y : array-like of shape (n_inputs, n_choices) or (n_inputs,)
            Durations or labels.
        sample_weight : array-like of shape (n_inputs,), default=None
            How much each input counts.

        Returns
        -------
        float
            For durations minus the mean log regret, for labels the accuracy.
        """
        if not is_durations(y):
            return float(super().score(X, y, sample_weight))
        chosen = np.searchsorted(self.classes_, self.predict(X))
        lost = log_regret(y)[np.arange(len(chosen)), chosen]
        return -float(np.average(lost, weights=sample_weight))
