"""Factorisations of ridge problems, each picked where it is fast and accurate.

Every function here takes a weighted problem: rows of the design and durations
already multiplied by the square root of the sample weight. All columns are
penalised. Notation: A is the (n, p) design, b the (n,) durations, H the hat
matrix, and the *spare* of a row is 1 − Hᵢᵢ, what its leverage leaves over.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import svd
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs

# A squared pivot this small beside the largest diagonal entry leaves about eight
# digits; from there on the SVD takes over, which does not square the condition.
_SMALLEST_PIVOT = 1e-8
# 1 − Hᵢᵢ comes from a subtraction in the nested form, so below this it is noise.
_SMALLEST_SPARE = 1e-6


def loo_residuals(
    design: NDArray[np.float64],
    target: NDArray[np.float64],
    alpha: float,
    ends: Sequence[int],
    floor: float,
) -> NDArray[np.float64]:
    """Return eᵢ / max(1 − Hᵢᵢ, floor) of each prefix, shape (n_ends, n)."""
    n_samples = len(target)
    residuals = np.full((len(ends), n_samples), np.nan)
    stops = np.asarray(ends)
    primal = stops < n_samples
    if primal.any():
        residuals[primal] = _nested(design, target, alpha, stops[primal], floor)
    if not primal.all():
        residuals[~primal] = _dual(design, target, alpha, stops[~primal], floor)
    for row in np.flatnonzero(np.isnan(residuals[:, 0])):
        residuals[row] = _singular(design[:, : stops[row]], target, alpha, floor)
    return residuals


def coefficients(
    design: NDArray[np.float64], target: NDArray[np.float64], alpha: float
) -> NDArray[np.float64]:
    """Return the (p,) ridge coefficients; of least norm where alpha leaves a choice."""
    n_samples, n_terms = design.shape
    primal = n_terms < n_samples
    gram = design.T @ design if primal else design @ design.T
    factor = _cholesky(gram, alpha)
    if factor is None or not _is_sound(factor):
        return _singular_coefficients(design, target, alpha)
    solved: NDArray[np.float64]
    if primal:
        solved = dpotrs(factor, design.T @ target, lower=1)[0]
    else:
        solved = design.T @ dpotrs(factor, target, lower=1)[0]
    return solved


def _cholesky(gram: NDArray[np.float64], alpha: float) -> NDArray[np.float64] | None:
    """Return the lower factor of gram + alpha·I, or None if it is not definite."""
    shifted = np.array(gram, order="F")
    shifted.flat[:: len(shifted) + 1] += alpha
    factor, failed_pivot = dpotrf(shifted, lower=1, overwrite_a=1)
    return None if failed_pivot else factor


def _is_sound(factor: NDArray[np.float64]) -> bool:
    pivots = factor.diagonal()
    return bool(pivots.min() ** 2 > _SMALLEST_PIVOT * pivots.max() ** 2)


def _nested(
    design: NDArray[np.float64],
    target: NDArray[np.float64],
    alpha: float,
    ends: NDArray[np.intp],
    floor: float,
) -> NDArray[np.float64]:
    """Serve every prefix from one factor; rows that are not accurate stay NaN.

    The leading block of a Cholesky factor is the factor of the leading block.
    With Z = L⁻¹A', prefix k has Hᵢᵢ = Σ_{j<k} Zⱼᵢ² and fits Σ_{j<k} Zⱼᵢ (Z b)ⱼ.
    """
    residuals = np.full((len(ends), len(target)), np.nan)
    design = design[:, : ends.max()]
    factor = _cholesky(design.T @ design, alpha)
    if factor is None:
        return residuals
    half = dtrtrs(factor, design.T, lower=1)[0]
    unique_ends, which = np.unique(ends, return_inverse=True)
    starts = np.concatenate([[0], unique_ends[:-1]])
    leverages = _running_sums(half**2, starts)
    fits = _running_sums(half * (half @ target)[:, None], starts)
    spares = 1 - leverages
    sound = np.array([_is_sound(factor[:end, :end]) for end in unique_ends])
    if floor < _SMALLEST_SPARE:
        sound &= spares.min(axis=1) > _SMALLEST_SPARE
    ratios = (target - fits[sound]) / np.maximum(spares[sound], floor)
    by_end = np.full_like(fits, np.nan)
    by_end[sound] = ratios
    return by_end[which]


def _running_sums(
    terms: NDArray[np.float64], starts: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Sum the rows of terms up to the end of each segment that begins at starts."""
    return np.add.reduceat(terms, starts, axis=0).cumsum(axis=0)


