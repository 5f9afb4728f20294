"""Pools: configs with their recorded durations, in memory and in files."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fasta_learn.configs._kernel_tuner import read_kernel_tuner
from fasta_learn.configs._keys import config_key
from fasta_learn.configs._pool_formats import (
    as_csv,
    as_parquet,
    read_csv,
    read_parquet,
)
from fasta_learn.configs._pool_table import COSTS, PoolParts, duplicates, is_extra
from fasta_learn.exceptions import AllConfigsFailedError, PoolFormatError

_READERS = {
    ".csv": read_csv,
    ".csv.gz": read_csv,
    ".parquet": read_parquet,
    ".json": read_kernel_tuner,
    ".json.gz": read_kernel_tuner,
}


@dataclass(frozen=True, eq=False, repr=False)
class Pool:
    """All configs of a kernel with their recorded durations.

    Parameters
    ----------
    configs : list of dict
        The configs, each once.
    durations : ndarray of shape (n_configs,)
        Durations in ms, positive; inf where the config failed.
    status : list of str
        "ok", or why the config failed. If empty, it is "ok" where the duration is
        finite and "failed" elsewhere. Where it is not "ok", the duration becomes
        inf.
    name : str
        Name of the pool.
    extra : pandas.DataFrame
        Other measured columns, one row a config: duration_p20_ms,
        duration_p80_ms, duration_rel_sd, compile_seconds and the like.
    description : str
        What was measured, in words.

    Attributes
    ----------
    best_duration : float
        The shortest duration in ms; inf if every config failed.

    Raises
    ------
    ValueError
        The pool is empty, lengths differ, a duration is NaN or not positive, a config
        that is "ok" has no finite duration, or a config occurs twice.

    Examples
    --------
    >>> from fasta_learn.configs import Pool
    >>> pool = Pool([{"BLOCK": 32}, {"BLOCK": 64}], [0.5, 0.25], name="add")
    >>> pool
    Pool(name='add', n_configs=2, n_failed=0, best_duration=0.25)
    >>> pool.regret(0.5)
    1.0
    """

    configs: list[dict[str, Any]]
    durations: np.ndarray
    status: list[str] = field(default_factory=list)
    name: str = ""
    extra: pd.DataFrame = field(default_factory=pd.DataFrame)
    description: str = ""

    def __post_init__(self) -> None:
        durations = np.array(self.durations, dtype=np.float64)
        status = [str(outcome) for outcome in self.status] or [
            "failed" if duration == math.inf else "ok" for duration in durations.flat
        ]
        extra = self.extra
        if len(extra.columns) == 0:
            extra = pd.DataFrame(index=range(len(durations)))
        lengths = {"configs": len(self.configs), "status": len(status)}
        _check_lengths(durations.shape, {**lengths, "extra": len(extra)})
        durations[[outcome != "ok" for outcome in status]] = np.inf
        _check_durations(durations, status)
        _check_distinct(self.configs)
        object.__setattr__(self, "configs", list(self.configs))
        object.__setattr__(self, "durations", durations)
        object.__setattr__(self, "status", status)
        object.__setattr__(self, "extra", extra.reset_index(drop=True))

    def __len__(self) -> int:
        return len(self.configs)

    def __repr__(self) -> str:
        failed = int(np.isinf(self.durations).sum())
        return (
            f"Pool(name={self.name!r}, n_configs={len(self)}, n_failed={failed}, "
            f"best_duration={self.best_duration:.6g})"
        )

    @property
    def best_duration(self) -> float:
        """The shortest duration in ms; inf if every config failed."""
        return float(self.durations.min(initial=np.inf))

    def regret(self, duration: float) -> float:
        """Return how much slower a duration is than the best of the pool.

        Parameters
        ----------
        duration : float
            A duration in ms.

        Returns
        -------
        float
            ``duration / best_duration - 1``: 0 for the best, inf for a failure.

        Raises
        ------
        AllConfigsFailedError
            The pool has no best duration.
        """
        if not math.isfinite(self.best_duration):
            raise AllConfigsFailedError(
                f"no config of the pool {self.name!r} ran, so there is no best "
                "duration to compare with."
            )
        return float(duration) / self.best_duration - 1.0

    def is_catch(self, duration: float, tolerance: float = 1.05) -> bool:
        """Tell whether a duration is about as short as the best of the pool.

        Parameters
        ----------
        duration : float
            A duration in ms.
        tolerance : float, default=1.05
            How many times the best duration still counts.

        Returns
        -------
        bool
            True if the duration is finite and within the tolerance.
        """
        return math.isfinite(duration) and duration <= tolerance * self.best_duration

    def to_frame(self) -> pd.DataFrame:
        """Return the pool as a frame, laid out as its file.

        Returns
        -------
        pandas.DataFrame
            One row a config: the parameters (None where a config lacks one),
            duration_ms, the extra columns, status.
        """
        names = list(dict.fromkeys(name for config in self.configs for name in config))
        columns = {name: _column([c.get(name) for c in self.configs]) for name in names}
        frame = pd.DataFrame(columns, index=range(len(self)))
        frame["duration_ms"] = self.durations
        frame[list(self.extra.columns)] = self.extra
        frame["status"] = self.status
        return frame


def _column(values: list[Any]) -> pd.Series:
    # With None among them, pandas would turn ints into floats.
    return pd.Series(values, dtype=object if None in values else None)


def _check_lengths(shape: tuple[int, ...], lengths: dict[str, int]) -> None:
    if shape == (0,):
        raise ValueError("the pool is empty; it needs at least one config.")
    for part, length in lengths.items():
        if shape != (length,):
            raise ValueError(
                f"{part} has {length} items, but durations is of shape {shape}; each "
                "config needs one of each."
            )


def _check_distinct(configs: Sequence[dict[str, Any]]) -> None:
    repeated = duplicates(config_key(config) for config in configs)
    if repeated:
        listed = ", ".join(f"configs[{j}] is configs[{i}]" for i, j in repeated[:5])
        raise ValueError(
            f"{len(repeated)} configs of the pool occur more than once: {listed}"
            f"{', ...' if len(repeated) > 5 else ''}."
        )


def _check_durations(durations: np.ndarray, status: Sequence[str]) -> None:
    for index, (duration, outcome) in enumerate(zip(durations, status, strict=True)):
        if not duration > 0:
            raise ValueError(
                f"durations[{index}] is {duration}; a duration is a positive number of "
                "ms, use inf for a config that failed to compile or run."
            )
        if math.isinf(duration) and outcome == "ok":
            raise ValueError(
                f"status[{index}] is 'ok', but durations[{index}] is inf; say in the "
                "status why the config failed."
            )


def read_pool(path: str | os.PathLike[str], *, name: str | None = None) -> Pool:
    """Read a recorded pool from a file.

    Parameters
    ----------
    path : path-like
        The kind of file is told by its name: ``.csv``, ``.csv.gz`` or
        ``.parquet`` with one row a config, or ``.json`` or ``.json.gz``, a cache
        of Kernel Tuner, also of a run that was interrupted.
    name : str, default=None
        Name of the pool; by default that of the file without its ending.

    Returns
    -------
    Pool
        The pool.

    Raises
    ------
    PoolFormatError
        The file is of no known kind, or its content is wrong; the message names
        file, line and column.
    MissingExtraError
        Parquet is asked for and pyarrow is not installed.
    OSError
        The file can't be opened.

    Notes
    -----
    A table has a column ``duration_ms``: milliseconds, or inf for a config that
    failed. It may have ``status``, "ok" or the reason of the failure, and other
    columns of numbers: those whose names begin with ``duration_``, and
    ``compile_seconds``, ``run_seconds``, ``registers``, ``spills`` and
    ``shared_bytes``. All other columns are parameters. A column of whole numbers
    becomes int also if they are written as 128.0; one of True and False becomes
    bool; one where only some values are numbers stays text. An empty cell means
    that the config lacks the parameter.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from fasta_learn.configs import read_pool
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "copy.csv"
    ...     _ = path.write_text("BLOCK,duration_ms\\n64,0.25\\n128,inf\\n")
    ...     pool = read_pool(path)
    >>> pool
    Pool(name='copy', n_configs=2, n_failed=1, best_duration=0.25)
    >>> pool.configs[0], pool.status
    ({'BLOCK': 64}, ['ok', 'failed'])
    """
    path = Path(path)
    data = path.read_bytes()
    kind = _kind(path)
    if kind not in _READERS:
        raise PoolFormatError(
            f"{path}: unknown kind of pool file; the known kinds are "
            f"{', '.join(_READERS)} (the last two are caches of Kernel Tuner)."
        )
    parts = _READERS[kind](data, str(path))
    return _pool(parts, path.name[: -len(kind)] if name is None else name)


def _kind(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return "".join(suffixes[-2:] if suffixes[-1:] == [".gz"] else suffixes[-1:])


def _pool(parts: PoolParts, name: str) -> Pool:
    return Pool(
        parts.configs,
        parts.durations,
        parts.status,
        name,
        parts.extra,
        parts.description,
    )


def write_pool(pool: Pool, path: str | os.PathLike[str]) -> None:
    """Write a pool to a file that `read_pool` reads back as it is.

    Parameters
    ----------
    pool : Pool
        The pool. Its name and description are not written.
    path : path-like
        The kind of file is told by its name: ``.csv``, ``.csv.gz`` or
        ``.parquet``.

    Raises
    ------
    ValueError
        The kind is another one, or the pool would not be the same when read back,
        such as text that looks like a number; nothing is written then.
    MissingExtraError
        Parquet is asked for and pyarrow is not installed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from fasta_learn.configs import Pool, write_pool
    >>> pool = Pool([{"BLOCK": 32}, {"BLOCK": 64}], [0.2, 0.1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "add.csv"
    ...     write_pool(pool, path)
    ...     print(path.read_text())
    BLOCK,duration_ms,status
    32,0.2,ok
    64,0.1,ok
    <BLANKLINE>
    """
    path = Path(path)
    kind = _kind(path)
    for column in pool.extra.columns:
        if not is_extra(str(column)):
            raise ValueError(
                f"extra column {column!r} would be read back as a parameter; the "
                "names of extra columns must begin with 'duration_', or be one of "
                f"{', '.join(COSTS)}."
            )
    if kind in (".csv", ".csv.gz"):
        data = as_csv(pool.to_frame(), compress=kind == ".csv.gz")
    elif kind == ".parquet":
        data = as_parquet(pool.to_frame())
    else:
        raise ValueError(
            f"{path}: a pool can be written as .csv, .csv.gz or .parquet only."
        )
    _check_same(pool, data, kind, path)
    path.write_bytes(data)


def _check_same(pool: Pool, data: bytes, kind: str, path: Path) -> None:
    try:
        again = _pool(_READERS[kind](data, str(path)), pool.name)
    except PoolFormatError as error:
        raise ValueError(
            f"this pool can't be read back once written: {error}"
        ) from error
    pairs = zip(pool.configs, again.configs, strict=True)
    for index, (config, copy) in enumerate(pairs):
        if config != copy:
            raise ValueError(
                f"configs[{index}] is {config}, but would be read back from {path} as "
                f"{copy}; use numbers, True and False, or text that is neither, and "
                "leave out keywords without a value."
            )
    if again.status != pool.status or not again.extra.equals(
        pool.extra.astype(np.float64)
    ):
        raise ValueError(
            f"status or extra columns would not be read back from {path} as they are; "
            "use text without spaces around it, and numbers."
        )
