"""Noisy measurements: how often the reported winner is right, with and without a race.

    python tests/benchmarks/bench_racing.py --seeds 20

replays pools that hold 20th and 80th percentiles. Each measurement is the recorded
duration times a random factor whose spread is that of the percentiles, times --noise.
A winner is right if, by the recorded durations, it is the best of all that the search
measured, or within 1 % of it. Both searches make the same number of measurements.
"""

import numpy as np
from common import find_pools, make_parser
from scipy.stats import norm

from fasta_learn import ActiveConfigSearch
from fasta_learn.oracles import BaseOracle, Measurement
from fasta_learn.search import Racing


class ScatteringOracle(BaseOracle):
    """Answers the recorded durations of a pool with noise."""

    def __init__(self, pool, spread, seed: int):
        self._index = {id(config): i for i, config in enumerate(pool.configs)}
        self._durations, self._spread = pool.durations, spread
        self._rng = np.random.default_rng(seed)

    def measure(self, configs):
        return [self._answer(self._index[id(config)]) for config in configs]

    def _answer(self, i: int) -> Measurement:
        if np.isinf(self._durations[i]):
            return Measurement.failed("error")
        factor = np.exp(self._spread[i] * self._rng.standard_normal())
        return Measurement(self._durations[i] * factor)


def relative_spread(pool):
    """Standard deviations of the logarithm that the percentiles stand for."""
    low, high = (pool.extra[f"duration_p{p}_ms"].to_numpy(float) for p in (20, 80))
    with np.errstate(invalid="ignore"):
        spread = np.log(high / low) / (2 * norm.ppf(0.8))
    return np.where(np.isfinite(spread), spread, 0.0)


def run(racing, pool, spread, n_budget: int, seed: int) -> tuple[bool, bool, float]:
    """Return whether the winner is right, nearly right, and its true regret."""
    search = ActiveConfigSearch(budget=n_budget, racing=racing, random_state=seed)
    search.fit(pool.configs, oracle=ScatteringOracle(pool, spread, seed))
    winner = pool.durations[search.best_index_]
    best = pool.durations[search.results_["index"]].min()
    return winner == best, winner <= 1.01 * best, pool.regret(winner)


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
    spreads = {name: relative_spread(pool) for name, pool in pools.items()}
    typical = np.median([np.median(spread) for spread in spreads.values()])
    print(f"{len(pools)} pools, {args.seeds} seeds; median spread {typical:.2%}\n")
    print("| noise | budget | repeats | right | within 1 % | mean regret |")
    print("|---|---|---|---|---|---|")
    for noise in args.noise:
        for budget in args.budgets:
            for repeats in (0, *args.repeats):
                racing = Racing(n_repeats=repeats) if repeats else None
                runs = [
                    run(racing, pool, noise * spreads[name], _count(budget, pool), seed)
                    for name, pool in pools.items()
                    for seed in range(args.seeds)
                ]
                right, near, regret = np.mean(runs, axis=0)
                print(
                    f"| {noise:g} | {budget} | {repeats} | {right:.3f} | {near:.3f} "
                    f"| {regret:.2%} |",
                    flush=True,
                )


def _count(budget, pool) -> int:
    return budget if isinstance(budget, int) else int(budget * len(pool))


if __name__ == "__main__":
    main()
