"""Initial designs: what they cover, and that chance comes from the state alone."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fasta_learn.search import CentredDesign, RandomDesign, StratifiedDesign

DESIGNS = [RandomDesign(), StratifiedDesign(), CentredDesign()]


def grid(*n_levels):
    axes = [np.linspace(0, 1, n) for n in n_levels]
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(n_levels))


def stratify(features, available, n_configs, rng):
    """The specification: most unique values first, a random config for each."""
    left, chosen = list(available), []
    order = sorted(
        range(features.shape[1]), key=lambda j: -len(set(features[:, j].tolist()))
    )
    for j in order:
        for value in sorted(set(features[:, j].tolist())):
            fitting = [i for i in left if features[i, j] == value]
            if len(chosen) < n_configs and fitting:
                chosen.append(int(rng.choice(fitting)))
                left.remove(chosen[-1])
    rest = rng.choice(left, n_configs - len(chosen), replace=False) if left else []
    return [*chosen, *(int(i) for i in rest)]


@pytest.mark.parametrize("design", DESIGNS, ids=lambda d: type(d).__name__)
@pytest.mark.parametrize("n_configs", [1, 5, 20])
@pytest.mark.parametrize("shape", [(4, 5, 2), (40,), (1, 40), (2, 2, 2, 5), (40, 0)])
def test_configs_are_distinct_and_available(make_state, design, n_configs, shape):
    features = np.zeros((40, 0)) if shape == (40, 0) else grid(*shape)
    state = make_state(
        features, measured=range(5), durations=np.ones(5), pending=[7], gone=[8, 9]
    )
    chosen = design(state, n_configs)
    assert len(set(chosen.tolist())) == len(chosen) == n_configs
    assert np.isin(chosen, state.available).all()
    assert np.issubdtype(chosen.dtype, np.integer)


@pytest.mark.parametrize("design", DESIGNS, ids=lambda d: type(d).__name__)
def test_all_that_is_available_may_be_chosen(make_state, design):
    state = make_state(grid(4, 5), measured=[3], durations=[1.0])
    assert sorted(design(state, 19).tolist()) == state.available.tolist()


@pytest.mark.parametrize("design", DESIGNS, ids=lambda d: type(d).__name__)
def test_chance_comes_from_the_state(make_state, design):
    one, same, other = (
        design(make_state(grid(8, 9), path="initial", seed=seed), 12)
        for seed in (3, 3, 4)
    )
    assert_array_equal(one, same)
    assert one.tolist() != other.tolist()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_configs", [1, 4, 9, 17, 30])
def test_stratified_sample_follows_the_specification(make_state, n_configs, seed):
    rng = np.random.default_rng(seed)
    features = rng.integers(0, [3, 9, 2, 5], (40, 4)) / 8
    state = make_state(features, gone=[1, 2], seed=seed)
    expected = stratify(
        features, state.available, n_configs, np.random.RandomState(seed)
    )
    assert StratifiedDesign()(state, n_configs).tolist() == expected


def test_stratified_sample_has_every_value_of_every_feature(make_state):
    features = grid(3, 9, 2)
    chosen = StratifiedDesign()(make_state(features), 9 + 3 + 2)
    for column in features.T:
        assert set(column[chosen]) == set(column)


def test_stratified_sample_covers_the_longest_feature_first(make_state):
    features = grid(2, 9, 3)
    chosen = StratifiedDesign()(make_state(features), 9)
    assert len(set(features[chosen, 1])) == 9


def test_stratified_sample_of_a_pool_without_features_is_random(make_state):
    state = make_state(np.zeros((30, 0)), seed=5)
    expected = np.random.RandomState(5).choice(np.arange(30), 10, replace=False)
    assert_array_equal(StratifiedDesign()(state, 10), expected)


def test_random_sample_is_uniform(make_state):
    state = make_state(grid(10), gone=[4])
    counts = np.zeros(10)
    for _ in range(3000):
        counts[RandomDesign()(state, 3)] += 1
    assert counts[4] == 0
    # Each of nine has probability 1/3: 1000 in the mean, deviation 26.
    assert np.abs(np.delete(counts, 4) - 1000).max() < 5 * 26


def test_centred_sample_prefers_the_middle(make_state):
    features = grid(9, 9)
    state = make_state(features)
    design = CentredDesign(concentration=12.0, balance=0.0)
    distances = [np.abs(features[design(state, 5)] - 0.5).mean() for _ in range(100)]
    assert np.mean(distances) < 0.7 * np.abs(features - 0.5).mean()


def test_centred_sample_follows_its_weights(make_state):
    # One feature: weights exp(-c x^2) of the squared distance from the median.
    features = grid(5)
    state = make_state(features)
    design = CentredDesign(concentration=4.0, balance=1.0)
    counts = np.bincount([int(design(state, 1)[0]) for _ in range(4000)], minlength=5)
    weight = np.exp(-4.0 * np.array([0.25, 0.0625, 0, 0.0625, 0.25]))
    expected = 4000 * weight / weight.sum()
    assert np.all(np.abs(counts - expected) < 5 * np.sqrt(expected))


def test_centred_sample_is_balanced_over_values(make_state):
    design = CentredDesign(concentration=1.0, balance=50.0)
    for seed in range(10):
        state = make_state(grid(2, 2, 8), seed=seed)
        chosen = state.features[design(state, 24)]
        for column in chosen.T:
            counts = np.unique(column, return_counts=True)[1]
            assert np.ptp(counts) <= 2


def test_centred_sample_avoids_values_that_are_taken(make_state):
    design = CentredDesign(concentration=1.0, balance=50.0)
    features = grid(8)
    state = make_state(features, measured=[3], durations=[1.0], pending=[4, 5])
    assert sorted(design(state, 5).tolist()) == [0, 1, 2, 6, 7]
    twice = np.repeat(features, 2, axis=0)
    state = make_state(twice, measured=[6], durations=[1.0], pending=[8, 10])
    assert not set(twice[design(state, 5), 0]) & set(twice[[6, 8, 10], 0])
