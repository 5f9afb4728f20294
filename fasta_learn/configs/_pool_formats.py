"""Pool files that are tables: CSV, plain or compressed, and Parquet."""

import csv
import gzip
import io
import zlib
from collections.abc import Sequence
from typing import Any

import pandas as pd

from fasta_learn._compat import import_extra
from fasta_learn.configs._pool_table import PoolParts, Table
from fasta_learn.exceptions import PoolFormatError


def decode(data: bytes, file: str) -> str:
    """Return the text of a file, which may be compressed by gzip.

    Parameters
    ----------
    data : bytes
        Content of the file.
    file : str
        Its path; compression is told by the ending ``.gz``.

    Returns
    -------
    str
        The text, without a byte order mark.

    Raises
    ------
    PoolFormatError
        The content is not compressed by gzip, or no text in UTF-8.
    """
    try:
        if file.lower().endswith(".gz"):
            data = gzip.decompress(data)
        return data.decode("utf-8-sig")
    except (OSError, EOFError, zlib.error) as error:
        raise PoolFormatError(f"{file}: it can't be decompressed: {error}.") from error
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PoolFormatError(f"{file}, line {line}: no text in UTF-8.") from error


def read_csv(data: bytes, file: str) -> PoolParts:
    """Interpret the content of a CSV file.

    Parameters
    ----------
    data : bytes
        Content of the file.
    file : str
        Its path.

    Returns
    -------
    PoolParts
        The parts of the pool.

    Raises
    ------
    PoolFormatError
        The content is wrong; the message names line and column.
    """
    reader = csv.reader(io.StringIO(decode(data, file), newline=""))
    header: list[str] = []
    cells: list[list[str | None]] = []
    rows: list[str] = []
    try:
        for line in reader:
            row = [cell.strip() for cell in line]
            if not any(row) and len(row) < 2:
                continue
            if not header:
                header = _check_header(row, file, reader.line_num)
                continue
            _check_length(row, header, file, reader.line_num)
            cells.append([cell or None for cell in row])
            rows.append(f"line {reader.line_num}")
    except csv.Error as error:
        raise PoolFormatError(f"{file}, line {reader.line_num}: {error}.") from error
    if not header:
        raise PoolFormatError(
            f"{file}: the file is empty; a pool has a line of column names, one of "
            "them 'duration_ms', and a line for each config."
        )
    columns = {name: [row[i] for row in cells] for i, name in enumerate(header)}
    return Table(file, columns, rows).to_parts()


def _check_header(names: list[str], file: str, line: int) -> list[str]:
    for place, name in enumerate(names, start=1):
        if not name:
            raise PoolFormatError(f"{file}, line {line}: column {place} has no name.")
        if name in names[: place - 1]:
            raise PoolFormatError(
                f"{file}, line {line}: columns {names.index(name) + 1} and {place} "
                f"have the same name {name!r}."
            )
    return names


def _check_length(
    row: Sequence[str], header: Sequence[str], file: str, line: int
) -> None:
    if len(row) < len(header):
        raise PoolFormatError(
            f"{file}, line {line}: {len(row)} cells for {len(header)} columns; the "
            f"first that is missing is column {header[len(row)]!r}."
        )
    if len(row) > len(header):
        raise PoolFormatError(
            f"{file}, line {line}: {len(row)} cells for {len(header)} columns; the "
            f"first after column {header[-1]!r} is {row[len(header)]!r}."
        )


def as_csv(frame: pd.DataFrame, *, compress: bool) -> bytes:
    """Return the content of a CSV file.

    Parameters
    ----------
    frame : pandas.DataFrame
        The pool, as from `Pool.to_frame`.
    compress : bool
        Whether to compress by gzip.

    Returns
    -------
    bytes
        One line a config, numbers with as many digits as tell them apart.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(frame.columns)
    writer.writerows(zip(*_python_columns(frame).values(), strict=True))
    data = text.getvalue().encode()
    # Without a time stamp the same pool always gives the same file.
    return gzip.compress(data, mtime=0) if compress else data


def _python_columns(frame: pd.DataFrame) -> dict[str, list[Any]]:
    columns = {}
    for name in frame.columns:
        cells = frame[name].astype(object).tolist()
        columns[name] = [None if _is_nan(cell) else cell for cell in cells]
    return columns


def _is_nan(cell: Any) -> bool:
    return isinstance(cell, float) and cell != cell


def read_parquet(data: bytes, file: str) -> PoolParts:
    """Interpret the content of a Parquet file.

    Parameters
    ----------
    data : bytes
        Content of the file.
    file : str
        Its path.

    Returns
    -------
    PoolParts
        The parts of the pool.

    Raises
    ------
    PoolFormatError
        The content is wrong; the message names row and column.
    MissingExtraError
        pyarrow is not installed.
    """
    arrow = import_extra("pyarrow", "parquet")
    parquet = import_extra("pyarrow.parquet", "parquet")
    try:
        table = parquet.read_table(arrow.BufferReader(data))
    except (arrow.ArrowException, OSError) as error:
        raise PoolFormatError(f"{file}: no Parquet file: {error}") from error
    names = _check_header(table.column_names, file, 1)
    columns = {name: table.column(name).to_pylist() for name in names}
    rows = [f"row {i}" for i in range(1, table.num_rows + 1)]
    return Table(file, columns, rows).to_parts()


def as_parquet(frame: pd.DataFrame) -> bytes:
    """Return the content of a Parquet file.

    Parameters
    ----------
    frame : pandas.DataFrame
        The pool, as from `Pool.to_frame`.

    Returns
    -------
    bytes
        One row a config.

    Raises
    ------
    ValueError
        A column holds values of several types.
    MissingExtraError
        pyarrow is not installed.
    """
    arrow = import_extra("pyarrow", "parquet")
    parquet = import_extra("pyarrow.parquet", "parquet")
    arrays = {}
    for name, cells in _python_columns(frame).items():
        try:
            arrays[name] = arrow.array(cells)
        except (arrow.ArrowException, OverflowError) as error:
            raise ValueError(
                f"column {name!r} has no single type, which Parquet needs: {error}"
            ) from error
    sink = arrow.BufferOutputStream()
    parquet.write_table(arrow.table(arrays), sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data
