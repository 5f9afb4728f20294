"""Read logs that torch, its collectors, people and crashes have written."""

import os
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import IO

from fasta_learn.heuristics._log import CHOICE, FEEDBACK, HeuristicLog, LogMetadata
from fasta_learn.heuristics._log_lines import open_source, read_line_batches
from fasta_learn.heuristics._log_rows import Layout, RowTable, text_names

_Source = str | os.PathLike[str] | IO[str]


def read_log(source: _Source, *, strict: bool = False) -> HeuristicLog:
    """Read a log of one kind of device.

    Parameters
    ----------
    source : str, path or file object
        The log: plain, gzip or xz, told apart by their first bytes.
    strict : bool, default=False
        Whether the first line that can't be read is an error. By default such
        lines are left out, or mended where there is one way to, and listed in
        ``problems``.

    Returns
    -------
    HeuristicLog
        The rows, in the order of the file.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        The file does not begin with metadata and column names, it holds
        measurements of several devices or heuristics (`read_logs` separates them),
        or it is damaged and `strict` is set.

    See Also
    --------
    read_logs : For files that hold the logs of several devices.
    write_log : Writes a log.

    Notes
    -----
    The format is that of torch's AutoHeuristic: a line of JSON, a line with names,
    and a line without quotes for each measurement. The reader accepts keys and
    columns in any order, further keys, several logs behind each other, commas in
    categories, carriage returns, and lines that were cut by a crash. A last line
    without an end is not used even if it looks whole, since a number may be cut.

    Examples
    --------
    >>> import io
    >>> from fasta_learn.heuristics import read_log
    >>> text = '''{"name": "mm", "shared_memory": 0, "device_capa": [0, 0],
    ... "numerical_features": ["m"], "categorical_features": []}
    ... m,choice,feedback
    ... 16,orig,2.0
    ... 16,pad,inf
    ... 16,or'''.replace(",\\n", ",")
    >>> log = read_log(io.StringIO(text))
    >>> log.frame
        m choice  feedback
    0  16   orig       2.0
    1  16    pad       inf
    >>> log.problems
    [(5, 'the last line has no end, so it may be cut')]
    """
    reader = _read(source, strict, separate=False)
    return reader.logs()[0]


def read_logs(source: _Source, *, strict: bool = False) -> list[HeuristicLog]:
    """Read a file that may hold logs of several devices behind each other.

    Parameters
    ----------
    source : str, path or file object
        The file, as for `read_log`.
    strict : bool, default=False
        Whether the first line that can't be read is an error.

    Returns
    -------
    list of HeuristicLog
        One for each device, heuristic and set of features, in the order in which
        they begin. Problems stand with the log in whose part of the file they are.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        The file does not begin with metadata and column names, or it is damaged
        and `strict` is set.

    Examples
    --------
    >>> import io
    >>> from fasta_learn.heuristics import LogMetadata, read_logs
    >>> text = ""
    >>> for capability in ((8, 0), (9, 0)):
    ...     head = LogMetadata("mm", 0, capability, ("m",), ()).header_line()
    ...     text += f"{head}\\nm,choice,feedback\\n16,orig,2.0\\n"
    >>> [log.metadata.device_capa for log in read_logs(io.StringIO(text))]
    [(8, 0), (9, 0)]
    """
    return _read(source, strict, separate=True).logs()


def _read(source: _Source, strict: bool, separate: bool) -> "_Reader":
    name = source if isinstance(source, str | os.PathLike) else None
    name = name or getattr(source, "name", None) or "the log"
    reader = _Reader(str(name), strict, separate)
    with open_source(source) as file:
        for lines in read_line_batches(file, reader.tell_cut):
            reader.take(lines)
    reader.finish()
    return reader


class _Part:
    """What belongs to one device: metadata, rows, and lines still to be decided."""

    def __init__(self, metadata: LogMetadata, columns: Sequence[str]):
        self.metadata = metadata
        self.table = RowTable(columns, text_names(metadata))
        self.undecided: list[tuple[int, str, Layout]] = []
        self.problems: list[tuple[int, str]] = []


