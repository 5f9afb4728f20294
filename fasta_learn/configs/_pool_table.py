"""From the cells of a pool file to configs and durations, with exact errors."""

import math
import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fasta_learn.configs._keys import config_key
from fasta_learn.exceptions import PoolFormatError

DURATION = "duration_ms"
STATUS = "status"
# Columns besides these and duration_* are parameters.
COSTS = ("compile_seconds", "run_seconds", "registers", "spills", "shared_bytes")
_HINT = "write a positive number of ms, or inf for a config that failed."
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_DURATION = re.compile(_NUMBER.pattern + "|[+-]?(inf|infinity|nan)", re.ASCII | re.I)


@dataclass(frozen=True)
class PoolParts:
    """What the readers of files give to a pool."""

    configs: list[dict[str, Any]]
    durations: np.ndarray
    status: list[str]
    extra: pd.DataFrame
    description: str = ""


@dataclass(frozen=True)
class Table:
    """Cells of a file by column, and what to call its rows in errors.

    Parameters
    ----------
    file : str
        Path of the file.
    columns : dict of str to list
        Cells of each column: text, or values of Python types; None if empty.
    rows : list of str
        Name of each row, such as "line 2".
    """

    file: str
    columns: dict[str, list[Any]]
    rows: list[str]

    def error(self, message: str, row: int, column: str) -> PoolFormatError:
        """Return the error for a cell.

        Parameters
        ----------
        message : str
            What is wrong and what to do.
        row : int
            Index of the row.
        column : str
            Name of the column.

        Returns
        -------
        PoolFormatError
            The error, to be raised.
        """
        return PoolFormatError(
            f"{self.file}, {self.rows[row]}, column {column!r}: {message}"
        )

    def to_parts(self) -> PoolParts:
        """Interpret the columns.

        Returns
        -------
        PoolParts
            Configs, durations in ms, status, and the other measured columns.

        Raises
        ------
        PoolFormatError
            The table has no duration_ms, no parameter or no row, a cell is wrong,
            or a config occurs twice.
        """
        parameters = self._parameters()
        status = [_text(cell) for cell in self.columns.get(STATUS, [])]
        durations = self._durations(status)
        names = [n for n in self.columns if is_extra(n) and n != DURATION]
        extra = {name: self._extra(name) for name in names}
        configs = self._configs(parameters)
        refuse_duplicates(configs, self.rows, self.file)
        default = ["ok" if math.isfinite(d) else "failed" for d in durations]
        status = [s or d for s, d in zip(status or default, default, strict=True)]
        frame = pd.DataFrame(extra, index=range(len(configs)), dtype=np.float64)
        return PoolParts(configs, np.array(durations), status, frame)

    def _parameters(self) -> list[str]:
        if DURATION not in self.columns:
            raise PoolFormatError(
                f"{self.file}, line 1: there is no column {DURATION!r} (milliseconds, "
                "inf for a config that failed); the columns are: "
                f"{', '.join(map(repr, self.columns))}."
            )
        if "duration" in self.columns:
            raise PoolFormatError(
                f"{self.file}, line 1: column 'duration' beside {DURATION!r} is "
                "ambiguous; remove it, or begin its name with 'duration_'."
            )
        names = [name for name in self.columns if name != STATUS and not is_extra(name)]
        if not names:
            raise PoolFormatError(
                f"{self.file}, line 1: there is no column of parameters."
            )
        if not self.rows:
            raise PoolFormatError(
                f"{self.file}: there are no configs, only the names of the columns."
            )
        return names

    def _durations(self, status: Sequence[str]) -> list[float]:
        durations = []
        for row, cell in enumerate(self.columns[DURATION]):
            if status and status[row] not in ("ok", ""):
                # Whatever stands in for the duration of a failed config, if it is
                # one at all: nothing, 0, -1, NaN, 1e20.
                if cell is not None:
                    self._float(cell, row, DURATION, _HINT)
                durations.append(math.inf)
                continue
            duration = self._duration(cell, row)
            if math.isinf(duration) and status and status[row] == "ok":
                raise self.error(
                    "it is inf, but the status is 'ok'; say in the status why the "
                    "config failed.",
                    row,
                    DURATION,
                )
            durations.append(duration)
        return durations

    def _duration(self, cell: Any, row: int) -> float:
        if cell is None:
            raise self.error(f"it is empty; {_HINT}", row, DURATION)
        duration = self._float(cell, row, DURATION, _HINT)
        if not duration > 0:
            raise self.error(f"it is {cell}; {_HINT}", row, DURATION)
        return duration

    def _float(self, cell: Any, row: int, column: str, hint: str) -> float:
        if isinstance(cell, bool) or not (
            isinstance(cell, (int, float)) or _DURATION.fullmatch(str(cell))
        ):
            raise self.error(f"{cell!r} is not a number; {hint}", row, column)
        return float(cell)

    def _extra(self, name: str) -> list[float]:
        hint = "write a number, or leave the cell empty."
        return [
            math.nan if cell is None else self._float(cell, row, name, hint)
            for row, cell in enumerate(self.columns[name])
        ]

    def _configs(self, names: Sequence[str]) -> list[dict[str, Any]]:
        columns = [typed(self.columns[name]) for name in names]
        return [
            {
                name: value
                for name, value in zip(names, row, strict=True)
                if value is not None
            }
            for row in zip(*columns, strict=True)
        ]


