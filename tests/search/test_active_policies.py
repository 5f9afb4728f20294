"""ActiveConfigSearch with its policies replaced, by name or by own functions."""

import numpy as np
import pytest

from fasta_learn import ActiveConfigSearch


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


def test_expected_improvement_by_name_is_the_default(pools, assert_same_search):
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
