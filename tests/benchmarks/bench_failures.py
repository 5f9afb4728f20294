"""Wasted measurements: how often a search measures configs that fail.

    python tests/benchmarks/bench_failures.py --pools FOLDER --seeds 20

takes the pools of a folder (default: the original ones that ship) in which configs
fail, and compares the default search, which avoids failures while many configs fail,
with one that avoids them from the first on, with one that never does, and with random
choice.
"""

import numpy as np
from common import find_pools, make_parser

from fasta_learn import ActiveConfigSearch
from fasta_learn.experiments import RandomSearch
from fasta_learn.search import ExpectedImprovement

SEARCHES = {
    "default": ActiveConfigSearch(),
    "avoids all": ActiveConfigSearch(acquisition=ExpectedImprovement(0.0)),
    "avoids none": ActiveConfigSearch(acquisition=ExpectedImprovement(1.0)),
    "random": RandomSearch(),
}


def main() -> None:
    parser = make_parser(__doc__)
    parser.set_defaults(budgets=[0.2], max_measurements=200, seeds=20)
    args = parser.parse_args()
    print("| pool | configs | failed | budget | search | wasted | mean regret |")
    print("|---|---|---|---|---|---|---|")
    for name, pool in find_pools(args).items():
        failed = float(np.mean(np.isinf(pool.durations)))
        if not failed:
            continue
        for budget in args.budgets:
            n = budget if isinstance(budget, int) else int(budget * len(pool))
            n = min(n, args.max_measurements)
            for label, search in SEARCHES.items():
                runs = [run(search, pool, n, seed) for seed in range(args.seeds)]
                wasted, regret = np.mean(runs, axis=0)
                print(
                    f"| {name} | {len(pool)} | {failed:.1%} | {n} | {label} "
                    f"| {wasted:.1f} | {regret:.2%} |",
                    flush=True,
                )


def run(search, pool, budget: int, seed: int) -> tuple[int, float]:
    """Return how many measurements failed, and the regret."""
    if isinstance(search, RandomSearch):
        order = search(pool, budget, seed)
    else:
        search.set_params(budget=budget, random_state=seed)
        order = search.fit(pool.configs, pool.durations).results_["index"]
    durations = pool.durations[order]
    return int(np.isinf(durations).sum()), pool.regret(durations.min())


if __name__ == "__main__":
    main()
