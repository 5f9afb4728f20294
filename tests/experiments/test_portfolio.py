from itertools import combinations

import numpy as np
import pytest

from fasta_learn.configs import Pool
from fasta_learn.experiments import _portfolio, portfolio

CONFIGS = [{"B": i} for i in range(9)]


def make_pools(seed, n_pools=12, n_configs=9, failing=0.2, missing=0.2):
    rng = np.random.default_rng(seed)
    pools = {}
    for number in range(n_pools):
        durations = 1 + rng.integers(0, 12, n_configs) / 50
        durations[1:][rng.random(n_configs - 1) < failing] = np.inf
        kept = np.flatnonzero(np.r_[True, rng.random(n_configs - 1) >= missing])
        kept = rng.permutation(kept)
        configs = [CONFIGS[i] for i in kept]
        pools[f"p{number}"] = Pool(configs, durations[kept])
    return pools


def value(pools, configs, tolerance=1.05):
    """Covered pools, then the mean share of the best speed, by the definition."""
    n_covered, speed = 0, 0.0
    for pool in pools.values():
        found = min(
            (
                d
                for c, d in zip(pool.configs, pool.durations, strict=True)
                if c in configs
            ),
            default=np.inf,
        )
        n_covered += found <= tolerance * pool.best_duration
        speed += pool.best_duration / found
    return n_covered, speed / len(pools)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(4))
def test_best_of_all_portfolios(k, seed):
    pools = make_pools(seed)
    found = portfolio(pools, k)
    best = max(value(pools, subset) for subset in combinations(CONFIGS, k))
    assert found.exact
    assert value(pools, found.configs) == pytest.approx(best)
    assert found.coverage == best[0] / len(pools)


@pytest.mark.parametrize("seed", range(8))
def test_greedy_with_exchanges_is_close_to_the_best(monkeypatch, seed):
    monkeypatch.setattr(_portfolio, "_EXHAUSTIVE", 0)
    pools = make_pools(seed)
    found = portfolio(pools, 3)
    best = max(value(pools, subset) for subset in combinations(CONFIGS, 3))
    assert not found.exact
    assert value(pools, found.configs)[0] >= best[0] - 1
    # No single exchange is better.
    for place in range(3):
        others = found.configs[:place] + found.configs[place + 1 :]
        for config in CONFIGS:
            exchanged = value(pools, [*others, config])
            assert exchanged <= tuple(v + 1e-9 for v in value(pools, found.configs))


def test_exchange_repairs_a_greedy_mistake(monkeypatch):
    monkeypatch.setattr(_portfolio, "_EXHAUSTIVE", 0)
    # B = 0 is near in four pools, B = 1 and 2 together in all six.
    near = [{1: 1}, {0: 1, 1: 1}, {0: 1, 1: 1}, {0: 1, 2: 1}, {0: 1, 2: 1}, {2: 1}]
    pools = [
        Pool(CONFIGS[:3], [1.0 if i in of else 2.0 for i in range(3)]) for of in near
    ]
    found = portfolio(pools, 2)
    assert {config["B"] for config in found.configs} == {1, 2}
    assert found.coverage == 1.0


def test_table_tells_which_config_serves_a_pool():
    pools = {
        "x": Pool(CONFIGS[:3], [1.0, 2.0, 4.0]),
        "y": Pool(CONFIGS[:3], [1.5, 1.0, 4.0]),
        "z": Pool(CONFIGS[:3], [1.02, 2.0, 1.0]),
    }
    found = portfolio(pools, 2)
    assert found.configs == [{"B": 0}, {"B": 1}]
    table = found.table.set_index("pool")
    assert table["position"].tolist() == [0, 1, 0]
    assert table["regret"].tolist() == pytest.approx([0.0, 0.0, 0.02])


def test_uncovered_pools_have_their_regret():
    pools = {
        "x": Pool(CONFIGS[:2], [1.0, 2.0]),
        "y": Pool(CONFIGS[:2], [1.0, 2.0]),
        "z": Pool(CONFIGS[:2], [1.5, 1.0]),
        "w": Pool(CONFIGS[1:3], [1.0, 2.0]),
        "v": Pool(CONFIGS[:2], [1.0, 2.0]),
    }
    table = portfolio(pools, 1).table.set_index("pool")
    assert table["covered"].tolist() == [True, True, False, False, True]
    assert table["regret"].tolist() == [0.0, 0.0, 0.5, np.inf, 0.0]


def test_most_useful_config_comes_first():
    pools = [Pool(CONFIGS[:2], [2.0, 1.0])] * 1 + [
        Pool(CONFIGS[:2], [1.0, 2.0], name=f"n{i}") for i in range(3)
    ]
    assert portfolio(pools, 2).configs == [{"B": 0}, {"B": 1}]


def test_of_equal_coverage_the_faster_is_taken():
    pools = {
        "x": Pool(CONFIGS[:3], [1.03, 1.0, 1.05]),
        "y": Pool(CONFIGS[:3], [1.03, 1.04, 1.0]),
    }
    # All cover both; losses of speed .029 twice, 0 and .038, .048 and 0.
    assert portfolio(pools, 1).configs == [{"B": 1}]


def test_tolerance_of_exactly_five_percent_covers():
    pools = {"x": Pool(CONFIGS[:2], [1.05, 1.0]), "y": Pool(CONFIGS[:2], [1.0, 9.0])}
    assert portfolio(pools, 1).coverage == 1.0
    assert portfolio(pools, 1, tolerance=1.04).coverage == 0.5


def test_configs_are_the_same_by_their_parameters():
    pools = {
        "x": Pool([{"B": 1, "W": 2}, {"B": 2, "W": 2}], [1.0, 2.0]),
        "y": Pool([{"W": 2, "B": 1}, {"W": 2, "B": 2}], [1.0, 2.0]),
    }
    found = portfolio(pools, 1)
    assert found.configs == [{"B": 1, "W": 2}]
    assert found.coverage == 1.0


def test_more_than_there_are_gives_all():
    found = portfolio(Pool(CONFIGS[:2], [1.0, 2.0], name="x"), 5)
    assert found.configs == [{"B": 0}, {"B": 1}]


@pytest.mark.parametrize("k", [0, -1, 1.5])
def test_wrong_number_is_refused(k):
    with pytest.raises(ValueError, match="k must be"):
        portfolio(make_pools(0), k)


@pytest.mark.parametrize("tolerance", [0.95, float("nan")])
def test_wrong_tolerance_is_refused(tolerance):
    with pytest.raises(ValueError, match="tolerance must be"):
        portfolio(make_pools(0), 1, tolerance=tolerance)
