import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor

from fasta_learn import ActiveConfigSearch
from fasta_learn.experiments import replay

SEARCHES = {
    "default": ActiveConfigSearch(),
    "forest": ActiveConfigSearch(RandomForestRegressor(5, random_state=0)),
}


def run(pools, **options):
    return replay(pools, SEARCHES, [0.3, 9], 3, traces=True, **options)


def assert_same(first, second):
    names = first.columns.drop("trace")
    pd.testing.assert_frame_equal(first[names], second[names], check_exact=True)
    for one, other in zip(first["trace"], second["trace"], strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_same_to_the_bit_in_parallel(pools, backend):
    with joblib.parallel_config(backend):
        assert_same(run(pools), run(pools, n_jobs=2))


def test_same_to_the_bit_on_a_dask_cluster(pools):
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, processes=True, threads_per_worker=1, dashboard_address=None
    )
    with cluster, distributed.Client(cluster), joblib.parallel_config("dask"):
        parallel = run(pools)
    assert_same(run(pools), parallel)


def test_order_of_pools_and_searches_does_not_matter(pools):
    key = ["pool", "search", "budget", "seed"]
    forward = replay(pools, ["default", "random"], [0.3], 2)
    backward = replay(pools[::-1], ["random", "default"], [0.3], 2)
    pd.testing.assert_frame_equal(
        forward.sort_values(key, ignore_index=True),
        backward.sort_values(key, ignore_index=True),
        check_exact=True,
    )


def test_share_is_rounded_down(pools):
    assert replay(pools, ["random"], [0.1], 1)["n_measured"].tolist() == [2, 3]


def test_measurements_are_capped(pools):
    found = replay(pools, ["random"], [0.5], 1, max_measurements=4)
    assert found["n_measured"].tolist() == [4, 4]


def test_own_budget(pool):
    found = replay(pool, {"x": ActiveConfigSearch(budget=7)}, "own", 1)
    assert found["n_measured"].tolist() == [7]


def test_random_search_finds_the_best_as_often_as_it_must(pool):
    found = replay(pool, ["random"], [6], 2000)
    # 6 of 24 are measured, one is near the best: .25, standard deviation .0097.
    assert found["n_near"].unique() == [1]
    assert abs(found["catch"].mean() - 0.25) < 0.05


def test_whole_pool_has_no_regret(pools):
    found = replay(pools, ["default"], [1.0], 1)
    assert np.all(found["regret"] == 0)
