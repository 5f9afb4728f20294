"""``fasta-learn report``: the story of a search, or of live tuning, from its file."""

import argparse
import json
import math
import os
from pathlib import Path
from typing import Any

from fasta_learn._cli._text import format_duration, format_table, write
from fasta_learn.inductor._statistics import mean_ratio, read_records, summarize

_EXAMPLE = """examples:
  fasta-learn search --journal mm.jsonl
  fasta-learn report mm.jsonl -o report.html
"""


def add_parser(subparsers: Any) -> None:
    """Add the command to a parser.

    Parameters
    ----------
    subparsers : object
        What `argparse.ArgumentParser.add_subparsers` answers.
    """
    parser = subparsers.add_parser(
        "report",
        help="show what a search, a replay, or live tuning of torch.compile found",
        description="Show what a search, a replay, or live tuning of torch.compile "
        "found, as text, as JSON, or as a web page.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        help="a journal, a table of results (search.results_.to_csv), the runs of "
        "fasta-learn replay --csv, or the file that FASTA_LEARN_STATISTICS names",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="HTML",
        help="write a web page, which works offline, instead of text",
    )
    parser.add_argument(
        "--json", action="store_true", help="write the facts as one JSON object"
    )


def run(args: argparse.Namespace) -> int:
    """Write what a file holds.

    Parameters
    ----------
    args : argparse.Namespace
        The parsed arguments.

    Returns
    -------
    int
        0.

    Raises
    ------
    OSError, ValueError
        The file can't be read, or the page can't be written.
    """
    # Imported late: these take the formats of text from this package.
    from fasta_learn.report import read_facts, to_html
    from fasta_learn.report._text import to_text

    if args.output is not None:
        _check_output(args.file, args.output)
    facts = read_facts(args.file)
    if args.output is not None:
        Path(args.output).write_text(to_html(facts), encoding="utf-8")
    if args.json:
        write(json.dumps(facts, allow_nan=False))
    elif args.output is not None:
        write(f"written to {args.output}")
    elif facts["kind"] == "statistics":
        write(_to_text(read_records(args.file)))
    else:
        write(to_text(facts))
    return 0


def _check_output(source: str, target: str) -> None:
    """Refuse before the file is read what would fail after it."""
    if os.path.exists(target) and os.path.samefile(source, target):
        raise ValueError(
            f"{target} is the file to be reported on; name another for the page."
        )
    if not Path(target).absolute().parent.is_dir():
        raise ValueError(f"{target}: its folder does not exist; make it first.")


def _to_text(records: list[dict[str, Any]]) -> str:
    if not records:
        return summarize(records)
    header = (
        "kind",
        "name",
        "shape",
        "dtype",
        "source",
        "measured",
        "failed",
        "stock",
        "best",
        "ratio",
        "seconds",
    )
    rows = [
        (
            *(record[name] or "-" for name in header[:5]),
            f"{record['n_measured']} of {record['n_pool']}",
            str(record["n_failed"]),
            format_duration(record["stock_ms"]),
            format_duration(record["best_ms"]),
            _format_ratio(mean_ratio([record])),
            f"{record['seconds']:.2f}",
        )
        for record in records
    ]
    return f"{format_table(header, rows)}\n\n{summarize(records)}"


def _format_ratio(ratio: float) -> str:
    return f"{ratio:.3f}" if math.isfinite(ratio) else "-"
