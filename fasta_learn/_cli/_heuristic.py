"""``fasta-learn heuristic``: learn compile-time decisions, from collection to use."""

import argparse
from typing import Any

from fasta_learn._cli import (
    _heuristic_collect,
    _heuristic_evaluate,
    _heuristic_install,
    _heuristic_logs,
    _heuristic_train,
)
from fasta_learn._cli._parsers import add_command

# Each has add_parsers(subparsers), which sets `step` to what runs the command.
_MODULES = (
    _heuristic_collect,
    _heuristic_logs,
    _heuristic_train,
    _heuristic_install,
    _heuristic_evaluate,
)


def add_parser(subparsers: Any) -> None:
    """Add the command to a parser.

    Parameters
    ----------
    subparsers : object
        What `argparse.ArgumentParser.add_subparsers` answers.
    """
    parser = add_command(
        subparsers,
        "heuristic",
        purpose="learn from measurements whether torch.compile pads a matrix product",
        description="Learn from measurements on your GPU whether torch.compile pads a "
        "matrix product: collect, train, generate, install, evaluate.",
        examples=(
            "heuristic collect pad_mm --simulate --samples 200 -o log.txt",
            "heuristic train log.txt --no-teacher -o model.joblib",
            "heuristic train --help",
        ),
    )
    steps = parser.add_subparsers(dest="step_name", metavar="STEP", required=True)
    for module in _MODULES:
        module.add_parsers(steps)


def run(args: argparse.Namespace) -> int:
    """Run one of the steps.

    Parameters
    ----------
    args : argparse.Namespace
        The parsed arguments.

    Returns
    -------
    int
        0; 1 if `verify` found a problem; 3 if the time of `collect` was up.

    Raises
    ------
    KeyboardInterrupt
        The step was interrupted.
    MissingExtraError
        Torch, Triton or matplotlib is needed and not installed.
    OSError, ValueError
        A file, a device or an artifact can't be used.
    """
    status: int = args.step(args)
    return status
