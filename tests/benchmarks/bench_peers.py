"""The default search against other tools, under the same budget, on recorded pools.

    pip install optuna kernel_tuner matplotlib
    python tests/benchmarks/bench_peers.py --plot regret.png

prints the table, the difference to each peer with its 95 % interval, and draws the
regret against the measurements. The peers are in peers.py. Public pools, of each 10 %
but at most 200 configs:

    python tests/benchmarks/bench_peers.py --pools FOLDER --min-configs 200 \\
        --max-measurements 200 --budgets 0.1 --seeds 20 --keep runs

Every finished run is appended to runs/peers.csv. Started again with the same --keep, it
does only what is missing; with --seeds 0 it prints the tables of what is there, of
those seeds that are complete. A peer that takes more than --limit seconds of processor
time a measurement is skipped on that pool; it is compared on the others. To try again,
remove its line from the file.
"""

import importlib
import os

import pandas as pd
from common import find_pools, make_parser, print_tables
from peer_runs import RunBook, Task, run_tasks
from peers import PEERS

from fasta_learn import ActiveConfigSearch
from fasta_learn.experiments import (
    RandomSearch,
    compare,
    plot_regret,
    regret_curves,
    replay,
)
from fasta_learn.experiments._plan import resolve_budget

OURS = "fasta_learn"
# The peers know no recorded pools either.
SEARCHES = {OURS: ActiveConfigSearch(prior=None), **PEERS, "random": RandomSearch()}
RUN = ["pool", "budget", "seed"]


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--searches", nargs="+", choices=SEARCHES, default=SEARCHES)
    parser.add_argument("--plot", metavar="FILE", help="draw the regret curves")
    parser.add_argument("--limit", type=float, default=1.0, metavar="SECONDS")
    args = parser.parse_args()
    pools = find_pools(args)
    searches = {name: SEARCHES[name] for name in args.searches}
    book = RunBook(args.keep and args.keep / "peers.csv")
    import_peers(searches)
    n_jobs = args.jobs if args.jobs > 0 else os.cpu_count()
    run_tasks(
        make_tasks(pools, searches, args), pools, searches, book, n_jobs, args.limit
    )
    results = collect(book, pools, searches, args)
    print_tables(results, pools)
    print_skipped(book, pools, searches)
    if OURS in searches:
        print_differences(results, list(searches))
    if args.plot:
        draw(results, args)


def import_peers(searches) -> None:
    """Import once what each run would import for itself, and count against it."""
    for tool, package in (("Optuna", "optuna"), ("Kernel Tuner", "kernel_tuner")):
        if any(name.startswith(tool) for name in searches):
            importlib.import_module(package)
    importlib.import_module("sklearn.ensemble")
    importlib.import_module("sklearn.gaussian_process")


def make_tasks(pools, searches, args):
    """Yield all runs, seed by seed, so that a series that is cut has whole seeds."""
    for seed in range(args.seeds):
        for name, pool in sorted(pools.items(), key=lambda item: len(item[1])):
            for search in searches:
                for n_budget in budgets_of(pool, args):
                    yield Task(name, search, n_budget, seed)


def budgets_of(pool, args) -> list[int]:
    return [
        resolve_budget(budget, len(pool), args.max_measurements)
        for budget in args.budgets
    ]


def collect(book, pools, searches, args):
    """Score the runs of complete seeds, as `replay` does."""
    frames = []
    for search in searches:
        for name, pool in pools.items():
            n_seeds = book.n_seeds(name, search, budgets_of(pool, args))
            if not n_seeds:
                continue

            def recorded(pool, n_budget, seed, search=search):
                return book.orders[Task(pool.name, search, n_budget, seed)]

            frame = replay(
                {name: pool},
                {search: recorded},
                args.budgets,
                n_seeds,
                max_measurements=args.max_measurements,
                traces=True,
            )
            frames.append(frame)
    if not frames:
        raise SystemExit("no run is there.")
    return pd.concat(frames, ignore_index=True)


def print_skipped(book, pools, searches) -> None:
    print()
    for (pool, search, _), reason in book.skipped.items():
        if pool in pools and search in searches:
            print(f"skipped: {search} on {pool}: {reason}")


def print_differences(results, names) -> None:
    print(f"\n{OURS} less each other, in pairs, with 95 % intervals:\n")
    print("| other | measured | pools | runs | catch | mean regret |")
    print("|---|---|---|---|---|---|")
    ours = results[results["search"] == OURS]
    for name in names:
        theirs = results[results["search"] == name]
        if name == OURS or theirs.empty:
            continue
        keys = ours[RUN].merge(theirs[RUN])
        both = pd.concat([ours.merge(keys), theirs.merge(keys)])
        for row in compare(both, OURS, name).to_dict("records"):
            cells = [
                f"{row[part]:+{form}} ({row[f'{part}_low']:+{form}} to "
                f"{row[f'{part}_high']:+{form}})"
                for part, form in (
                    ("catch_difference", ".3f"),
                    ("regret_difference", ".2%"),
                )
            ]
            counts = f"{row['n_pools']} | {row['n_pairs']}"
            print(f"| {name} | {row['budget']} | {counts} | {' | '.join(cells)} |")


def draw(results, args) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    against = "number" if args.max_measurements else "share"
    curves = regret_curves(results, against=against, n_resamples=0)
    ax = plot_regret(curves, figure.subplots())
    # Ours in front, as the one that is read off.
    for line in ax.get_lines():
        ours = line.get_label() == OURS
        line.set(linewidth=2.5 if ours else 1.2, zorder=3 if ours else 2)
    figure.savefig(args.plot, dpi=150)


if __name__ == "__main__":
    main()
