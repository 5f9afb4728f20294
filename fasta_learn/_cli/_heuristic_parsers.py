"""What the parsers of the steps of ``fasta-learn heuristic`` have in common."""

import argparse
from collections.abc import Callable
from typing import Any

from fasta_learn._cli._parsers import HelpFormatter

Step = Callable[[argparse.Namespace], int]


def add_step(
    steps: Any, name: str, run: Step, *, purpose: str, example: str
) -> argparse.ArgumentParser:
    """Add a step.

    Parameters
    ----------
    steps : object
        What `argparse.ArgumentParser.add_subparsers` answers.
    name : str
        Name of the step.
    run : callable
        Takes the parsed arguments, and returns the exit code.
    purpose : str
        What it does; a phrase.
    example : str
        The arguments of an example.

    Returns
    -------
    argparse.ArgumentParser
        Its parser.
    """
    parser: argparse.ArgumentParser = steps.add_parser(
        name,
        help=purpose,
        description=f"{purpose[0].upper()}{purpose[1:]}.",
        epilog=f"example:\n  fasta-learn heuristic {name} {example}",
        formatter_class=HelpFormatter,
    )
    parser.set_defaults(step=run)
    return parser


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--json``.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        The parser.
    """
    parser.add_argument("--json", action="store_true", help="write it as JSON")


def add_folder(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--folder``.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        The parser.
    """
    parser.add_argument(
        "--folder", metavar="DIR", help="folder of the artifacts (default: yours)"
    )
