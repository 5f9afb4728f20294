"""Which pools an experiment runs over."""

import math
import os
from collections.abc import Iterable, Mapping
from typing import Any

from fasta_learn.configs import Pool, read_pool
from fasta_learn.datasets import list_pools, load_pool


def resolve_pools(pools: Any) -> dict[str, Pool]:
    """Return pools by name.

    Parameters
    ----------
    pools : Pool, str or path-like, an iterable of these, or a mapping to these
        Pools, names of shipped pools, or pool files. A mapping renames them.

    Returns
    -------
    dict of str to Pool
        In the order given. A pool without a name is called by its position.

    Raises
    ------
    ValueError
        There is no pool, two have the same name, a name is not that of a shipped
        pool, or no config of a pool ran.
    TypeError
        One of them is something else.
    OSError
        A file can't be opened.
    """
    named: dict[str, Pool] = {}
    for position, (name, item) in enumerate(_named_items(pools)):
        pool = _load(item)
        name = name or pool.name or f"pool{position}"
        if name in named:
            raise ValueError(
                f"two pools are called {name!r}; pass a dict of name to pool."
            )
        if not math.isfinite(pool.best_duration):
            raise ValueError(
                f"no config of the pool {name!r} ran, so a replay has nothing to find."
            )
        named[name] = pool
    if not named:
        raise ValueError(
            "no pool is given; fasta_learn.datasets.list_pools() names those that ship."
        )
    return named


def _named_items(pools: Any) -> Iterable[tuple[str | None, Any]]:
    if isinstance(pools, Mapping):
        return pools.items()
    if isinstance(pools, (Pool, str, os.PathLike)):
        return [(None, pools)]
    return [(None, item) for item in pools]


def _load(item: Any) -> Pool:
    if isinstance(item, Pool):
        return item
    if not isinstance(item, (str, os.PathLike)):
        raise TypeError(
            f"a pool is a Pool, the name of a shipped one, or a path; got "
            f"{type(item).__name__}."
        )
    is_path = not isinstance(item, str) or os.path.exists(item) or os.path.dirname(item)
    if item not in list_pools() and (is_path or "." in str(item)):
        return read_pool(item)
    return load_pool(str(item))
