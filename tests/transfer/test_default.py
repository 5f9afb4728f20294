import numpy as np
import pytest
from scipy.stats import spearmanr

from fasta_learn import datasets
from fasta_learn.transfer import load_default_prior
from fasta_learn.transfer._default import is_triton_pool


def test_it_ranks_most_pools_that_it_has_not_seen():
    prior = load_default_prior()
    ranks = []
    for name in datasets.list_pools("original"):
        pool = datasets.load_pool(name)
        ran = np.isfinite(pool.durations)
        costs = prior.predict(pool.configs)
        ranks.append(spearmanr(costs[ran], pool.durations[ran]).statistic)
    assert np.mean(ranks) > 0.3
    assert np.mean(np.array(ranks) > 0.1) > 0.8


def test_what_a_caller_does_to_it_changes_no_other_copy():
    one = load_default_prior()
    pool = datasets.load_pool("rmsnorm_3000_1000")
    expected = load_default_prior().predict(pool.configs)
    one.fit([datasets.load_pool("swiglu_8M")])
    np.testing.assert_array_equal(load_default_prior().predict(pool.configs), expected)


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ([{"BLOCK": 1, "num_warps": 2}, {"BLOCK": 2, "num_warps": 2}], True),
        ([{"X0BLOCK": 1}, {"X0BLOCK": 2}], False),
        (np.ones((3, 2)), False),
        ([], False),
    ],
)
def test_triton_pools_are_told_by_their_warps(configs, expected):
    assert is_triton_pool(configs) is expected
