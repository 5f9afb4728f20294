"""``fasta-learn search``: a budgeted search over a recorded pool."""

import argparse
import json
import math
import os
import time
from typing import Any

from fasta_learn._cli._arguments import parse_budget, parse_probability
from fasta_learn._cli._progress import make_progress
from fasta_learn._cli._report import Outcome, to_record, to_text
from fasta_learn._cli._text import write
from fasta_learn.configs import Pool, read_pool
from fasta_learn.datasets import list_pools, load_pool
from fasta_learn.exceptions import AllConfigsFailedError
from fasta_learn.oracles import BaseOracle, JournaledOracle, RecordedOracle
from fasta_learn.search import (
    ActiveConfigSearch,
    CertaintyStop,
    dynamic_filter_search,
)

_DEFAULT_POOL = "mm_2048_2048_2048"


def add_parser(subparsers: Any) -> None:
    """Add the command to a parser.

    Parameters
    ----------
    subparsers : object
        What `argparse.ArgumentParser.add_subparsers` answers.
    """
    parser = subparsers.add_parser(
        "search",
        help="search a recorded pool, as if its configs were measured now",
        description="Search a recorded pool as if its configs were measured now, and "
        "compare the result with the best of the pool.",
        epilog=f"Pools that ship with fasta-learn: {', '.join(list_pools())}.",
    )
    parser.add_argument(
        "pool",
        nargs="?",
        default=_DEFAULT_POOL,
        metavar="POOL",
        help="name of a pool that ships, or a file: .csv, .csv.gz, .parquet, or a "
        "cache of Kernel Tuner, .json or .json.gz (default: %(default)s)",
    )
    parser.add_argument(
        "--budget",
        type=parse_budget,
        help="how much to measure: a share of the configs (0.2 or 20%%), or a number "
        "of them (40); by default 0.2, or what the profile says",
    )
    parser.add_argument(
        "--seed", type=_seed, default=0, help="seed of the search (default: 0)"
    )
    parser.add_argument(
        "--profile",
        choices=("default", "production", "reference"),
        default="default",
        help="the search of fasta-learn, or the dynamic filter of torch_npu with the "
        "constants of its code or of its description (default: default)",
    )
    parser.add_argument(
        "--journal",
        metavar="FILE",
        help="keep the measurements in FILE, and take from it those it has",
    )
    parser.add_argument(
        "--time-budget",
        type=_seconds,
        metavar="SECONDS",
        help="start no further measurement after so many seconds",
    )
    parser.add_argument(
        "--stop-at",
        type=parse_probability,
        metavar="PROBABILITY",
        help="stop early once the result is within 5 %% of the fastest config with "
        "this probability (0.95 or 95%%), instead of by the rule of the profile",
    )
    parser.add_argument(
        "--json", action="store_true", help="write the result as one JSON object"
    )


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
    pool = _find_pool(args.pool)
    oracle: BaseOracle = RecordedOracle.from_pool(pool)
    if args.journal is not None:
        oracle = JournaledOracle(oracle, args.journal)
    search = _make_search(args)
    progress = make_progress()
    if progress is not None:
        search.set_callbacks(progress)
    outcome, failure = _fit(search, pool, oracle)
    if math.isfinite(search.best_duration_) or args.json:
        write(json.dumps(to_record(outcome)) if args.json else to_text(outcome))
    if failure is not None:
        raise failure
    return 0


def _fit(
    search: ActiveConfigSearch, pool: Pool, oracle: BaseOracle
) -> tuple[Outcome, BaseException | None]:
    """Search, and keep what was found by then if it is interrupted or all fail."""
    failure: BaseException | None = None
    started = time.perf_counter()
    try:
        search.fit(pool.configs, oracle=oracle)
    except (AllConfigsFailedError, KeyboardInterrupt) as error:
        if not hasattr(search, "best_duration_"):  # interrupted before it began
            raise
        failure = error
    seconds = time.perf_counter() - started
    reason = search.stop_reason_
    if isinstance(failure, KeyboardInterrupt):
        reason = "interrupted"
    elif not search.n_measured_:
        failure = AllConfigsFailedError("the time was up before any config ran.")
    return Outcome(search, pool, oracle, seconds, reason), failure


def _make_search(args: argparse.Namespace) -> ActiveConfigSearch:
    settings: dict[str, Any] = {
        "random_state": args.seed,
        "time_budget": args.time_budget,
    }
    if args.budget is not None:
        settings["budget"] = args.budget
    if args.stop_at is not None:
        settings["stopping"] = CertaintyStop(probability=args.stop_at)
    if args.profile == "default":
        return ActiveConfigSearch(**settings)
    return dynamic_filter_search(args.profile, **settings)


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


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no whole number from 0 to {2**32 - 1}"
        )
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no positive number of seconds")
    return seconds
