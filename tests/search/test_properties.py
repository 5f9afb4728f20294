"""What holds for a search over any pool."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fasta_learn import ActiveConfigSearch, dynamic_filter_search
from fasta_learn.configs import config_key
from fasta_learn.exceptions import AllConfigsFailedError

SEARCHES = {
    "default": ActiveConfigSearch,
    "production": lambda **rest: dynamic_filter_search("production", **rest),
    "reference": lambda **rest: dynamic_filter_search("reference", **rest),
}

VALUES = st.one_of(
    st.integers(0, 12).map(lambda i: 2**i),
    st.integers(-3, 3),
    st.booleans(),
    st.sampled_from(["mn", "nm", "row", ""]),
    st.floats(-1e6, 1e6),
    st.none(),
)
KEYS = st.sampled_from(["BLOCK_M", "num_warps", "order", "multibuffer", "été"])
DURATIONS = st.one_of(
    st.floats(1e-9, 1e9),
    st.sampled_from([1e-9, 0.05, 1.0, 1e9]),
    st.just(np.inf),
)


@st.composite
def pools(draw):
    configs = draw(
        st.lists(
            st.dictionaries(KEYS, VALUES, max_size=4),
            min_size=1,
            max_size=30,
            unique_by=config_key,
        )
    )
    n_pool = len(configs)
    durations = draw(
        st.one_of(
            st.lists(DURATIONS, min_size=n_pool, max_size=n_pool),
            DURATIONS.map(lambda duration: [duration] * n_pool),
        )
    )
    return configs, np.array(durations)


@st.composite
def matrices(draw):
    n_pool, n_features = draw(st.integers(1, 40)), draw(st.integers(1, 5))
    seed = draw(st.integers(0, 2**31))
    n_levels = draw(
        st.lists(st.integers(1, 6), min_size=n_features, max_size=n_features)
    )
    rng = np.random.default_rng(seed)
    X = rng.integers(0, n_levels, (n_pool, n_features)).astype(float)
    X *= 10.0 ** draw(st.integers(-9, 9))
    durations = 10.0 ** rng.uniform(-9, 9, n_pool)
    durations[rng.random(n_pool) < draw(st.sampled_from([0, 0.3, 0.9, 1]))] = np.inf
    return X, durations


def check_search(search, X, durations):
    """What holds after any fit; failures have been told by an error."""
    results, n_pool = search.results_, len(durations)
    measured = results["index"].to_numpy()
    assert 1 <= search.n_measured_ == len(results) <= search.n_budget_ <= n_pool
    assert results["index"].is_unique
    assert np.isin(measured, np.arange(n_pool)).all()
    assert np.array_equal(results["duration"], durations[measured])
    assert np.array_equal(results["status"] == "ok", np.isfinite(durations[measured]))
    rounds = results["round"].to_numpy()
    assert np.all(np.diff(rounds) >= 0)
    assert np.array_equal(np.unique(rounds), np.arange(len(search.rounds_)) + 1)
    predicted = results["predicted"].to_numpy()
    assert not np.isinf(predicted).any()
    assert search.stop_reason_ in {"budget", "all", "converged"}
    if np.isfinite(durations[measured]).any():
        fastest = measured[np.argmin(durations[measured])]
        assert search.best_index_ == fastest
        assert search.best_duration_ == durations[fastest]
        assert 0 <= search.confidence_ <= 1
        assert search.confidence_label_ in {"high", "med", "low"}
    else:
        assert search.best_index_ is None
        assert search.confidence_ is None
    assert len(search.propose()) == 0


def fit(search, X, durations):
    try:
        search.fit(X, durations)
    except AllConfigsFailedError:
        assert np.isinf(search.results_["duration"]).all()
    check_search(search, X, durations)
    return search


@pytest.mark.parametrize("kind", SEARCHES)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(pool=pools(), seed=st.integers(0, 5))
def test_any_configs(kind, pool, seed):
    fit(SEARCHES[kind](random_state=seed), *pool)


@pytest.mark.parametrize("kind", SEARCHES)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(pool=matrices(), seed=st.integers(0, 5))
def test_any_matrix(kind, pool, seed):
    fit(SEARCHES[kind](random_state=seed), *pool)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(pool=matrices(), budget=st.one_of(st.integers(1, 50), st.floats(0.01, 1)))
def test_any_budget(pool, budget):
    X, durations = pool
    search = fit(ActiveConfigSearch(budget=budget, random_state=0), X, durations)
    wanted = budget if isinstance(budget, int) else int(budget * len(X))
    assert search.n_measured_ == max(1, min(wanted, len(X)))


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), pool=matrices())
def test_any_order_of_calls(data, pool):
    """Propose, tell, tell unasked and discard in any order."""
    X, durations = pool
    search = ActiveConfigSearch(budget=0.7, batch_size=3, random_state=0)
    search.propose(X, n_configs=1)
    open_, gone, told = set(search._engine.ledger.pending), set(), []
    for _ in range(12):
        action = data.draw(st.sampled_from(["propose", "tell", "discard", "unasked"]))
        if action == "propose":
            batch = search.propose(n_configs=data.draw(st.integers(1, 4))).tolist()
            assert not set(batch) & (open_ | gone | set(told))
            assert len(open_) + len(batch) + len(told) <= max(
                search.n_budget_, len(open_) + len(told)
            )
            open_ |= set(batch)
        elif action == "unasked":
            free = sorted(set(range(len(X))) - set(told))
            if free:
                index = data.draw(st.sampled_from(free))
                search.partial_fit([index], [durations[index]])
                told.append(index)
                open_ -= {index}
                gone -= {index}
        elif open_:
            some = sorted(
                data.draw(st.sets(st.sampled_from(sorted(open_)), min_size=1))
            )
            open_ -= set(some)
            if action == "tell":
                search.partial_fit(some, durations[some])
                told += some
            else:
                search.discard(some)
                gone |= set(some)
        assert search.results_["index"].tolist() == told
        assert set(search._engine.ledger.pending) == open_


@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.parametrize("duration", [1e-9, 0.05, 1e9])
@pytest.mark.parametrize("n_pool", [1, 2, 3, 40])
def test_equal_durations(kind, duration, n_pool):
    configs = [{"M": 2 ** (i % 8), "N": i // 8} for i in range(n_pool)]
    search = SEARCHES[kind](random_state=0)
    fit(search, configs, np.full(n_pool, duration))
    assert search.best_duration_ == duration


@pytest.mark.parametrize("kind", SEARCHES)
def test_durations_over_eighteen_decades(kind):
    configs = [{"M": 2 ** (i % 8), "N": i // 8} for i in range(64)]
    fit(SEARCHES[kind](random_state=0), configs, np.geomspace(1e-9, 1e9, 64))


@pytest.mark.parametrize("kind", SEARCHES)
def test_durations_of_zero(kind):
    configs = [{"M": 2 ** (i % 8), "N": i // 8} for i in range(64)]
    fit(SEARCHES[kind](random_state=0), configs, np.arange(64.0) % 7)


def test_a_pool_of_twenty_thousand():
    rng = np.random.default_rng(0)
    shape = (10, 10, 8, 5, 5)
    levels = np.indices(shape).reshape(5, -1).T
    assert len(levels) == 20_000
    durations = 1 + ((levels / shape - 0.4) ** 2).sum(axis=1)
    durations *= 1 + 0.02 * rng.random(20_000)
    durations[rng.random(20_000) < 0.1] = np.inf
    search = ActiveConfigSearch(budget=64, random_state=0)
    fit(search, levels.astype(float), durations)
    assert search.n_measured_ == 64
    # Blind draws come to the 64th part of the pool: its 312 fastest.
    assert (durations < search.best_duration_).sum() < 100
