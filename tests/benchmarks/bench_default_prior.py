"""What the prior that ships is worth on pools it has not seen, and a wrong one costs.

    python tests/benchmarks/bench_default_prior.py --collection kernels --seeds 10

replays the default search, the same without a prior, and one with the predictions
shuffled for each pool and seed, and compares both with no prior. The prior that ships
was fitted on validation_pools and confirmation_pools, by fit_default_prior.py.
"""

import numpy as np
from common import find_pools, make_parser, print_tables, run

from fasta_learn import ActiveConfigSearch
from fasta_learn.experiments import compare
from fasta_learn.transfer import load_default_prior


class Shuffled:
    """The prior that ships, with its predictions at the wrong configs."""

    def __init__(self, seed: int):
        self.seed = seed

    def predict(self, configs):
        costs = load_default_prior().predict(configs)
        return np.random.default_rng(self.seed).permutation(costs)


def shuffled(pool, n_budget, seed):
    """Search with a wrong prior; a search for `replay`."""
    search = ActiveConfigSearch(
        budget=n_budget, prior=Shuffled(seed), random_state=seed
    )
    return search.fit(pool.configs, pool.durations).results_["index"].to_numpy()


SEARCHES = {
    "default": ActiveConfigSearch(),
    "no prior": ActiveConfigSearch(prior=None),
    "shuffled prior": shuffled,
}


def main() -> None:
    parser = make_parser(__doc__)
    parser.set_defaults(budgets=[0.05, 0.1, 0.2], seeds=10)
    args = parser.parse_args()
    pools = find_pools(args)
    results = run(pools, SEARCHES, args, traces=False)
    print_tables(results, pools)
    for name in ("default", "shuffled prior"):
        print(f"\n{name} less no prior:")
        print(compare(results, name, "no prior").round(4).to_string())


if __name__ == "__main__":
    main()
