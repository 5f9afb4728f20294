"""Noisy measurements: how often the named config is right, with and without a race.

    python tests/benchmarks/bench_racing.py --seeds 20

replays pools that hold 20th and 80th percentiles, and lets each measurement scatter as
these tell, times --noise. The named config is right if, by the recorded durations, it
is the best of all that the search measured. All searches make the same number of
measurements, repeats included.
"""

import numpy as np
from common import find_pools, make_parser

from fasta_learn import ActiveConfigSearch
from fasta_learn.experiments import compare, replay
from fasta_learn.oracles import RecordedOracle
from fasta_learn.search import Racing

PLAIN = "no race"


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--noise", nargs="+", type=float, default=[1.0, 4.0])
    parser.add_argument("--repeats", nargs="+", type=int, default=[8])
    parser.set_defaults(budgets=[0.2], seeds=20)
    args = parser.parse_args()
    pools = {
        name: pool
        for name, pool in find_pools(args).items()
        if "duration_p20_ms" in pool.extra
    }
    if not pools:
        raise SystemExit("no pool holds percentiles.")
    searches = {PLAIN: ActiveConfigSearch()}
    for n_repeats in args.repeats:
        racing = Racing(n_repeats=n_repeats)
        searches[f"{n_repeats} repeats"] = ActiveConfigSearch(racing=racing)
    typical = np.median([scatter(pool) for pool in pools.values()])
    print(f"{len(pools)} pools, {args.seeds} seeds; median scatter {typical:.2%}\n")
    print("| noise | budget | search | right | within 1 % | mean regret | difference |")
    print("|---|---|---|---|---|---|---|")
    for noise in args.noise:
        results = replay(
            pools,
            searches,
            args.budgets,
            args.seeds,
            args.jobs,
            max_measurements=args.max_measurements,
            noise=noise,
        )
        print_rows(results, noise)


def scatter(pool) -> float:
    """Median of the relative difference between an answer and its record."""
    answers = RecordedOracle.from_pool(pool, noise=1.0).measure(pool.configs)
    ran = np.isfinite(pool.durations)
    seen = np.array([answer.duration for answer in answers])
    return np.median(np.abs(seen[ran] / pool.durations[ran] - 1))


def print_rows(results, noise: float) -> None:
    for (budget, name), runs in results.groupby(["budget", "search"], sort=False):
        slower = runs["selection_regret"]
        cells = [
            f"{noise:g}",
            f"{budget}",
            name,
            f"{np.mean(slower == 0):.3f}",
            f"{np.mean(slower <= 0.01):.3f}",
            f"{runs['regret'].mean():.2%}",
            "" if name == PLAIN else difference(results, budget, name),
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


def difference(results, budget, name: str) -> str:
    row = compare(results[results["budget"] == budget], name, PLAIN).iloc[0]
    return (
        f"{row['regret_difference']:+.2%} ({row['regret_difference_low']:+.2%} to "
        f"{row['regret_difference_high']:+.2%})"
    )


if __name__ == "__main__":
    main()
