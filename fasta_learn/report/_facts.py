"""The facts in a file that a search has left behind."""

import csv
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fasta_learn.inductor._statistics import mean_ratio, read_records, summarize
from fasta_learn.report._measured import search_facts
from fasta_learn.report._notebook import Facts
from fasta_learn.report._records import read_journal
from fasta_learn.report._tables import (
    REPLAY_MUST,
    RESULTS_MUST,
    read_results,
    replay_facts,
    to_plain,
)

_START = 65536  # bytes in which the first line of any of these files ends
_STATISTICS_MUST = {"kind", "name", "n_pool", "stock_ms"}


def read_facts(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the facts in a file that a search has left behind.

    Parameters
    ----------
    path : str or path-like
        A journal of `JournaledOracle`; the table ``results_`` of an
        `ActiveConfigSearch`, written by ``to_csv``, in which further columns are the
        parameters of the configs; the runs of ``fasta-learn replay --csv``; or a file
        of ``FASTA_LEARN_STATISTICS``.

    Returns
    -------
    dict
        What strict JSON can hold; None stands for what is unknown or infinite. "kind"
        is "journal", "results", "replay" or "statistics", "file" the name of the file.
        Durations are in ms. A notebook shows the page of `to_html` in their place.

    Raises
    ------
    OSError
        The file can't be read.
    ValueError
        It is none of these, holds no measurement, or a line of it is wrong.

    See Also
    --------
    to_html : Shows the facts as a web page.

    Examples
    --------
    >>> import tempfile
    >>> from fasta_learn.oracles import CallableOracle, JournaledOracle
    >>> from fasta_learn.report import read_facts
    >>> measuring = CallableOracle(lambda config: 64 / config["BLOCK"])
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = f"{directory}/tiles.jsonl"
    ...     answers = JournaledOracle(measuring, path).measure(
    ...         [{"BLOCK": 32}, {"BLOCK": 64}])
    ...     facts = read_facts(path)
    >>> facts["kind"], facts["best"]["config"], facts["best"]["duration_ms"]
    ('journal', {'BLOCK': 64}, 1.0)
    """
    kind = _kind_of(path)
    try:
        facts = _READERS[kind](path)
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(
            f"{path} is damaged: it is not text in UTF-8 throughout ({error}); restore "
            "it, or write it anew."
        ) from error
    head = {"kind": kind, "file": Path(path).name}
    return Facts(to_plain({**head, **facts}))


def _kind_of(path: str | os.PathLike[str]) -> str:
    with open(path, "rb") as file:
        start = file.read(_START)
    line = start.split(b"\n", 1)[0]
    if start.startswith(b'{"journal"'):
        return "journal"
    try:
        columns = set(next(csv.reader([line.decode("utf-8-sig")]), []))
    except (UnicodeDecodeError, csv.Error):
        columns = set()
    for kind, must in (
        ("replay", REPLAY_MUST),
        ("statistics", _STATISTICS_MUST),
        ("results", RESULTS_MUST),
    ):
        if must <= columns:
            return kind
    raise ValueError(f"{path} {_what_it_is(start, columns)}")


def _what_it_is(start: bytes, columns: set[str]) -> str:
    wanted = (
        "give a journal (fasta-learn search --journal FILE), a table of results "
        "(search.results_.to_csv), the runs of fasta-learn replay --csv FILE, or a "
        "file of FASTA_LEARN_STATISTICS"
    )
    if not start.strip():
        return f"is empty; {wanted}."
    if "duration_ms" in columns:
        return (
            "is a recorded pool, which has no order of a search; search it first: "
            "fasta-learn search FILE --journal JOURNAL, then report JOURNAL."
        )
    return f"is no file that a search has written; {wanted}."


def _statistics_facts(path: str | os.PathLike[str]) -> dict[str, Any]:
    records = read_records(path)
    searched = [record for record in records if record["source"] == "search"]
    totals = {
        name: sum(record[name] for record in searched)
        for name in ("n_pool", "n_measured", "n_failed", "seconds", "compile_seconds")
    }
    return {
        "summary": summarize(records),
        "searches": records,
        "mean_ratio": mean_ratio(records),
        "n_searches": len(searched),
        "totals": totals,
        "kinds": _by_kind(records),
    }


def _by_kind(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        groups.setdefault(record["kind"], []).append(record)
    return [
        {
            "kind": kind,
            "n_kernels": len(group),
            "mean_ratio": mean_ratio(group),
            "n_slower": sum(_is_slower(record) for record in group),
            "seconds": math.fsum(record["seconds"] for record in group),
        }
        for kind, group in groups.items()
    ]


def _is_slower(record: dict[str, Any]) -> bool:
    ratio = mean_ratio([record])
    return math.isfinite(ratio) and ratio > 1


_READERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "journal": lambda path: search_facts(read_journal(path)),
    "results": lambda path: search_facts(read_results(path, Path(path).stem)),
    "replay": replay_facts,
    "statistics": _statistics_facts,
}
