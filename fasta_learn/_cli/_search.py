"""``fasta-learn search``: a budgeted search over a recorded pool."""

import argparse
import json
import math
import os
from typing import Any

from fasta_learn._cli._outcome import Outcome, to_record, to_text
from fasta_learn._cli._parsers import add_command
from fasta_learn._cli._pools import name_pools
from fasta_learn._cli._searching import (
    add_search_options,
    check_outputs,
    finish,
    fit_search,
    make_search,
)
from fasta_learn._cli._terminal import write
from fasta_learn.configs import Pool, read_pool
from fasta_learn.datasets import list_pools, load_pool
from fasta_learn.oracles import BaseOracle, JournaledOracle, RecordedOracle

_DEFAULT_POOL = "mm_2048_2048_2048"


def add_parser(subparsers: Any) -> None:
    """Add the command to a parser.

    Parameters
    ----------
    subparsers : object
        What `argparse.ArgumentParser.add_subparsers` answers.
    """
    parser = add_command(
        subparsers,
        "search",
        purpose="search a recorded pool, as if its configs were measured now",
        description="Search a recorded pool as if its configs were measured now, and "
        "compare the result with the best of the pool.",
        examples=(
            "search",
            "search attn_16_4096_128 --budget 10% --seed 3",
            "search swiglu_8M --stop-at 95% --json",
            "search --journal mm.jsonl --csv mm.csv",
        ),
        more=name_pools(),
    )
    parser.add_argument(
        "pool",
        nargs="?",
        default=_DEFAULT_POOL,
        metavar="POOL",
        help="name of a pool that ships, or a file: .csv, .csv.gz, .parquet, or a "
        "cache of Kernel Tuner, .json or .json.gz (default: %(default)s)",
    )
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
    OSError, ValueError
        The pool or the journal can't be used.
    """
    check_outputs(args)
    pool = _find_pool(args.pool)
    oracle: BaseOracle = RecordedOracle.from_pool(pool)
    if args.journal is not None:
        oracle = JournaledOracle(oracle, args.journal)
    search = make_search(args)
    seconds, reason, failure = fit_search(search, pool.configs, oracle)
    outcome = Outcome(
        search, pool.name, pool.configs, oracle, seconds, reason, recording=pool
    )
    if math.isfinite(search.best_duration_) or args.json:
        write(json.dumps(to_record(outcome)) if args.json else to_text(outcome))
    finish(outcome, args, failure)
    return 0


def _find_pool(name: str) -> Pool:
    """Read a pool by the name of one that ships, or by its path."""
    is_path = os.path.exists(name) or os.path.dirname(name) or "." in name
    if is_path and name not in list_pools():
        return read_pool(name)
    try:
        return load_pool(name)
    except ValueError as error:
        raise ValueError(
            f"{error} So does 'fasta-learn search --help'. A file is given by its path."
        ) from error
