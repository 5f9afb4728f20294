"""``fasta-learn report``: the story of a search, or of live tuning, from its file."""

import argparse
import json
import math
from typing import Any

from fasta_learn._cli._files import check_writable, write_file
from fasta_learn._cli._parsers import add_command
from fasta_learn._cli._terminal import paint, write
from fasta_learn._text import format_duration, format_table
from fasta_learn.inductor._statistics import mean_ratio, read_records, summarize


def add_parser(subparsers: Any) -> None:
    """Add the command to a parser.

    Parameters
    ----------
    subparsers : object
        What `argparse.ArgumentParser.add_subparsers` answers.
    """
    parser = add_command(
        subparsers,
        "report",
        purpose="show what a search, a replay, or live tuning of torch.compile found",
        description="Show what a search, a replay, or live tuning of torch.compile "
        "found, as text, as JSON, or as a web page.",
        examples=(
            "search --journal mm.jsonl",
            "report mm.jsonl",
            "report mm.jsonl -o report.html",
        ),
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        help="a journal, a table of results (fasta-learn search --csv), the runs of "
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
        check_writable(args.output, args.file)
    facts = read_facts(args.file)
    if args.output is not None:
        write_file(args.output, to_html(facts))
    if args.json:
        write(json.dumps(facts, allow_nan=False))
    elif args.output is not None:
        write(f"written to {args.output}")
    elif facts["kind"] == "statistics":
        write(_to_text(read_records(args.file)))
    else:
        headline, end, rest = to_text(facts).partition("\n")
        write(f"{paint(headline, 'bold')}{end}{rest}")
    return 0


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
    return f"{format_table(header, rows, n_keys=2)}\n\n{summarize(records)}"


def _format_ratio(ratio: float) -> str:
    return f"{ratio:.3f}" if math.isfinite(ratio) else "-"
