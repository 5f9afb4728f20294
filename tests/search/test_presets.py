"""The dynamic filter against a second, plain implementation of its description.

The second one is written from the description alone, with loops and explicit
inverses. It draws from the same generator in the same order, so that whole searches
can be compared: what is measured, when it stops, and what is said about it.
"""

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import spearmanr

from fasta_learn import ActiveConfigSearch, ModelSelector, dynamic_filter_search
from fasta_learn.exceptions import AllConfigsFailedError
from fasta_learn.search import Convergence, EqualBatches, SoftmaxMarginal

CONSTANTS = {
    "production": {
        "r1": 0.30, "r1_floor": 0.10, "r1_low": 0.12, "base": 0.35, "high": 0.40,
        "low": 0.25, "rounds": 2, "margin": 2.0,
    },
    "reference": {
        "r1": 0.15, "r1_floor": 0.10, "r1_low": None, "base": 0.35, "high": 0.50,
        "low": None, "rounds": 5, "margin": 2.5,
    },
}  # fmt: skip
NEVER = {"compile_mode", "multibuffer", "split_k", "remain_programs", "using_programs"}


def features_of(configs):
    """Numeric keywords that vary, sorted by name, missing ones 0, in [0, 1]."""
    names = sorted({name for config in configs for name in config} - NEVER)
    columns = []
    for name in names:
        values = [config.get(name, 0) for config in configs]
        if all(type(v) in (int, float) for v in values) and len(set(values)) > 1:
            column = np.array(values, dtype=float)
            columns.append((column - column.min()) / (column.max() - column.min()))
    return np.array(columns).T.reshape(len(configs), len(columns))


def designs(X):
    """The five bases of the pool, the smallest first."""
    one, cols = np.ones(len(X)), list(X.T)
    n_features = len(cols)
    squares = [c**2 for c in cols]
    pairs = [cols[i] * cols[j] for i, j in combinations(range(n_features), 2)]
    cubes = [c**3 for c in cols]
    mixed = [
        cols[i] ** 2 * cols[j]
        for i in range(n_features)
        for j in range(n_features)
        if i != j
    ]
    triples = [
        cols[i] * cols[j] * cols[k] for i, j, k in combinations(range(n_features), 3)
    ]
    waves = [
        wave(order * np.pi * c)
        for c in cols
        for order in (1, 2)
        for wave in (np.sin, np.cos)
    ]
    parts = {
        "linear": [one, *cols],
        "quadratic": [one, *cols, *squares],
        "full": [one, *cols, *squares, *pairs],
        "fourier": [one, *cols, *waves],
        "cubic": [one, *cols, *squares, *pairs, *cubes, *mixed, *triples],
    }
    return {name: np.column_stack(columns) for name, columns in parts.items()}


def compete(X, rows, d):
    """Winner by leave-one-out rank correlation, its R2 and predictions."""
    best = None
    for name, design in designs(X).items():
        F, p = design[rows], design.shape[1]
        if name == "cubic" and not p < len(rows) / 2:
            continue
        inverse = np.linalg.inv(F.T @ F + 0.1 * np.eye(p))
        fitted = F @ inverse @ F.T @ d
        leverage = np.diag(F @ inverse @ F.T)
        left_out = d - (d - fitted) / np.maximum(1 - leverage, 0.01)
        score = spearmanr(d, left_out).statistic
        if best is None or score > best[0]:
            r2 = 1 - ((d - fitted) ** 2).sum() / ((d - d.mean()) ** 2).sum()
            best = score, name, float(np.clip(r2, 0, 1)), design @ inverse @ F.T @ d
    return best[1:]


def softmax_draw(rng, candidates, score, tau, size):
    weight = np.exp(-(score - score.min()) / tau)
    weight = np.maximum(weight, 1e-300)
    return rng.choice(candidates, size, replace=False, p=weight / weight.sum()).tolist()


def marginals(X, rows, d, candidates):
    score = np.zeros(len(candidates))
    for j in range(X.shape[1]):
        for place, i in enumerate(candidates):
            same = [t for r, t in zip(rows, d, strict=True) if X[r, j] == X[i, j]]
            score[place] += np.mean(same) if same else d.mean()
    return score


