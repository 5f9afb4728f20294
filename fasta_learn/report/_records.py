"""Measurements of a search in order, whatever kind of file they come from."""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from fasta_learn.oracles import Measurement
from fasta_learn.oracles._journal import _REPEAT
from fasta_learn.oracles._journal_file import JournalFile


@dataclass(frozen=True)
class Record:
    """A measured config.

    Attributes
    ----------
    config : dict or None
        Its parameters, if the file has them.
    measurement : Measurement
        What measuring it gave.
    index : int or None
        Its index in the pool, if the file has it.
    round : int or None
        The round in which it was measured, if the file has it.
    predicted : float or None
        The duration in ms that the search had predicted, if the file has it.
    repeats : list of float
        Durations in ms of further measurements, inf where one failed.
    """

    config: dict[str, Any] | None
    measurement: Measurement
    index: int | None = None
    round: int | None = None
    predicted: float | None = None
    repeats: list[float] = field(default_factory=list)

    @property
    def duration(self) -> float:
        """Duration in ms; inf if it failed."""
        return self.measurement.duration


@dataclass(frozen=True)
class Story:
    """What a file tells about a search.

    Attributes
    ----------
    kind : {"journal", "results"}
        What the file is.
    name : str
        What was searched, as far as it is known.
    about : dict
        The fingerprint in a journal.
    records : list of Record
        The measurements, in order.
    repeat_seconds : list of (float, float)
        Seconds of compiling and of running of each repeat.
    """

    kind: str
    name: str
    about: dict[str, Any]
    records: list[Record]
    repeat_seconds: list[tuple[float, float]] = field(default_factory=list)


def read_journal(path: str | os.PathLike[str]) -> Story:
    """Read a journal, without changing it; it may be in use.

    Parameters
    ----------
    path : path-like
        The journal.

    Returns
    -------
    Story
        Its measurements, repeats beside the config that they repeat.

    Raises
    ------
    OSError
        The file can't be read.
    ValueError
        It is no journal, or a line of it is corrupted.
    """
    file = JournalFile(Path(path))
    file.read()
    records: dict[str, Record] = {}
    seconds = []
    for key, (config, measurement) in file.records.items():
        if not (isinstance(key, str) and isinstance(config, dict)):
            raise ValueError(
                f"{path} has a record whose config is no set of parameters: "
                f"{config!r}; delete its line."
            )
        own, _, number = key.partition(_REPEAT)
        if not number:
            records[own] = Record(config, measurement)
            continue
        seconds.append(
            (measurement.compile_seconds or 0.0, measurement.run_seconds or 0.0)
        )
        if own in records:
            records[own].repeats.append(measurement.duration)
    about = _about(file.fingerprint)
    name = _name(about) or Path(path).stem
    return Story("journal", name, about, list(records.values()), seconds)


def _about(fingerprint: dict[str, Any] | None) -> dict[str, Any]:
    """Return the fingerprint of the oracle and the hash of the pool, flattened."""
    fingerprint = fingerprint or {}
    oracle = fingerprint.get("oracle")
    about = dict(_flat(oracle if isinstance(oracle, dict) else {"oracle": oracle}))
    if fingerprint.get("pool") is not None:
        about["pool"] = fingerprint["pool"]
    return about


def _flat(values: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    pairs = []
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            pairs += _flat(value, f"{before}{name}.")
        elif isinstance(value, (list, Mapping)):
            pairs.append((f"{before}{name}", json.dumps(value, ensure_ascii=False)))
        else:
            pairs.append((f"{before}{name}", value))
    return pairs


def _name(about: dict[str, Any]) -> str:
    for key in ("kernel", "kernel.name", "name"):
        name = about.get(key)
        if isinstance(name, str) and name:
            return name
    return ""


def find_winner(records: list[Record]) -> tuple[int, float] | None:
    """Return which config the search names, and its duration.

    Parameters
    ----------
    records : list of Record
        The measurements.

    Returns
    -------
    (int, float) or None
        Position and duration in ms of the fastest. If configs were repeated, these are
        the position and the median of the repeats of the best finalist: a finalist was
        repeated most often, and ran each time. None if none ran.
    """
    most = max((len(record.repeats) for record in records), default=0)
    scores = {}
    for position, record in enumerate(records):
        durations = record.repeats if most else [record.duration]
        if len(durations) == max(most, 1) and max(durations) < math.inf:
            scores[position] = median(durations)
    if not scores:
        return None
    return min(scores.items(), key=lambda pair: pair[1])
