"""Let an ensemble teach a tree: smoother costs, and costs for inputs never measured."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.model_selection import GroupKFold, KFold
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from fasta_learn._compat import Interval, _fit_context, validate_data
from fasta_learn.heuristics._objectives import penalized

# Share of a row's own measurement; the rest is what the teacher learned from others.
_OWN_SHARE = 0.75
# All drawn inputs together count so many times what the measured ones do.
_DRAWN_WEIGHT = 3.0
_N_FOLDS = 4


class BoostedAdvantage(RegressorMixin, BaseEstimator):
    """Predict the logarithm of the ratio of two durations by boosted trees.

    The mean of two estimates: a regression, and the probability that the ratio is
    above one, weighted by its size, times the predicted size. The first is right about
    the size, the second about the side.

    Parameters
    ----------
    n_repeats : int, default=3
        Ensembles with different seeds, whose predictions are averaged.
    n_trees : int, default=150
        Trees of each ensemble.
    learning_rate : float, default=0.1
        Shrinkage of each tree.
    random_state : int, RandomState or None, default=None
        Which features each split may look at.

    Attributes
    ----------
    ensembles_ : list of tuple
        For each repeat the classifier (None if all ratios are on one side), the
        regression of the ratio and that of its size.
    n_features_in_ : int
        Number of features.

    Examples
    --------
    >>> import numpy as np
    >>> from fasta_learn.heuristics import BoostedAdvantage
    >>> sizes = np.arange(200.0)[:, None]
    >>> advantage = np.where(sizes[:, 0] > 100, 0.3, -0.1)
    >>> fitted = BoostedAdvantage(n_trees=30, random_state=0).fit(sizes, advantage)
    >>> fitted.predict([[20.0], [180.0]]) > 0
    array([False,  True])
    """

    _parameter_constraints: dict[str, Any] = {
        "n_repeats": [Interval(Integral, 1, None, closed="left")],
        "n_trees": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_repeats: int = 3,
        *,
        n_trees: int = 150,
        learning_rate: float = 0.1,
        random_state: Any = None,
    ):
        self.n_repeats = n_repeats
        self.n_trees = n_trees
        self.learning_rate = learning_rate
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> "BoostedAdvantage":
        """Learn from measured ratios.

        Parameters
        ----------
        X : array-like of shape (n_inputs, n_features)
            Features.
        y : array-like of shape (n_inputs,)
            Logarithm of the ratio: positive where the second choice is faster.

        Returns
        -------
        BoostedAdvantage
            The fitted regressor.
        """
        X, y = validate_data(self, X, y, y_numeric=True)
        random = check_random_state(self.random_state)
        seeds = [random.randint(np.iinfo(np.int32).max) for _ in range(self.n_repeats)]
        # The trees are small: more threads gain little, and on a machine that is busy
        # they wait for each other at every node, which took ten times longer.
        with threadpool_limits(limits=1, user_api="openmp"):
            self.ensembles_ = [self._fit_once(X, y, seed) for seed in seeds]
        return self

    def _fit_once(
        self, X: np.ndarray, y: np.ndarray, seed: int
    ) -> tuple[Any, Any, Any]:
        options = {
            "max_iter": self.n_trees,
            "learning_rate": self.learning_rate,
            "max_features": 0.5,
            "early_stopping": False,
            "random_state": seed,
        }
        side, size, positive = None, np.abs(y), y > 0
        if positive.any() and not positive.all():
            side = HistGradientBoostingClassifier(**options)
            # A ratio of one belongs to neither side, but must not weigh nothing.
            side.fit(X, positive, sample_weight=size + size.mean() * 1e-6)
        ratio = HistGradientBoostingRegressor(**options).fit(X, y)
        return side, ratio, HistGradientBoostingRegressor(**options).fit(X, size)

    def predict(self, X: Any) -> np.ndarray:
        """Predict the logarithm of the ratio.

        Parameters
        ----------
        X : array-like of shape (n_inputs, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_inputs,)
            Predictions, averaged over the repeats.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        with threadpool_limits(limits=1, user_api="openmp"):
            predicted = [_predict_once(X, *models) for models in self.ensembles_]
        return np.asarray(np.mean(predicted, axis=0))


def _predict_once(X: np.ndarray, side: Any, ratio: Any, size: Any) -> np.ndarray:
    regressed: np.ndarray = ratio.predict(X)
    if side is None:
        return regressed
    sided = size.predict(X) * (2 * side.predict_proba(X)[:, 1] - 1)
    return np.asarray((regressed + sided) / 2)


@dataclass(frozen=True)
class Lesson:
    """Rows to grow a tree on, and what each choice costs for them.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Measured inputs, then drawn ones.
    costs : ndarray of shape (n_rows, 2)
        Costs, weights included.
    """

    X: np.ndarray
    costs: np.ndarray


def teach(
    teacher: Any,
    X: np.ndarray,
    advantage: np.ndarray,
    *,
    weight: np.ndarray,
    trust: np.ndarray,
    groups: np.ndarray | None,
    drawn: np.ndarray | None,
    margin: float,
    slow_penalty: float,
) -> Lesson:
    """Blend measured advantages with a teacher's, and add drawn inputs.

    Parameters
    ----------
    teacher : regressor
        Predicts the advantage from the features; cloned for each fit.
    X : ndarray of shape (n_inputs, n_features)
        Measured inputs.
    advantage : ndarray of shape (n_inputs,)
        Logarithm of the duration of the first choice over that of the second.
    weight : ndarray of shape (n_inputs,)
        Weight of each input.
    trust : ndarray of shape (n_inputs,)
        How far each measurement is to be trusted, in (0, 1].
    groups : ndarray of shape (n_inputs,) or None
        Inputs of a group are never taught by each other.
    drawn : ndarray of shape (n_drawn, n_features) or None
        Inputs that nobody measured: the teacher alone says what they cost.
    margin, slow_penalty : float
        As for `decision_costs`.

    Returns
    -------
    Lesson
        What the tree is grown on.
    """
    taught = np.empty(len(X))
    for train, test in _folds(X, groups):
        taught[test] = clone(teacher).fit(X[train], advantage[train]).predict(X[test])
    own = _OWN_SHARE * trust
    blended = own * advantage + (1 - own) * taught
    costs = weight[:, None] * _costs_of(blended, margin, slow_penalty)
    if drawn is None or len(drawn) == 0:
        return Lesson(X, costs)
    predicted = clone(teacher).fit(X, advantage).predict(drawn)
    share = _DRAWN_WEIGHT * weight.sum() / len(drawn)
    of_drawn = share * _costs_of(predicted, margin, slow_penalty)
    return Lesson(np.vstack([X, drawn]), np.vstack([costs, of_drawn]))


def _folds(X: np.ndarray, groups: np.ndarray | None) -> Any:
    if groups is None:
        n_folds = min(_N_FOLDS, len(X))
        return KFold(n_folds, shuffle=True, random_state=1).split(X)
    n_folds = min(_N_FOLDS, len(np.unique(groups)))
    return GroupKFold(n_folds, shuffle=True, random_state=1).split(X, groups=groups)


def _costs_of(advantage: np.ndarray, margin: float, slow_penalty: float) -> np.ndarray:
    lost = np.column_stack([np.maximum(advantage, 0), np.maximum(-advantage, 0)])
    return penalized(lost, margin, slow_penalty)