def stratified(rng, X, size):
    left, chosen = list(range(len(X))), []
    for j in sorted(range(X.shape[1]), key=lambda j: -len(set(X[:, j]))):
        for value in sorted(set(X[:, j])):
            if len(chosen) == size:
                return chosen
            fitting = [i for i in left if X[i, j] == value]
            if fitting:
                chosen.append(int(rng.choice(fitting)))
                left.remove(chosen[-1])
    return chosen + rng.choice(left, size - len(chosen), replace=False).tolist()


def budget(c, n, d):
    r1 = min(n, max(int(c["r1"] * n), int(c["r1_floor"] * n)))
    label = "base"
    if c["low"] and d <= 3 and n <= 150:
        label = "high"
    elif c["low"] and d >= 4 and n >= 150:
        label = "low"
        r1 = max(int(c["r1_low"] * n), int(c["r1_floor"] * n))
    elif d >= 4 and r1 / (1 + d) < 5:
        label = "high"
    r1 = max(1, r1)
    return max(int(c[label] * n), r1), r1


def trust(r2, margin, k):
    if k >= 3 or (margin >= 1 and r2 >= 0.5):
        return "high"
    if margin >= 1 or r2 >= 0.6:
        return "med"
    return "low" if k <= 1 and r2 < 0.3 else "med"


def histogram_distance(before, now):
    edges = np.linspace(now.min(), now.max(), 11)
    shares = [np.histogram(s, edges)[0] / len(s) for s in (before, now)]
    return np.abs(shares[0] - shares[1]).sum()


