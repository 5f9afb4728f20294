"""What ActiveConfigSearch takes: kinds of configs, oracles, pipelines, first ones."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.pipeline import Pipeline

from fasta_learn import ActiveConfigSearch, ConfigPruner, ConfigVectorizer
from fasta_learn.oracles import BaseOracle, Measurement


class TileOracle(BaseOracle):
    """Measures BLOCK_M and BLOCK_N; remembers what it was asked."""

    def __init__(self):
        self.asked, self.pool = [], None

    def open_pool(self, configs):
        self.pool = list(configs)

    def measure(self, configs):
        self.asked += configs
        return [
            Measurement(1 + abs(c["BLOCK_M"] - 64) + abs(c["BLOCK_N"] - 32))
            for c in configs
        ]


def tile_configs():
    return [
        {"BLOCK_M": 2**i, "BLOCK_N": 2**j} for i in range(3, 9) for j in range(3, 9)
    ]


def test_frames_are_pools_of_dicts(pools, assert_same_search):
    configs, durations = pools.tiles()
    expected = ActiveConfigSearch(random_state=0).fit(configs, durations)
    for frame in (pd.DataFrame(configs), pl.DataFrame(configs)):
        search = ActiveConfigSearch(random_state=0).fit(frame, durations)
        assert_same_search(search, expected)
        assert search.best_config_ == expected.best_config_
        assert_array_equal(search.feature_names_in_, list(configs[0]))
        assert search.n_features_in_ == 3
        assert_array_equal(search.predict(frame), expected.predict(configs))


def test_objects_with_kwargs_are_configs(pools, assert_same_search):
    class Config:
        def __init__(self, kwargs):
            self.kwargs = kwargs

    configs, durations = pools.tiles()
    objects = [Config(config) for config in configs]
    search = ActiveConfigSearch(random_state=0).fit(objects, durations)
    expected = ActiveConfigSearch(random_state=0).fit(configs, durations)
    assert_same_search(search, expected)
    assert search.best_config_ is objects[search.best_index_]


def test_rows_of_a_matrix_are_configs(pools, assert_same_search):
    X, durations = pools.bowl(2)
    search = ActiveConfigSearch(random_state=0).fit(X, durations)
    assert_array_equal(search.best_config_, X[search.best_index_])
    assert search.n_features_in_ == 2
    listed = ActiveConfigSearch(random_state=0).fit(X.tolist(), durations.tolist())
    assert_same_search(search, listed)


def test_an_own_vectorizer_makes_the_features(pools):
    configs, durations = pools.tiles()
    vectorizer = ConfigVectorizer(log2=["BLOCK_M"])
    search = ActiveConfigSearch(vectorizer=vectorizer, random_state=0)
    search.fit(configs, durations)
    features = search._engine.space.features
    assert_allclose(np.unique(features[:, 0]), np.linspace(0, 1, 6))
    assert_allclose(np.unique(features[:, 1]), (2.0 ** np.arange(5) - 1) / 15)
    assert not hasattr(vectorizer, "feature_names_")


def test_oracle_may_stand_at_either_place(assert_same_search):
    configs = tile_configs()
    runs = [
        ActiveConfigSearch(random_state=0).fit(configs, TileOracle()),
        ActiveConfigSearch(random_state=0).fit(configs, oracle=TileOracle()),
    ]
    assert_same_search(*runs)


def test_oracle_measures_the_given_configs_once_each():
    configs, oracle = tile_configs(), TileOracle()
    search = ActiveConfigSearch(random_state=0).fit(configs, oracle=oracle)
    expected = [configs[i] for i in search.results_["index"]]
    assert all(a is b for a, b in zip(oracle.asked, expected, strict=True))
    assert all(a is b for a, b in zip(oracle.pool, configs, strict=True))


def test_fit_with_an_oracle_equals_fit_with_recorded_durations(assert_same_search):
    configs = tile_configs()
    durations = [answer.duration for answer in TileOracle().measure(configs)]
    live = ActiveConfigSearch(random_state=0).fit(configs, oracle=TileOracle())
    assert_same_search(live, ActiveConfigSearch(random_state=0).fit(configs, durations))


class SubBlockOracle(BaseOracle):
    def __init__(self):
        self.asked = []

    def measure(self, configs):
        self.asked += configs
        return [Measurement(c["BLOCK"] / c["BLOCK_SUB"]) for c in configs]


def pool_to_prune():
    return [
        {"BLOCK": block, "BLOCK_SUB": sub}
        for block in range(64, 1024, 64)
        for sub in (32, 64, 128, 256)
    ]


def test_pipeline_prunes_before_it_searches():
    configs, oracle = pool_to_prune(), SubBlockOracle()
    kept = ConfigPruner().fit_transform(configs)
    assert len(kept) < len(configs)
    pipeline = Pipeline([("prune", ConfigPruner()), ("search", ActiveConfigSearch())])
    pipeline.fit(configs, search__oracle=oracle)
    assert oracle.asked
    assert all(any(config is k for k in kept) for config in oracle.asked)
    assert any(pipeline["search"].best_config_ is config for config in kept)


def test_pipeline_routes_the_oracle():
    configs, oracle = pool_to_prune(), SubBlockOracle()
    with config_context(enable_metadata_routing=True):
        search = ActiveConfigSearch(random_state=0).set_fit_request(oracle=True)
        pipeline = Pipeline([("prune", ConfigPruner()), ("search", search)])
        pipeline.fit(configs, oracle=oracle)
    assert len(oracle.asked) == pipeline["search"].n_measured_ > 0


@pytest.mark.parametrize("as_index", [False, True])
def test_init_configs_are_measured_first(pools, make_search, as_index):
    configs, durations = pools.tiles()
    wanted = [41, 7, 80]
    init = wanted if as_index else [dict(configs[i]) for i in wanted]
    search = make_search(init_configs=init, random_state=0).fit(configs, durations)
    assert search.results_["index"].tolist()[:3] == wanted
    assert search.results_["index"].is_unique


def test_init_configs_are_part_of_the_blind_sample(pools):
    configs, _ = pools.tiles()
    search = ActiveConfigSearch(init_configs=[41, 7, 41], random_state=0)
    batch = search.propose(configs)
    assert batch.tolist()[:2] == [41, 7]
    assert len(batch) == 6
    alone = ActiveConfigSearch(init_configs=[3, 1, 2], n_initial=1)
    assert alone.propose(configs).tolist() == [3, 1, 2]


def test_init_configs_may_be_rows(pools):
    X, durations = pools.bowl(2)
    search = ActiveConfigSearch(init_configs=X[[9, 4]], random_state=0)
    assert search.fit(X, durations).results_["index"].tolist()[:2] == [9, 4]


@pytest.mark.parametrize(
    ("init", "error", "message"),
    [
        ([90], IndexError, "init_configs names index 90.*0 to 89"),
        ([-1], IndexError, "index -1"),
        ([{"BLOCK_M": 3}], ValueError, r"\{'BLOCK_M': 3\}"),
        (list(range(19)), ValueError, "holds 19 configs.*allows 18"),
    ],
)
def test_wrong_init_configs_are_refused(pools, init, error, message):
    configs, durations = pools.tiles()
    with pytest.raises(error, match=message):
        ActiveConfigSearch(init_configs=init).fit(configs, durations)
