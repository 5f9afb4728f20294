"""Large pools: memory and seconds of a search, and what its working set costs.

    python tests/benchmarks/bench_scale.py

opens synthetic pools of up to a million configs, each in a process of its own with one
thread, and prints the seconds of processor time to open it (with the first proposal)
and of one partial_fit() and propose() afterwards, the peak memory of the process before
and after the search, and how many configs of the pool are faster than the one found.
Then

    python tests/benchmarks/bench_scale.py --quality POOL.csv.gz --seeds 20

searches a recorded pool, small enough to be predicted as a whole, in both ways: as a
whole, and by a working set of the usual size, a quarter and a sixteenth of it.
"""

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import patch

import numpy as np
from threadpoolctl import threadpool_limits

from fasta_learn import ActiveConfigSearch, read_pool
from fasta_learn.search import _subset

LEVELS = (6, 6, 5, 5, 4, 4, 4, 2, 3, 4)
STOPS = (50, 100, 200)


def make_pool(kind: str, n_pool: int, seed: int):
    """Return part of a grid of 1.4 million configs, and interacting durations."""
    rng = np.random.default_rng(seed)
    chosen = rng.choice(int(np.prod(LEVELS)), n_pool, replace=False)
    levels = np.stack(np.unravel_index(chosen, LEVELS), axis=1).astype(np.int8)
    centre = rng.uniform(0.2, 0.8, len(LEVELS)) * (np.array(LEVELS) - 1)
    slope = rng.uniform(0.02, 0.2, len(LEVELS))
    away = levels - centre
    log = away**2 @ slope + 0.1 * np.abs(away[:, 0] + away[:, 1])
    log += 0.15 * np.abs(away[:, 2] - away[:, 3]) + 0.03 * rng.standard_normal(n_pool)
    if kind == "matrix":
        return 2.0 ** (3 + levels), 0.1 * np.exp(log)
    names = [f"BLOCK_{i}" for i in range(len(LEVELS))]
    configs = [
        dict(zip(names, (2 ** (3 + row.astype(int))).tolist(), strict=True))
        for row in levels
    ]
    return configs, 0.1 * np.exp(log)


def peak_gib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def measure_one(kind: str, n_pool: int, budget: int, seed: int) -> str:
    """Search one pool in this process; return a row of the table."""
    pool, durations = make_pool(kind, n_pool, seed)
    before = peak_gib()
    search = ActiveConfigSearch(budget=budget, random_state=seed)
    started = time.process_time()
    batch = search.propose(pool)
    opening = time.process_time() - started
    seconds = []
    while len(batch):
        started = time.process_time()
        search.partial_fit(batch, durations[batch])
        batch = search.propose()
        seconds.append(time.process_time() - started)
    faster = int(np.sum(durations < search.best_duration_))
    regret = search.best_duration_ / durations.min() - 1
    return (
        f"| {kind} | {n_pool} | {search.n_measured_} | {opening:.1f} s "
        f"| {np.median(seconds):.2f} s | {max(seconds):.2f} s | {before:.2f} GiB "
        f"| {peak_gib():.2f} GiB | {faster} | {regret:.2%} |"
    )


def compare_quality(file: Path, n_seeds: int) -> None:
    """Print mean regrets of searches over a whole pool and over working sets."""
    pool = read_pool(file)
    print(f"{pool.name}: {len(pool)} configs, {n_seeds} seeds")
    print(
        "| searched | mean regret after " + " / ".join(map(str, STOPS)) + " | worst |"
    )
    print("|---|---|---|")
    for name, share in (("whole", 0), ("working set", 1), ("1/4", 4), ("1/16", 16)):
        regrets = np.array([run_with_set(pool, share, seed) for seed in range(n_seeds)])
        means = " / ".join(f"{mean:.2%}" for mean in regrets.mean(axis=0))
        print(f"| {name} | {means} | {regrets[:, -1].max():.2%} |", flush=True)


def run_with_set(pool, divisor: int, seed: int) -> list[float]:
    """Return regrets with working sets of a divided size; 0 stands for none."""
    sizes = {
        name: getattr(_subset.WorkingSetSurrogate, name) // max(divisor, 1)
        for name in ("_N_RANDOM", "_N_PROMISING", "_N_NEIGHBOURS")
    }
    limit = 0 if divisor else len(pool)
    with (
        patch.object(_subset, "MAX_WHOLE", limit),
        patch.multiple(_subset.WorkingSetSurrogate, **sizes),
    ):
        search = ActiveConfigSearch(budget=max(STOPS), random_state=seed)
        search.fit(pool.configs, pool.durations)
    best = np.minimum.accumulate(search.results_["duration"])
    return [pool.regret(best[stop - 1]) for stop in STOPS]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quality", type=Path, metavar="POOL")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--budget", type=int, default=200)
    parser.add_argument("--one", nargs=3, metavar=("KIND", "N", "SEED"))
    args = parser.parse_args()
    if args.quality:
        compare_quality(args.quality, args.seeds)
        return
    if args.one:
        kind, n_pool, seed = args.one
        print(measure_one(kind, int(n_pool), args.budget, int(seed)))
        return
    print(
        "| pool | N | n | open | step, median | max | before | peak | faster | regret |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for kind, n_pool in (
        ("matrix", 18_000),
        ("matrix", 100_000),
        ("matrix", 1_000_000),
        ("dicts", 1_000_000),
    ):
        for seed in range(args.seeds):
            command = [sys.executable, __file__, "--budget", str(args.budget)]
            command += ["--one", kind, str(n_pool), str(seed)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            print(done.stdout.strip(), flush=True)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
