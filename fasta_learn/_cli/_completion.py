"""``fasta-learn completion``: what a shell needs to complete the command line."""

import argparse
import importlib
from typing import Any

from fasta_learn._cli._completion_bash import to_bash
from fasta_learn._cli._completion_fish import to_fish
from fasta_learn._cli._completion_zsh import to_zsh
from fasta_learn._cli._parsers import add_command
from fasta_learn._cli._syntax import read_syntax
from fasta_learn._cli._terminal import write
from fasta_learn.datasets import list_pools

_SHELLS = {"bash": to_bash, "zsh": to_zsh, "fish": to_fish}


def add_parser(subparsers: Any) -> None:
    """Add the command to a parser.

    Parameters
    ----------
    subparsers : object
        What `argparse.ArgumentParser.add_subparsers` answers.
    """
    parser = add_command(
        subparsers,
        "completion",
        purpose="write a script with which a shell completes this command line",
        description="Write a script with which a shell completes commands, options, "
        "their values, names of pools and files.",
        examples=("completion bash", "completion zsh", "completion fish"),
        more="The first lines of the script say where to put it.",
    )
    parser.add_argument("shell", choices=tuple(_SHELLS), help="the shell")


def run(args: argparse.Namespace) -> int:
    """Write the script.

    Parameters
    ----------
    args : argparse.Namespace
        The parsed arguments.

    Returns
    -------
    int
        0.
    """
    # Imported late: it imports this module.
    parser = importlib.import_module("fasta_learn._cli").make_parser()
    write(_SHELLS[args.shell](read_syntax(parser), list_pools()))
    return 0
