"""From the inputs of a log to decisions: features, drawn inputs and a tree."""

from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from fasta_learn._compat import HasMethods, Interval, _fit_context
from fasta_learn.heuristics._features import PadFeatures
from fasta_learn.heuristics._inputs import choices_of
from fasta_learn.heuristics._objectives import durations_of, noise_weights
from fasta_learn.heuristics._selection import regret_scorer
from fasta_learn.heuristics._trees import PadDecisionTree
from fasta_learn.heuristics._trees_drawing import draw_inputs
from fasta_learn.heuristics._trees_upstream import order_columns


class PadHeuristic(MetaEstimatorMixin, BaseEstimator):
    """Learn from the inputs of a log which of them should be padded.

    Turns raw features into those that torch knows at compile time, draws inputs that
    were not measured for the teacher of the tree, and learns the tree. Inputs with a
    missing feature or an unknown category are unsure.

    Parameters
    ----------
    tree : PadDecisionTree, PadScoreTree or ChoiceRanker, default=None
        What decides; None is a `PadDecisionTree` that boosted trees teach.
    features : PadFeatures, default=None
        Raw to derived features; None are those of pad_mm.
    n_drawn : int, default=100000
        Inputs that are drawn if the tree has a teacher.
    random_state : int, RandomState or None, default=None
        Which inputs are drawn, and the seed of the tree if that has none.

    Attributes
    ----------
    features_ : PadFeatures
        The fitted features.
    tree_ : PadDecisionTree or PadScoreTree
        The fitted tree.
    columns_ : list of (str, str or None)
        For each column that the tree learns from the feature and the category that it
        is about; None for a number.
    classes_ : ndarray of shape (n_choices,)
        Names of the choices.
    n_features_in_ : int
        Number of raw features.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names.

    See Also
    --------
    group_inputs : Makes the inputs of a log.
    generate_code : Writes what was learned as a module for torch.

    Examples
    --------
    >>> from fasta_learn.heuristics import PadDecisionTree, PadHeuristic
    >>> heuristic = PadHeuristic(PadDecisionTree("upstream"), random_state=0)
    >>> heuristic.fit(inputs).decide(inputs)  # doctest: +SKIP
    array(['orig', 'pad', None, ...], dtype=object)
    """

    _parameter_constraints: dict[str, Any] = {
        "tree": [HasMethods(["fit", "predict", "decide"]), None],
        "features": [HasMethods(["fit", "transform", "unsure"]), None],
        "n_drawn": [Interval(Integral, 0, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        tree: Any = None,
        *,
        features: Any = None,
        n_drawn: int = 100_000,
        random_state: Any = None,
    ):
        self.tree = tree
        self.features = features
        self.n_drawn = n_drawn
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, *, weights: Any = None) -> "PadHeuristic":
        """Learn from measured inputs.

        Parameters
        ----------
        X : DataFrame of shape (n_inputs, n_columns)
            What `group_inputs` returned, or some of its rows; with `y` the raw
            features are enough. A column ``group`` says which inputs are held out
            together. Inputs that lack a feature, or durations of two
            choices, are left out.
        y : array-like of shape (n_inputs, n_choices), default=None
            Durations in ms; None takes the medians of `X`.
        weights : array-like of shape (n_inputs,), default=None
            How much each input counts.

        Returns
        -------
        PadHeuristic
            The fitted estimator.

        Raises
        ------
        ValueError
            No input is complete, or the tree refuses the durations.
        """
        y = durations_of(X) if y is None else np.asarray(y, np.float64)
        weights = np.ones(len(X)) if weights is None else np.asarray(weights, float)
        complete = _complete(X, y)
        if not complete.any():
            raise ValueError(
                "X has no input with all features and durations of two choices."
            )
        X, y = X[complete].reset_index(drop=True), y[complete]
        self.features_ = clone(self.features or PadFeatures()).fit(X)
        random = check_random_state(self.random_state)
        self.tree_ = clone(self.tree or PadDecisionTree(teacher="boosting"))
        if self.tree_.random_state is None:
            self.tree_.set_params(random_state=random.randint(np.iinfo(np.int32).max))
        self._order = np.arange(len(self.features_.columns_))
        if getattr(self.tree_, "objective", None) == "upstream":
            self._order = order_columns(self.features_, X)
        self.columns_ = [self.features_.columns_[index] for index in self._order]
        options = self._fit_options(X, random)
        self.tree_.fit(self._matrix(X), y, weights=weights[complete], **options)
        self.classes_ = self.tree_.classes_
        self.feature_names_in_ = self.features_.feature_names_in_
        self.n_features_in_ = self.features_.n_features_in_
        return self

    def _fit_options(
        self, X: pd.DataFrame, random: np.random.RandomState
    ) -> dict[str, np.ndarray]:
        """Return what the tree may know of the inputs beside their features."""
        options: dict[str, np.ndarray] = {}
        if "group" in X.columns and has_fit_parameter(self.tree_, "groups"):
            options["groups"] = X["group"].to_numpy()
        if getattr(self.tree_, "teacher", None) is None:
            return options
        choices = choices_of(X)
        if choices and all(f"rel_std_{choice}" in X for choice in choices):
            options["trust"] = noise_weights(X)
        if self.n_drawn:
            raw = X[list(self.features_.feature_names_in_)]
            options["X_drawn"] = self._matrix(draw_inputs(raw, self.n_drawn, random))
        return options

    def _matrix(self, X: Any) -> np.ndarray:
        return np.asarray(np.nan_to_num(self.features_.transform(X)[:, self._order]))

    def predict(self, X: Any) -> np.ndarray:
        """Decide for every input, also where the tree is unsure.

        Parameters
        ----------
        X : DataFrame of shape (n_inputs, n_columns)
            Raw features by name.

        Returns
        -------
        ndarray of shape (n_inputs,)
            Choices.
        """
        check_is_fitted(self)
        predicted: np.ndarray = self.tree_.predict(self._matrix(X))
        if predicted.ndim == 2:
            return np.asarray(self.classes_[predicted.argmax(axis=1)])
        return predicted

    def decide(self, X: Any) -> np.ndarray:
        """Decide as generated code does.

        Parameters
        ----------
        X : DataFrame of shape (n_inputs, n_columns)
            Raw features by name.

        Returns
        -------
        ndarray of shape (n_inputs,), object
            Choices; None where the tree is unsure, a feature is missing or a category
            unknown.
        """
        check_is_fitted(self)
        decided: np.ndarray = self.tree_.decide(self._matrix(X))
        decided[self.features_.unsure(X)] = None
        return decided

    def rank(self, X: Any) -> list[list[Any]]:
        """Return the choices that are worth a benchmark, if the tree is a ranker.

        Parameters
        ----------
        X : DataFrame of shape (n_inputs, n_columns)
            Raw features by name.

        Returns
        -------
        list of list
            For each input the choices, most promising first.
        """
        check_is_fitted(self)
        ranked: list[list[Any]] = self.tree_.rank(self._matrix(X))
        return ranked

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the mean log regret of the decisions on all inputs.

        Parameters
        ----------
        X : DataFrame of shape (n_inputs, n_columns)
            Inputs.
        y : array-like of shape (n_inputs, n_choices), default=None
            Durations in ms; None takes the medians of `X`.

        Returns
        -------
        float
            0 is perfect.
        """
        return regret_scorer(self, X, y)

    def __sklearn_tags__(self) -> Tags:
        """Return the tags of scikit-learn: the input is a frame with text in it."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.two_d_array = False
        tags.input_tags.allow_nan = True
        return tags


def _complete(X: pd.DataFrame, durations: np.ndarray) -> np.ndarray:
    measured = (~np.isnan(durations)).sum(axis=1) >= 2
    measured &= np.isfinite(durations).any(axis=1)
    measurements = ("median_", "rel_std_", "gap", "winner")
    raw = [name for name in X.columns if not name.startswith(measurements)]
    return np.asarray(measured & X[raw].notna().all(axis=1).to_numpy())