def _dual(
    design: NDArray[np.float64],
    target: NDArray[np.float64],
    alpha: float,
    ends: NDArray[np.intp],
    floor: float,
) -> NDArray[np.float64]:
    """Serve prefixes at least as wide as long by their (n, n) kernel matrices.

    With M = AA' + alpha·I: e = alpha·M⁻¹b and 1 − Hᵢᵢ = alpha·(M⁻¹)ᵢᵢ, so that
    alpha cancels out of their ratio and no digits do.
    """
    n_samples = len(target)
    residuals = np.full((len(ends), n_samples), np.nan)
    kernel, start = np.zeros((n_samples, n_samples)), 0
    for row in np.argsort(ends, kind="stable"):
        segment = design[:, start : ends[row]]
        kernel += segment @ segment.T
        start = ends[row]
        factor = _cholesky(kernel, alpha)
        if factor is not None and _is_sound(factor):
            half = dtrtrs(factor, np.eye(n_samples, order="F"), lower=1)[0]
            solved = dpotrs(factor, target, lower=1)[0]
            residuals[row] = _ratio(solved, (half**2).sum(axis=0), alpha, floor)
    return residuals


def _ratio(
    solved: NDArray[np.float64],
    diagonal: NDArray[np.float64],
    alpha: float,
    floor: float,
) -> NDArray[np.float64]:
    """Return alpha·solved / max(alpha·diagonal, floor), for alpha = 0 too."""
    clipped = alpha * diagonal < floor
    return np.where(clipped, alpha * solved, solved) / np.where(
        clipped, floor, diagonal
    )


def _decompose(
    design: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], int]:
    """Return the full SVD and the numerical rank."""
    left, values, right = svd(design, full_matrices=True, check_finite=False)
    smallest = values.max(initial=0) * max(design.shape) * np.finfo(float).eps
    return left, values, right, int(np.count_nonzero(values > smallest))


def _singular(
    design: NDArray[np.float64], target: NDArray[np.float64], alpha: float, floor: float
) -> NDArray[np.float64]:
    """Serve one prefix by the SVD, whatever its rank.

    Left vectors outside the range of the design enter I − H with weight one,
    those inside with alpha/(s² + alpha). The latter are kept without their
    factor alpha: where a row has no part outside, alpha cancels, also in the
    limit alpha = 0.
    """
    left, values, _, rank = _decompose(design)
    inside, outside = left[:, :rank], left[:, rank:].copy()
    outside[np.abs(outside) < len(target) * np.finfo(float).eps] = 0
    shrunk = inside / (values[:rank] ** 2 + alpha)
    solved, diagonal = shrunk @ (inside.T @ target), (shrunk * inside).sum(axis=1)
    rest, spare_rest = outside @ (outside.T @ target), (outside**2).sum(axis=1)
    touched = spare_rest > 0
    spares = np.maximum(alpha * diagonal + spare_rest, floor)
    within = _ratio(solved, np.where(touched, 1, diagonal), alpha, floor)
    np.divide(alpha * solved + rest, spares, out=within, where=touched)
    return within


def _singular_coefficients(
    design: NDArray[np.float64], target: NDArray[np.float64], alpha: float
) -> NDArray[np.float64]:
    left, values, right, rank = _decompose(design)
    values = values[:rank]
    rotated = left[:, :rank].T @ target
    return right[:rank].T @ (values / (values**2 + alpha) * rotated)
