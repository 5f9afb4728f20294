"""What a prior from the pools that ship is worth on kernels recorded later.

    python tests/benchmarks/bench_transfer_new.py --seeds 8

fits one prior on the 15 pools that ship and replays the 21 of validation_pools and
confirmation_pools, which have no kernel in common with them but matrix products.
"""

import argparse
from pathlib import Path

import pandas as pd
from bench_transfer import SHAPES

from fasta_learn import ActiveConfigSearch, read_pool
from fasta_learn.datasets import load_pool
from fasta_learn.experiments import replay, summarize
from fasta_learn.transfer import PoolPrior

# Which tile size each number at the end of a pool's name belongs to.
AXES = {
    "softmax": ("x0", "r0"),
    "add_layernorm": ("x0", "r0"),
    "gelu_transpose": ("x0", "y0"),
    "stencil": ("y0", "x0"),
    "column_sum": ("r0", "x0"),
    "linear": ("m", "n", "k"),
}


def shape_of(name: str) -> dict[str, int]:
    """Return the problem sizes that a pool's name tells."""
    kernel = name.rstrip("0123456789_")
    sizes = name.removeprefix(kernel).strip("_").split("_")
    return dict(zip(AXES[kernel], map(int, sizes), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=8)
    args = parser.parse_args()
    pools = [load_pool(name) for name in SHAPES]
    prior = PoolPrior().fit(pools, shapes=list(SHAPES.values()))
    folder = Path(__file__).parent
    frames = []
    for path in sorted(folder.glob("*_pools/*.csv")):
        pool = read_pool(path)
        known = prior.for_shape(shape_of(pool.name))
        searches = {
            "no prior": ActiveConfigSearch(),
            "prior": ActiveConfigSearch(prior=known),
        }
        frames.append(replay([pool], searches, [0.05, 0.1, 0.2], args.seeds))
    table = summarize(pd.concat(frames, ignore_index=True))
    print(table[["search", "budget", "catch", "mean_regret"]].to_string(index=False))


if __name__ == "__main__":
    main()