class _Reader:
    """Takes the lines of a file in turn.

    Parameters
    ----------
    name : str
        The file, for messages.
    strict : bool
        Whether a problem is an error.
    separate : bool
        Whether other metadata begin a new log; else they are an error.
    """

    def __init__(self, name: str, strict: bool, separate: bool):
        self._name = name
        self._strict = strict
        self._separate = separate
        self._parts: list[_Part] = []
        self._n_lines = 0
        # Of the rows that come next. Without a layout, the names come next.
        self._metadata: LogMetadata | None = None
        self._part: _Part | None = None
        self._layout: Layout | None = None

    def take(self, lines: list[str]) -> None:
        """Read the next lines.

        Parameters
        ----------
        lines : list of str
            Whole lines.

        Raises
        ------
        ValueError
            As `read_log` says.
        """
        first = self._n_lines + 1
        self._n_lines += len(lines)
        start = 0
        for index, line in enumerate(lines):
            if self._layout is None or self._is_mark(line):
                self._take_rows(lines[start:index], first + start)
                start = index + 1 if self._take_mark(line, first + index) else index
        self._take_rows(lines[start:], first + start)

    def _is_mark(self, line: str) -> bool:
        # Both tests are quick for rows, of which there may be millions.
        if line.endswith(FEEDBACK):
            return self._are_names(line)
        return '{"' in line and _metadata_in(line) is not None

    def _are_names(self, line: str) -> bool:
        if self._metadata is None:
            return False
        names = [*self._metadata.features, CHOICE, FEEDBACK]
        return sorted(line.split(",")) == sorted(names)

    def _take_mark(self, line: str, number: int) -> bool:
        """Take metadata or names; False leaves the line to be read as a row."""
        if not line.strip():
            return True
        metadata = _metadata_in(line)
        if metadata is not None:
            self._begin(metadata, number)
            if not line.startswith("{"):
                self._tell(number, "a cut line has run together with metadata")
            return True
        if self._metadata is None:
            raise ValueError(
                f"{self._name}, line {number}: {_why_no_metadata(line)} A log begins "
                "with a line of JSON that AutoHeuristic writes."
            )
        if self._are_names(line):
            self._open(line.split(","))
            return True
        if not self._parts:
            raise ValueError(
                f"{self._name}, line {number} does not name the columns: "
                f"{line[:80]!r}; expected the features in line 1, choice and feedback."
            )
        self._open_without_names()
        self._tell(number, "the names of the columns are missing before this line")
        return False

    def _begin(self, metadata: LogMetadata, number: int) -> None:
        differences = (
            self._parts[0].metadata.differences(metadata) if (self._parts) else []
        )
        if differences and not self._separate:
            raise ValueError(
                f"{self._name} holds several logs, and the one at line {number} "
                f"differs in {'; '.join(differences)}. Use read_logs to get one log "
                "for each."
            )
        self._metadata, self._layout = metadata, None

    def _open(self, columns: Sequence[str]) -> None:
        if self._metadata is None:
            return
        fitting = (p for p in self._parts if not p.metadata.differences(self._metadata))
        self._part = next(fitting, None)
        if self._part is None:
            self._part = _Part(self._metadata, columns)
            self._parts.append(self._part)
        self._layout = Layout(columns, self._part.metadata)

    def _open_without_names(self) -> None:
        if self._metadata is not None:
            self._open([*self._metadata.features, CHOICE, FEEDBACK])
        if self._part is not None:
            self._layout = Layout(self._part.table.columns, self._part.metadata)

    def _take_rows(self, lines: list[str], first: int) -> None:
        layout, part = self._layout, self._part
        if layout is None or part is None or not lines:
            return
        numbers: list[int] = []
        rows: list[list[str]] = []
        for number, line in enumerate(lines, start=first):
            fields = (
                line.split(",")
                if layout.matches(line)
                else self._mended(layout, part, number, line)
            )
            if fields is not None:
                numbers.append(number)
                rows.append(fields)
        part.table.add(layout.columns, *self._measured(layout, numbers, rows))

    def _measured(
        self, layout: Layout, numbers: list[int], rows: list[list[str]]
    ) -> tuple[list[int], list[list[str]]]:
        """Leave out rows whose duration is zero."""
        column = layout.columns.index(FEEDBACK)
        zeros = {i for i, row in enumerate(rows) if not float(row[column]) > 0}
        if not zeros:
            return numbers, rows
        for i in sorted(zeros):
            self._tell(numbers[i], "feedback is 0, which is no duration")
        kept = [i for i in range(len(rows)) if i not in zeros]
        return [numbers[i] for i in kept], [rows[i] for i in kept]

    def _mended(
        self, layout: Layout, part: _Part, number: int, line: str
    ) -> list[str] | None:
        if not line.strip():
            return None
        fields = layout.split(line)
        if fields is not None:
            wrong = layout.wrong_field(fields)
            if wrong is None:
                return fields
            self._tell(number, wrong)
        elif layout.ends_with_row(line):
            self._tell(number, "two rows have run together, the first of them cut")
        elif line.count(",") >= len(layout):
            part.undecided.append((number, line, layout))
        else:
            self._tell(number, f"{line.count(',') + 1} fields instead of {len(layout)}")
        return None

    def tell_cut(self, what: str) -> None:
        """Note that the file ends within a line or within its compressed data.

        Parameters
        ----------
        what : str
            A phrase.

        Raises
        ------
        ValueError
            The reading is strict.
        """
        self._tell(self._n_lines + 1, what)

    def _tell(self, number: int, what: str) -> None:
        if self._strict:
            raise ValueError(f"{self._name}, line {number}: {what}.")
        if self._part is not None:
            self._part.problems.append((number, what))

    def finish(self) -> None:
        """Decide about the lines that need all others to be known.

        Raises
        ------
        ValueError
            The file had no metadata, or the reading is strict.
        """
        if self._metadata is None:
            raise ValueError(
                f"{self._name} is empty, or was cut within its first line."
            )
        if not self._parts:
            self._open_without_names()
            self._tell(self._n_lines + 1, "the names of the columns are missing")
        for part in self._parts:
            self._part = part
            decided = [
                (layout, number, row)
                for number, line, layout in part.undecided
                if (row := self._decided(part, number, line, layout))
            ]
            # What one such line says is not believed when the next is read.
            for layout, same in groupby(decided, key=itemgetter(0)):
                _, numbers, rows = zip(*same, strict=True)
                part.table.add(
                    layout.columns, *self._measured(layout, list(numbers), list(rows))
                )

    def _decided(
        self, part: _Part, number: int, line: str, layout: Layout
    ) -> list[str] | None:
        """Read a line with too many commas, if there is one way to."""
        ways = list(layout.joined(line, part.table.knows))
        if len(ways) != 1:
            n_fields = line.count(",") + 1
            self._tell(number, f"{n_fields} fields instead of {len(layout)}")
            return None
        ((index, row),) = ways
        name = layout.columns[index]
        self._tell(number, f"was read with commas in {name}: {row[index][:80]!r}")
        return row

    def logs(self) -> list[HeuristicLog]:
        """Return what was read.

        Returns
        -------
        list of HeuristicLog
            A log for each part, in the order in which they begin.
        """
        return [
            HeuristicLog(part.metadata, part.table.to_frame(), sorted(part.problems))
            for part in self._parts
        ]


def _metadata_in(line: str) -> LogMetadata | None:
    """Read metadata from a line that is such, or that ends with such."""
    start = line.find('{"')
    if start < 0:
        return None
    try:
        return LogMetadata.from_line(line[start:])
    except ValueError:
        return None


def _why_no_metadata(line: str) -> str:
    try:
        LogMetadata.from_line(line)
    except ValueError as error:
        return str(error)
    return "the metadata do not begin the line."
