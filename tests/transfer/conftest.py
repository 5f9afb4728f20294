from itertools import product

import numpy as np
import pytest

from fasta_learn.configs import Pool


def _make_pool(centre=(6, 7), size=9, noise=0.05, seed=0, name="", names=("M", "N")):
    """A pool of tile sizes whose fastest configs lie around a centre in octaves."""
    rng = np.random.default_rng(seed)
    grid = list(product(range(4, size), range(4, size), (1, 2, 4)))
    configs = [
        {f"BLOCK_{names[0]}": 2**i, f"BLOCK_{names[1]}": 2**j, "num_warps": w}
        for i, j, w in grid
    ]
    durations = [
        1
        + 0.3 * (i - centre[0]) ** 2
        + 0.2 * (j - centre[1]) ** 2
        + 0.1 * abs(np.log2(w) - 1)
        for i, j, w in grid
    ]
    return Pool(configs, durations * (1 + noise * rng.random(len(grid))), name=name)


@pytest.fixture(scope="session")
def make_pool():
    """Build a synthetic pool."""
    return _make_pool


@pytest.fixture(scope="session")
def recorded():
    """Two pools that a prior learns from."""
    return [_make_pool(seed=1, name="one"), _make_pool(seed=2, name="two")]