def is_extra(name: str) -> bool:
    """Tell whether a column holds what was measured besides the duration.

    Parameters
    ----------
    name : str
        Name of the column.

    Returns
    -------
    bool
        True for ``duration_...`` and for the columns of `COSTS`.
    """
    return name.startswith("duration_") or name in COSTS


def _text(cell: Any) -> str:
    text = "" if cell is None else str(cell)
    return "ok" if text.lower() == "ok" else text


def typed(cells: Sequence[Any]) -> list[Any]:
    """Give a column of parameters the narrowest type that fits all its cells.

    Parameters
    ----------
    cells : sequence
        Text, or values that have a type already; None where empty.

    Returns
    -------
    list
        Bools if all are True or False, ints if all are whole numbers, floats if
        all are finite numbers, else the cells as they are. None stays.
    """
    given = [cell for cell in cells if cell is not None]
    for fits, convert in (
        (_is_bool, lambda cell: str(cell).lower() == "true"),
        (_is_whole, _whole),
        (_is_number, float),
    ):
        if all(fits(cell) for cell in given):
            return [None if cell is None else convert(cell) for cell in cells]
    return list(cells)


def _is_bool(cell: Any) -> bool:
    return isinstance(cell, bool) or (
        isinstance(cell, str) and cell.lower() in ("true", "false")
    )


def _is_number(cell: Any) -> bool:
    if isinstance(cell, str):
        return _NUMBER.fullmatch(cell) is not None and math.isfinite(float(cell))
    if isinstance(cell, float):
        return math.isfinite(cell)
    return isinstance(cell, int) and not isinstance(cell, bool)


def _is_whole(cell: Any) -> bool:
    return _is_number(cell) and (
        isinstance(cell, int)
        or (isinstance(cell, str) and _INTEGER.fullmatch(cell) is not None)
        or float(cell).is_integer()
    )


def _whole(cell: Any) -> int:
    if isinstance(cell, str) and _INTEGER.fullmatch(cell):
        return int(cell)
    return cell if isinstance(cell, int) else int(float(cell))


def duplicates(keys: Iterable[Hashable]) -> list[tuple[int, int]]:
    """Return which items repeat an earlier one.

    Parameters
    ----------
    keys : iterable of hashable
        The items.

    Returns
    -------
    list of (int, int)
        For each repetition the position of the first and its own.
    """
    first: dict[Hashable, int] = {}
    pairs = [(first.setdefault(key, i), i) for i, key in enumerate(keys)]
    return [(i, j) for i, j in pairs if i != j]


def refuse_duplicates(
    configs: Sequence[dict[str, Any]], rows: Sequence[str], file: str
) -> None:
    """Refuse a pool that holds a config twice.

    Parameters
    ----------
    configs : sequence of dict
        The configs.
    rows : sequence of str
        Name of the row of each.
    file : str
        Path of the file.

    Raises
    ------
    PoolFormatError
        One is repeated; the message lists the rows of up to five.
    """
    repeated = duplicates(config_key(config) for config in configs)
    if repeated:
        listed = "; ".join(
            f"{rows[j]} repeats {rows[i]} ({configs[j]})" for i, j in repeated[:5]
        )
        raise PoolFormatError(
            f"{file}: {len(repeated)} configs occur more than once: {listed}"
            f"{'; ...' if len(repeated) > 5 else ''}. Keep one row for each config."
        )
