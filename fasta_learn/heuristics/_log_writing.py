"""Write logs that torch can append to, and append to those of torch."""

import csv
import gzip
import io
import lzma
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fasta_learn.heuristics._log import CHOICE, FEEDBACK, HeuristicLog, LogMetadata
from fasta_learn.heuristics._log_lines import GZIP, XZ

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

_Path = str | os.PathLike[str]
_CHUNK = 50_000  # rows; bounds the memory that writing needs
_BLOCK = 1 << 16  # bytes
_UNWRITABLE = re.compile("[\x00\r\n\ufffd\ud800-\udfff]")


def write_log(log: HeuristicLog, path: _Path) -> None:
    """Write a log as torch would have.

    Parameters
    ----------
    log : HeuristicLog
        The log. Its extra metadata are not written, for torch would then refuse to
        append.
    path : str or path
        The file; compressed if its name ends with ``.xz`` or ``.gz``. It is
        replaced only when all has been written.

    Raises
    ------
    ValueError
        A column is missing, or a value can't stand in a log: a number that is not
        finite, a duration that is not positive, a category with a line end.

    Notes
    -----
    A log that torch wrote comes out byte for byte, unless a category has a comma or a
    quote in it: such ones are quoted, where torch would break the line.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> from fasta_learn.heuristics import HeuristicLog, LogMetadata, write_log
    >>> frame = pd.DataFrame({"m": [16], "choice": ["orig"], "feedback": [2.0]})
    >>> log = HeuristicLog(LogMetadata("mm", 0, (0, 0), ("m",), ()), frame)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "log.txt"
    ...     write_log(log, path)
    ...     path.read_text().splitlines()[1:]
    ['m,choice,feedback', '16,orig,2.0']
    """
    columns = list(log.frame.columns)
    _check_columns(columns, log.metadata, "the frame of the log")
    path = Path(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with _open_writing(partial, path.suffix) as file:
            file.write(_head(log.metadata, columns).encode())
            for start in range(0, len(log.frame), _CHUNK):
                chunk = log.frame.iloc[start : start + _CHUNK]
                rows = zip(*(chunk[name].tolist() for name in columns), strict=True)
                file.write(_to_text(rows, columns, log.metadata, start).encode())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def _open_writing(path: Path, suffix: str) -> Iterator[Any]:
    with path.open("wb") as file:
        if suffix == ".xz":
            with lzma.open(file, "wb") as packed:
                yield packed
        elif suffix == ".gz":
            # Without a name and a date in it, equal logs are equal files.
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                yield packed
        else:
            yield file


def append_log(
    path: _Path,
    metadata: LogMetadata,
    rows: pd.DataFrame | Sequence[Mapping[str, Any]],
) -> None:
    """Append measurements to a log; make the log if there is none.

    Parameters
    ----------
    path : str or path
        A log that is not compressed.
    metadata : LogMetadata
        What was measured, and on what.
    rows : DataFrame or sequence of dict
        The measurements: features, ``choice`` and ``feedback`` (in ms, inf =
        failed). In a new log the features stand in the order of the first row, so
        keep the order of torch's context if torch shall append too.

    Raises
    ------
    ValueError
        The file is no log, is compressed, or is one of another device, heuristic or
        set of features; or a row lacks a value or has one that can't stand in a log.
        The file is left as it was.
    OSError
        The system has no file locks.

    Notes
    -----
    The file is locked, so several processes can append. Torch does not lock, but
    writes each line at once. A last line without an end was cut by a crash and is
    removed. The rows are on disk when the function returns.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fasta_learn.heuristics import LogMetadata, append_log
    >>> metadata = LogMetadata("mm", 0, (0, 0), ("m",), ())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "log.txt"
    ...     for choice, feedback in (("orig", 2.0), ("pad", float("inf"))):
    ...         row = {"m": 16, "choice": choice, "feedback": feedback}
    ...         append_log(path, metadata, [row])
    ...     path.read_text().splitlines()[1:]
    ['m,choice,feedback', '16,orig,2.0', '16,pad,inf']
    """
    names, values = _as_rows(rows)
    if not values:
        return
    _check_columns(names, metadata, "rows")
    with _locked(Path(path)) as descriptor:
        size = _end_of_lines(descriptor)
        columns = _columns_in(descriptor, size, metadata, path)
        head = ""
        if columns is None:
            columns = [name for name in names if name not in (CHOICE, FEEDBACK)]
            columns += [CHOICE, FEEDBACK]
            head, size = _head(metadata, columns), 0
        places = [names.index(name) for name in columns]
        ordered = ([row[place] for place in places] for row in values)
        data = (head + _to_text(ordered, columns, metadata, 0)).encode()
        os.ftruncate(descriptor, size)
        while data:
            data = data[os.write(descriptor, data) :]
        os.fsync(descriptor)


def _as_rows(
    rows: pd.DataFrame | Sequence[Mapping[str, Any]],
) -> tuple[list[str], list[list[Any]]]:
    if isinstance(rows, pd.DataFrame):
        names = list(rows.columns)
        columns = [rows[name].tolist() for name in names]
        return names, [list(row) for row in zip(*columns, strict=True)]
    names = list(rows[0]) if len(rows) else []
    for index, row in enumerate(rows):
        if set(row) != set(names):
            differing = ", ".join(sorted(map(str, set(row) ^ set(names))))
            raise ValueError(f"rows[{index}] differs from rows[0] in {differing}.")
    return names, [[row[name] for name in names] for row in rows]


def _check_columns(names: list[str], metadata: LogMetadata, what: str) -> None:
    expected = [*metadata.features, CHOICE, FEEDBACK]
    if sorted(names) != sorted(expected):
        missing = sorted(set(expected) - set(names))
        more = sorted(set(map(str, names)) - set(expected))
        raise ValueError(
            f"{what} must have the features of the metadata, choice and feedback: "
            f"missing are {missing}, too many are {more}."
        )
    for name in names:
        if _UNWRITABLE.search(name) or "," in name or '"' in name:
            raise ValueError(f"the feature name {name!r} can't stand in a log.")


def _head(metadata: LogMetadata, columns: Sequence[str]) -> str:
    return f"{metadata.header_line()}\n{','.join(columns)}\n"


def _to_text(
    rows: Iterable[Sequence[Any]],
    columns: Sequence[str],
    metadata: LogMetadata,
    first: int,
) -> str:
    """Return lines, after a look at each value."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    numbers = {columns.index(name) for name in metadata.numerical_features}
    feedback = columns.index(FEEDBACK)
    for number, row in enumerate(rows, start=first):
        checked = [
            _duration(value, number)
            if index == feedback
            else _number(value, columns[index], number)
            if index in numbers
            else _category(value, columns[index], number)
            for index, value in enumerate(row)
        ]
        writer.writerow(checked)
    return text.getvalue()


def _number(value: Any, name: str, row: int) -> Any:
    # Python's numbers, which almost all are, come first: there may be millions.
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"{name} is {value!r} in row {row}, which is no number.")
    if not math.isfinite(value):
        raise ValueError(f"{name} is {value!r} in row {row}, but must be finite.")
    return value


def _duration(value: Any, row: int) -> float:
    if not isinstance(value, int | float | np.number) or not value > 0:
        raise ValueError(
            f"feedback is {value!r} in row {row}, but must be a positive duration in "
            "ms, or inf for a choice that failed."
        )
    return float(value)


def _category(value: Any, name: str, row: int) -> str:
    text = value if type(value) is str else str(value)
    if value is None or value != value:
        raise ValueError(f"{name} is missing in row {row}.")
    # Python tells of a text whether it is all printable faster than a pattern does.
    if not text.isprintable() and _UNWRITABLE.search(text):
        raise ValueError(
            f"{name} is {text!r} in row {row}; a log can't hold line ends, NUL and "
            "replacement characters."
        )
    return text


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    if fcntl is None:
        raise OSError("appending to a log needs file locks (fcntl), missing here.")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        # A process forked meanwhile has the descriptor too: closing is too little.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _end_of_lines(descriptor: int) -> int:
    """Return the number of bytes up to the end of the last whole line."""
    end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - _BLOCK)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _columns_in(
    descriptor: int, size: int, metadata: LogMetadata, path: _Path
) -> list[str] | None:
    """Return the columns of a log; None for an empty file or a cut head."""
    lines = _first_lines(descriptor, size)
    if lines is None:
        start = os.pread(descriptor, _BLOCK, 0)
        # The head was cut by a crash within line 1, or behind it.
        if not metadata.header_line().encode().startswith(start):
            _check_same(
                start.split(b"\n")[0].decode("utf-8", "replace"), metadata, path
            )
        return None
    _check_same(lines[0], metadata, path)
    columns = lines[1].split(",")
    _check_columns(columns, metadata, f"line 2 of {path}")
    return columns


def _check_same(line: str, metadata: LogMetadata, path: _Path) -> None:
    try:
        present = LogMetadata.from_line(line)
    except ValueError as error:
        raise ValueError(f"{path} is no log that can be appended to: {error}") from None
    differences = metadata.differences(present)
    if differences:
        raise ValueError(f"{path} is another log: {'; '.join(differences)}.")


def _first_lines(descriptor: int, size: int) -> list[str] | None:
    """Return lines 1 and 2, or None if there are not that many."""
    data = b""
    while data.count(b"\n") < 2 and len(data) < size:
        data += os.pread(descriptor, min(_BLOCK, size - len(data)), len(data))
    if data.startswith((XZ, GZIP)):
        return ["a compressed file", ""]
    lines = data.split(b"\n")[:-1]
    if len(lines) < 2:
        return None
    return [line.decode("utf-8", "replace").removesuffix("\r") for line in lines[:2]]
