"""Fit the prior that ships with the package.

    python tests/benchmarks/fit_default_prior.py

learns from the 21 pools of validation_pools and confirmation_pools, without their
problem sizes, which a search does not know by default. The pools of
fasta_learn.datasets have no part in it: they are what the default is tested on.
"""

from pathlib import Path

from fasta_learn import read_pool, transfer
from fasta_learn.transfer import PoolPrior


def main() -> None:
    folder = Path(__file__).parent
    pools = [read_pool(path) for path in sorted(folder.glob("*_pools/*.csv"))]
    prior = PoolPrior().fit(pools)
    path = Path(transfer.__file__).with_name("triton_h200.npz")
    prior.save(path)
    print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB, {prior!r}")


if __name__ == "__main__":
    main()
