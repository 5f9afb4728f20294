"""``fasta-learn replay``: how searches do on recorded pools, over many seeds."""

import argparse
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from fasta_learn._cli._arguments import parse_budget, parse_count, parse_jobs
from fasta_learn._cli._errors import resumable
from fasta_learn._cli._files import check_writable, write_file
from fasta_learn._cli._parsers import add_command
from fasta_learn._cli._pools import name_pools
from fasta_learn._cli._progress import is_watched
from fasta_learn._cli._terminal import paint, write
from fasta_learn._compat import import_extra
from fasta_learn._text import format_count, format_share, format_table
from fasta_learn.datasets import list_pools
from fasta_learn.experiments import plot_regret, summarize
from fasta_learn.experiments._plan import ReplayPlan, plan_replay
from fasta_learn.experiments._runs import as_frame, run_chunks
from fasta_learn.experiments._searches import NAMED_SEARCHES


def add_parser(subparsers: Any) -> None:
    """Add the command to a parser.

    Parameters
    ----------
    subparsers : object
        What `argparse.ArgumentParser.add_subparsers` answers.
    """
    parser = add_command(
        subparsers,
        "replay",
        purpose="compare searches on recorded pools, over many seeds",
        description="Replay searches on recorded pools, over many seeds, and tell how "
        "often each finds a config within 5 % of the fastest.",
        examples=(
            "replay mm_2048_2048_2048 swiglu_8M --budget 10% --seeds 3",
            "replay swiglu_8M --search default random --seeds 3 --csv runs.csv",
            "replay swiglu_8M --seeds 2 --budget 20 --plot regret.png",
        ),
        more=name_pools(),
    )
    parser.add_argument(
        "pools",
        nargs="*",
        metavar="POOL",
        help="names of pools that ship, or pool files (default: those that ship in the "
        "collection original)",
    )
    _add_what(parser)
    _add_how(parser)
    _add_outputs(parser)


def _add_what(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--search",
        nargs="+",
        choices=tuple(NAMED_SEARCHES),
        default=[name for name in NAMED_SEARCHES if name != "racing"],
        metavar="SEARCH",
        help="default (the search of fasta-learn), racing (the same with a race of its "
        "finalists at the end), production and reference (the dynamic filter of "
        "torch_npu with the constants of its code or of its description, scaled to "
        "the budget), random (default: all but racing, which is of use with --noise)",
    )
    parser.add_argument(
        "--budget",
        nargs="+",
        type=parse_budget,
        default=[0.1, 0.2, 0.35],
        help="how much to measure: shares of the configs (0.2 or 20%%), or numbers of "
        "them (40) (default: 0.1 0.2 0.35)",
    )
    parser.add_argument(
        "--max-measurements",
        type=parse_count,
        metavar="N",
        help="measure at most so many configs of a pool",
    )


def _add_how(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seeds",
        type=parse_count,
        default=40,
        metavar="N",
        help="number of repetitions (default: 40)",
    )
    parser.add_argument(
        "--jobs",
        type=parse_jobs,
        default=1,
        metavar="N",
        help="number of parallel processes, -1 for all processors (default: 1)",
    )
    parser.add_argument(
        "--noise",
        type=float,
        default=0.0,
        metavar="FACTOR",
        help="let every measurement scatter, with 1 as much as the percentiles of the "
        "pools tell, and judge a search by the config that it names (default: 0)",
    )


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help="draw the regret against the measurements, as .png, .svg or .pdf",
    )
    parser.add_argument("--csv", metavar="FILE", help="write every run to a CSV file")


def run(args: argparse.Namespace) -> int:
    """Replay, and write the table.

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
    MissingExtraError
        A plot is asked for and matplotlib is not installed.
    OSError, ValueError
        A pool can't be used, or a file can't be written.
    """
    figure = None
    if args.plot is not None:
        figure = import_extra("matplotlib.figure", "plot").Figure(layout="constrained")
        _check_kind(args.plot, figure.canvas.get_supported_filetypes())
        check_writable(args.plot)
    if args.csv is not None:
        check_writable(args.csv)
    plan = plan_replay(
        args.pools or list_pools("original"),
        list(dict.fromkeys(args.search)),
        args.budget,
        args.seeds,
        args.max_measurements,
        args.noise,
    )
    with resumable("nothing is kept of a replay; with fewer --seeds it is shorter"):
        results = as_frame(plan, _chunks(plan, args.jobs), traces=figure is not None)
    write(_table(results, plan.noise))
    if args.csv is not None:
        table = results.drop(columns="trace", errors="ignore")
        write_file(args.csv, table.to_csv(index=False))
    if figure is not None:
        plot_regret(results, figure.subplots())
        figure.savefig(args.plot)
    return 0


def _check_kind(path: str, endings: Iterable[str]) -> None:
    """Refuse before the replay what can't be drawn after it."""
    ending = Path(path).suffix[1:].lower()
    if ending not in endings:
        raise ValueError(
            f"{path}: can't draw a {ending or 'file without ending'}; the known kinds "
            f"are {', '.join(sorted(endings))}."
        )


def _chunks(plan: ReplayPlan, n_jobs: int) -> Iterable[Any]:
    """Run the replay, with a bar if somebody sees it and rich is installed."""
    chunks = run_chunks(plan, n_jobs, return_as="generator")
    if not is_watched() or importlib.util.find_spec("rich") is None:
        return chunks
    from rich.console import Console
    from rich.progress import track

    return track(
        chunks,
        description="replaying",
        total=plan.n_chunks,
        console=Console(file=sys.stderr),
        transient=True,
    )


_HEADER = (
    "search",
    "budget",
    "catch",
    "95 % interval",
    "mean regret",
    "95 % interval",
    "p95",
    "worst pool",
    "its catch",
    "saved",
)


def _table(results: pd.DataFrame, noise: float) -> str:
    pools, n_seeds = results["pool"].nunique(), results["seed"].nunique()
    rows = [
        (
            str(row["search"]),
            _format_budget(row["budget"]),
            f"{row['catch']:.3f}",
            f"{row['catch_low']:.3f}-{row['catch_high']:.3f}",
            f"{100 * row['mean_regret']:.2f} %",
            f"{100 * row['mean_regret_low']:.2f}-{100 * row['mean_regret_high']:.2f}",
            f"{100 * row['p95_regret']:.2f} %",
            str(row["worst_pool"]),
            f"{row['worst_catch']:.2f}",
            format_share(row["savings"]),
        )
        for row in summarize(results).to_dict("records")
    ]
    counts = f"{format_count(pools, 'pool')}, {format_count(n_seeds, 'seed')}"
    headline = f"{counts}; catch: within 5 % of the fastest"
    headline += f"; noise: {noise:g} times that recorded" if noise else ""
    table = format_table(_HEADER, rows, n_keys=2)
    return f"{paint(headline, 'bold')}\n\n{table}"


def _format_budget(budget: float | int) -> str:
    return f"{budget:g}" if isinstance(budget, int) else f"{100 * budget:g} %"
