"""ActiveConfigSearch as a whole: what is measured, repeated and reported."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from fasta_learn import ActiveConfigSearch, dynamic_filter_search
from fasta_learn.exceptions import AllConfigsFailedError
from fasta_learn.oracles import BaseOracle, Measurement


@pytest.mark.parametrize("failed", [0.0, 0.3])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_fit_equals_the_loop(pools, make_search, seed, failed, assert_same_search):
    configs, durations = pools.tiles(failed=failed, seed=seed)
    fitted = make_search(random_state=seed).fit(configs, durations)
    told = pools.run(make_search(random_state=seed), configs, durations)
    assert fitted.n_measured_ > 10
    assert_same_search(fitted, told)


@pytest.mark.parametrize("batch_size", ["auto", 1, 3, 20])
def test_fit_equals_the_loop_at_every_batch_size(pools, batch_size, assert_same_search):
    X, durations = pools.bowl(3, noise=0.05)
    search = ActiveConfigSearch(batch_size=batch_size, random_state=0)
    fitted = clone(search).fit(X, durations)
    assert_same_search(fitted, pools.run(clone(search), X, durations))


def test_fit_equals_the_loop_with_a_shared_generator(pools, assert_same_search):
    configs, durations = pools.tiles()
    fitted = ActiveConfigSearch(random_state=np.random.RandomState(5))
    told = ActiveConfigSearch(random_state=np.random.RandomState(5))
    assert_same_search(
        fitted.fit(configs, durations), pools.run(told, configs, durations)
    )


def test_fit_forgets_an_earlier_search(pools, make_search, assert_same_search):
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


def test_all_failed_is_an_error_with_counts_by_reason(pools, make_search):
    class Broken(BaseOracle):
        def measure(self, configs):
            return [
                Measurement.failed("compile_error", "no such tile")
                if config["BLOCK_M"] > 64
                else Measurement.failed("timeout", None)
                for config in configs
            ]

    configs, _ = pools.tiles()
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
