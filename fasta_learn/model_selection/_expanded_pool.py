"""Rows expanded by competing bases, ready for many fits on subsets of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_array

from fasta_learn.bases import (
    CubicBasis,
    FourierBasis,
    LinearBasis,
    PolynomialBasis,
    QuadraticBasis,
)

# Exactly these classes, not their subclasses, which may expand otherwise.
_NESTED = (LinearBasis, QuadraticBasis, PolynomialBasis, CubicBasis)
_OWN = (*_NESTED, FourierBasis)
# Larger expansions of a whole pool are recomputed in blocks instead of kept.
_KEPT_BYTES = 2**28


def expand(transformer: Any, X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Expand checked rows by a fitted transformer, without checks if it is ours."""
    if type(transformer) in _OWN:
        expanded: NDArray[np.float64] = transformer._expand(X)
    else:
        expanded = check_array(transformer.transform(X), dtype=np.float64)
    return expanded


class ExpandedPool:
    """A pool of rows and the bases that compete on it.

    Every basis is fitted on the whole pool once. Expansions are kept as far as
    the models of the winners need them, so that a round of a search pays only
    for the rows it measures.

    Parameters
    ----------
    bases : sequence of (str, transformer) tuples
        Names and unfitted transformers; they are cloned.
    X : ndarray of shape (n_rows, n_features)
        Checked and scaled features in float64; no features at all are allowed
        with bases of this package.

    Attributes
    ----------
    names : list of str
        Names of the bases, in the order given.
    transformers : list of transformers
        The fitted clones.
    n_terms : list of int
        Number of columns of each basis.
    """

    def __init__(self, bases: Sequence[tuple[str, Any]], X: NDArray[np.float64]):
        self._X = X
        self._kept: dict[int, NDArray[np.float64]] = {}
        self.names = [name for name, _ in bases]
        self.transformers = [clone(transformer) for _, transformer in bases]
        self.n_terms = [self._prepare(i) for i in range(len(bases))]

    def _prepare(self, index: int) -> int:
        transformer = self.transformers[index]
        if type(transformer) in _OWN:
            # All that fit would learn, without checking the rows again.
            transformer.n_features_in_ = self._X.shape[1]
            return int(transformer.n_terms(self._X.shape[1]))
        transformer.fit(self._X)
        self._kept[index] = expand(transformer, self._X)
        return int(self._kept[index].shape[1])

    def is_nested(self, index: int) -> bool:
        """Tell whether the columns of a basis begin those of the larger ones."""
        return type(self.transformers[index]) in _NESTED

    def groups(self, indices: Sequence[int]) -> list[list[int]]:
        """Group bases that share columns, the widest of each group last."""
        nested = sorted(filter(self.is_nested, indices), key=self.n_terms.__getitem__)
        alone = [[index] for index in indices if not self.is_nested(index)]
        return [nested, *alone] if nested else alone

    def rows(self, index: int, rows: NDArray[np.intp] | slice) -> NDArray[np.float64]:
        """Return the columns of a basis for some rows, shape (n_selected, n_terms)."""
        kept = self._kept.get(index)
        if kept is not None:
            return kept[rows]
        return expand(self.transformers[index], self._X[rows])

    def predict(self, index: int, coef: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return expansion @ coef for the whole pool, shape (n_rows,)."""
        n_rows, n_terms = len(self._X), self.n_terms[index]
        block = max(1, _KEPT_BYTES // (8 * n_terms))
        if index not in self._kept and n_rows <= block:
            self._kept[index] = expand(self.transformers[index], self._X)
        if index in self._kept:
            return self._kept[index] @ coef
        starts = range(0, n_rows, block)
        parts = [self.rows(index, slice(i, i + block)) @ coef for i in starts]
        return np.concatenate(parts)
