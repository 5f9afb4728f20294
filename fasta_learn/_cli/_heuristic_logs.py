"""``fasta-learn heuristic merge``: put logs together."""

import argparse
from typing import Any

from fasta_learn._cli._heuristic_parsers import add_step
from fasta_learn._cli._terminal import write
from fasta_learn.heuristics import merge_logs, write_log

_MOST_LINES = 20


def add_parsers(steps: Any) -> None:
    """Add the step to a parser.

    Parameters
    ----------
    steps : object
        What `argparse.ArgumentParser.add_subparsers` answers.
    """
    parser = add_step(
        steps,
        "merge",
        run,
        purpose="put logs of one kind of device together, and tell what does not fit",
        example="gpu0.txt gpu1.txt.xz -o pad_mm.txt",
    )
    parser.add_argument("logs", nargs="+", metavar="LOG", help="plain, .xz or .gz")
    parser.add_argument(
        "-o", "--output", required=True, metavar="LOG", help="where to write it"
    )
    parser.add_argument(
        "--strict", action="store_true", help="refuse logs with lines that are damaged"
    )


def run(args: argparse.Namespace) -> int:
    """Merge.

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
        A log can't be read, or two do not belong together.
    """
    log, report = merge_logs(args.logs, strict=args.strict)
    write_log(log, args.output)
    write(str(report))
    for name, number, what in report.problems[:_MOST_LINES]:
        write(f"{name}, line {number}: {what}")
    n_more = len(report.problems) - _MOST_LINES
    if n_more > 0:
        write(f"and {n_more} more lines")
    return 0
