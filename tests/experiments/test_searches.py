import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator

from fasta_learn import ActiveConfigSearch, dynamic_filter_search
from fasta_learn.configs import Pool
from fasta_learn.experiments import RandomSearch, ScaledDynamicFilter
from fasta_learn.experiments._one_run import run_search
from fasta_learn.experiments._searches import resolve_searches
from fasta_learn.search import Racing


class FirstConfigs(BaseEstimator):
    """Foreign estimator that measures from `random_state` on."""

    def __init__(self, budget=1, random_state=None):
        self.budget = budget
        self.random_state = random_state

    def fit(self, X, y):
        order = self.random_state + np.arange(self.budget)
        self.results_ = pd.DataFrame({"index": order})
        return self


def test_names_stand_for_searches():
    found = resolve_searches(["default", "reference", "random"])
    assert isinstance(found["default"], ActiveConfigSearch)
    assert found["reference"] == ScaledDynamicFilter("reference")
    assert found["random"] == RandomSearch()


def test_racing_stands_for_the_default_with_a_race():
    search = resolve_searches("racing")["racing"]
    assert search.get_params() == ActiveConfigSearch(racing=Racing()).get_params()


def test_one_name_is_as_good_as_a_list():
    assert list(resolve_searches("random")) == ["random"]


@pytest.mark.parametrize("names", [["rnadom"], [3]])
def test_unknown_names_are_refused(names):
    with pytest.raises(ValueError, match="unknown search"):
        resolve_searches(names)


@pytest.mark.parametrize("nothing", [{}, []])
def test_no_search_is_refused(nothing):
    with pytest.raises(ValueError, match="no search is given"):
        resolve_searches(nothing)


def test_what_is_no_search_is_refused():
    with pytest.raises(TypeError, match="the search 'x' is a int"):
        resolve_searches({"x": 3})


def test_estimator_gets_budget_and_seed(pool):
    assert_array_equal(run_search(FirstConfigs(), pool, 3, 7).order, [7, 8, 9])


def test_estimator_may_keep_its_budget(pool):
    assert_array_equal(run_search(FirstConfigs(budget=2), pool, None, 7).order, [7, 8])


def test_given_estimator_stays_as_it_is(pool):
    search = FirstConfigs()
    run_search(search, pool, 3, 7)
    assert search.get_params() == {"budget": 1, "random_state": None}
    assert not hasattr(search, "results_")


def test_default_search_can_be_run_again_by_hand(pool):
    by_hand = ActiveConfigSearch(budget=9, random_state=4)
    by_hand.fit(pool.configs, pool.durations)
    order = run_search(ActiveConfigSearch(), pool, 9, 4).order
    assert_array_equal(order, by_hand.results_["index"])


def test_function_gets_pool_budget_and_seed(pool):
    run = run_search(lambda *got: [len(got[0]) - 1, got[1], got[2]], pool, 5, 8)
    assert_array_equal(run.order, [23, 5, 8])


def test_search_that_found_nothing_answers_its_failures():
    pool = Pool([{"B": i} for i in range(4)], [np.inf, np.inf, np.inf, 1.0])
    search = ActiveConfigSearch(init_configs=[0, 2])
    assert_array_equal(run_search(search, pool, 2, 0).order, [0, 2])


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ([], "measured nothing"),
        ([0, 1, 2], "measured 3 configs, but may measure 2"),
        ([24], "measured index 24, but the pool has the indices 0 to 23"),
        ([-1], "measured index -1"),
        ([5, 5], "measured a config twice"),
    ],
)
def test_impossible_answers_are_refused(pool, order, message):
    with pytest.raises(ValueError, match=message):
        run_search(lambda *_: order, pool, 2, 0)


def test_function_has_no_budget_of_its_own(pool):
    with pytest.raises(ValueError, match="only an estimator has a budget of its own"):
        run_search(RandomSearch(), pool, None, 0)


def test_random_search_draws_every_config_equally_often(pool):
    firsts = [RandomSearch()(pool, 2, seed)[0] for seed in range(2400)]
    counts = np.bincount(firsts, minlength=24)
    # 100 each expected, standard deviation below 10.
    assert counts.min() > 55
    assert counts.max() < 145


@pytest.mark.parametrize("profile", ["production", "reference"])
def test_scaled_filter_at_its_own_budget_is_the_filter(profile):
    # One feature: the base class of "reference", the high one of "production".
    n_configs = 400
    rng = np.random.default_rng(0)
    pool = Pool([{"B": i} for i in range(n_configs)], 1 + rng.random(n_configs))
    own = dynamic_filter_search(profile, random_state=3)
    own.fit(pool.configs, pool.durations)
    order = ScaledDynamicFilter(profile)(pool, 140, 3)
    assert_array_equal(order, own.results_["index"])


def test_scaled_filter_keeps_the_share_of_its_blind_sample(pool):
    # 0.15 / 0.35 of 14 is 6; two features need 6 that ran for a model.
    order = ScaledDynamicFilter("reference")(pool, 14, 0)
    search = dynamic_filter_search("reference", random_state=0)
    blind = search.set_params(budget=24, n_initial=6).propose(pool.configs)
    assert_array_equal(order[:6], blind)
    assert len(order) <= 14
