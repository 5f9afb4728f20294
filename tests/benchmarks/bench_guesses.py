"""How long a search waits for compilers, with and without guesses: simulated.

    python tests/benchmarks/bench_guesses.py

replays the search that ``fasta_learn.autotune`` makes (15 % of a pool) on every third
of the 45 recorded kernels pools. Compiling a config takes as long as it took when the
pool was recorded, on one of 15 simulated compilers; measuring takes 16 ms. Decisions
take no time. A search with guesses decides the same, and waits less.
"""

import argparse
import heapq
import math
import statistics

import numpy as np

from fasta_learn import ActiveConfigSearch, datasets
from fasta_learn.configs import config_key
from fasta_learn.oracles import BaseOracle, Measurement

SHARE, LEAST, RUN_SECONDS = 0.15, 16, 0.016


class SimulatedCompilers(BaseOracle):
    """Recorded durations, and a clock that waits for simulated compilers."""

    def __init__(self, pool, n_compilers, lookahead):
        self.lookahead = lookahead
        self.now, self.waited, self.n_waits = 0.0, 0.0, 0
        self._durations = np.asarray(pool.durations, dtype=float)
        seconds = np.asarray(pool.extra["compile_seconds"], dtype=float)
        self._seconds = np.nan_to_num(seconds, nan=np.nanmedian(seconds))
        self._numbers = {config_key(c): i for i, c in enumerate(pool.configs)}
        self._free_at = [0.0] * n_compilers
        self._waiting, self._announced, self.ready = [], {}, {}

    def prepare(self, configs):
        self._begin(self.now)
        for config in reversed(list(configs)):
            number = self._numbers[config_key(config)]
            if number in self.ready:
                continue
            if number in self._waiting:
                self._waiting.remove(number)
            self._waiting.insert(0, number)
            self._announced.setdefault(number, self.now)
        self._begin(self.now)

    def measure(self, configs):
        return list(self.measure_each(configs))

    def measure_each(self, configs):
        for config in configs:
            self.prepare([config])
            number = self._numbers[config_key(config)]
            while number not in self.ready:
                self._begin(max(self.now, self._free_at[0]))
            self._wait_until(self.ready[number])
            self.now += RUN_SECONDS
            duration = self._durations[number]
            if math.isfinite(duration):
                yield Measurement(duration)
            else:
                yield Measurement.failed("error", "it failed when it was recorded")

    def _begin(self, until):
        """Let compilers that are free by then begin with what waits."""
        while self._waiting and self._free_at[0] <= until:
            number = self._waiting.pop(0)
            start = max(heapq.heappop(self._free_at), self._announced[number])
            self.ready[number] = start + self._seconds[number]
            heapq.heappush(self._free_at, self.ready[number])

    def _wait_until(self, moment):
        if moment > self.now:
            self.n_waits += moment > self.now + 0.02
            self.waited += moment - self.now
            self.now = moment


def search_seconds(pool, n_compilers, lookahead, seed):
    oracle = SimulatedCompilers(pool, n_compilers, lookahead)
    budget = max(LEAST, int(SHARE * len(pool.configs)))
    ActiveConfigSearch(budget=budget, random_state=seed).fit(
        pool.configs, oracle=oracle
    )
    return oracle.now, oracle.waited, oracle.n_waits, len(oracle.ready)


def pool_seconds(pool, n_compilers):
    oracle = SimulatedCompilers(pool, n_compilers, 0)
    oracle.prepare(pool.configs)
    oracle.measure(pool.configs)
    return oracle.now, oracle.waited, oracle.n_waits, len(oracle.ready)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--every", type=int, default=3, help="take every n-th pool")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--compilers", type=int, default=15)
    parser.add_argument("--lookahead", type=int, nargs="+", default=[0, 15, 30])
    args = parser.parse_args()
    names = datasets.list_pools(collection="kernels")[:: args.every]
    pools = [datasets.load_pool(name) for name in names]
    n = args.compilers
    rows = {"the whole pool": [pool_seconds(pool, n) for pool in pools]}
    for lookahead in args.lookahead:
        rows[f"search, {lookahead} guesses"] = [
            search_seconds(pool, n, lookahead, seed)
            for pool in pools
            for seed in range(args.seeds)
        ]
    print(f"{'':24}{'seconds':>9}{'waiting':>9}{'waits':>7}{'compiled':>10}")
    for name, values in rows.items():
        total, waited, n_waits, compiled = map(
            statistics.fmean, zip(*values, strict=True)
        )
        print(f"{name:24}{total:9.2f}{waited:9.2f}{n_waits:7.1f}{compiled:10.1f}")


if __name__ == "__main__":
    main()
