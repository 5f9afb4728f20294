"""The pool as a search sees it: configs to measure and features to learn from."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from fasta_learn.configs import ConfigVectorizer
from fasta_learn.configs._tables import frame_to_configs, holds_configs, is_named_frame
from fasta_learn.search._identity import Identities, same_items


class PoolSpace:
    """Configs of a pool, their features in the unit range, and who is who.

    Parameters
    ----------
    X : list of configs, frame, or ndarray of shape (n_pool, n_features)
        The pool; a matrix must have been validated.
    vectorizer : transformer
        Makes features of configs; a clone of it is fitted on the whole pool.

    Attributes
    ----------
    items : sequence of length n_pool
        What an oracle is asked to measure: the given configs themselves, dicts for
        a frame, rows for a matrix.
    features : ndarray of shape (n_pool, n_features_out)
        Features scaled to the unit range by the extremes of the pool.

    Raises
    ------
    ValueError
        Two configs of the pool are the same. Rows of a matrix may be equal.
    """

    def __init__(self, X: Any, vectorizer: Any):
        self.items: Sequence[Any] = _items(X)
        self._identities = _identify(self.items)
        self.vectorizer = clone(vectorizer).fit(X)
        values = np.asarray(self.vectorizer.transform(X), dtype=np.float64)
        self._low = values.min(axis=0)
        span = np.ptp(values, axis=0)
        self._span = np.where(span > 0, span, 1.0)
        self.features: NDArray[np.float64] = (values - self._low) / self._span

    def __len__(self) -> int:
        """Return the number of configs."""
        return len(self.items)

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return features of any configs, scaled as those of the pool."""
        values = np.asarray(self.vectorizer.transform(X), dtype=np.float64)
        scaled: NDArray[np.float64] = (values - self._low) / self._span
        return scaled

    def holds(self, X: Any) -> bool:
        """Tell whether X lists the same configs in the same order."""
        return same_items(self.items, _items(X))

    def positions(self, X: Any) -> NDArray[np.intp]:
        """Return the pool indices of configs or rows.

        Raises
        ------
        ValueError
            A row is not in the pool, or several rows of the pool are equal to it.
        """
        found = np.empty(len(X), dtype=np.intp)
        for i, item in enumerate(_items(X)):
            positions = self._identities.find(item)
            if not positions:
                raise ValueError(
                    f"X[{i}] is not in the pool: {item!r}; pass configs of the pool "
                    "that the search was opened with, or their indices."
                )
            if len(positions) > 1:
                raise ValueError(
                    f"X[{i}] occurs several times in the pool: {item!r}; name the "
                    "config by its index."
                )
            found[i] = positions[0]
        return found


def default_vectorizer() -> ConfigVectorizer:
    """Return the vectorizer of the default search: every keyword, tiles by ratio."""
    return ConfigVectorizer(log2="auto", boolean=True, categorical=True)


def _items(X: Any) -> Any:
    if is_named_frame(X):
        return frame_to_configs(X)
    return list(X) if holds_configs(X) else np.asarray(X)


def _identify(items: Any) -> Identities:
    """Refuse repeated configs.

    Rows of a matrix may be equal: they are configs which the features do not tell
    apart. Configs with names may not.
    """
    identities = Identities(items)
    if isinstance(items, np.ndarray) or not (copies := identities.copies()):
        return identities
    listed = ", ".join(f"{copy} (like {first})" for copy, first in copies[:5])
    raise ValueError(
        f"the pool holds {len(copies)} duplicate configs, at {listed}"
        f"{', ...' if len(copies) > 5 else ''}; give each config once."
    )
