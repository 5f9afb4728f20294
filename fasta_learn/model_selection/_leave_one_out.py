"""Leave-one-out predictions of ridge without refitting, on arrays."""

from collections.abc import Sequence
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from fasta_learn._blas import one_blas_thread
from fasta_learn.model_selection._ridge import coefficients, loo_residuals


def loo_predictions(
    design: ArrayLike,
    durations: ArrayLike,
    alpha: float,
    ends: Sequence[int] | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    max_leverage: float | None = 0.99,
) -> NDArray[np.float64]:
    """Predict each sample by the ridge model that was fitted on all others.

    Models of several sizes come at the cost of the largest: each uses the first
    `end` columns of the design, and one Cholesky factor serves all of them.
    Designs at least as wide as long go through the (n, n) dual form; those too
    ill-conditioned for a Cholesky factor through a singular value decomposition.

    Parameters
    ----------
    design : array-like of shape (n_samples, n_terms)
        Expanded features. Every column is penalised, an intercept column too.
    durations : array-like of shape (n_samples,)
        Targets, in any unit.
    alpha : float
        Strength of the penalty, at least 0. At 0 the solution of least norm counts.
    ends : sequence of int of length n_ends or None, default=None
        Numbers of leading columns, each from 1 to n_terms. By default all columns,
        once.
    sample_weight : array-like of shape (n_samples,) or None, default=None
        Weights of the squared errors. A sample is left out with its whole weight;
        one of weight 0 is predicted by the model of the others.
    max_leverage : float or None, default=0.99
        Leverages are clipped here, which bounds how far a nearly interpolated
        sample is thrown by its removal. 1 or None turns clipping off: then each
        prediction is that of a refit.

    Returns
    -------
    ndarray of shape (n_ends, n_samples)
        Leave-one-out predictions, a row for each end.

    Raises
    ------
    ValueError
        Lengths differ, a value is not finite, a weight is negative or all are
        zero, or `alpha`, `ends` or `max_leverage` lies outside its range.

    Examples
    --------
    >>> import numpy as np
    >>> from fasta_learn.model_selection import loo_predictions
    >>> design = np.ones((3, 1))
    >>> loo_predictions(design, [1.0, 2.0, 6.0], alpha=0.0)
    array([[4. , 3.5, 1.5]])
    """
    columns = check_array(design, dtype=np.float64, input_name="design")
    target = _check_vector(durations, "durations", columns)
    ends = _check_ends(ends, columns.shape[1])
    if not 0 <= alpha < np.inf:
        raise ValueError(f"alpha is {alpha}; use a finite number of at least 0.")
    if max_leverage is not None and not 0 < max_leverage <= 1:
        raise ValueError(
            f"max_leverage is {max_leverage}; use a number above 0 and at most 1."
        )
    weight = None
    if sample_weight is not None:
        weight = _check_weight(sample_weight, columns)
    limit = 1.0 if max_leverage is None else max_leverage
    with one_blas_thread():
        return weighted_loo(columns, target, alpha, ends, weight, limit)


def weighted_loo(
    design: NDArray[np.float64],
    durations: NDArray[np.float64],
    alpha: float,
    ends: Sequence[int],
    weight: NDArray[np.float64] | None,
    max_leverage: float,
) -> NDArray[np.float64]:
    """Do the work of `loo_predictions` on checked arrays."""
    floor = 1 - max_leverage
    if weight is None:
        return durations - loo_residuals(design, durations, alpha, ends, floor)
    used = weight > 0
    root = np.sqrt(weight[used])
    rows, target = design[used] * root[:, None], durations[used] * root
    predictions = np.empty((len(ends), len(durations)))
    residuals = loo_residuals(rows, target, alpha, ends, floor)
    predictions[:, used] = durations[used] - residuals / root
    if not used.all():
        for prediction, end in zip(predictions, ends, strict=True):
            coef = coefficients(rows[:, :end], target, alpha)
            prediction[~used] = design[~used, :end] @ coef
    return predictions


def ridge_coefficients(
    design: NDArray[np.float64],
    durations: NDArray[np.float64],
    alpha: float,
    weight: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return the (n_terms,) coefficients of weighted ridge on checked arrays."""
    if weight is None:
        return coefficients(design, durations, alpha)
    used = weight > 0
    root = np.sqrt(weight[used])
    return coefficients(design[used] * root[:, None], durations[used] * root, alpha)


def _check_vector(
    values: ArrayLike, name: str, design: NDArray[np.float64]
) -> NDArray[np.float64]:
    vector: NDArray[np.float64] = check_array(
        column_or_1d(values), dtype=np.float64, ensure_2d=False, input_name=name
    )
    check_consistent_length(design, vector)
    return vector


def _check_weight(
    sample_weight: ArrayLike, design: NDArray[np.float64]
) -> NDArray[np.float64]:
    weight = _check_vector(sample_weight, "sample_weight", design)
    if weight.min() < 0:
        raise ValueError(
            f"sample_weight[{weight.argmin()}] is {weight.min()}; "
            "weights must not be negative."
        )
    if not weight.any():
        raise ValueError("sample_weight is zero everywhere; one must be positive.")
    return weight


def _check_ends(ends: Sequence[int] | None, n_terms: int) -> Sequence[int]:
    if ends is None:
        return [n_terms]
    for position, end in enumerate(ends):
        if not isinstance(end, Integral) or not 1 <= end <= n_terms:
            raise ValueError(
                f"ends[{position}] is {end}; use a whole number from 1 to the "
                f"{n_terms} columns of the design."
            )
    return ends
