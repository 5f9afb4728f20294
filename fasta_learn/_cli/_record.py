"""``fasta-learn record``: whole pools of kernels, measured on the GPU."""

import argparse
import time
from collections import Counter
from typing import Any

from fasta_learn._cli._arguments import parse_count, parse_seconds, parse_seed
from fasta_learn._cli._errors import resumable
from fasta_learn._cli._parsers import add_command
from fasta_learn._cli._progress import Display, make_display
from fasta_learn._cli._specs import (
    SPEC_HELP,
    add_spec_options,
    explain_failures,
    load_spec,
    oracle_options,
)
from fasta_learn._cli._terminal import write
from fasta_learn._text import format_duration
from fasta_learn.configs import Pool
from fasta_learn.experiments import Recording, record_pool
from fasta_learn.oracles import KernelSpec

_INCOMPLETE = 3
_RESUME = "the same command measures what is missing"


def add_parser(subparsers: Any) -> None:
    """Add the command to a parser.

    Parameters
    ----------
    subparsers : object
        What `argparse.ArgumentParser.add_subparsers` answers.
    """
    parser = add_command(
        subparsers,
        "record",
        purpose="measure whole pools of Triton kernels into pool files",
        description="Measure all configs of Triton kernels on the GPU, and write a "
        "pool file with a card for each. Started again after an interruption, it "
        "measures only what is missing.",
        examples=(
            "record softmax.py:softmax matmul.py:matmul -o pools",
            "record softmax.py:softmax -o pools --sample 300 --max-seconds 600",
        ),
    )
    parser.add_argument("specs", nargs="+", metavar="SPEC", help=SPEC_HELP)
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FOLDER",
        help="where to write the pools (.csv), cards (.md) and journals (.jsonl)",
    )
    add_spec_options(parser)
    _add_limits(parser)


def _add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sample",
        type=parse_count,
        metavar="N",
        help="measure N configs of each pool, drawn at random",
    )
    parser.add_argument(
        "--seed", type=parse_seed, default=0, help="seed of the draw (default: 0)"
    )
    parser.add_argument(
        "--max-seconds",
        type=parse_seconds,
        metavar="SECONDS",
        help="measure nothing more after so many seconds; what is measured is kept "
        "for the next time",
    )


def run(args: argparse.Namespace) -> int:
    """Record, and write a line about each pool.

    Parameters
    ----------
    args : argparse.Namespace
        The parsed arguments.

    Returns
    -------
    int
        0; 3 if the time was up before all pools were complete.

    Raises
    ------
    MissingExtraError
        Torch or triton is not installed.
    OSError, ValueError
        A spec, the device, the folder or a journal can't be used.
    """
    deadline = None
    if args.max_seconds is not None:
        deadline = time.monotonic() + args.max_seconds
    for position, text in enumerate(args.specs):
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            write(_time_is_up(args.specs[position:]))
            return _INCOMPLETE
        recording = _record(load_spec(text, args.settings), args, left)
        write(_describe(recording))
        if recording.pool is None:
            write(_time_is_up(args.specs[position:]))
            return _INCOMPLETE
    return 0


def _record(
    spec: KernelSpec, args: argparse.Namespace, seconds: float | None
) -> Recording:
    bar = _Bar(make_display())
    try:
        with explain_failures(spec), resumable(_RESUME):
            return record_pool(
                spec,
                args.output,
                n_configs=args.sample,
                random_state=args.seed,
                max_seconds=seconds,
                on_measured=bar,
                **oracle_options(args),
            )
    finally:
        bar.stop()


class _Bar:
    """Shows how far a recording is; begins with the first measurement."""

    def __init__(self, display: Display | None) -> None:
        self._display = display
        self._is_shown = False

    def __call__(self, n_known: int, n_configs: int, best: float) -> None:
        if self._display is None:
            return
        if not self._is_shown:
            self._display.start(n_configs)
            self._is_shown = True
        self._display.update(n_known, f"best {format_duration(best)}")

    def stop(self) -> None:
        if self._display is not None and self._is_shown:
            self._display.stop()


def _describe(recording: Recording) -> str:
    counts = f"{recording.n_known} known before, {recording.n_measured} measured now"
    if recording.pool is None:
        n_done = recording.n_known + recording.n_measured
        return (
            f"{recording.name}: {n_done} of {recording.n_configs} configs ({counts}), "
            f"kept in {recording.journal_path}"
        )
    pool = recording.pool
    return (
        f"{recording.name}: {len(pool)} configs ({counts}), {_failures(pool)}, best "
        f"{format_duration(pool.best_duration)}, written to {recording.path}"
    )


def _failures(pool: Pool) -> str:
    kinds = Counter(text.partition(": ")[0] for text in pool.status if text != "ok")
    listed = ", ".join(f"{count} × {kind}" for kind, count in kinds.most_common())
    return f"{kinds.total()} failed ({listed})" if kinds else "none failed"


def _time_is_up(left: list[str]) -> str:
    return (
        f"the time was up with {len(left)} of the pools to complete "
        f"({', '.join(left)}); the same command goes on from there"
    )
