"""How texts are written: in colours where they are wanted, in any encoding."""

import os
import sys
from typing import TextIO

_CODES = {"bold": "1", "error": "1;31"}


def has_colours(file: TextIO) -> bool:
    """Tell whether what is written to a file may have colours.

    Parameters
    ----------
    file : text file
        Where to.

    Returns
    -------
    bool
        Whether it is a terminal that knows them. ``NO_COLOR`` forbids them,
        ``FORCE_COLOR`` wants them in a pipe as well; the first wins.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return file.isatty() and not is_dumb()


def is_dumb() -> bool:
    """Tell whether the terminal can't move back over what was written.

    Returns
    -------
    bool
        By ``TERM``, which the terminals of some editors and logs set to "dumb".
    """
    return os.environ.get("TERM", "") in ("dumb", "unknown")


def paint(text: str, style: str, file: TextIO | None = None) -> str:
    """Return a text in colour, or as it is where colours are not wanted.

    Parameters
    ----------
    text : str
        The text.
    style : {"bold", "error"}
        How it looks.
    file : text file, default=None
        Where it will be written; by default the standard output.

    Returns
    -------
    str
        The text.
    """
    if not has_colours(sys.stdout if file is None else file):
        return text
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m"


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
