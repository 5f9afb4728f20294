import numpy as np
import pytest

from fasta_learn.configs import Pool


def make_pool(n_configs=24, seed=0, n_failed=3, name="toy"):
    """Return a pool of distinct random durations, the last configs failing."""
    durations = 1.0 + np.random.default_rng(seed).permutation(n_configs) / 8
    durations[n_configs - n_failed :] = np.inf
    configs = [{"BLOCK": 2**i, "WARPS": j} for i in range(8) for j in range(8)]
    return Pool(configs[:n_configs], durations, name=name)


@pytest.fixture
def pool():
    return make_pool()


@pytest.fixture
def pools():
    return [make_pool(24, 1, name="one"), make_pool(30, 2, name="two")]
