"""``fasta-learn heuristic collect``: measure products as they are and padded."""

import argparse
import json
from dataclasses import asdict
from typing import Any

from fasta_learn._cli._arguments import parse_count, parse_seconds, parse_seed
from fasta_learn._cli._heuristic_parsers import add_json, add_step
from fasta_learn._cli._progress import make_display
from fasta_learn._cli._specs import parse_devices
from fasta_learn._cli._terminal import write
from fasta_learn._text import format_pairs
from fasta_learn.heuristics import (
    CollectReport,
    CudaPadBenchmark,
    SimulatedGPU,
    collect,
)
from fasta_learn.oracles import bound_reason

_OUT_OF_TIME = 3


def add_parsers(steps: Any) -> None:
    """Add the step to a parser.

    Parameters
    ----------
    steps : object
        What `argparse.ArgumentParser.add_subparsers` answers.
    """
    parser = add_step(
        steps,
        "collect",
        run,
        purpose="measure matrix products as they are and padded, on your GPUs; a log "
        "that exists is gone on with",
        example="pad_mm --devices 0,1 --samples 2000 --seconds 1200 -o pad_mm.txt",
    )
    parser.add_argument("name", choices=["pad_mm"], help="which decision")
    parser.add_argument(
        "-o", "--output", required=True, metavar="LOG", help="made, or appended to"
    )
    parser.add_argument(
        "--samples",
        type=parse_count,
        default=1000,
        metavar="N",
        help="how many inputs the log is to have (default: 1000)",
    )
    parser.add_argument(
        "--devices",
        type=parse_devices,
        default=[0],
        metavar="N,N",
        help="indices of equal GPUs, measured on at the same time (default: 0)",
    )
    _add_choice_of_inputs(parser)
    _add_limits(parser)


def _add_choice_of_inputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--shapes", metavar="CSV", help="your shapes: columns M, K, N, dtype"
    )
    parser.add_argument(
        "--no-known", action="store_true", help="no products of well-known models"
    )
    parser.add_argument(
        "--active",
        action="store_true",
        help="choose inputs where a model of those before expects to lose most time",
    )
    parser.add_argument(
        "--all-inputs",
        action="store_true",
        help="also inputs that torch never asks a heuristic about, such as small ones",
    )


def _add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds",
        type=parse_seconds,
        help="begin no further input after this time; the exit code is 3 then",
    )
    parser.add_argument(
        "--max-tflop",
        type=parse_seconds,
        metavar="X",
        help="leave out products of more than X * 10**12 operations",
    )
    parser.add_argument(
        "--repetitions",
        type=parse_count,
        default=3,
        metavar="N",
        help="measurements of each choice of an input (default: 3)",
    )
    parser.add_argument(
        "--seed", type=parse_seed, default=0, help="of the random inputs (default: 0)"
    )
    parser.add_argument(
        "--simulate", action="store_true", help="on a model of a GPU, to try it"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Collect.

    Parameters
    ----------
    args : argparse.Namespace
        The parsed arguments.

    Returns
    -------
    int
        0, or 3 if the time was up before all was measured.

    Raises
    ------
    MissingExtraError
        Torch or Triton is not installed.
    OSError, ValueError
        The log or the devices can't be used.
    """
    display = make_display()
    if display is not None:
        display.start(args.samples)
    try:
        report = collect(
            args.output,
            n_samples=args.samples,
            devices=args.devices,
            shapes=args.shapes,
            known=not args.no_known,
            active=args.active,
            n_repetitions=args.repetitions,
            seconds=args.seconds,
            max_operations=None if args.max_tflop is None else 1e12 * args.max_tflop,
            random_state=args.seed,
            benchmark=SimulatedGPU()
            if args.simulate
            else CudaPadBenchmark(all_inputs=args.all_inputs),
            isolate=not args.simulate,
            progress=None
            if display is None
            else lambda done, total: display.update(done, ""),
        )
    except RuntimeError as error:
        raise ValueError(bound_reason(str(error))) from error
    finally:
        if display is not None:
            display.stop()
    write(json.dumps(_to_record(report)) if args.json else _to_text(report))
    return 0 if report.is_complete else _OUT_OF_TIME


def _to_record(report: CollectReport) -> dict[str, Any]:
    return {
        **asdict(report),
        "device": report.device.to_dict(),
        "seconds": round(report.seconds, 3),
    }


def _to_text(report: CollectReport) -> str:
    n_inputs = report.n_before + report.n_measured
    pairs = [
        ("log", report.path),
        ("device", report.device.name),
        ("inputs", f"{n_inputs} of {report.n_samples}: {report.n_before} known before"),
        ("measured", f"{report.n_measured} in {report.seconds:.1f} s"),
    ]
    for index, (reason, count) in enumerate(report.reasons.items()):
        pairs.append(("" if index else "failed", f"{count} × {reason}"))
    if not report.is_complete:
        pairs.append(("time is up", "the same command goes on"))
    return format_pairs(pairs)
