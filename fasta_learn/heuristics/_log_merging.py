"""Merge logs, and tell what does not fit together."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import union_categoricals

from fasta_learn.heuristics._log import CHOICE, FEEDBACK, HeuristicLog
from fasta_learn.heuristics._log_columns import text_column
from fasta_learn.heuristics._log_reading import read_log

_FILE_COLUMNS = ("name", "n_rows", "n_inputs", "n_failed", "n_copies", "n_problems")
_Log = str | os.PathLike[str] | HeuristicLog


@dataclass(eq=False)
class MergeReport:
    """What `merge_logs` found.

    Attributes
    ----------
    files : DataFrame
        A row for each log: ``name``, ``n_rows`` (as read), ``n_inputs``,
        ``n_failed``, ``n_copies`` (rows that an earlier log has too) and
        ``n_problems`` (lines that could not be read).
    n_rows : int
        Rows of the merged log.
    n_inputs : int
        Inputs of the merged log.
    n_copies : int
        Rows that were left out as copies.
    n_incomplete : int
        Inputs that lack some of the choices.
    contradictions : DataFrame
        A row for each input and choice whose medians differ between the logs by
        more than the tolerance: the features, ``choice``, ``low`` and ``high``
        (medians in ms, inf = failed), ``ratio``, ``low_file`` and ``high_file``.
        The rows are in the merged log all the same.
    failed : DataFrame
        A row for each choice: ``choice``, ``n_rows``, ``n_failed``, and
        ``n_inputs``, the number of inputs with a failed row.
    problems : list of (str, int, str)
        Log, line number, and what was wrong there.
    """

    files: pd.DataFrame
    n_rows: int
    n_inputs: int
    n_copies: int
    n_incomplete: int
    contradictions: pd.DataFrame
    failed: pd.DataFrame
    problems: list[tuple[str, int, str]]

    def __str__(self) -> str:
        lines = [
            f"{name}: {n_rows} rows, {n_inputs} inputs, {n_failed} failed, {n_copies} "
            f"copies, {n_problems} problems"
            for name, n_rows, n_inputs, n_failed, n_copies, n_problems in zip(
                *(self.files[name] for name in _FILE_COLUMNS), strict=True
            )
        ]
        lines.append(
            f"merged: {self.n_rows} rows, {self.n_inputs} inputs, "
            f"{self.n_incomplete} of them without some choice, "
            f"{self.n_copies} copies left out, "
            f"{len(self.contradictions)} contradictions"
        )
        return "\n".join(lines)


def merge_logs(
    logs: Sequence[_Log], *, tolerance: float = 0.25, strict: bool = False
) -> tuple[HeuristicLog, MergeReport]:
    """Merge logs of one heuristic on one kind of device.

    Parameters
    ----------
    logs : sequence of str, path or HeuristicLog
        The logs. Their metadata are compared by meaning: keys and features may
        stand in any order.
    tolerance : float, default=0.25
        Medians of an input and choice in two logs contradict each other if they
        differ by more than this part of the smaller one.
    strict : bool, default=False
        Whether a line that can't be read is an error.

    Returns
    -------
    log : HeuristicLog
        All rows in the order of the logs, without copies, with the metadata and the
        order of columns of the first one.
    report : MergeReport
        What does not fit together; ``str(report)`` has a line for each log.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        There is no log, a file is none, or two are of different devices,
        heuristics or sets of features.

    Notes
    -----
    A row that is equal to one of an earlier log in all features, choice and feedback
    is taken for a copy. Equal rows within a log are repetitions: short durations
    often come out equal. So of equal rows, the merged log has as many as the log
    that has most of them.

    Examples
    --------
    >>> import pandas as pd
    >>> from fasta_learn.heuristics import HeuristicLog, LogMetadata, merge_logs
    >>> metadata = LogMetadata("mm", 0, (0, 0), ("m",), ())
    >>> logs = [
    ...     HeuristicLog(
    ...         metadata,
    ...         pd.DataFrame({"m": [16], "choice": ["orig"], "feedback": [feedback]}),
    ...     )
    ...     for feedback in (2.0, 3.0)
    ... ]
    >>> merged, report = merge_logs(logs)
    >>> len(merged)
    2
    >>> report.contradictions[["m", "choice", "low", "high", "ratio"]]
        m choice  low  high  ratio
    0  16   orig  2.0   3.0    1.5
    """
    if isinstance(logs, str | os.PathLike | HeuristicLog) or not len(logs):
        raise ValueError("logs must be a list of at least one log.")
    names = [_name_of(log, index) for index, log in enumerate(logs)]
    read = [
        log if isinstance(log, HeuristicLog) else read_log(log, strict=strict)
        for log in logs
    ]
    for name, log in zip(names, read, strict=True):
        differences = read[0].metadata.differences(log.metadata)
        if differences:
            raise ValueError(
                f"{names[0]} and {name} can't be merged: they differ in "
                f"{'; '.join(differences)}."
            )
    rows = _concatenate(read)
    source = np.repeat(np.arange(len(read)), [len(log) for log in read])
    kept = ~_copies(rows, source)
    problems = [
        (name, number, what)
        for name, log in zip(names, read, strict=True)
        for number, what in log.problems
    ]
    merged = HeuristicLog(
        read[0].metadata,
        rows[kept].reset_index(drop=True),
        [(number, f"{name}: {what}") for name, number, what in problems],
    )
    return merged, _report(names, read, rows, source, kept, tolerance, problems)


def _name_of(log: _Log, index: int) -> str:
    return f"logs[{index}]" if isinstance(log, HeuristicLog) else str(log)


def _concatenate(logs: list[HeuristicLog]) -> pd.DataFrame:
    numbers = (*logs[0].metadata.numerical_features, FEEDBACK)
    columns: dict[str, Any] = {}
    for name in logs[0].frame.columns:
        if name in numbers:
            columns[name] = np.concatenate([log.frame[name] for log in logs])
        else:
            texts = [text_column(log.frame, name) for log in logs]
            # Sorted, as a log that was read has them.
            columns[name] = union_categoricals(texts, sort_categories=True)
    return pd.DataFrame(columns)


def _copies(rows: pd.DataFrame, source: np.ndarray) -> np.ndarray:
    equal = pd.DataFrame({"row": _number_of(rows, list(rows.columns)), "log": source})
    equal["repetition"] = equal.groupby(["row", "log"]).cumcount()
    return equal.duplicated(["row", "repetition"]).to_numpy()


def _number_of(rows: pd.DataFrame, columns: list[str]) -> np.ndarray:
    return rows.groupby(columns, observed=True, sort=False).ngroup().to_numpy()


def _report(
    names: list[str],
    logs: list[HeuristicLog],
    rows: pd.DataFrame,
    source: np.ndarray,
    kept: np.ndarray,
    tolerance: float,
    problems: list[tuple[str, int, str]],
) -> MergeReport:
    keys = pd.DataFrame(
        {
            "input": _number_of(rows, logs[0].features),
            "log": source,
            CHOICE: rows[CHOICE].to_numpy(),
            "failed": np.isinf(rows[FEEDBACK].to_numpy()),
            "kept": kept,
        }
    )
    by_log = keys.groupby("log")
    files = pd.DataFrame(
        {
            "name": names,
            "n_rows": [len(log) for log in logs],
            "n_inputs": _per_log(by_log["input"].nunique(), logs),
            "n_failed": [log.n_failed for log in logs],
            "n_copies": _per_log((~keys["kept"]).groupby(keys["log"]).sum(), logs),
            "n_problems": [len(log.problems) for log in logs],
        }
    )
    n_choices = keys.groupby("input")[CHOICE].nunique()
    return MergeReport(
        files=files,
        n_rows=int(kept.sum()),
        n_inputs=len(n_choices),
        n_copies=int((~kept).sum()),
        n_incomplete=int((n_choices < keys[CHOICE].nunique()).sum()),
        contradictions=_contradictions(rows, keys, names, tolerance),
        failed=_failed(keys[kept]),
        problems=problems,
    )


def _per_log(counts: pd.Series, logs: list[HeuristicLog]) -> list[int]:
    return counts.reindex(range(len(logs)), fill_value=0).astype(int).tolist()


def _failed(keys: pd.DataFrame) -> pd.DataFrame:
    failed = keys[keys["failed"]]
    by_choice = pd.DataFrame(
        {
            "n_rows": keys.groupby(CHOICE).size(),
            "n_failed": failed.groupby(CHOICE).size(),
            "n_inputs": failed.groupby(CHOICE)["input"].nunique(),
        }
    )
    return by_choice.fillna(0).astype(int).rename_axis(CHOICE).reset_index()


def _contradictions(
    rows: pd.DataFrame, keys: pd.DataFrame, names: list[str], tolerance: float
) -> pd.DataFrame:
    medians = (
        keys.assign(feedback=rows[FEEDBACK].to_numpy(), row=np.arange(len(rows)))
        .groupby(["input", CHOICE, "log"], sort=False)
        .agg(median=(FEEDBACK, "median"), row=("row", "first"))
        .reset_index()
        .sort_values("median", kind="stable")
    )
    both = medians.groupby(["input", CHOICE], sort=False)
    ends = both.agg(
        row=("row", "min"),
        low=("median", "first"),
        high=("median", "last"),
        low_file=("log", "first"),
        high_file=("log", "last"),
    ).sort_values("row")
    ends = ends[ends["high"] > (1 + tolerance) * ends["low"]]
    features = [name for name in rows.columns if name != FEEDBACK]
    told = rows.loc[ends["row"], features].reset_index(drop=True)
    told["low"], told["high"] = ends["low"].to_numpy(), ends["high"].to_numpy()
    told["ratio"] = told["high"] / told["low"]
    for side in ("low_file", "high_file"):
        told[side] = [names[index] for index in ends[side]]
    return told
