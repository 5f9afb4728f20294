"""Rows of a log: which texts are one, and the columns that they fill."""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fasta_learn.heuristics._log import CHOICE, FEEDBACK, LogMetadata
from fasta_learn.heuristics._log_columns import text_index

_NUMBER = r"[-+]?[0-9]{1,18}(?:\.[0-9]{0,30})?(?:[eE][-+]?[0-9]{1,2})?"
_DURATION = r"(?:inf|[0-9]{1,18}(?:\.[0-9]{0,30})?(?:[eE][-+]?[0-9]{1,2})?)"
# Quotes mark a field that needs a closer look; the others never are in a name.
_TEXT = r'[^,"\x00\r\n\ufffd]*'
_CLOSERS = {"(": ")", "[": "]", "{": "}"}
_ENDS_OF_NUMBERS = (*"0123456789.", "inf")
_BAD_CHARACTERS = re.compile("[\x00\r\n\ufffd]")


class Layout:
    """The columns of a log in the order of its lines.

    Parameters
    ----------
    columns : sequence of str
        Names in line 2.
    metadata : LogMetadata
        Line 1, which says what is a number.

    Attributes
    ----------
    columns : list of str
        The parameter.
    texts : list of int
        Indices of the columns that hold text: the categories and the choice.
    matches : callable
        Tells of a line whether it is a plain row.
    """

    def __init__(self, columns: Sequence[str], metadata: LogMetadata):
        self.columns = list(columns)
        numbers = set(metadata.numerical_features)
        patterns = [
            _DURATION if name == FEEDBACK else _NUMBER if name in numbers else _TEXT
            for name in self.columns
        ]
        self.texts = [i for i, pattern in enumerate(patterns) if pattern is _TEXT]
        self.matches = re.compile(",".join(patterns)).fullmatch
        self._numbers = [
            (index, re.compile(pattern).fullmatch)
            for index, pattern in enumerate(patterns)
            if pattern is not _TEXT
        ]

    def __len__(self) -> int:
        return len(self.columns)

    def wrong_field(self, fields: Sequence[str]) -> str | None:
        """Say which field can't be read.

        Parameters
        ----------
        fields : sequence of str, of the right length
            The fields of a row.

        Returns
        -------
        str or None
            A phrase; None if the row is fine.
        """
        for index, matches in self._numbers:
            if not matches(fields[index]):
                name = self.columns[index]
                return f"{name} is {fields[index][:40]!r}, not {_expected(name)}"
        for index in self.texts:
            if _BAD_CHARACTERS.search(fields[index]):
                return f"{self.columns[index]} has characters that are no text"
        return None

    def split(self, line: str) -> list[str] | None:
        """Split a line that is no plain row.

        Parameters
        ----------
        line : str
            The line.

        Returns
        -------
        list of str or None
            As many fields as columns: commas within quotes or brackets do not
            count. None if there are more or fewer.
        """
        for fields in (_split_quoted(line), line.split(","), _split_bracketed(line)):
            if len(fields) == len(self):
                return fields
        return None

    def ends_with_row(self, line: str) -> bool:
        """Tell whether a line that is too long ends with a row of its own.

        Parameters
        ----------
        line : str
            The line.

        Returns
        -------
        bool
            True if its last fields may be a row: two rows have run together
            because the first of them was cut.
        """
        fields = line.split(",")
        tail = fields[-len(self) :]
        # What was left of the cut row stands in front of the first field.
        if 0 not in self.texts and tail[0].endswith(_ENDS_OF_NUMBERS):
            tail[0] = "1"
        return len(fields) > len(self) and self.wrong_field(tail) is None

    def joined(
        self, line: str, knows: Callable[[str, str], bool]
    ) -> Iterator[tuple[int, list[str]]]:
        """List the ways to read a line with unquoted commas in one category.

        Parameters
        ----------
        line : str
            The line.
        knows : callable
            Tells of a column and a category whether it has occurred; all texts but
            the one with commas must have.

        Yields
        ------
        (int, list of str)
            Index of the column that has the commas, and the fields.
        """
        fields = line.split(",")
        n_more = len(fields) - len(self)
        for index in self.texts if n_more > 0 else []:
            value = ",".join(fields[index : index + n_more + 1])
            row = [*fields[:index], value, *fields[index + n_more + 1 :]]
            others = (i for i in self.texts if i != index)
            if all(knows(self.columns[i], row[i]) for i in others) and (
                self.wrong_field(row) is None
            ):
                yield index, row


