"""What a prior from recorded pools is worth, and what a wrong one costs.

    python tests/benchmarks/bench_transfer.py

replays the original pools that ship, each with a prior from the pools of all other
kernel families: with and without problem sizes, with all matrix products as one family,
and with the predictions of the prior shuffled. Recorded shapes of one matrix product, a
table as AutoHeuristic writes it, with problem sizes, configs and durations:

    python tests/benchmarks/bench_transfer.py --shapes FILE

leaves out a fifth of the shapes at a time and takes the first configs by the prior.
"""

import argparse
import time

import numpy as np
import pandas as pd
from common import print_tables
from sklearn.model_selection import GroupKFold

from fasta_learn import ActiveConfigSearch
from fasta_learn.configs import Pool
from fasta_learn.datasets import list_pools, load_pool
from fasta_learn.experiments import compare, replay
from fasta_learn.transfer import PoolPrior

SHAPES = {
    "attn_16_4096_128": {"batch": 16, "m": 4096, "n": 4096},
    "bmm_12_1023_1023_63": {"batch": 12, "m": 1023, "n": 1023, "k": 63},
    "bmm_96_512_64_512": {"batch": 96, "m": 512, "n": 64, "k": 512},
    "cumsum_4096_8192": {"x0": 4096, "r0": 8192},
    "dequant_1_8192_8192": {"m": 1, "n": 8192, "k": 8192},
    "gather_sum_4096_32_768": {"x0": 4096, "y0": 768},
    "gemv_11008_4096": {"x0": 11008, "r0": 4096},
    "mm_2048_2048_2048": {"m": 2048, "n": 2048, "k": 2048},
    "mm_500_512_30000": {"m": 500, "n": 512, "k": 30000},
    "mm_8_4096_4096": {"m": 8, "n": 4096, "k": 4096},
    "rmsnorm_3000_1000": {"x0": 3000, "r0": 1000},
    "rmsnorm_8192_5120": {"x0": 8192, "r0": 5120},
    "rope_4096_32_128": {"x0": 4096},
    "swiglu_8M": {"x0": 2**23},
    "xent_2048_50257": {"x0": 2048, "r0": 50257},
}
TILES = ["BLOCK_M", "BLOCK_N", "BLOCK_K", "num_stages", "num_warps"]
PROBLEM = ["m", "n", "k", "mat1_dtype"]
LAYOUT = ["mat1_iscontig", "mat2_iscontig", "using_tf32"]


class Expected:
    """A prior of costs that are known already."""

    def __init__(self, costs):
        self.costs = costs

    def predict(self, configs):
        return self.costs


def family(name: str, merge_products: bool = False) -> str:
    first = name.split("_")[0]
    is_product = merge_products and first in ("mm", "bmm", "dequant")
    return "product" if is_product else first


def leave_family_out(
    pools: dict[str, Pool], with_shapes: bool, merge_products: bool
) -> dict[str, np.ndarray]:
    """Costs of each pool by a prior from the pools of other families."""
    costs, priors = {}, {}
    shapes = SHAPES if with_shapes else dict.fromkeys(pools)
    for name, pool in pools.items():
        own = family(name, merge_products)
        if own not in priors:
            rest = [n for n in pools if family(n, merge_products) != own]
            priors[own] = PoolPrior().fit(
                [pools[n] for n in rest], shapes=[shapes[n] for n in rest]
            )
        costs[name] = priors[own].for_shape(shapes[name]).predict(pool.configs)
    return costs


def searching(costs: dict[str, np.ndarray] | None, shuffled: bool = False):
    """A search for `replay`; each seed shuffles in its own way."""

    def measured(pool: Pool, n_budget: int, seed: int) -> np.ndarray:
        prior = None
        if costs is not None:
            expected = costs[pool.name]
            if shuffled:
                expected = np.random.default_rng(seed).permutation(expected)
            prior = Expected(expected)
        model = ActiveConfigSearch(budget=n_budget, prior=prior, random_state=seed)
        model.fit(pool.configs, pool.durations)
        return model.results_["index"].to_numpy()

    return measured


def bench_families(args: argparse.Namespace) -> None:
    pools = {name: load_pool(name) for name in list_pools("original")}
    by_shape = leave_family_out(pools, True, False)
    named = {
        "no prior": None,
        "prior": by_shape,
        "prior, without sizes": leave_family_out(pools, False, False),
        "prior, products as one family": leave_family_out(pools, True, True),
    }
    searches = {name: searching(costs) for name, costs in named.items()}
    searches["shuffled prior"] = searching(by_shape, shuffled=True)
    if args.only:
        searches = {name: searches[name] for name in args.only}
    frames = []
    for name, search in searches.items():
        started = time.perf_counter()
        frames.append(replay(pools, {name: search}, args.budgets, args.seeds, 1))
        print(f"# {name}: {time.perf_counter() - started:.0f} s", flush=True)
    results = pd.concat(frames, ignore_index=True)
    print_tables(results, pools)
    if {"no prior", "shuffled prior"} <= set(searches):
        print(compare(results, "shuffled prior", "no prior").round(4).to_string())


def read_shapes(file: str) -> tuple[list[Pool], list[dict], list[str]]:
    """Pools of a table, their problem sizes, and what must stay together."""
    table = pd.read_csv(file)
    pools, shapes, groups = [], [], []
    for key, rows in table.groupby(PROBLEM + LAYOUT):
        rows = rows.groupby(TILES, as_index=False)["duration"].median()
        configs = rows[TILES].astype(int).to_dict("records")
        pools.append(Pool(configs, rows["duration"].to_numpy()))
        m, n, k, dtype, row_major_a, row_major_b, tf32 = key
        shapes.append(
            {"m": m, "n": n, "k": k, "bytes": 4 if dtype.endswith("32") else 2}
            | {"row_major_a": int(row_major_a), "row_major_b": int(row_major_b)}
            | {"tf32": int(str(tf32) == "True")}
        )
        groups.append(str(key[: len(PROBLEM)]))
    return pools, shapes, groups


def bench_shapes(args: argparse.Namespace) -> None:
    pools, shapes, groups = read_shapes(args.shapes)
    print(f"{len(pools)} pools of {len(set(groups))} problems", flush=True)
    regrets = []
    folds = GroupKFold(5, shuffle=True, random_state=0).split(pools, groups=groups)
    for train, test in folds:
        started = time.perf_counter()
        prior = PoolPrior(n_trees=args.trees).fit(
            [pools[i] for i in train], shapes=[shapes[i] for i in train]
        )
        for i in test:
            costs = prior.for_shape(shapes[i]).predict(pools[i].configs)
            order = np.argsort(costs, kind="stable")
            best = np.minimum.accumulate(pools[i].durations[order])
            regrets.append(best[[0, 1, 2, 4]] / pools[i].best_duration - 1)
        print(f"# a fold: {time.perf_counter() - started:.0f} s", flush=True)
    values = np.array(regrets)
    print("| measured | mean regret | within 5 % |\n|---|---|---|")
    for count, column in zip((1, 2, 3, 5), values.T, strict=True):
        print(f"| {count} | {column.mean():.2%} | {np.mean(column <= 0.05):.3f} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shapes", metavar="FILE", help="table of recorded shapes")
    parser.add_argument("--trees", type=int, default=40, help="with --shapes")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--budgets", type=float, nargs="+", default=[0.05, 0.1, 0.2])
    parser.add_argument("--only", nargs="+", metavar="SEARCH", help="only these")
    args = parser.parse_args()
    if args.shapes:
        bench_shapes(args)
    else:
        bench_families(args)


if __name__ == "__main__":
    main()
