"""A regressor that lets bases compete by leave-one-out predictions."""

from collections.abc import Sequence
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from fasta_learn._blas import one_blas_thread
from fasta_learn._compat import (
    Interval,
    StrOptions,
    _check_sample_weight,
    _fit_context,
    validate_data,
)
from fasta_learn.bases import CubicBasis
from fasta_learn.model_selection._expanded_pool import ExpandedPool, expand
from fasta_learn.model_selection._leave_one_out import (
    ridge_coefficients,
    weighted_loo,
)
from fasta_learn.model_selection._parameters import (
    check_alphas,
    merge_copies,
    name_bases,
)
from fasta_learn.model_selection._scores import (
    clipped_r2,
    merge_ties,
    press,
    spearman,
)

# Differences below these shares of the largest duration or score are rounding.
_SAME_PREDICTION = 1e-10
_SAME_SCORE = 1e-9


class ModelSelector(RegressorMixin, BaseEstimator):
    """Ridge regression on the basis that predicts best what it has not seen.

    Each basis expands the features, a ridge model is fitted on the expansion
    (the intercept column is penalised like all others), and every sample is
    predicted by the model of the other samples. The basis with the best score
    of these leave-one-out predictions wins. Nothing is refitted for that: see
    `loo_predictions`. Features are not scaled; the default bases expect [0, 1].

    Parameters
    ----------
    bases : list of transformers or of (str, transformer) tuples, default=None
        The competitors. Any transformer will do whose columns include what it
        needs as intercept. By default ``linear``, ``quadratic``, ``full``,
        ``fourier`` and ``cubic`` of `fasta_learn.bases`.
    alpha : float or array-like of shape (n_alphas,), default=0.1
        Strength of the penalty, at least 0. Of several, each basis takes the one
        of smallest leave-one-out squared error, whatever the `scoring`.
    scoring : {"spearman", "press"}, default="spearman"
        What the bases compete by: the rank correlation of durations and
        leave-one-out predictions, or their mean squared difference.
    cubic_gate : float or None, default=0.5
        A `CubicBasis` competes only with fewer terms than this share of the
        number of samples; None lets it compete always.
    max_leverage : float, default=0.99
        Leverages are clipped here in leave-one-out predictions; 1 turns it off.

    Attributes
    ----------
    best_basis_ : str
        Name of the winner. Of equal scores the one with fewer terms wins, then
        the one given first.
    best_score_ : float
        Score of the winner, higher is better: the Spearman correlation or the
        negative mean squared leave-one-out error.
    best_transformer_ : transformer
        The fitted basis of the winner.
    r2_ : float
        In-sample R² of the winner, clipped to [0, 1]; 0 for constant durations.
    scores_ : list of dict
        A row for each basis: ``basis``, ``n_terms``, ``alpha``, ``spearman``,
        ``neg_press`` (for both higher is better) and ``skipped``, the reason why
        it did not compete, else empty. The scores of a skipped basis are NaN.
    loo_predictions_ : ndarray of shape (n_samples,)
        Leave-one-out predictions of the winner.
    coef_ : ndarray of shape (n_terms,)
        Coefficients of the columns of `best_transformer_`, intercept included.
    alpha_ : float
        Strength of the penalty of the winner.
    n_features_in_ : int
        Number of features seen by `fit`.
    feature_names_in_ : ndarray of str of shape (`n_features_in_`,)
        Names of the features; only there if `fit` saw a table with names.

    See Also
    --------
    loo_predictions : The leave-one-out predictions by themselves.

    Notes
    -----
    Sample weights weight the squared errors of fits, of ``neg_press`` and of R²;
    transformers that learn from the features are fitted without them.
    Ranks are not weighted, but samples of weight 0 count nowhere. A sample is
    left out with its whole weight. Samples that agree in all features and in `y`
    are copies: they are merged into one that has the sum of their weights, so that
    repeating a sample is the same as weighting it.

    Examples
    --------
    >>> import numpy as np
    >>> from fasta_learn.model_selection import ModelSelector
    >>> X = np.linspace(0, 1, 12).reshape(-1, 1)
    >>> selector = ModelSelector(alpha=1e-3).fit(X, (X[:, 0] - 0.3) ** 2)
    >>> selector.best_basis_
    'quadratic'
    """

    _parameter_constraints: dict[str, Any] = {
        "bases": [list, tuple, None],
        "alpha": [Interval(Real, 0, None, closed="left"), "array-like"],
        "scoring": [StrOptions({"spearman", "press"})],
        "cubic_gate": [Interval(Real, 0, None, closed="neither"), None],
        "max_leverage": [Interval(Real, 0, 1, closed="right")],
    }

    def __init__(
        self,
        bases: Sequence[Any] | None = None,
        *,
        alpha: float | ArrayLike = 0.1,
        scoring: str = "spearman",
        cubic_gate: float | None = 0.5,
        max_leverage: float = 0.99,
    ):
        self.bases = bases
        self.alpha = alpha
        self.scoring = scoring
        self.cubic_gate = cubic_gate
        self.max_leverage = max_leverage

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Let the bases compete and fit the winner on all samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features, by default expected in [0, 1].
        y : array-like of shape (n_samples,)
            Durations, in any unit.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the squared errors, not negative, not all zero.

        Returns
        -------
        Self
            The fitted selector.

        Raises
        ------
        ValueError
            A parameter, shape or value is out of range, or every basis was
            skipped.
        """
        rows, durations = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        durations = durations.astype(np.float64, copy=False)
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(
                sample_weight, rows, dtype=np.float64, ensure_non_negative=True
            )
        first, copy_of, weight = merge_copies(rows, durations, weight)
        pool = self._expand_pool(rows[first])
        self._fit_rows(pool, slice(None), durations[first], weight)
        self.loo_predictions_: NDArray[np.float64] = self.loo_predictions_[copy_of]
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Predict durations by the winner.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predictions in the unit of the durations given to `fit`.

        Raises
        ------
        NotFittedError
            `fit` has not been called.
        ValueError
            `X` has other features than `fit` saw, or a value that is not finite.
        """
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        return expand(self.best_transformer_, rows) @ self.coef_

    def _expand_pool(self, X: NDArray[np.float64]) -> ExpandedPool:
        """Prepare many calls of `_fit_rows` and `_predict_pool` on checked rows."""
        return ExpandedPool(name_bases(self.bases), X)

    def _predict_pool(self, pool: ExpandedPool) -> NDArray[np.float64]:
        """Predict every row of a pool on some rows of which this was fitted."""
        with one_blas_thread():
            return pool.predict(pool.names.index(self.best_basis_), self.coef_)

    def _fit_rows(
        self,
        pool: ExpandedPool,
        rows: NDArray[np.intp] | slice,
        y: NDArray[np.float64],
        weight: NDArray[np.float64] | None = None,
    ) -> Self:
        """Fit on some rows of a pool, everything being checked already."""
        n_used = len(y) if weight is None else int(np.count_nonzero(weight))
        skipped = [self._skip_reason(pool, i, n_used) for i in range(len(pool.names))]
        competing = [i for i, reason in enumerate(skipped) if not reason]
        if not competing:
            raise ValueError(
                f"Every basis was skipped: {'; '.join(skipped)}. Give more samples, "
                "add a smaller basis, or set cubic_gate=None."
            )
        with one_blas_thread():
            alphas, predictions = self._leave_one_out(pool, competing, rows, y, weight)
            scores = _score(y, predictions, weight)
            winner = self._pick(scores, [pool.n_terms[i] for i in competing])
            self.alpha_ = float(alphas[winner])
            self.loo_predictions_ = predictions[winner].copy()
            self.best_score_ = float(scores[self._score_name()][winner])
            self._fit_winner(pool, competing[winner], rows, y, weight)
        self.scores_ = _tabulate(pool, competing, alphas, scores, skipped)
        return self

    def _fit_winner(
        self,
        pool: ExpandedPool,
        index: int,
        rows: NDArray[np.intp] | slice,
        y: NDArray[np.float64],
        weight: NDArray[np.float64] | None,
    ) -> None:
        design = pool.rows(index, rows)
        self.best_basis_ = pool.names[index]
        self.best_transformer_ = pool.transformers[index]
        self.coef_ = ridge_coefficients(design, y, self.alpha_, weight)
        self.r2_ = clipped_r2(y, design @ self.coef_, weight)

    def _score_name(self) -> str:
        return "spearman" if self.scoring == "spearman" else "neg_press"

    def _skip_reason(self, pool: ExpandedPool, index: int, n_used: int) -> str:
        is_cubic = isinstance(pool.transformers[index], CubicBasis)
        if self.cubic_gate is None or not is_cubic:
            return ""
        if pool.n_terms[index] < self.cubic_gate * n_used:
            return ""
        return (
            f"{pool.names[index]} has {pool.n_terms[index]} terms, not fewer than "
            f"{self.cubic_gate} × {n_used} samples"
        )

    def _leave_one_out(
        self,
        pool: ExpandedPool,
        competing: list[int],
        rows: NDArray[np.intp] | slice,
        y: NDArray[np.float64],
        weight: NDArray[np.float64] | None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return alpha and leave-one-out predictions of each competing basis."""
        candidates = check_alphas(self.alpha)
        alphas = np.empty(len(competing))
        predictions = np.empty((len(competing), len(y)))
        for group in pool.groups(competing):
            design = np.ascontiguousarray(pool.rows(group[-1], rows))
            ends = [pool.n_terms[i] for i in group]
            by_alpha = np.stack(
                [
                    weighted_loo(design, y, alpha, ends, weight, self.max_leverage)
                    for alpha in candidates
                ]
            )
            best = press(y, by_alpha, weight).argmin(axis=0)
            places = [competing.index(i) for i in group]
            alphas[places] = candidates[best]
            predictions[places] = by_alpha[best, np.arange(len(group))]
        return alphas, predictions

    def _pick(self, scores: dict[str, NDArray[np.float64]], n_terms: list[int]) -> int:
        """Return the position of the best score, of ties that with fewest terms."""
        score = scores[self._score_name()]
        scale = 1.0 if self.scoring == "spearman" else abs(score.max())
        tied = np.flatnonzero(score >= score.max() - _SAME_SCORE * scale)
        return int(min(tied, key=n_terms.__getitem__))


def _score(
    y: NDArray[np.float64],
    predictions: NDArray[np.float64],
    weight: NDArray[np.float64] | None,
) -> dict[str, NDArray[np.float64]]:
    neg_press = -press(y, predictions, weight)
    if weight is not None:
        y, predictions = y[weight > 0], predictions[:, weight > 0]
    predictions = merge_ties(predictions, _SAME_PREDICTION * np.abs(y).max())
    return {"spearman": spearman(y, predictions), "neg_press": neg_press}


def _tabulate(
    pool: ExpandedPool,
    competing: list[int],
    alphas: NDArray[np.float64],
    scores: dict[str, NDArray[np.float64]],
    skipped: list[str],
) -> list[dict[str, Any]]:
    table: list[dict[str, Any]] = [
        {
            "basis": name,
            "n_terms": n_terms,
            "alpha": np.nan,
            "spearman": np.nan,
            "neg_press": np.nan,
            "skipped": reason,
        }
        for name, n_terms, reason in zip(pool.names, pool.n_terms, skipped, strict=True)
    ]
    for place, index in enumerate(competing):
        columns = {"alpha": alphas, **scores}
        table[index] |= {key: float(values[place]) for key, values in columns.items()}
    return table
