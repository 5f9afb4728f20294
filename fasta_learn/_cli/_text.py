"""Plain text for people: durations, shares, configs, tables."""

import math
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from fasta_learn._cli._terminal import line_width
from fasta_learn.configs._keys import LAUNCH_OPTIONS

_UNITS = ((1e3, "s"), (1.0, "ms"), (1e-3, "µs"), (0.0, "ns"))
_IN_MS = {"s": 1e3, "ms": 1.0, "µs": 1e-3, "ns": 1e-6}


def write(text: str, file: TextIO | None = None) -> None:
    """Write a text and a line end.

    Parameters
    ----------
    text : str
        The text. What the encoding of the file lacks is replaced, "µ" by "u".
    file : text file, default=None
        Where to; by default the standard output.
    """
    file = sys.stdout if file is None else file
    encoding = file.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        data = text.replace("µ", "u").encode(encoding, "backslashreplace")
        text = data.decode(encoding)
    file.write(text + "\n")
    file.flush()


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


def format_config(config: Mapping[str, Any]) -> str:
    """Return a config as keyword arguments.

    Parameters
    ----------
    config : mapping of str to object
        The config.

    Returns
    -------
    str
        Such as "BLOCK=64, num_warps=4".
    """
    return ", ".join(f"{name}={value!r}" for name, value in config.items())


def format_launch(config: Mapping[str, Any]) -> str:
    """Return a config as the ``triton.Config`` that it is, to be copied into code.

    Parameters
    ----------
    config : mapping of str to object
        The config.

    Returns
    -------
    str
        Such as "triton.Config({'BLOCK': 64}, num_warps=4)".
    """
    options = {n: v for n, v in config.items() if n in LAUNCH_OPTIONS}
    keywords = {n: v for n, v in config.items() if n not in LAUNCH_OPTIONS}
    arguments = [repr(keywords), *([format_config(options)] if options else [])]
    return f"triton.Config({', '.join(arguments)})"


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
