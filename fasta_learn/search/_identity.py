"""From a config or a row to its index in the pool, by 64-bit hashes."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fasta_learn.configs import config_key

_CHUNK = 1 << 16
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)


class Identities:
    """Finds items of a pool; sixteen bytes an item instead of a table of keys.

    Equal hashes are compared by the items themselves, so that a collision of two
    different ones is harmless.

    Parameters
    ----------
    items : list of configs, or ndarray of shape (n_pool, n_features)
        The pool.
    """

    def __init__(self, items: Any):
        self._items = items
        hashes = _hash_items(items)
        # Stable: among equal hashes the indices ascend.
        self._order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._order]

    def find(self, item: Any) -> list[int]:
        """Return the indices of all items equal to this one, ascending."""
        if isinstance(item, np.ndarray) != isinstance(self._items, np.ndarray):
            return []
        rows = item[np.newaxis] if isinstance(item, np.ndarray) else [item]
        return [i for i in self._bucket(_hash_items(rows)[0]) if self._is(i, item)]

    def copies(self) -> list[tuple[int, int]]:
        """Return the index of each repeated item with that of its first equal."""
        repeated = self._hashes[1:][self._hashes[1:] == self._hashes[:-1]]
        pairs = []
        for value in np.unique(repeated):
            first: dict[str | bytes, int] = {}
            for index in self._bucket(value):
                earlier = first.setdefault(_key(self._items[index]), index)
                if earlier != index:
                    pairs.append((index, earlier))
        return sorted(pairs)

    def _bucket(self, value: np.uint64) -> list[int]:
        low, high = (np.searchsorted(self._hashes, value, s) for s in ("left", "right"))
        indices: list[int] = self._order[low:high].tolist()
        return indices

    def _is(self, index: int, item: Any) -> bool:
        return _key(self._items[index]) == _key(item)


def same_items(mine: Any, other: Any) -> bool:
    """Tell whether two pools list the same configs in the same order.

    Parameters
    ----------
    mine, other : list of configs, or ndarray of shape (n_pool, n_features)
        The pools.

    Returns
    -------
    bool
        Rows are equal by their numbers, configs by their keys.
    """
    if isinstance(mine, np.ndarray) or isinstance(other, np.ndarray):
        both = isinstance(mine, np.ndarray) and isinstance(other, np.ndarray)
        return both and np.array_equal(mine, other)
    return len(mine) == len(other) and all(
        a is b or _key(a) == _key(b) for a, b in zip(mine, other, strict=True)
    )


def _key(item: Any) -> str | bytes:
    """Return what identifies a config; for rows their bytes, -0.0 being 0.0."""
    if isinstance(item, np.ndarray):
        return _bits(item).tobytes()
    return config_key(item)


def _bits(rows: NDArray[np.intp]) -> NDArray[np.uint64]:
    return (rows.astype(np.float64) + 0.0).view(np.uint64)


def _hash_items(items: Any) -> NDArray[np.uint64]:
    if isinstance(items, np.ndarray):
        starts = range(0, len(items), _CHUNK)
        parts = [_hash_rows(items[start : start + _CHUNK]) for start in starts]
        return np.concatenate(parts)
    return _hash_configs(items)


def _hash_rows(rows: NDArray[np.intp]) -> NDArray[np.uint64]:
    hashes = np.full(len(rows), _FACTOR)
    for column in _bits(rows).T:
        hashes = (hashes ^ column) * _FACTOR
        hashes ^= hashes >> _SHIFT
    return hashes


def _hash_configs(configs: Sequence[Any]) -> NDArray[np.uint64]:
    # Python's own hash of a text differs from process to process.
    digests = (
        hashlib.blake2b(config_key(config).encode(), digest_size=8).digest()
        for config in configs
    )
    return np.frombuffer(b"".join(digests), dtype=np.uint64)
