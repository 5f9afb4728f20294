"""How far a search or a recording is, live on a terminal."""

import math
import sys
from typing import Any, Protocol, TextIO

from fasta_learn._cli._terminal import is_dumb
from fasta_learn._text import format_duration


class Display(Protocol):
    """What shows the progress."""

    def start(self, total: int) -> None:
        """Begin with the number of measurements to come."""

    def update(self, done: int, best: str) -> None:
        """Show how many are done, and the best so far."""

    def stop(self) -> None:
        """Remove what was shown."""


class SearchProgress:
    """Show the progress of a search; a callback of `ActiveConfigSearch`.

    Parameters
    ----------
    display : object
        Shows it: has ``start(total)``, ``update(done, best)`` and ``stop()``.
    """

    def __init__(self, display: Display) -> None:
        self._display = display
        self._done = 0

    def setup(self, estimator: Any, context: Any) -> None:
        """Begin."""
        self._done = 0
        self._display.start(context.max_subtasks)

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Do nothing: a measurement counts at its end."""

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """Count a measurement."""
        if context.parent is None:
            return
        self._done += 1
        # The best is that of the last round, so there is none in the first.
        best = estimator.best_duration_
        known = f"best {format_duration(best)}" if math.isfinite(best) else ""
        self._display.update(self._done, known)

    def teardown(self, estimator: Any, context: Any) -> None:
        """Remove what was shown."""
        self._display.stop()


def make_progress() -> SearchProgress | None:
    """Return what shows the progress of a search, if somebody sees it.

    Returns
    -------
    SearchProgress or None
        None if standard output or standard error is not a terminal, or a dumb one.
    """
    display = make_display()
    return None if display is None else SearchProgress(display)


def make_display() -> Display | None:
    """Return a display of how much is measured, if somebody sees it.

    Returns
    -------
    Display or None
        None if standard output or standard error is not a terminal, or a dumb one.
    """
    if not is_watched():
        return None
    try:
        return RichBar(sys.stderr)
    except ImportError:
        return PlainLine(sys.stderr)


def is_watched() -> bool:
    """Tell whether somebody sees what is written over and over.

    Returns
    -------
    bool
        Whether standard output and standard error are terminals that can do so.
    """
    return sys.stdout.isatty() and sys.stderr.isatty() and not is_dumb()


class RichBar:
    """A bar by rich, of the extra `progress`.

    Parameters
    ----------
    file : text file
        The terminal.

    Raises
    ------
    ImportError
        Rich is not installed.
    """

    def __init__(self, file: TextIO) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self._progress = Progress(
            TextColumn("measured"),
            MofNCompleteColumn(),
            BarColumn(),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
            console=Console(file=file),
            transient=True,
        )

    def start(self, total: int) -> None:
        """Begin with the number of measurements to come."""
        self._task = self._progress.add_task("", total=total)
        self._progress.start()

    def update(self, done: int, best: str) -> None:
        """Show how many are done, and the best so far."""
        self._progress.update(self._task, completed=done, description=best)

    def stop(self) -> None:
        """Remove the bar."""
        self._progress.stop()


class PlainLine:
    """A line of text that is written over and over; needs nothing installed.

    Parameters
    ----------
    file : text file
        The terminal.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._total = 0

    def start(self, total: int) -> None:
        """Begin with the number of measurements to come."""
        self._total = total

    def update(self, done: int, best: str) -> None:
        """Show how many are done, and the best so far."""
        self._show(f"measured {done}/{self._total}  {best}")

    def stop(self) -> None:
        """Remove the line."""
        self._show("")

    def _show(self, text: str) -> None:
        # Back to the start of the line, and clear it to its end.
        self._file.write(f"\r\x1b[K{text}")
        self._file.flush()
