"""What the commands that search have in common: their options, and how they run."""

import argparse
import time
from collections.abc import Sequence
from typing import Any

import pandas as pd

from fasta_learn._cli._arguments import (
    parse_budget,
    parse_probability,
    parse_seconds,
    parse_seed,
)
from fasta_learn._cli._errors import resumable
from fasta_learn._cli._files import check_writable, write_file
from fasta_learn._cli._outcome import Outcome
from fasta_learn._cli._progress import make_progress
from fasta_learn.configs import config_to_dict
from fasta_learn.exceptions import AllConfigsFailedError
from fasta_learn.oracles import BaseOracle
from fasta_learn.search import (
    ActiveConfigSearch,
    CertaintyStop,
    dynamic_filter_search,
)


def add_search_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a search to a parser.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        The parser.
    """
    parser.add_argument(
        "--budget",
        type=parse_budget,
        help="how much to measure: a share of the configs (0.2 or 20%%), or a number "
        "of them (40); by default 0.2, or what the profile says",
    )
    parser.add_argument(
        "--seed", type=parse_seed, default=0, help="seed of the search (default: 0)"
    )
    parser.add_argument(
        "--profile",
        choices=("default", "production", "reference"),
        default="default",
        help="the search of fasta-learn, or the dynamic filter of torch_npu with the "
        "constants of its code or of its description (default: default)",
    )
    _add_ends(parser)
    parser.add_argument(
        "--json", action="store_true", help="write the result as one JSON object"
    )
    parser.add_argument(
        "--csv",
        metavar="FILE",
        help="write every measurement and its config to a CSV file, of which "
        "'fasta-learn report' makes a page",
    )


def _add_ends(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--journal",
        metavar="FILE",
        help="keep the measurements in FILE, and take from it those it has",
    )
    parser.add_argument(
        "--time-budget",
        type=parse_seconds,
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


def make_search(args: argparse.Namespace) -> ActiveConfigSearch:
    """Return the search that the options describe, with a progress display.

    Parameters
    ----------
    args : argparse.Namespace
        The parsed options of `add_search_options`.

    Returns
    -------
    ActiveConfigSearch
        The search.
    """
    settings: dict[str, Any] = {
        "random_state": args.seed,
        "time_budget": args.time_budget,
    }
    if args.budget is not None:
        settings["budget"] = args.budget
    if args.stop_at is not None:
        settings["stopping"] = CertaintyStop(probability=args.stop_at)
    if args.profile == "default":
        search = ActiveConfigSearch(**settings)
    else:
        search = dynamic_filter_search(args.profile, **settings)
    progress = make_progress()
    if progress is not None:
        search.set_callbacks(progress)
    return search


def fit_search(
    search: ActiveConfigSearch, configs: Sequence[Any], oracle: BaseOracle
) -> tuple[float, str | None, BaseException | None]:
    """Search, and keep what was found by then if it is cut short.

    Parameters
    ----------
    search : ActiveConfigSearch
        The search.
    configs : sequence of configs
        The pool.
    oracle : BaseOracle
        Measures.

    Returns
    -------
    seconds : float
        How long it took.
    stop_reason : str or None
        Why it ended.
    failure : BaseException or None
        What is to be raised once the result is written.
    """
    failure: BaseException | None = None
    started = time.perf_counter()
    try:
        search.fit(configs, oracle=oracle)
    except (AllConfigsFailedError, KeyboardInterrupt, RuntimeError) as error:
        if not hasattr(search, "best_duration_"):  # cut short before it began
            raise
        failure = error
    seconds = time.perf_counter() - started
    reason = search.stop_reason_
    if isinstance(failure, KeyboardInterrupt):
        reason = "interrupted"
    elif isinstance(failure, RuntimeError):
        reason = "broken"
    elif not search.n_measured_:
        failure = AllConfigsFailedError("the time was up before any config ran.")
    return seconds, reason, failure


def check_outputs(args: argparse.Namespace) -> None:
    """Refuse a table that can't be written, before the search.

    Parameters
    ----------
    args : argparse.Namespace
        The parsed options of `add_search_options`.

    Raises
    ------
    ValueError
        It can't be written, or is the journal.
    """
    if args.csv is not None:
        check_writable(args.csv, args.journal)


def finish(
    outcome: Outcome, args: argparse.Namespace, failure: BaseException | None
) -> None:
    """Write the table of a search, and raise what has cut it short.

    Parameters
    ----------
    outcome : Outcome
        The search.
    args : argparse.Namespace
        The parsed options of `add_search_options`.
    failure : BaseException or None
        As from `fit_search`.

    Raises
    ------
    BaseException
        The failure. Of a KeyboardInterrupt, the message says how to go on.
    OSError
        The table can't be written.
    """
    if args.csv is not None:
        write_file(args.csv, _to_table(outcome).to_csv(index=False))
    if failure is None:
        return
    with resumable(resume_hint(args)):
        raise failure


def resume_hint(args: argparse.Namespace) -> str:
    """Tell how an interrupted search goes on.

    Parameters
    ----------
    args : argparse.Namespace
        The parsed options of `add_search_options`.

    Returns
    -------
    str
        A phrase.
    """
    if args.journal is None:
        return "with --journal FILE, the same command could go on from here"
    return f"the same command goes on from {args.journal}"


def _to_table(outcome: Outcome) -> pd.DataFrame:
    """Return the measurements in order, each with its config."""
    results = outcome.search.results_
    measured = [config_to_dict(outcome.configs[i]) for i in results["index"]]
    configs = pd.DataFrame(measured, index=results.index)
    # A parameter may be called as a column of the results is.
    clashes = {n: f"{n}_parameter" for n in configs if n in results.columns}
    return results.join(configs.rename(columns=clashes))
