"""``fasta-learn report``: what the searches of `fasta_learn.inductor` found."""

import argparse
import json
import math
from typing import Any

from fasta_learn._cli._text import format_duration, format_table, write
from fasta_learn.inductor._statistics import mean_ratio, read_records, summarize


def add_parser(subparsers: Any) -> None:
    """Add the command to a parser.

    Parameters
    ----------
    subparsers : object
        What `argparse.ArgumentParser.add_subparsers` answers.
    """
    parser = subparsers.add_parser(
        "report",
        help="show what live tuning of torch.compile found",
        description="Show what live tuning of torch.compile found, from the file that "
        "FASTA_LEARN_STATISTICS names.",
    )
    parser.add_argument("file", metavar="FILE", help="the CSV file")
    parser.add_argument(
        "--json", action="store_true", help="write it as one JSON object"
    )


def run(args: argparse.Namespace) -> int:
    """Write what a file of statistics holds.

    Parameters
    ----------
    args : argparse.Namespace
        The parsed arguments.

    Returns
    -------
    int
        0.
    """
    records = read_records(args.file)
    write(json.dumps(_to_json(records)) if args.json else _to_text(records))
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
    return f"{format_table(header, rows)}\n\n{summarize(records)}"


def _format_ratio(ratio: float) -> str:
    return f"{ratio:.3f}" if math.isfinite(ratio) else "-"


def _to_json(records: list[dict[str, Any]]) -> dict[str, Any]:
    plain = [
        {name: _finite_or_none(value) for name, value in record.items()}
        for record in records
    ]
    return {"searches": plain, "mean_ratio": _finite_or_none(mean_ratio(records))}


def _finite_or_none(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
