"""How a search with ``verbose`` tells of its rounds, in a terminal or a notebook."""

import sys
from collections.abc import Callable, Iterable
from html import escape
from importlib import import_module
from typing import Any

Report = Callable[[Iterable[dict[str, Any]]], None]


def make_reporter(verbose: int, n_budget: int) -> Report:
    """Return what tells of rounds.

    Parameters
    ----------
    verbose : int
        0 to tell nothing.
    n_budget : int
        Measurements in all.

    Returns
    -------
    callable
        Takes the records of rounds, as in `ActiveConfigSearch.rounds_`. It writes a
        line about each to the standard error. A notebook shows one line, of the last
        round, with a bar; hundreds of lines would bury what else the cell shows.
    """
    if not verbose:
        return _tell_nothing
    if _is_notebook():
        return _NotebookLine(n_budget)
    return lambda records: _write_lines(records, n_budget)


def _tell_nothing(records: Iterable[dict[str, Any]]) -> None:
    pass


def _write_lines(records: Iterable[dict[str, Any]], n_budget: int) -> None:
    for record in records:
        sys.stderr.write(f"{_describe(record, n_budget)}\n")


def _describe(record: dict[str, Any], n_budget: int) -> str:
    return (
        f"round {record['round']}: {record['n_measured']} of {n_budget} measured, "
        f"best {record['best_duration']:.6g} ms"
    )


def _is_notebook() -> bool:
    """Tell whether the code runs in a kernel of Jupyter, without importing it."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


class _NotebookLine:
    """A line in a notebook that is brought up to date."""

    def __init__(self, n_budget: int) -> None:
        self._n_budget = n_budget
        self._handle: Any = None

    def __call__(self, records: Iterable[dict[str, Any]]) -> None:
        for record in records:
            self._show(record)

    def _show(self, record: dict[str, Any]) -> None:
        text = _describe(record, self._n_budget)
        bar = f'<progress max="{self._n_budget}" value="{record["n_measured"]}">'
        content = {
            "text/plain": text,
            "text/html": f"<div>{bar}</progress> {escape(text)}</div>",
        }
        if self._handle is None:
            display = import_module("IPython.display").display
            self._handle = display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)
