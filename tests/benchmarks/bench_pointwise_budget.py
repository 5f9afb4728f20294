"""What more measurements gain in the search for configs of Inductor's kernels.

    python tests/benchmarks/bench_pointwise_budget.py

replays the search that runs live under ``torch.compile`` on eight reductions and
pointwise kernels of bench_inductor_graphs.py whose pools were measured whole on an
NVIDIA H200 (torch 2.11, triton 3.6; results/inductor_pointwise_pools_h200.json.xz),
with as many proposals open as with 16 compile workers. For each budget: the duration of
the best config that was measured over that of the best of the pool, in geometric mean
over seeds, by kernel and over all, and the worst. The last line is what Inductor's own
configs reach.
"""

import argparse
import json
import lzma
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from fasta_learn import ActiveConfigSearch
from fasta_learn.configs import config_key
from fasta_learn.inductor._pointwise_explore import explore
from fasta_learn.inductor._pointwise_pool import KernelFacts, make_pool
from fasta_learn.inductor._pointwise_prior import InductorPrior
from fasta_learn.inductor._pointwise_search import first_sample

POOLS = Path(__file__).parent / "results" / "inductor_pointwise_pools_h200.json.xz"
N_OPEN = 15


def load_kernels(file):
    """Read the kernels, each with its pool and durations of all configs in ms."""
    kernels = json.loads(lzma.decompress(file.read_bytes()))["kernels"]
    for kernel in kernels:
        kernel["facts"] = KernelFacts(**kernel["facts"])
        kernel["pool"] = make_pool(kernel["facts"])
        known = kernel["durations_ms"]
        kernel["durations"] = [known[config_key(config)] for config in kernel["pool"]]
    return kernels


def replay(kernel, budget, seed):
    """Search once; the best duration that was measured, in ms."""
    facts, pool, durations = kernel["facts"], kernel["pool"], kernel["durations"]
    n_budget = min(budget, len(pool))
    first = list(range(len(facts.stock)))
    search = ActiveConfigSearch(
        budget=n_budget,
        n_initial=first_sample(len(first), n_budget),
        init_configs=first,
        prior=InductorPrior(facts, is_outer=kernel["is_outer"]),
        random_state=seed,
    )
    explore(
        search,
        pool,
        window=N_OPEN,
        announce=lambda indices: None,
        measure=durations.__getitem__,
    )
    return search.best_duration_


def print_row(name, ratios):
    """Print the geometric means of ratios of shape (n_kernels, n_seeds)."""
    by_kernel = np.exp(np.log(ratios).mean(axis=1))
    cells = " | ".join(f"{ratio:.3f}" for ratio in by_kernel)
    total = np.exp(np.log(ratios).mean())
    print(f"| {name} | {cells} | {total:.4f} | {ratios.max():.3f} |")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pools", type=Path, default=POOLS)
    parser.add_argument("--budgets", type=int, nargs="+", default=[20, 40, 60, 80, 120])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=-1)
    args = parser.parse_args()

    kernels = load_kernels(args.pools)
    best = np.array([[min(kernel["durations"])] for kernel in kernels])
    print("| measured |", " | ".join(k["graph"] for k in kernels), "| all | worst |")
    print("|---" * (len(kernels) + 3) + "|")
    for budget in args.budgets:
        found = Parallel(args.jobs)(
            delayed(replay)(kernel, budget, seed)
            for kernel in kernels
            for seed in range(args.seeds)
        )
        print_row(budget, np.reshape(found, (len(kernels), args.seeds)) / best)
    stock = [[min(k["durations"][: len(k["facts"].stock)])] for k in kernels]
    print_row("Inductor's own", stock / best)
    print("| configs |", " | ".join(str(len(k["pool"])) for k in kernels), "| | |")


if __name__ == "__main__":
    main()
