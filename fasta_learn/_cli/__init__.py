"""The command line ``fasta-learn``."""

import argparse
import os
import sys
from collections.abc import Sequence

import fasta_learn
from fasta_learn._cli import (
    _completion,
    _doctor,
    _heuristic,
    _record,
    _replay,
    _report,
    _search,
    _tune,
)
from fasta_learn._cli._errors import fail, short_warnings
from fasta_learn._cli._parsers import (
    BAD_USAGE,
    HelpFormatter,
    Parser,
    list_examples,
    parse,
)
from fasta_learn._cli._terminal import write
from fasta_learn.exceptions import AllConfigsFailedError, MissingExtraError

# Each has add_parser(subparsers) and run(args) -> exit code, and is named after its
# command.
_COMMANDS = (
    _tune,
    _record,
    _search,
    _replay,
    _report,
    _heuristic,
    _doctor,
    _completion,
)

_ALL_FAILED, _INTERRUPTED, _BROKEN_PIPE = 1, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, default=None
        The arguments; by default those of the process.

    Returns
    -------
    int
        The exit code: 0; 1 if every measured config failed; 2 for bad usage or
        input; 3 if the time was up before a recording was complete; 130 if
        interrupted; 141 if the reader of the output went away.
    """
    try:
        with short_warnings():
            status = _run(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return _BROKEN_PIPE
    except KeyboardInterrupt as error:
        hint = f"; {error}" if str(error) else ""
        write(f"fasta-learn: interrupted{hint}", sys.stderr)
        return _INTERRUPTED
    except AllConfigsFailedError as error:
        return fail(error, _ALL_FAILED)
    except (MissingExtraError, OSError, ValueError) as error:
        _drop_output_if_broken()
        return fail(error, BAD_USAGE)
    return status


def _drop_output() -> None:
    """Write what is left nowhere; the interpreter would fail on it once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _drop_output_if_broken() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()


def _run(argv: Sequence[str] | None) -> int:
    try:
        args = parse(make_parser(), argv)
    except SystemExit as end:  # after --help and --version, and for bad usage
        return int(end.code or 0)
    commands = {module.__name__.rpartition("._")[2]: module for module in _COMMANDS}
    status: int = commands[args.command].run(args)
    return status


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line.

    Returns
    -------
    argparse.ArgumentParser
        The parser.
    """
    parser = Parser(
        prog="fasta-learn",
        description="Find a fast launch config of a kernel after measuring few of "
        "them.",
        epilog=list_examples(["search", "search --help", "doctor"]),
        formatter_class=HelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"fasta-learn {fasta_learn.__version__}"
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in _COMMANDS:
        module.add_parser(subparsers)
    return parser
