"""ActiveConfigSearch as a whole: what is measured, repeated and reported."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from fasta_learn import (
    ActiveConfigSearch,
    ConfigPruner,
    ConfigVectorizer,
    dynamic_filter_search,
)
from fasta_learn.exceptions import AllConfigsFailedError
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


def assert_same_search(one, other):
    pd.testing.assert_frame_equal(one.results_, other.results_, check_exact=True)
    assert str(one.rounds_) == str(other.rounds_)
    assert one.best_index_ == other.best_index_
    assert one.best_duration_ == other.best_duration_
    assert one.stop_reason_ == other.stop_reason_
    assert one.confidence_ == other.confidence_
    assert one.confidence_label_ == other.confidence_label_
    assert one.n_budget_ == other.n_budget_


@pytest.mark.parametrize("failed", [0.0, 0.3])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_fit_equals_the_loop(pools, make_search, seed, failed):
    configs, durations = pools.tiles(failed=failed, seed=seed)
    fitted = make_search(random_state=seed).fit(configs, durations)
    told = pools.run(make_search(random_state=seed), configs, durations)
    assert fitted.n_measured_ > 10
    assert_same_search(fitted, told)


@pytest.mark.parametrize("batch_size", ["auto", 1, 3, 20])
def test_fit_equals_the_loop_at_every_batch_size(pools, batch_size):
    X, durations = pools.bowl(3, noise=0.05)
    search = ActiveConfigSearch(batch_size=batch_size, random_state=0)
    fitted = clone(search).fit(X, durations)
    assert_same_search(fitted, pools.run(clone(search), X, durations))


def test_fit_equals_the_loop_with_a_shared_generator(pools):
    configs, durations = pools.tiles()
    fitted = ActiveConfigSearch(random_state=np.random.RandomState(5))
    told = ActiveConfigSearch(random_state=np.random.RandomState(5))
    assert_same_search(
        fitted.fit(configs, durations), pools.run(told, configs, durations)
    )


def test_fit_forgets_an_earlier_search(pools, make_search):
    configs, durations = pools.tiles()
    other = [{"A": i, "B": i % 7} for i in range(60)]
    search = make_search(random_state=0).fit(other, np.arange(60.0))
    search.fit(configs, durations)
    assert_same_search(search, make_search(random_state=0).fit(configs, durations))


def test_same_seed_same_search_and_other_seed_other(pools, make_search):
    configs, durations = pools.tiles()
    runs = [
        make_search(random_state=seed).fit(configs, durations).results_["index"]
        for seed in (0, 0, 1)
    ]
    assert_array_equal(runs[0], runs[1])
    assert runs[0].tolist() != runs[2].tolist()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("failed", [0.0, 0.2])
@pytest.mark.parametrize("factor", [1000.0, 1e-6, 2.0**-30, 2.0**30])
def test_the_unit_of_durations_decides_nothing(pools, seed, failed, factor):
    configs, durations = pools.tiles(failed=failed, seed=seed)
    search = ActiveConfigSearch(random_state=seed)
    one = clone(search).fit(configs, durations)
    other = clone(search).fit(configs, durations * factor)
    assert_array_equal(other.results_["index"], one.results_["index"])
    assert_allclose(other.confidence_, one.confidence_, rtol=1e-6)
    assert other.confidence_label_ == one.confidence_label_
    assert_allclose(other.best_duration_, one.best_duration_ * factor, rtol=1e-15)
    if np.frexp(factor)[0] == 0.5:
        expected = one.results_["predicted"] * factor
        assert_array_equal(other.results_["predicted"], expected)


def test_the_reference_algorithm_depends_on_the_unit(pools):
    # Its temperatures are absolute; that is part of it.
    configs, durations = pools.tiles()
    one, other = (
        dynamic_filter_search(random_state=0).fit(configs, durations * factor)
        for factor in (1, 1000)
    )
    assert one.results_["index"].tolist() != other.results_["index"].tolist()


def test_results_hold_what_was_measured(pools, make_search):
    configs, durations = pools.tiles(failed=0.3)
    search = make_search(random_state=0).fit(configs, durations)
    results = search.results_
    assert list(results) == [
        "index",
        "duration",
        "status",
        "round",
        "predicted",
        "reason",
    ]
    assert len(results) == search.n_measured_ <= search.n_budget_
    assert results["index"].is_unique
    assert_array_equal(results["duration"], durations[results["index"]])
    failed = np.isinf(results["duration"])
    assert failed.any()
    assert (results["status"][failed] == "error").all()
    assert (results["status"][~failed] == "ok").all()


def test_best_is_the_fastest_measured(pools, make_search):
    configs, durations = pools.tiles(failed=0.3)
    search = make_search(random_state=0).fit(configs, durations)
    measured = search.results_["index"].to_numpy()
    fastest = measured[np.argmin(durations[measured])]
    assert search.best_index_ == fastest
    assert search.best_config_ is configs[fastest]
    assert search.best_duration_ == durations[fastest]


def test_rounds_tell_how_the_search_went(pools, make_search):
    configs, durations = pools.tiles()
    search = make_search(random_state=0).fit(configs, durations)
    results = search.results_
    for number, record in enumerate(search.rounds_, start=1):
        until = results[results["round"] <= number]["duration"]
        assert record["round"] == number
        assert record["n_measured"] == len(until)
        assert record["best_duration"] == until.min()
        assert record["n_near_optimal"] == (until <= 1.05 * until.min()).sum()
        assert 0 <= record["r2"] <= 1
        assert record["margin"] > 0
        assert isinstance(record["basis"], str)
    assert search.rounds_[-1]["n_measured"] == search.n_measured_


def test_predictions_are_recorded_after_the_blind_sample(pools, make_search):
    configs, durations = pools.tiles()
    results = make_search(random_state=0).fit(configs, durations).results_
    blind = results["round"] == 1
    assert results["predicted"][blind].isna().all()
    assert np.isfinite(results["predicted"][~blind]).all()
    assert not blind.all()


@pytest.mark.parametrize(
    ("budget", "expected"), [(0.2, 18), (1.0, 90), (7, 7), (1, 1), (1000, 90)]
)
def test_the_budget_is_a_share_or_a_number(pools, budget, expected):
    configs, durations = pools.tiles()
    search = ActiveConfigSearch(budget=budget, random_state=0).fit(configs, durations)
    assert search.n_budget_ == search.n_measured_ == expected
    assert search.stop_reason_ == ("all" if expected == 90 else "budget")


def test_the_blind_sample_has_its_size(pools):
    configs, _ = pools.tiles()
    sizes = {"auto": 6, 0.1: 9, 4: 4, 50: 18}
    for n_initial, expected in sizes.items():
        search = ActiveConfigSearch(n_initial=n_initial, random_state=0)
        assert len(search.propose(configs)) == expected


def test_search_finds_the_best_of_a_smooth_pool(pools):
    configs, durations = pools.tiles(noise=0.0)
    for seed in range(5):
        search = ActiveConfigSearch(random_state=seed).fit(configs, durations)
        assert search.best_duration_ <= 1.05 * durations.min()


def test_a_learned_prediction_is_close(pools):
    configs, durations = pools.tiles(noise=0.0)
    search = ActiveConfigSearch(budget=0.5, random_state=0).fit(configs, durations)
    fast = np.flatnonzero(durations < 1.5 * durations.min())
    predicted = search.predict([configs[i] for i in fast])
    assert_allclose(predicted, durations[fast], rtol=0.1)


def test_predictions_may_be_of_configs_outside_the_pool(pools):
    configs, durations = pools.tiles(noise=0.0)
    search = ActiveConfigSearch(budget=0.5, random_state=0).fit(configs, durations)
    between = {"BLOCK_M": 64, "BLOCK_N": 90, "num_warps": 2}
    assert 1.0 < search.predict([between])[0] < 1.3


def test_predicting_changes_no_decision(pools, make_search):
    configs, durations = pools.tiles()
    quiet = pools.run(make_search(random_state=0), configs, durations)
    asked = make_search(random_state=0)
    while len(batch := asked.propose(configs)):
        half = len(batch) // 2
        asked.partial_fit(batch[:half], durations[batch[:half]])
        if half:
            asked.predict(configs[:3])
        asked.partial_fit(batch[half:], durations[batch[half:]])
        asked.predict(configs[:3])
    assert_array_equal(asked.results_["index"], quiet.results_["index"])


def test_best_estimator_knows_all_measurements(pools, make_search):
    configs, durations = pools.tiles()
    search = make_search(random_state=0)
    batch = search.propose(configs)
    search.partial_fit(batch[:-1], durations[batch[:-1]])
    before = search.best_estimator_
    predicted = search.predict(configs)
    search.partial_fit(batch[-1:], durations[batch[-1:]])
    assert search.best_estimator_ is not before
    assert search.best_estimator_ is search.best_estimator_
    assert not np.array_equal(search.predict(configs), predicted)


def test_frames_are_pools_of_dicts(pools):
    configs, durations = pools.tiles()
    expected = ActiveConfigSearch(random_state=0).fit(configs, durations)
    for frame in (pd.DataFrame(configs), pl.DataFrame(configs)):
        search = ActiveConfigSearch(random_state=0).fit(frame, durations)
        assert_same_search(search, expected)
        assert search.best_config_ == expected.best_config_
        assert_array_equal(search.feature_names_in_, list(configs[0]))
        assert search.n_features_in_ == 3
        assert_array_equal(search.predict(frame), expected.predict(configs))


def test_objects_with_kwargs_are_configs(pools):
    class Config:
        def __init__(self, kwargs):
            self.kwargs = kwargs

    configs, durations = pools.tiles()
    objects = [Config(config) for config in configs]
    search = ActiveConfigSearch(random_state=0).fit(objects, durations)
    expected = ActiveConfigSearch(random_state=0).fit(configs, durations)
    assert_same_search(search, expected)
    assert search.best_config_ is objects[search.best_index_]


def test_rows_of_a_matrix_are_configs(pools):
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


def test_oracle_may_stand_at_either_place():
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


def test_fit_with_an_oracle_equals_fit_with_recorded_durations():
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


def test_failed_configs_are_not_proposed_again(pools, make_search):
    configs, durations = pools.tiles(failed=0.5)
    search = make_search(budget=1.0, random_state=0)
    search.fit(configs, durations)
    assert search.results_["index"].is_unique


def test_failed_configs_cost_budget(pools):
    configs, durations = pools.tiles(failed=0.5)
    search = ActiveConfigSearch(budget=20, random_state=0).fit(configs, durations)
    assert search.n_measured_ == 20
    assert 0 < np.isinf(search.results_["duration"]).sum() < 20


def test_a_blind_sample_of_failures_does_not_stop_the_search(pools, make_search):
    configs, durations = pools.tiles()
    search = make_search(random_state=0)
    blind = search.propose(configs)
    search.partial_fit(blind, np.full(len(blind), np.inf))
    assert search.best_index_ is None
    assert search.best_config_ is None
    assert search.best_duration_ == np.inf
    assert search.confidence_ is None
    assert search.confidence_label_ is None
    pools.run(search, configs, durations)
    measured = search.results_["index"][len(blind) :]
    assert search.best_duration_ == durations[measured].min()
    assert 0 <= search.confidence_ <= 1
    assert search.confidence_label_ in {"high", "med", "low"}


def test_all_failed_is_an_error_with_counts_by_reason(make_search):
    class Broken(BaseOracle):
        def measure(self, configs):
            return [
                Measurement.failed("compile_error", "no such tile")
                if config["BLOCK_M"] > 64
                else Measurement.failed("timeout", None)
                for config in configs
            ]

    configs = tile_configs()
    search = make_search(random_state=0)
    with pytest.raises(AllConfigsFailedError) as caught:
        search.fit(configs, oracle=Broken())
    counts = search.results_["status"].value_counts()
    assert counts.sum() == search.n_measured_ > 0
    message = str(caught.value)
    assert f"all {search.n_measured_} measured" in message
    assert f"{counts['compile_error']} × compile_error (no such tile)" in message
    assert f"{counts['timeout']} × timeout" in message


def test_measurements_keep_status_and_reason(pools):
    configs, _ = pools.tiles()
    search = ActiveConfigSearch(random_state=0)
    batch = search.propose(configs)[:2]
    search.partial_fit(
        batch, [Measurement(2.0), Measurement.failed("timeout", "took too long")]
    )
    assert search.results_["status"].tolist() == ["ok", "timeout"]
    assert search.results_["reason"].isna().tolist() == [True, False]
    assert search.results_["reason"][1] == "took too long"


def test_a_custom_policy_is_asked(pools):
    configs, durations = pools.tiles()

    def first_ones(state, n_configs):
        return state.available[:n_configs]

    search = ActiveConfigSearch(
        initial_design=first_ones, acquisition=first_ones, n_initial=3, budget=8
    )
    search.fit(configs, durations)
    assert search.results_["index"].tolist() == list(range(8))


@pytest.mark.parametrize("answer", [[0, 0], [-1], [90], [0.5], [], [[5]], [5, 6, 7]])
@pytest.mark.parametrize("policy", ["initial_design", "acquisition"])
def test_a_policy_that_answers_nonsense_is_refused(pools, policy, answer):
    configs, durations = pools.tiles()

    def nonsense(state, n_configs):
        return np.array(answer)

    search = ActiveConfigSearch(**{policy: nonsense}, n_initial=2, batch_size=2)
    with pytest.raises(ValueError, match=r"nonsense.*state\.available"):
        search.fit(configs, durations)


def test_an_acquisition_that_repeats_itself_is_refused(pools):
    configs, durations = pools.tiles()
    search = ActiveConfigSearch(acquisition=lambda state, n_configs: np.array([0]))
    with pytest.raises(ValueError, match=r"state\.available"):
        search.fit(configs, durations)
    assert search.results_["index"].is_unique


def test_batch_size_may_be_a_function(pools):
    configs, durations = pools.tiles()
    search = ActiveConfigSearch(batch_size=lambda state: state.round + 0.7, budget=20)
    search.fit(configs, durations)
    sizes = search.results_["round"].value_counts().sort_index().tolist()
    assert sizes == [6, 2, 3, 4, 5]


def test_stopping_may_be_a_function(pools):
    configs, durations = pools.tiles()

    def enough(state, rounds):
        return "enough" if len(rounds) == 3 else None

    search = ActiveConfigSearch(stopping=enough, random_state=0)
    search.fit(configs, durations)
    assert search.stop_reason_ == "enough"
    assert len(search.rounds_) == 3


def test_stopping_is_not_asked_before_the_blind_sample_is_complete(pools):
    configs, durations = pools.tiles()
    search = ActiveConfigSearch(stopping=lambda state, rounds: "soon", n_initial=6)
    for n_measured in (2, 4, 6):
        batch = search.propose(configs, n_configs=2)
        search.partial_fit(batch, durations[batch])
        assert search.stop_reason_ == ("soon" if n_measured == 6 else None)


def test_expected_improvement_by_name_is_the_default(pools):
    configs, durations = pools.tiles()
    runs = [
        ActiveConfigSearch(acquisition=name, random_state=0).fit(configs, durations)
        for name in ("auto", "expected_improvement", "greedy")
    ]
    assert_same_search(runs[0], runs[1])
    assert runs[0].results_["index"].tolist() != runs[2].results_["index"].tolist()


@pytest.mark.parametrize("design", ["centred", "stratified", "random"])
def test_initial_designs_have_names(pools, design):
    configs, _ = pools.tiles()
    search = ActiveConfigSearch(initial_design=design, random_state=0)
    assert len(set(search.propose(configs).tolist())) == 6


@pytest.mark.parametrize("transform", ["speed", "log", "identity"])
def test_target_transforms_have_names(pools, transform):
    configs, durations = pools.tiles()
    search = ActiveConfigSearch(target_transform=transform, random_state=0)
    search.fit(configs, durations)
    assert search.best_duration_ <= 1.1 * durations.min()
    assert np.abs(search.predict(configs) / durations - 1).mean() < 0.5


@pytest.mark.parametrize(
    "parameters",
    [
        {"budget": 0},
        {"budget": 1.5},
        {"n_initial": 0},
        {"n_initial": "many"},
        {"batch_size": 0},
        {"initial_design": "best"},
        {"acquisition": "best"},
        {"stopping": "late"},
        {"prior": 1},
        {"time_budget": 0},
        {"vectorizer": 3},
        {"target_transform": "sqrt"},
        {"estimator": 3},
        {"random_state": "seed"},
        {"verbose": -1},
    ],
    ids=lambda parameters: "-".join(map(str, next(iter(parameters.items())))),
)
def test_wrong_parameters_are_refused(pools, parameters):
    configs, durations = pools.tiles()
    (name,) = parameters
    for call in (
        lambda search: search.fit(configs, durations),
        lambda search: search.propose(configs),
        lambda search: search.partial_fit(configs, durations),
    ):
        with pytest.raises(ValueError, match=f"'{name}' parameter"):
            call(ActiveConfigSearch(**parameters))


def test_default_initial_design_and_budget_suit_a_pool_of_one():
    search = ActiveConfigSearch().fit([{"BLOCK": 32}], [2.0])
    assert search.best_config_ == {"BLOCK": 32}
    assert search.n_measured_ == 1
    assert search.stop_reason_ == "all"
