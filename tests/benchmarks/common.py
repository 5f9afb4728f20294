"""What the benchmarks of searches share: pools of a folder, runs, tables."""

import argparse
import sys
import time
from pathlib import Path

import pandas as pd

from fasta_learn.configs import Pool, read_pool
from fasta_learn.datasets import list_pools, load_pool
from fasta_learn.datasets._pools import COLLECTIONS
from fasta_learn.exceptions import PoolFormatError
from fasta_learn.experiments import replay, summarize

_KINDS = (".csv", ".csv.gz", ".parquet", ".json", ".json.gz")


def make_parser(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options that choose pools, budgets and seeds."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--pools", type=Path, metavar="DIR", help="folder of pools (default: shipped)"
    )
    source.add_argument(
        "--collection",
        choices=COLLECTIONS,
        default="original",
        help="which of the pools that ship (default: original)",
    )
    add("--only", nargs="+", metavar="NAME", help="take only these pools")
    add("--min-configs", type=int, default=1, help="leave out smaller pools")
    add("--max-configs", type=int, help="leave out larger pools")
    add("--max-measurements", type=int, metavar="N", help="upper limit of a budget")
    add("--budgets", nargs="+", type=_budget, default=[0.1, 0.2, 0.35])
    add("--seeds", type=int, default=40)
    add("--jobs", type=int, default=-1)
    add("--keep", type=Path, metavar="DIR", help="keep the runs there, and reuse them")
    return parser


def _budget(text: str) -> float | int:
    return int(text) if text.isdecimal() else float(text)


def find_pools(args: argparse.Namespace) -> dict[str, Pool]:
    """Return the pools that the arguments choose; tell of files that are none."""
    if args.pools is None:
        pools = [load_pool(name) for name in list_pools(args.collection)]
    else:
        files = sorted(f for f in args.pools.iterdir() if f.name.endswith(_KINDS))
        pools = [pool for file in files if (pool := _read(file)) is not None]
    chosen = {
        pool.name: pool
        for pool in pools
        if args.min_configs <= len(pool) <= (args.max_configs or len(pool))
        and (args.only is None or pool.name in args.only)
    }
    if not chosen:
        raise SystemExit("no pool is left; see --pools, --only and --min-configs.")
    return chosen


def _read(file: Path) -> Pool | None:
    try:
        return read_pool(file)
    except PoolFormatError as error:
        print(f"left out: {error}", file=sys.stderr)
        return None


def run(
    pools: dict[str, Pool], searches: dict, args: argparse.Namespace, traces: bool
) -> pd.DataFrame:
    """Replay one search after the other, telling how long each took."""
    frames = []
    for name, search in searches.items():
        started = time.perf_counter()
        kept = args.keep and args.keep / f"{name}.pkl"
        if kept and kept.exists():
            frames.append(_reuse(kept, pools, args))
            continue
        frame = replay(
            pools,
            {name: search},
            args.budgets,
            args.seeds,
            args.jobs,
            max_measurements=args.max_measurements,
            traces=traces,
        )
        if kept:
            kept.parent.mkdir(parents=True, exist_ok=True)
            frame.to_pickle(kept)
        seconds = time.perf_counter() - started
        print(f"{name}: {len(frame)} runs in {seconds:.0f} s", file=sys.stderr)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def _reuse(file: Path, pools: dict[str, Pool], args: argparse.Namespace):
    frame = pd.read_pickle(file)
    found = [set(frame[column]) for column in ("pool", "budget", "seed")]
    if found != [set(pools), set(args.budgets), set(range(args.seeds))]:
        raise SystemExit(f"{file} holds other runs; remove it, or keep elsewhere.")
    return frame


def print_tables(results: pd.DataFrame, pools: dict[str, Pool]) -> None:
    """Print one table of all searches, and one of the first search by pool."""
    n_seeds = results["seed"].nunique()
    print(f"{len(pools)} pools, {n_seeds} seeds\n")
    table = summarize(results)
    budgets = list(dict.fromkeys(table["budget"]))
    shares = " / ".join(_name(budget) for budget in budgets)
    print(
        "| search | measured | catch | mean regret | p95 regret | worst pool's catch |"
    )
    print("|---|---|---|---|---|---|")
    for name, rows in table.groupby("search", sort=False):
        regret = _join(rows["mean_regret"], "{:.2%}")
        print(
            f"| {name} | {shares} | {_join(rows['catch'], '{:.3f}')} | {regret} "
            f"| {_join(rows['p95_regret'], '{:.1%}')} "
            f"| {_join(rows['worst_catch'], '{:.2f}')} |"
        )
    first = results["search"].iloc[0]
    print(f"\n95 % intervals of {first}, by bootstrap over pools and seeds:")
    for row in table[table["search"] == first].to_dict("records"):
        print(
            f"  {_name(row['budget'])}: catch {row['catch_low']:.3f}"
            f"-{row['catch_high']:.3f}, mean regret {row['mean_regret_low']:.2%}"
            f"-{row['mean_regret_high']:.2%}, worst pool {row['worst_pool']}"
        )
    _print_pools(results[results["search"] == first], shares)


def _print_pools(results: pd.DataFrame, shares: str) -> None:
    table = summarize(results, ["pool", "budget"], n_resamples=1)
    print(f"\n| pool | configs | within 5 % | catch at {shares} | mean regret |")
    print("|---|---|---|---|---|")
    sizes = results.groupby("pool")["n_configs"].first()
    for name, rows in table.groupby("pool", sort=False):
        print(
            f"| {name} | {sizes[name]} | {rows['n_near'].iloc[0]:.0f} "
            f"| {_join(rows['catch'], '{:.2f}')} "
            f"| {_join(rows['mean_regret'], '{:.2%}')} |"
        )


def _join(values: pd.Series, form: str) -> str:
    return " / ".join(form.format(value) for value in values)


def _name(budget: float | int) -> str:
    return f"{budget:.0%}" if isinstance(budget, float) else str(budget)
