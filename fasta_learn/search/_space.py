"""The pool as a search sees it: configs to measure and features to learn from."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from fasta_learn.configs import ConfigVectorizer, config_key
from fasta_learn.configs._tables import frame_to_configs, holds_configs, is_named_frame

# Stands for the index of a row that the pool holds more than once.
_AMBIGUOUS = -1


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
        self._position = _positions(self.items)
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
        return (values - self._low) / self._span

    def holds(self, X: Any) -> bool:
        """Tell whether X lists the same configs in the same order."""
        items = _items(X)
        return len(items) == len(self) and all(
            _key(mine) == _key(other)
            for mine, other in zip(self.items, items, strict=True)
        )

    def positions(self, X: Any) -> NDArray[np.intp]:
        """Return the pool indices of configs or rows.

        Raises
        ------
        ValueError
            A row is not in the pool, or several rows of the pool are equal to it.
        """
        found = np.empty(len(X), dtype=np.intp)
        for i, item in enumerate(_items(X)):
            position = self._position.get(_key(item))
            if position is None:
                raise ValueError(
                    f"X[{i}] is not in the pool: {item!r}; pass configs of the pool "
                    "that the search was opened with, or their indices."
                )
            if position == _AMBIGUOUS:
                raise ValueError(
                    f"X[{i}] occurs several times in the pool: {item!r}; name the "
                    "config by its index."
                )
            found[i] = position
        return found


def default_vectorizer() -> ConfigVectorizer:
    """Return the vectorizer of the default search: every keyword, tiles by ratio."""
    return ConfigVectorizer(log2="auto", boolean=True, categorical=True)


def _items(X: Any) -> Any:
    if is_named_frame(X):
        return frame_to_configs(X)
    return list(X) if holds_configs(X) else np.asarray(X)


def _key(item: Any) -> str | bytes:
    """Return what identifies a config; for rows their bytes, -0.0 being 0.0."""
    if isinstance(item, np.ndarray):
        return (item.astype(np.float64) + 0.0).tobytes()
    return config_key(item)


def _positions(items: Any) -> dict[str | bytes, int]:
    """Map the key of each config to its index.

    Rows of a matrix may be equal: they are configs which the features do not tell
    apart, and the map leaves them out. Configs with names may not.
    """
    position: dict[str | bytes, int] = {}
    copies = []
    for i, item in enumerate(items):
        if position.setdefault(_key(item), i) != i:
            copies.append(i)
    if copies and not isinstance(items, np.ndarray):
        pairs = [f"{i} (like {position[_key(items[i])]})" for i in copies[:5]]
        listed = ", ".join(pairs) + (", ..." if len(copies) > 5 else "")
        raise ValueError(
            f"the pool holds {len(copies)} duplicate configs, at {listed}; "
            "give each config once."
        )
    for i in copies:
        position[_key(items[i])] = _AMBIGUOUS
    return position
