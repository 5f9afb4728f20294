"""The default search against other tools, under the same budget, on recorded pools.

    pip install optuna kernel_tuner matplotlib
    python tests/benchmarks/bench_peers.py --plot regret.png

prints the table, the difference to each peer with its 95 % interval, and draws the
regret against the measurements. The peers are in peers.py. Public pools:

    python tests/benchmarks/bench_peers.py --pools FOLDER --min-configs 200 \\
        --max-measurements 200 --budgets 0.1 0.35 --seeds 20 --keep runs
"""

from common import find_pools, make_parser, print_tables, run
from peers import PEERS

from fasta_learn import ActiveConfigSearch
from fasta_learn.experiments import (
    RandomSearch,
    compare,
    plot_regret,
    regret_curves,
)

OURS = "fasta_learn"
SEARCHES = {OURS: ActiveConfigSearch(), **PEERS, "random": RandomSearch()}


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--searches", nargs="+", choices=SEARCHES, default=SEARCHES)
    parser.add_argument("--plot", metavar="FILE", help="draw the regret curves")
    args = parser.parse_args()
    pools = find_pools(args)
    searches = {name: SEARCHES[name] for name in args.searches}
    results = run(pools, searches, args, traces=True)
    print_tables(results, pools)
    if OURS in searches:
        print_differences(results, list(searches))
    if args.plot:
        draw(results, args)


def print_differences(results, names) -> None:
    print(f"\n{OURS} less each other, in pairs, with 95 % intervals:\n")
    print("| other | measured | catch | mean regret |")
    print("|---|---|---|---|")
    for name in names:
        if name == OURS:
            continue
        for row in compare(results, OURS, name).to_dict("records"):
            cells = [
                f"{row[part]:+{form}} ({row[f'{part}_low']:+{form}} to "
                f"{row[f'{part}_high']:+{form}})"
                for part, form in (
                    ("catch_difference", ".3f"),
                    ("regret_difference", ".2%"),
                )
            ]
            print(f"| {name} | {row['budget']} | {' | '.join(cells)} |")


def draw(results, args) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    against = "number" if args.max_measurements else "share"
    ax = plot_regret(regret_curves(results, against=against), figure.subplots())
    # Ours in front, as the one that is read off.
    for line in ax.get_lines():
        ours = line.get_label() == OURS
        line.set(linewidth=2.5 if ours else 1.2, zorder=3 if ours else 2)
    figure.savefig(args.plot, dpi=150)


if __name__ == "__main__":
    main()
