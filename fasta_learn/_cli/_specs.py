"""What the commands that measure kernels have in common."""

import argparse
import ast
import contextlib
from collections.abc import Iterator
from typing import Any

from fasta_learn._cli._arguments import parse_count
from fasta_learn.oracles import BaseOracle, KernelSpec, bound_reason, load_kernel_spec

SPEC_HELP = (
    "module:function or path/to/file.py:function that returns a KernelSpec; arguments "
    "may follow, as in 'kernels.py:softmax(rows=8192)'"
)


def add_spec_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of measuring kernels to a parser.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        The parser.
    """
    parser.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        type=parse_setting,
        metavar="NAME=VALUE",
        help="argument of the function; may be given several times",
    )
    parser.add_argument(
        "--devices",
        type=parse_devices,
        metavar="N,N",
        help="indices of the GPUs to measure on (default: the current one)",
    )
    parser.add_argument(
        "--jobs",
        type=parse_count,
        metavar="N",
        help="how many configs are compiled at a time (default: by the processors)",
    )
    parser.add_argument(
        "--no-isolate",
        action="store_true",
        help="measure in this process; a config that crashes or hangs then ends it",
    )


def parse_setting(text: str) -> tuple[str, Any]:
    """Read an argument of a function.

    Parameters
    ----------
    text : str
        Such as ``rows=8192``. What is no number, True, False, None, list or the like
        is text.

    Returns
    -------
    name : str
        Its name.
    value : object
        Its value.

    Raises
    ------
    argparse.ArgumentTypeError
        The text has another form.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form name=value")
    try:
        return name, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return name, value


def parse_devices(text: str) -> list[int]:
    """Read indices of devices.

    Parameters
    ----------
    text : str
        Such as ``0,1``.

    Returns
    -------
    list of int
        The indices.

    Raises
    ------
    argparse.ArgumentTypeError
        One is no whole number, or occurs twice.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts) or len(set(parts)) < len(parts):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no list of different device indices such as 0,1"
        )
    return [int(part) for part in parts]


def load_spec(text: str, settings: list[tuple[str, Any]]) -> KernelSpec:
    """Make the kernel spec that an argument names.

    Parameters
    ----------
    text : str
        As in `SPEC_HELP`.
    settings : list of (str, object)
        Arguments of the function; those in `text` win.

    Returns
    -------
    KernelSpec
        The spec.

    Raises
    ------
    MissingExtraError
        Torch or triton is needed and not installed.
    OSError, ValueError
        It can't be made.
    """
    target, parameters = _split_call(text)
    return load_kernel_spec(target, {**dict(settings), **parameters})


def _split_call(text: str) -> tuple[str, dict[str, Any]]:
    target, parenthesis, arguments = text.partition("(")
    if not parenthesis:
        return text, {}
    try:
        keywords = _keywords(ast.parse(f"f({arguments}", mode="eval").body)
        return target, {n: ast.literal_eval(value) for n, value in keywords.items()}
    except (SyntaxError, ValueError) as error:
        raise ValueError(
            f"the arguments of {text!r} can't be read ({error}); write them as in "
            "'kernels.py:softmax(rows=8192, dtype=\"float16\")'."
        ) from error


def _keywords(call: ast.expr) -> dict[str, ast.expr]:
    """Return the keyword arguments of a call, and refuse anything else."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ValueError("something follows them")
    keywords = {item.arg: item.value for item in call.keywords if item.arg is not None}
    if call.args or len(keywords) < len(call.keywords):
        raise ValueError("only keyword arguments are known")
    return keywords


def oracle_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `KernelSpec.oracle` that were given.

    Parameters
    ----------
    args : argparse.Namespace
        The parsed options of `add_spec_options`.

    Returns
    -------
    dict
        The keyword arguments.
    """
    options: dict[str, Any] = {}
    if args.devices is not None:
        options["devices"] = args.devices
    if args.jobs is not None:
        options["n_jobs"] = args.jobs
    if args.no_isolate:
        options["isolate"] = False
    return options


@contextlib.contextmanager
def open_oracle(spec: KernelSpec, options: dict[str, Any]) -> Iterator[BaseOracle]:
    """Make what measures, and close it in the end.

    Parameters
    ----------
    spec : KernelSpec
        The kernel.
    options : dict
        As from `oracle_options`.

    Yields
    ------
    BaseOracle
        The oracle.
    """
    with explain_failures(spec), spec.oracle(**options) as oracle:
        yield oracle


@contextlib.contextmanager
def explain_failures(spec: KernelSpec) -> Iterator[None]:
    """Have what the driver or a child process raises end the command in one line.

    Parameters
    ----------
    spec : KernelSpec
        What is measured.

    Yields
    ------
    None
        Nothing.

    Raises
    ------
    ValueError
        Instead of a RuntimeError.
    """
    try:
        yield
    except RuntimeError as error:
        raise ValueError(
            f"{spec.name} can't be measured: {bound_reason(str(error))} "
            "('fasta-learn doctor' shows the devices)"
        ) from error
