"""How a command ends that can't go on: one line, and what to do."""

import contextlib
import errno
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from fasta_learn._cli._terminal import paint, write

_WHAT_TO_DO = {
    errno.ENOENT: "check the path",
    errno.EISDIR: "name a file",
    errno.ENOTDIR: "a part of the path is a file; check the path",
    errno.EACCES: "change its permissions, or name another",
    errno.EROFS: "choose a place that can be written",
    errno.ENOSPC: "make room, or choose another place",
}


def fail(error: Exception | str, status: int) -> int:
    """Write one line about an error to the standard error.

    Parameters
    ----------
    error : Exception or str
        What went wrong.
    status : int
        The exit code.

    Returns
    -------
    int
        The exit code.
    """
    text = _system_error(error) if isinstance(error, OSError) else str(error)
    label = paint("fasta-learn: error:", "error", sys.stderr)
    write(f"{label} {' '.join(text.split())}", sys.stderr)
    return status


def _system_error(error: OSError) -> str:
    if error.strerror is None:  # raised by fasta_learn or a package, in its own words
        return str(error)
    hint = _WHAT_TO_DO.get(error.errno or 0)
    # Only writing to what is open fails without a name: that is the output.
    place = "the output" if error.filename is None else error.filename
    return f"{place}: {error.strerror}" + (f"; {hint}" if hint else "")


@contextlib.contextmanager
def resumable(hint: str) -> Iterator[None]:
    """Have Ctrl-C end the command with a line on how to go on.

    Parameters
    ----------
    hint : str
        What to do to go on.

    Yields
    ------
    None
        Nothing.

    Raises
    ------
    KeyboardInterrupt
        With the hint.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(hint) from error


@contextlib.contextmanager
def short_warnings() -> Iterator[None]:
    """Have warnings be one line each, without the place in the code that warns.

    Yields
    ------
    None
        Nothing.
    """
    before = warnings.formatwarning
    warnings.formatwarning = _format_warning
    try:
        yield
    finally:
        warnings.formatwarning = before


def _format_warning(message: Warning | str, *place: Any, **line: Any) -> str:
    return f"fasta-learn: warning: {' '.join(str(message).split())}\n"
