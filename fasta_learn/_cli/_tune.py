"""``fasta-learn tune``: a budgeted search that measures a kernel on the GPU."""

import argparse
import json
import math
from typing import Any

from fasta_learn._cli._meter import MeteredOracle
from fasta_learn._cli._outcome import Outcome, to_record, to_text
from fasta_learn._cli._parsers import add_command
from fasta_learn._cli._searching import (
    add_search_options,
    check_outputs,
    finish,
    fit_search,
    make_search,
)
from fasta_learn._cli._specs import (
    SPEC_HELP,
    add_spec_options,
    explain_failures,
    load_spec,
    open_oracle,
    oracle_options,
)
from fasta_learn._cli._terminal import write
from fasta_learn.configs import config_to_dict
from fasta_learn.configs._formats import format_launch
from fasta_learn.experiments._record import pool_name
from fasta_learn.oracles import BaseOracle, JournaledOracle


def add_parser(subparsers: Any) -> None:
    """Add the command to a parser.

    Parameters
    ----------
    subparsers : object
        What `argparse.ArgumentParser.add_subparsers` answers.
    """
    parser = add_command(
        subparsers,
        "tune",
        purpose="find a fast config of a Triton kernel by measuring on the GPU",
        description="Find a fast config of a Triton kernel by compiling and measuring "
        "some of its configs on the GPU.",
        examples=(
            "tune softmax.py:softmax --set rows=8192 --budget 10%",
            "tune softmax.py:softmax --devices 0,1 --journal softmax.jsonl",
            "tune 'softmax.py:softmax(rows=512)' --csv results.csv --json",
        ),
    )
    parser.add_argument("spec", metavar="SPEC", help=SPEC_HELP)
    add_spec_options(parser)
    add_search_options(parser)


def run(args: argparse.Namespace) -> int:
    """Search, and write the result.

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
    AllConfigsFailedError
        No config ran.
    KeyboardInterrupt
        The search was interrupted; what it has found is written.
    MissingExtraError
        Torch or triton is not installed.
    OSError, ValueError
        The spec, the device or the journal can't be used.
    """
    check_outputs(args)
    spec = load_spec(args.spec, args.settings)
    search = make_search(args)
    with open_oracle(spec, oracle_options(args)) as inner:
        meter = MeteredOracle(inner)
        oracle: BaseOracle = meter
        if args.journal is not None:
            oracle = JournaledOracle(meter, args.journal)
        seconds, reason, failure = fit_search(search, spec.configs, oracle)
    name = pool_name(spec)
    outcome = Outcome(search, name, spec.configs, oracle, seconds, reason)
    if args.json:
        write(json.dumps(_to_record(outcome, meter)))
    elif math.isfinite(search.best_duration_):
        write(_to_text(outcome, meter))
    with explain_failures(spec):
        finish(outcome, args, failure)
    return 0


def _failures(outcome: Outcome) -> dict[str, int]:
    """Count the failed configs by status and reason, the most common first."""
    results = outcome.search.results_
    failed = results[results["status"] != "ok"]
    whole = failed["status"] + failed["reason"].map(
        lambda reason: f": {reason}" if isinstance(reason, str) else ""
    )
    return {str(text): int(count) for text, count in whole.value_counts().items()}


def _to_record(outcome: Outcome, meter: MeteredOracle) -> dict[str, Any]:
    return {
        **to_record(outcome),
        "compile_seconds": round(meter.compile_seconds, 3),
        "run_seconds": round(meter.run_seconds, 3),
        "failures": _failures(outcome),
    }


def _to_text(outcome: Outcome, meter: MeteredOracle) -> str:
    pairs = [("cost", _cost(outcome, meter))]
    for index, (text, count) in enumerate(_failures(outcome).items()):
        pairs.append(("" if index else "failures", f"{count} × {text}"))
    line = format_launch(config_to_dict(outcome.search.best_config_))
    return f"{to_text(outcome, pairs)}\n\n{line}"


def _cost(outcome: Outcome, meter: MeteredOracle) -> str:
    spent = meter.compile_seconds + meter.run_seconds
    text = (
        f"{meter.compile_seconds:.1f} s of compiling, {meter.run_seconds:.1f} s of "
        "running"
    )
    n_left = len(outcome.configs) - outcome.search.n_measured_
    if not (spent and n_left):
        return text
    saved = spent / meter.n_measured * n_left
    return f"{text}; the {n_left} other configs would cost about {saved:.1f} s"