def _expected(name: str) -> str:
    return "a duration in ms or inf" if name == FEEDBACK else "a number"


def _split_quoted(line: str) -> list[str]:
    if '"' not in line:
        return []
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return []


def _split_bracketed(line: str) -> list[str]:
    if not any(opener in line for opener in _CLOSERS):
        return []
    fields: list[str] = []
    open_ones: list[str] = []
    start = 0
    for index, character in enumerate(line):
        if character in _CLOSERS:
            open_ones.append(_CLOSERS[character])
        elif open_ones and character == open_ones[-1]:
            open_ones.pop()
        elif character == "," and not open_ones:
            fields.append(line[start:index])
            start = index + 1
    return [*fields, line[start:]]


class RowTable:
    """Rows of one log, column by column.

    Parameters
    ----------
    columns : sequence of str
        Names of the columns in the order of the frame.
    texts : iterable of str
        Names of those that hold text.
    """

    def __init__(self, columns: Sequence[str], texts: Iterable[str]):
        self.columns = list(columns)
        self._codes: dict[str, dict[str, int]] = {name: {} for name in texts}
        self._parts: dict[str, list[np.ndarray]] = {name: [] for name in self.columns}
        self._numbers: list[np.ndarray] = []

    def add(
        self, columns: Sequence[str], numbers: Sequence[int], rows: list[list[str]]
    ) -> None:
        """Append rows whose fields have all been checked.

        Parameters
        ----------
        columns : sequence of str
            Names of the fields.
        numbers : sequence of int
            Line numbers of the rows.
        rows : list of list of str
            The fields of each row.
        """
        if not rows:
            return
        self._numbers.append(np.array(numbers, np.int64))
        for name, values in zip(columns, zip(*rows, strict=True), strict=True):
            self._parts[name].append(self._convert(name, values))

    def _convert(self, name: str, values: Sequence[str]) -> np.ndarray:
        if name in self._codes:
            codes = self._codes[name]
            for value in dict.fromkeys(values):
                codes.setdefault(value, len(codes))
            return np.array([codes[value] for value in values], np.int32)
        if name != FEEDBACK:
            try:
                return np.array(list(map(int, values)), np.int64)
            except ValueError:
                pass  # some have a fraction or an exponent
        return np.array(list(map(float, values)), np.float64)

    def knows(self, name: str, value: str) -> bool:
        """Tell whether a category has occurred in a column of text.

        Parameters
        ----------
        name : str
            The column.
        value : str
            The category.

        Returns
        -------
        bool
            True if a row has it.
        """
        return value in self._codes[name]

    def to_frame(self) -> pd.DataFrame:
        """Return the rows in the order of their lines, and forget them.

        Returns
        -------
        DataFrame of shape (n_rows, n_columns)
            Numbers as int64 or float64, texts as categories in sorted order.
        """
        numbers = np.concatenate([np.empty(0, np.int64), *self._numbers])
        order = (
            np.argsort(numbers, kind="stable")
            if np.any(np.diff(numbers) < 0)
            else slice(None)
        )
        return pd.DataFrame(
            {name: self._column(name)[order] for name in self.columns}, copy=False
        )

    def _column(self, name: str) -> Any:
        # Popped, so that a column is not held twice longer than it must.
        parts = self._parts.pop(name)
        if name not in self._codes:
            kind = np.float64 if name == FEEDBACK else np.int64
            return np.concatenate(parts) if parts else np.empty(0, kind)
        values = list(self._codes[name])
        ranks = np.argsort(np.argsort(np.array(values, object)))
        codes = np.concatenate([np.empty(0, np.int32), *parts])
        categories = text_index(sorted(values))
        return pd.Categorical.from_codes(ranks.astype(np.int32)[codes], categories)


def text_names(metadata: LogMetadata) -> list[str]:
    """Return the names of the columns that hold text.

    Parameters
    ----------
    metadata : LogMetadata
        Line 1 of the log.

    Returns
    -------
    list of str
        The categories and the choice.
    """
    return [*metadata.categorical_features, CHOICE]
