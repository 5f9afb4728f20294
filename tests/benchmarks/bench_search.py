"""The table of the README: our searches on recorded pools.

    python tests/benchmarks/bench_search.py

replays the default search, the dynamic filter with both sets of constants, and random
choice on the 15 original pools that ship, 40 seeds, 10, 20 and 35 % of each pool.
``--collection kernels`` takes the other 45. Other pools:

    python tests/benchmarks/bench_search.py --pools FOLDER --min-configs 200 \\
        --max-measurements 200 --budgets 0.1 0.35 --seeds 20
    python tests/benchmarks/bench_search.py --pools FOLDER --max-configs 39 --budgets 8
"""

from common import find_pools, make_parser, print_tables, run

from fasta_learn import ActiveConfigSearch
from fasta_learn.experiments import RandomSearch, ScaledDynamicFilter

SEARCHES = {
    "default": ActiveConfigSearch(),
    "dynamic filter, production": ScaledDynamicFilter("production"),
    "dynamic filter, reference": ScaledDynamicFilter("reference"),
    "random": RandomSearch(),
}


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--searches", nargs="+", choices=SEARCHES, default=SEARCHES)
    parser.add_argument("--csv", metavar="FILE", help="write every run to a CSV file")
    args = parser.parse_args()
    pools = find_pools(args)
    searches = {name: SEARCHES[name] for name in args.searches}
    results = run(pools, searches, args, traces=False)
    print_tables(results, pools)
    if args.csv:
        results.to_csv(args.csv, index=False)


if __name__ == "__main__":
    main()
