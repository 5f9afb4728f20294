import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.stats import spearmanr
from sklearn.exceptions import NotFittedError

from fasta_learn.configs import Pool
from fasta_learn.datasets import load_pool
from fasta_learn.transfer import PoolPrior


@pytest.fixture(scope="module")
def prior(recorded):
    return PoolPrior(n_trees=10).fit(recorded)


def test_it_ranks_the_configs_of_a_similar_pool(prior, make_pool):
    pool = make_pool(seed=9)
    assert spearmanr(prior.predict(pool.configs), pool.durations).statistic > 0.9


def test_costs_are_shares_of_the_best_speed(prior, make_pool):
    costs = prior.predict(make_pool(seed=9).configs)
    assert costs.min() >= 0
    assert costs.max() <= 1


def test_equal_seeds_give_equal_costs(prior, recorded, make_pool):
    configs = make_pool(seed=9).configs
    again = PoolPrior(n_trees=10).fit(recorded)
    assert_array_equal(prior.predict(configs), again.predict(configs))
    other = PoolPrior(n_trees=10, random_state=1).fit(recorded)
    assert (prior.predict(configs) != other.predict(configs)).any()


def test_costs_do_not_depend_on_the_unit_of_the_durations(prior, recorded):
    scaled = [Pool(p.configs, 1024 * p.durations) for p in recorded]
    configs = recorded[0].configs
    other = PoolPrior(n_trees=10).fit(scaled)
    assert_array_equal(prior.predict(configs), other.predict(configs))


def test_n_trees_is_the_number_of_trees(recorded):
    assert len(PoolPrior(n_trees=3).fit(recorded)._forest.roots) == 3


@pytest.mark.parametrize(
    "configs",
    [[{"depth": 1}, {"depth": 2}], [{"BLOCK_M": 64}, {"BLOCK_M": 64, "x": 1}]],
)
def test_costs_are_zero_where_nothing_is_known(prior, configs):
    assert_array_equal(prior.predict(configs), np.zeros(2))


def test_failed_configs_are_learned_as_slow(make_pool):
    pool = make_pool()
    failed = np.array([config["num_warps"] == 4 for config in pool.configs])
    durations = np.where(failed, np.inf, pool.durations)
    costs = PoolPrior(n_trees=10).fit([Pool(pool.configs, durations)])
    costs = costs.predict(pool.configs)
    assert costs[failed].mean() > 0.95
    assert costs[~failed].mean() < 0.7


def test_pools_in_which_nothing_ran_are_left_out(recorded):
    dead = Pool([{"BLOCK_M": 1}, {"BLOCK_M": 2}], [np.inf, np.inf])
    assert PoolPrior(n_trees=2).fit([dead, *recorded]).n_pools_ == 2


def test_the_shape_changes_what_is_expected(make_pool):
    small, large = make_pool(centre=(4, 4)), make_pool(centre=(8, 8))
    shapes = [{"m": 64, "n": 64}, {"m": 8192, "n": 8192}]
    prior = PoolPrior(n_trees=20).fit([small, large], shapes=shapes)
    for pool, shape in zip((small, large), shapes, strict=True):
        costs = prior.for_shape(shape).predict(pool.configs)
        assert pool.regret(pool.durations[np.argmin(costs)]) < 0.3


def test_for_shape_leaves_the_prior_as_it_is(prior):
    shaped = prior.for_shape({"m": 64})
    assert shaped.shape == {"m": 64.0}
    assert prior.shape is None
    assert "shape={'m': 64.0}" in repr(shaped)


def test_it_learns_from_the_pools_that_ship():
    names = ["rmsnorm_3000_1000", "xent_2048_50257"]
    prior = PoolPrior(n_trees=20).fit([load_pool(name) for name in names])
    pool = load_pool("rmsnorm_8192_5120")
    assert spearmanr(prior.predict(pool.configs), pool.durations).statistic > 0.7


def test_an_unfitted_prior_says_so(tmp_path):
    for ask in (
        lambda prior: prior.predict([{"BLOCK_M": 1}]),
        lambda prior: prior.for_shape({"m": 1}),
        lambda prior: prior.save(tmp_path / "prior.npz"),
    ):
        with pytest.raises(NotFittedError, match="learned nothing"):
            ask(PoolPrior())


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"n_trees": 0}, "n_trees"), ({"random_state": -1}, "rand")],
)
def test_wrong_parameters_are_refused(recorded, settings, message):
    with pytest.raises(ValueError, match=message):
        PoolPrior(**settings).fit(recorded)


def test_wrong_input_is_refused(recorded):
    prior = PoolPrior(n_trees=2)
    with pytest.raises(TypeError, match=r"pools\[0\] is a dict"):
        prior.fit([{}])
    with pytest.raises(ValueError, match="2 pools, but 1 shapes"):
        prior.fit(recorded, shapes=[None])
    with pytest.raises(ValueError, match="'m' is nan"):
        prior.fit(recorded, shapes=[None, {"m": np.nan}])
    with pytest.raises(ValueError, match="no pool in which a config ran"):
        prior.fit([])
