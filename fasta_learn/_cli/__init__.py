"""The command line ``fasta-learn``."""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import fasta_learn
from fasta_learn._cli import _doctor, _record, _replay, _report, _search, _tune
from fasta_learn._cli._text import write
from fasta_learn.exceptions import AllConfigsFailedError, MissingExtraError

# Each has add_parser(subparsers) and run(args) -> exit code, and is named after its
# command.
_COMMANDS = (_tune, _record, _search, _replay, _report, _doctor)

_ALL_FAILED, _BAD_USAGE, _INTERRUPTED, _BROKEN_PIPE = 1, 2, 130, 141


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
        status = _run(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        # Otherwise the interpreter fails once more when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except AllConfigsFailedError as error:
        return _fail(error, _ALL_FAILED)
    except (MissingExtraError, OSError, ValueError) as error:
        return _fail(error, _BAD_USAGE)
    return status


def _run(argv: Sequence[str] | None) -> int:
    try:
        args = _make_parser().parse_args(argv)
    except SystemExit as end:  # after --help and --version, and for bad usage
        return int(end.code or 0)
    commands = {module.__name__.rpartition("._")[2]: module for module in _COMMANDS}
    return commands[args.command].run(args)


def _make_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="fasta-learn",
        description="Find a fast launch config of a kernel after measuring few of "
        "them.",
    )
    parser.add_argument(
        "--version", action="version", version=f"fasta-learn {fasta_learn.__version__}"
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in _COMMANDS:
        module.add_parser(subparsers)
    return parser


class _Parser(argparse.ArgumentParser):
    """Refuses bad usage in one line, and abbreviations, which new options break."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **kwargs})

    def error(self, message: str) -> NoReturn:
        self.exit(_fail(f"{message} (see '{self.prog} --help')", _BAD_USAGE))


def _fail(error: Exception | str, status: int) -> int:
    text = str(error)
    if isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    write(f"fasta-learn: error: {' '.join(text.split())}", sys.stderr)
    return status
