"""What a prior sees of a pool: features that mean much the same for every kernel."""

import re
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fasta_learn.configs import config_to_dict

# Stands for a feature that a pool does not have; below every real one.
MISSING = -1000.0

# Features of a pool as a whole, which say nothing about one config against another.
_ABOUT_POOL = ("size:", "sizes:", "pool:")

Columns = dict[str, NDArray[np.float64]]


def pool_columns(configs: Sequence[Any], shape: Mapping[str, float] | None) -> Columns:
    """Return the features of a pool by name.

    Parameters
    ----------
    configs : sequence of config
        The whole pool; some features are relative to it.
    shape : dict of str to float, or None
        Problem sizes, by the axis that a tile size names: ``m`` for ``BLOCK_M``,
        ``x0`` for ``X0BLOCK``. Other names become features as they are.

    Returns
    -------
    dict of str to ndarray of shape (n_configs,)
        Keywords and what is derived of them as base-two logarithms, each also
        relative to the median of the pool (``rel:``).
    """
    logs = {name: _log2(values) for name, values in _numeric(configs).items()}
    columns = {f"key:{name}": values for name, values in logs.items()}
    tiles = {name: values for name, values in logs.items() if _is_tile(name)}
    columns |= _derived(tiles, logs, len(configs))
    columns |= _by_shape(tiles, shape or {}, len(configs))
    columns |= {
        f"rel:{name}": values - np.median(values)
        for name, values in columns.items()
        if not name.startswith(_ABOUT_POOL)
    }
    columns |= _about_pool(logs, len(configs))
    return columns


def as_matrix(
    columns: Columns, names: Sequence[str], n_rows: int
) -> NDArray[np.float32]:
    """Return the named features as a matrix of single precision.

    Parameters
    ----------
    columns : dict of str to ndarray of shape (n_rows,)
        Features by name.
    names : sequence of str
        Which features, in order; `MISSING` stands for those that are not there.
    n_rows : int
        Number of configs.

    Returns
    -------
    ndarray of shape (n_rows, n_names)
        The matrix.
    """
    matrix = np.full((n_rows, len(names)), MISSING, dtype=np.float32)
    for j, name in enumerate(names):
        if name in columns:
            matrix[:, j] = columns[name]
    return matrix


def shares_features(columns: Columns, names: Sequence[str]) -> bool:
    """Tell whether one of the named features tells configs of the pool apart.

    Parameters
    ----------
    columns : dict of str to ndarray of shape (n_rows,)
        Features of the pool by name.
    names : sequence of str
        Features that a prior knows.

    Returns
    -------
    bool
        Whether there is one.
    """
    known = set(names)
    return any(
        name in known and np.ptp(values) > 0
        for name, values in columns.items()
        if not name.startswith(_ABOUT_POOL)
    )


def _numeric(configs: Sequence[Any]) -> Columns:
    """Keywords that are finite numbers in all configs."""
    dicts = [config_to_dict(config) for config in configs]
    columns = {}
    for name in sorted(set.intersection(*(set(config) for config in dicts))):
        values = [config[name] for config in dicts]
        if all(
            isinstance(value, Real) and np.isfinite(float(value)) for value in values
        ):
            columns[name] = np.array(values, dtype=np.float64)
    return columns


def _log2(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Base-two logarithms; zero comes one octave below one, negatives lower."""
    positive = values > 0
    return np.where(positive, np.log2(np.where(positive, values, 1.0)), values - 1.0)


def _is_tile(name: str) -> bool:
    return re.search(r"block|tile", name, re.IGNORECASE) is not None


def _is_sub_tile(name: str) -> bool:
    return re.search(r"sub", name, re.IGNORECASE) is not None


def _axis(name: str) -> str:
    """What a tile size is about: m of BLOCK_M, x0 of X0BLOCK_SUB."""
    return re.sub(r"block|tile|size|sub|_", "", name.lower())


def _is_reduced(axis: str) -> bool:
    return axis[:1] in ("k", "r")


def _derived(tiles: Columns, logs: Columns, n_rows: int) -> Columns:
    """Sizes of tiles, of what a warp gets of them, and of the memory they need."""
    blocks = {
        _axis(name): value for name, value in tiles.items() if not _is_sub_tile(name)
    }
    if not blocks:
        return {}
    subs = {_axis(name): value for name, value in tiles.items() if _is_sub_tile(name)}
    zero = np.zeros(n_rows)
    tile = sum(blocks.values(), zero)
    kept = sum((v for axis, v in blocks.items() if not _is_reduced(axis)), zero)
    inner = sum((subs.get(axis, value) for axis, value in blocks.items()), zero)
    is_product = {"m", "n", "k"} <= blocks.keys()
    accumulated = kept if is_product else inner
    warps = logs.get("num_warps", zero)
    columns = {
        "tile": tile,
        "tile kept": kept,
        "tile reduced": tile - kept,
        "tile inner": inner,
        "tile accumulated": accumulated,
        "inner loops": tile - inner,
        "tile per warp": tile - warps,
        "inner per warp": inner - warps,
        "accumulated per warp": accumulated - warps,
    }
    if is_product:
        edges = np.logaddexp2(blocks["m"], blocks["n"])
        columns["aspect"] = blocks["m"] - blocks["n"]
        columns["intensity"] = kept - edges
        columns["shared memory"] = blocks["k"] + edges + logs.get("num_stages", zero)
    return columns


def _by_shape(tiles: Columns, shape: Mapping[str, float], n_rows: int) -> Columns:
    """How tiles fit into the problem: how many there are, how much is masked."""
    sizes = {axis.lower(): float(size) for axis, size in shape.items()}
    columns = {
        f"size:{axis}": np.full(n_rows, _log2(np.array(size)))
        for axis, size in sizes.items()
    }
    if not sizes:
        return columns
    zero = np.zeros(n_rows)
    batch = zero + _log2(np.array(sizes.get("batch", 1.0)))
    programs, kept, steps, reduced, masked = batch, batch, zero, zero, zero
    for name, value in tiles.items():
        axis = _axis(name)
        if _is_sub_tile(name) or not sizes.get(axis, 0) > 0:
            continue
        ratio = np.log2(sizes[axis]) - value
        count = np.log2(np.ceil(2.0**ratio - 1e-9))
        columns[f"ratio:{axis}"], columns[f"masked:{axis}"] = ratio, count - ratio
        masked = masked + count - ratio
        if _is_reduced(axis):
            steps, reduced = steps + ratio, reduced + ratio + value
        else:
            programs, kept = programs + count, kept + ratio + value
    columns |= {"programs": programs, "steps": steps, "masked": masked}
    columns |= {"sizes:kept": kept, "sizes:reduced": reduced}
    return columns


def _about_pool(logs: Columns, n_rows: int) -> Columns:
    """How far from the middle a config is, and of how many features."""
    varying = [values for values in logs.values() if np.ptp(values) > 0]
    squares = [((v - np.median(v)) / np.ptp(v)) ** 2 for v in varying]
    return {
        "pool:centre": sum(squares, np.zeros(n_rows)),
        "pool:features": np.full(n_rows, float(len(varying))),
    }
