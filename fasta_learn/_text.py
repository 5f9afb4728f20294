"""Plain text for people: durations, shares, tables."""

import math
import shutil
import sys
import textwrap
from collections.abc import Sequence

_UNITS = ((1e3, "s"), (1.0, "ms"), (1e-3, "µs"), (0.0, "ns"))
_IN_MS = {"s": 1e3, "ms": 1.0, "µs": 1e-3, "ns": 1e-6}


def format_duration(duration: float) -> str:
    """Return a duration in a fitting unit.

    Parameters
    ----------
    duration : float
        In ms; what is not finite is unknown.

    Returns
    -------
    str
        Four digits and the unit, "29.76 µs"; "-" if it is unknown.
    """
    if not math.isfinite(duration):
        return "-"
    # Rounded first, so that 0.99996 ms is 1.000 ms and not 1000 µs.
    rounded = abs(float(f"{duration:.4g}"))
    unit = next(name for limit, name in _UNITS if rounded >= limit)
    return f"{f'{duration / _IN_MS[unit]:#.4g}'.rstrip('.')} {unit}"


def format_count(count: int, noun: str) -> str:
    """Return how many there are of something.

    Parameters
    ----------
    count : int
        How many.
    noun : str
        What, in the singular; its plural has an s.

    Returns
    -------
    str
        Such as "1 pool" or "2 pools".
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def format_share(share: float) -> str:
    """Return a share in percent.

    Parameters
    ----------
    share : float
        The share; what is not finite is unknown.

    Returns
    -------
    str
        With one decimal, "4.2 %"; "-" if it is unknown.
    """
    return f"{100 * share:.1f} %" if math.isfinite(share) else "-"


def format_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, n_keys: int = 1
) -> str:
    """Return a table with columns aligned to the right.

    Parameters
    ----------
    header : sequence of str
        Names of the columns.
    rows : sequence of sequences of str
        The cells.
    n_keys : int, default=1
        How many columns say what a row is about. On a terminal that is too narrow, the
        other columns are in several tables, each of which begins with these.

    Returns
    -------
    str
        Lines, the header first.
    """
    columns = list(zip(header, *rows, strict=True))
    blocks = _split(columns, n_keys, line_width())
    return "\n\n".join(_align(block) for block in blocks)


def _split(
    columns: list[tuple[str, ...]], n_keys: int, width: int | None
) -> list[list[tuple[str, ...]]]:
    """Share out the columns over tables of at most a width."""
    keys, blocks = columns[:n_keys], [columns[:n_keys]]
    for column in columns[n_keys:]:
        block = [*blocks[-1], column]
        if width is not None and _width(block) > width and len(blocks[-1]) > n_keys:
            block = [*keys, column]
            blocks.append(block)
        blocks[-1] = block
    return blocks


def _width(columns: list[tuple[str, ...]]) -> int:
    return sum(max(map(len, column)) + 2 for column in columns) - 2


def _align(columns: list[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in columns]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in zip(*columns, strict=True)
    )


def format_pairs(pairs: Sequence[tuple[str, str]], *, width: int | None = None) -> str:
    """Return names and texts in two columns.

    Parameters
    ----------
    pairs : sequence of (str, str)
        Names and texts. Long texts are wrapped.
    width : int, default=None
        Columns of a line; by default 88, or those of a narrower terminal.

    Returns
    -------
    str
        Lines.
    """
    width = min(88, line_width() or 88) if width is None else width
    margin = max(len(name) for name, _ in pairs) + 2
    return "\n".join(
        textwrap.fill(
            text,
            width,
            initial_indent=name.ljust(margin),
            subsequent_indent=" " * margin,
            break_long_words=False,
            break_on_hyphens=False,
        )
        if text
        else name
        for name, text in pairs
    )


def line_width() -> int | None:
    """Return how long a line of the output may be.

    Returns
    -------
    int or None
        The columns of the terminal, or those of ``COLUMNS``. None in a pipe or a file,
        so that what programs read is the same everywhere.
    """
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
