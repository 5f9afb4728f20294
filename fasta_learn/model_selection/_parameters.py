"""Checks of what a ModelSelector is given, beyond types and shapes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fasta_learn.bases import (
    CubicBasis,
    FourierBasis,
    LinearBasis,
    PolynomialBasis,
    QuadraticBasis,
)

_DEFAULT_NAMES = {
    LinearBasis: "linear",
    QuadraticBasis: "quadratic",
    PolynomialBasis: "full",
    FourierBasis: "fourier",
    CubicBasis: "cubic",
}


def check_alphas(alpha: float | ArrayLike) -> NDArray[np.float64]:
    """Return the candidates as a 1-D array; ValueError names a wrong one."""
    alphas = np.atleast_1d(np.asarray(alpha, dtype=np.float64))
    if alphas.ndim != 1 or not len(alphas):
        raise ValueError(
            f"alpha has the shape {alphas.shape}; use a number or a list of numbers."
        )
    wrong = np.flatnonzero(~((alphas >= 0) & (alphas < np.inf)))
    if len(wrong):
        raise ValueError(
            f"alpha[{wrong[0]}] is {alphas[wrong[0]]}; "
            "use finite numbers of at least 0."
        )
    return alphas


def name_bases(bases: Sequence[Any] | None) -> list[tuple[str, Any]]:
    """Return (name, transformer) pairs; transformers without a name get one.

    Parameters
    ----------
    bases : sequence of transformers or (str, transformer) tuples, or None
        As given to `ModelSelector`; None stands for the five default bases.

    Returns
    -------
    list of (str, transformer) tuples
        All with different names.

    Raises
    ------
    ValueError
        There are none, one is malformed, or two have the same name.
    TypeError
        One is a class or no transformer.
    """
    if bases is None:
        return [(name, basis()) for basis, name in _DEFAULT_NAMES.items()]
    if not bases:
        raise ValueError("bases is empty; give at least one transformer, or None.")
    named = [
        base if isinstance(base, tuple) else (_default_name(base), base)
        for base in bases
    ]
    for position, base in enumerate(named):
        if len(base) != 2 or not isinstance(base[0], str):
            raise ValueError(
                f"bases[{position}] is {base!r}; use a transformer or a tuple "
                "(name, transformer)."
            )
        if isinstance(base[1], type):
            raise TypeError(
                f"bases[{position}] is the class {base[1].__name__}; "
                "use an instance of it."
            )
        if not (hasattr(base[1], "fit") and hasattr(base[1], "transform")):
            raise TypeError(
                f"bases[{position}] is {base[1]!r}, which lacks fit or transform; "
                "use a transformer."
            )
    names = [name for name, _ in named]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(
            f"bases has several of {repeated}; give (name, transformer) tuples "
            "with different names."
        )
    return named


def _default_name(basis: Any) -> str:
    name = type(basis).__name__
    return _DEFAULT_NAMES.get(type(basis), name.removesuffix("Basis").lower())


def merge_copies(
    X: NDArray[np.float64], y: NDArray[np.float64], weight: NDArray[np.float64] | None
) -> tuple[
    NDArray[np.intp] | slice, NDArray[np.intp] | slice, NDArray[np.float64] | None
]:
    """Find samples that agree in all features and in y.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features.
    y : ndarray of shape (n_samples,)
        Durations.
    weight : ndarray of shape (n_samples,) or None
        Sample weights.

    Returns
    -------
    first : ndarray of shape (n_distinct,) or slice
        Indices of one sample of each kind; a full slice if all are distinct.
    copy_of : ndarray of shape (n_samples,) or slice
        For each sample the position in `first` of its kind.
    weight : ndarray of shape (n_distinct,) or None
        Summed weights; None if all samples are distinct and have none.
    """
    everything = slice(None)
    # Mostly all durations differ, and then this is all it costs.
    if len(np.unique(y)) == len(y):
        return everything, everything, weight
    _, first, copy_of = np.unique(
        np.column_stack([X, y]), axis=0, return_index=True, return_inverse=True
    )
    if len(first) == len(y):
        return everything, everything, weight
    return first, copy_of, np.bincount(copy_of, weights=weight).astype(np.float64)