def plain_search(configs, durations, profile, seed):
    """Measured indices in order, round records and why it stopped."""
    c, rng, n = CONSTANTS[profile], np.random.RandomState(seed), len(configs)
    X = features_of(configs)
    n_features = X.shape[1]
    total, r1 = budget(c, n, n_features)
    order, records = stratified(rng, X, r1), []
    ends = []
    while True:
        ends.append(len(order))
        d_all = durations[order]
        ok = np.isfinite(d_all)
        rows, d = np.array(order)[ok], d_all[ok]
        left = np.setdiff1d(np.arange(n), order)
        if n_features == 0 or len(rows) < 2 * (1 + n_features):
            size = min(max(int(c["high"] * n), len(order)), n) - len(order)
            order += rng.choice(left, size, replace=False).tolist()
            return order, records, "coverage"
        basis, r2, predicted = compete(X, rows, d)
        margin = predicted[left].min() / d.min()
        k = int((d <= 1.05 * d.min()).sum())
        records.append((basis, r2, margin, k, len(order), d.min()))
        if len(order) >= total:
            return order, records, "budget"
        before = durations[order[: ends[-2]]] if len(ends) > 1 else np.array([np.inf])
        before = before[np.isfinite(before)]
        if margin > c["margin"]:
            return order, records, "converged"
        if len(before) and histogram_distance(before, d) < 0.01:
            return order, records, "converged"
        if len(ends) == c["rounds"]:
            return order, records, "budget"
        size = min(total // c["rounds"], total - len(order))
        tau = 0.3 + 0.4 * (1 - r2) * min(1, k / 4)
        half = size // 2 if n_features >= 3 else 0
        batch = softmax_draw(rng, left, predicted[left], tau, size - half)
        if n_features >= 3:
            score = marginals(X, rows, d, left)
            batch += softmax_draw(rng, left, score, 0.3, half)
        order += list(dict.fromkeys(batch))


def random_pool(seed, n_features, n_pool, failed, spread, outliers=0):
    """A rough landscape over random levels, some of it failing."""
    rng = np.random.default_rng(seed)
    names = ["RBLOCK", "XBLOCK", "num_warps", "num_stages", "YBLOCK"][:n_features]
    levels = rng.integers(3, 9, n_features)
    found = {}
    while len(found) < n_pool:
        place = tuple(rng.integers(0, levels).tolist())
        config = {m: 2**i for m, i in zip(names, place, strict=True)}
        config |= {"tag": len(found), "fast": True, "kind": "a", "fixed": 7}
        found.setdefault(place, {k: v for k, v in config.items() if k != "tag"})
        if len(found) == np.prod(levels):
            break
    configs = list(found.values())
    X = features_of(configs)
    durations = 1 + spread * ((X - rng.random(n_features)) ** 2).sum(axis=1)
    durations *= 1 + 0.1 * rng.random(len(configs))
    durations[rng.random(len(configs)) < failed] = np.inf
    durations[rng.permutation(len(configs))[:outliers]] /= 10
    return configs, durations


CASES = [
    # n_features, n_pool, failed, spread, outliers
    (1, 8, 0.0, 1.0),
    (2, 60, 0.0, 1.0),
    (2, 40, 0.4, 0.3),
    (3, 150, 0.1, 2.0),
    (3, 200, 0.0, 0.5),
    (4, 90, 0.0, 1.0),
    (4, 300, 0.2, 3.0),
    (5, 250, 0.0, 1.0),
    (5, 30, 0.3, 1.0),
    (3, 150, 0.1, 1.0, 5),
]


@pytest.mark.parametrize("profile", list(CONSTANTS))
@pytest.mark.parametrize("case", CASES, ids=str)
def test_search_follows_the_plain_implementation(profile, case):
    for seed in range(6):
        configs, durations = random_pool(seed, *case)
        order, records, reason = plain_search(configs, durations, profile, seed)
        search = dynamic_filter_search(profile, random_state=seed)
        search.fit(configs, durations)
        assert search.results_["index"].tolist() == order
        if reason == "coverage":
            assert search.stop_reason_ in {"budget", "all"}
            continue
        assert search.stop_reason_ == reason
        assert [record["basis"] for record in search.rounds_] == [
            record[0] for record in records
        ]
        names = ["r2", "margin", "n_near_optimal", "n_measured", "best_duration"]
        assert search.confidence_label_ == trust(*records[-1][1:4])
        got = [[record[name] for name in names] for record in search.rounds_]
        assert_allclose(got, [record[1:] for record in records], rtol=1e-6)


def test_the_cases_take_every_path():
    reasons = {
        plain_search(*random_pool(seed, *case), profile, seed)[2]
        for profile in CONSTANTS
        for case in (CASES[0], CASES[1], CASES[-1])
        for seed in range(6)
    }
    assert reasons == {"budget", "converged", "coverage"}


@pytest.mark.parametrize("profile", list(CONSTANTS))
@pytest.mark.parametrize(("noise", "limit"), [(0.0, 0.035), (0.05, 0.06)])
@pytest.mark.parametrize("n_features", [2, 3])
def test_regret_on_smooth_bowls(pools, profile, noise, limit, n_features):
    regrets = []
    for seed in range(20):
        X, durations = pools.bowl(n_features, noise=noise, seed=seed)
        search = dynamic_filter_search(profile, random_state=seed).fit(X, durations)
        regrets.append(search.best_duration_ / durations.min() - 1)
    assert np.mean(regrets) <= limit


def test_the_default_search_is_no_worse_on_smooth_bowls(pools):
    for n_features in (2, 3):
        regrets = []
        for seed in range(10):
            X, durations = pools.bowl(n_features, noise=0.05, seed=seed)
            search = ActiveConfigSearch(random_state=seed).fit(X, durations)
            regrets.append(search.best_duration_ / durations.min() - 1)
        assert np.mean(regrets) <= 0.06


@pytest.mark.parametrize("profile", list(CONSTANTS))
@pytest.mark.parametrize(
    "configs",
    [
        [{"kind": f"k{i}"} for i in range(40)],
        [{"multibuffer": i, "split_k": 2} for i in range(40)],
    ],
    ids=["text only", "never features"],
)
def test_without_features_the_coverage_path_is_taken(profile, configs):
    durations = 1 + np.random.default_rng(0).random(40)
    search = dynamic_filter_search(profile, random_state=0).fit(configs, durations)
    n_high = int(CONSTANTS[profile]["high"] * 40)
    n_first = int(CONSTANTS[profile]["r1"] * 40)
    assert [record["n_measured"] for record in search.rounds_] == [n_first, n_high]
    assert search.n_measured_ == search.n_budget_ == n_high
    assert search.stop_reason_ == "budget"
    assert {record["basis"] for record in search.rounds_} == {None}
    assert search.results_["predicted"].isna().all()


@pytest.mark.parametrize("profile", list(CONSTANTS))
@pytest.mark.parametrize("n_pool", range(1, 12))
def test_tiny_pools_take_the_coverage_path(profile, n_pool):
    configs = [{"A": i, "B": (i * 7) % 5, "C": i % 3} for i in range(n_pool)]
    durations = np.arange(n_pool) + 1.0
    search = dynamic_filter_search(profile, random_state=0).fit(configs, durations)
    n_first = max(1, int(CONSTANTS[profile]["r1"] * n_pool))
    n_high = max(n_first, int(CONSTANTS[profile]["high"] * n_pool))
    assert search.n_measured_ == n_high
    assert search.results_["index"].is_unique
    assert search.best_duration_ == search.results_["duration"].min()
    assert search.confidence_label_ in {"high", "med", "low"}


@pytest.mark.parametrize("profile", list(CONSTANTS))
def test_failures_that_leave_too_few_samples_lead_to_coverage(profile):
    configs = [{"A": i % 10, "B": i // 10} for i in range(100)]
    search = dynamic_filter_search(profile, random_state=0)
    blind = search.propose(configs)
    durations = np.ones(100)
    durations[blind[5:]] = np.inf
    search.partial_fit(blind, durations[blind])
    rest = search.propose()
    assert len(blind) + len(rest) == CONSTANTS[profile]["high"] * 100
    assert search.rounds_[0]["basis"] is None


@pytest.mark.parametrize("profile", list(CONSTANTS))
def test_failed_configs_never_enter_the_model(profile):
    configs = [{"A": i % 12, "B": i // 12} for i in range(120)]
    durations = 1.0 + np.random.default_rng(0).random(120)
    durations[::4] = np.inf
    search = dynamic_filter_search(profile, random_state=0).fit(configs, durations)
    rows = search.results_["index"].to_numpy()
    rows = rows[np.isfinite(durations[rows])]
    X = features_of(configs)
    expected = ModelSelector().fit(X[rows], durations[rows]).predict(X)
    assert_allclose(search.predict(configs), expected, rtol=1e-8)


def test_all_failed_is_told_after_the_coverage_path():
    configs = [{"A": i % 12, "B": i // 12} for i in range(120)]
    search = dynamic_filter_search(random_state=0)
    with pytest.raises(AllConfigsFailedError, match="all 48 measured"):
        search.fit(configs, np.full(120, np.inf))


@pytest.mark.parametrize(
    ("profile", "margin", "max_rounds"), [("production", 2.0, 2), ("reference", 2.5, 5)]
)
def test_constants_are_those_of_the_table(profile, margin, max_rounds):
    search = dynamic_filter_search(profile)
    assert search.stopping == Convergence(margin, 0.01, 10, max_rounds)
    assert search.acquisition == SoftmaxMarginal(0.3, 0.4, 3, 1.05, 1e-300)
    assert search.batch_size == EqualBatches(max_rounds)
    assert search.estimator.alpha == 0.1
    assert search.estimator.scoring == "spearman"
    assert search.target_transform == "identity"


def test_overrides_replace_parameters():
    search = dynamic_filter_search("reference", n_initial=9, random_state=4, verbose=1)
    assert (search.n_initial, search.random_state, search.verbose) == (9, 4, 1)
    assert search.stopping == dynamic_filter_search("reference").stopping


def test_production_is_the_default_profile():
    default, named = dynamic_filter_search(), dynamic_filter_search("production")
    assert default.budget == named.budget
    assert default.batch_size == named.batch_size
    assert default.budget != dynamic_filter_search("reference").budget


def test_an_unknown_profile_is_refused():
    with pytest.raises(ValueError, match="'profile' parameter"):
        dynamic_filter_search("published")


def test_an_unknown_override_is_refused():
    with pytest.raises(TypeError, match="rounds"):
        dynamic_filter_search(rounds=3)
