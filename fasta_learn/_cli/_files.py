"""Files that commands write: refused early, and named when writing fails."""

import os
from pathlib import Path


def check_writable(path: str, source: str | None = None) -> None:
    """Refuse before the work what would fail after it.

    Parameters
    ----------
    path : str
        The file to be written.
    source : str, default=None
        A file that the command reads, or writes besides.

    Raises
    ------
    ValueError
        The file can't be written, or it is the source.
    """
    folder = Path(path).absolute().parent
    problem = None
    if not folder.exists():
        problem = "its folder does not exist; make it first."
    elif not folder.is_dir():
        problem = f"{folder} is a file and not a folder; choose another place."
    elif os.path.isdir(path):
        problem = "it is a folder; name a file in it."
    elif source is not None and _is_same(path, source):
        problem = "this file has a use already; name another for the output."
    elif not os.access(path if os.path.exists(path) else folder, os.W_OK):
        problem = "it can't be written; change its permissions, or name another."
    if problem is not None:
        raise ValueError(f"{path}: {problem}")


def _is_same(path: str, source: str) -> bool:
    # Neither needs to exist: a journal is written by the same command.
    return os.path.realpath(path) == os.path.realpath(source)


def write_file(path: str, text: str) -> None:
    """Write a text to a file.

    Parameters
    ----------
    path : str
        The file.
    text : str
        The text.

    Raises
    ------
    OSError
        It can't be written; the error names it.
    """
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        # Without space, the system does not say where.
        error.filename = path
        raise
