"""What a log of measurements holds: its metadata and its rows."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

CHOICE = "choice"
FEEDBACK = "feedback"
# The keys of line 1 in torch's order; torch appends only to what begins so.
_KEYS = (
    "shared_memory",
    "device_capa",
    "name",
    "numerical_features",
    "categorical_features",
)


@dataclass(frozen=True)
class LogMetadata:
    """Line 1 of a log: which heuristic was measured, on which kind of device.

    Parameters
    ----------
    name : str
        The heuristic, such as ``"pad_mm"``.
    shared_memory : int or None
        Shared memory of the device per block, in bytes, as torch reports it.
    device_capa : tuple of int
        Compute capability of the device, such as ``(9, 0)``.
    numerical_features : tuple of str
        Names of the features that are numbers.
    categorical_features : tuple of str
        Names of the features that are categories.
    extra : dict, default={}
        Further keys of line 1; older logs have ``choices``. Ignored by ``==``.

    Examples
    --------
    >>> from fasta_learn.heuristics import LogMetadata
    >>> metadata = LogMetadata("pad_mm", 232448, (9, 0), ("m",), ("mat1_dtype",))
    >>> metadata == LogMetadata.from_line(metadata.header_line())
    True
    """

    name: str
    shared_memory: int | None
    device_capa: tuple[int, ...]
    numerical_features: tuple[str, ...]
    categorical_features: tuple[str, ...]
    extra: dict[str, Any] = field(default_factory=dict, compare=False)

    def header_line(self) -> str:
        """Return line 1, byte for byte as torch writes it.

        Returns
        -------
        str
            A JSON object without line end and without ``extra``: torch refuses to
            append to a file whose first line is not exactly this.
        """
        return json.dumps({key: _listed(getattr(self, key)) for key in _KEYS})

    @property
    def features(self) -> tuple[str, ...]:
        """Names of all features, numbers first."""
        return self.numerical_features + self.categorical_features

    def same_device(self, other: "LogMetadata") -> bool:
        """Tell whether both logs come from the same kind of device.

        Parameters
        ----------
        other : LogMetadata
            Metadata of another log.

        Returns
        -------
        bool
            True if shared memory and capability agree, which is all that torch
            looks at. An H100 and an H200 count as the same.
        """
        return (self.shared_memory, self.device_capa) == (
            other.shared_memory,
            other.device_capa,
        )

    def differences(self, other: "LogMetadata") -> list[str]:
        """List what keeps the rows of two logs from standing in one.

        Parameters
        ----------
        other : LogMetadata
            Metadata of another log.

        Returns
        -------
        list of str
            A phrase for each difference in meaning; empty if the logs fit. The
            order of keys and features and the extra keys do not count.
        """
        found = [
            f"{key} {getattr(self, key)!r} and {getattr(other, key)!r}"
            for key in ("name", "shared_memory", "device_capa")
            if getattr(self, key) != getattr(other, key)
        ]
        for key in ("numerical_features", "categorical_features"):
            only = set(getattr(self, key)) ^ set(getattr(other, key))
            if only:
                found.append(f"{key} ({', '.join(sorted(only))} only in one)")
        return found

    @classmethod
    def from_line(cls, line: str) -> "LogMetadata":
        """Read line 1 of a log.

        Parameters
        ----------
        line : str
            A JSON object, its keys in any order.

        Returns
        -------
        LogMetadata
            What it says; unknown keys are in ``extra``.

        Raises
        ------
        ValueError
            It is no JSON object, or a key is missing or of the wrong type.
        """
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the metadata is not JSON ({error}).") from error
        if not isinstance(values, dict):
            raise ValueError("the metadata is JSON, but no object.")
        missing = [key for key in _KEYS if key not in values]
        if missing:
            raise ValueError(f"the metadata lacks {', '.join(missing)}.")
        _check_types(values)
        known = {key: _tupled(values.pop(key)) for key in _KEYS}
        return cls(**known, extra=values)


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_types(values: Mapping[str, Any]) -> None:
    capability = values["device_capa"]
    names = [values["numerical_features"], values["categorical_features"]]
    fits = {
        "name": isinstance(values["name"], str),
        "shared_memory": values["shared_memory"] is None
        or _is_int(values["shared_memory"]),
        "device_capa": isinstance(capability, list) and all(map(_is_int, capability)),
        "numerical_features": _are_names(names[0]),
        "categorical_features": _are_names(names[1]),
    }
    wrong = [key for key, fit in fits.items() if not fit]
    if wrong:
        raise ValueError(
            f"the metadata has {wrong[0]} = {values[wrong[0]]!r:.80}, which is of the "
            "wrong type."
        )
    every = [*names[0], *names[1], CHOICE, FEEDBACK]
    if len(set(every)) < len(every):
        raise ValueError("the metadata names a feature twice.")


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


@dataclass(eq=False)
class HeuristicLog:
    """The rows of a log, one for each measurement.

    Parameters
    ----------
    metadata : LogMetadata
        What was measured, and on what.
    frame : DataFrame of shape (n_rows, n_features + 2)
        The features in the order of the log (numbers as int64 or float64,
        categories as pandas categories of text), then ``choice`` (a category) and
        ``feedback`` (in ms, inf = failed).
    problems : list of (int, str), default=[]
        Line numbers, from 1, and what was wrong there. Such lines have no row,
        unless the text says how they were read.

    See Also
    --------
    read_log : Reads a log from a file.
    group_inputs : One row for each input.
    """

    metadata: LogMetadata
    frame: pd.DataFrame
    problems: list[tuple[int, str]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def features(self) -> list[str]:
        """Names of the features in the order of the log."""
        return [name for name in self.frame.columns if name not in (CHOICE, FEEDBACK)]

    @property
    def choices(self) -> list[str]:
        """Names of the choices that occur, sorted."""
        return sorted(map(str, self.frame[CHOICE].unique()))

    @property
    def n_failed(self) -> int:
        """Number of measurements that failed."""
        return int(np.isinf(self.frame[FEEDBACK]).sum())

    def inputs(self) -> pd.DataFrame:
        """Return a row for each input, as `group_inputs` does.

        Returns
        -------
        DataFrame of shape (n_inputs, n_columns)
            Features, medians, noise, winner and shape group.
        """
        from fasta_learn.heuristics._inputs import group_inputs

        return group_inputs(self)
