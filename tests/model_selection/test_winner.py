"""The winner against the same competition held in higher precision."""

from itertools import combinations, permutations, product
from math import prod

import mpmath
import numpy as np
import pytest

from fasta_learn.model_selection import ModelSelector

NAMES = ["linear", "quadratic", "full", "fourier", "cubic"]


def exact_terms(row):
    """Expand one row by each basis, term by term."""
    features = range(len(row))
    linear = [mpmath.mpf(1), *row]
    squares = [x**2 for x in row]
    pairs = [row[i] * row[j] for i, j in combinations(features, 2)]
    third = [x**3 for x in row]
    third += [row[i] ** 2 * row[j] for i, j in permutations(features, 2)]
    third += [prod(row[i] for i in triple) for triple in combinations(features, 3)]
    waves = [
        f(k * x) for k in (1, 2) for f in (mpmath.sinpi, mpmath.cospi) for x in row
    ]
    full = linear + squares + pairs
    return [linear, linear + squares, full, linear + waves, full + third]


def exact_predictions(design, durations, alpha, clip):
    rows, target = mpmath.matrix(design), mpmath.matrix(durations)
    gram = rows.T * rows + alpha * mpmath.eye(rows.cols)
    hat = rows * mpmath.inverse(gram) * rows.T
    errors = target - hat * target
    return [
        target[i] - errors[i] / max(1 - hat[i, i], clip) for i in range(len(durations))
    ]


def exact_ranks(values):
    """Average ranks of twice the rank, so that they stay whole numbers."""
    rounded = [mpmath.nstr(value, 25, min_fixed=0, max_fixed=0) for value in values]
    order = [mpmath.mpf(text) for text in rounded]
    return [sum((b < a) - (b > a) for b in order) for a in order]


def exact_spearman(durations, predictions):
    first, second = exact_ranks(durations), exact_ranks(predictions)
    spread = sum(r * r for r in first) * sum(r * r for r in second)
    product = sum(a * b for a, b in zip(first, second, strict=True))
    return mpmath.mpf(product) / mpmath.sqrt(spread) if spread else mpmath.mpf(0)


def exact_winner(X, y, alpha, scoring):
    """Rank all bases with 40 digits; of equal scores the smallest basis wins."""
    with mpmath.workdps(40):
        expanded = [exact_terms([mpmath.mpf(x) for x in row]) for row in X.tolist()]
        durations = [mpmath.mpf(d) for d in y.tolist()]
        entries = []
        for place, name in enumerate(NAMES):
            design = [bases[place] for bases in expanded]
            n_terms = len(design[0])
            if name == "cubic" and not n_terms < len(y) / 2:
                continue
            predictions = exact_predictions(
                design, durations, mpmath.mpf(alpha), mpmath.mpf("0.01")
            )
            if scoring == "spearman":
                score = exact_spearman(durations, predictions)
            else:
                pairs = zip(durations, predictions, strict=True)
                score = -sum((d - p) ** 2 for d, p in pairs) / len(y)
            entries.append((name, n_terms, score))
        best = max(score for *_, score in entries)
        tied = [entry for entry in entries if best - entry[2] < mpmath.mpf("1e-25")]
        return min(tied, key=lambda entry: entry[1])[0], float(best)


def make_problem(seed):
    """Draw tiles of few levels or scattered points, durations with ties or not."""
    rng = np.random.default_rng(seed)
    n_features = rng.integers(1, 4)
    n_samples = rng.integers(3, 12) if n_features == 3 else rng.integers(3, 24)
    n_levels = rng.choice([2, 3, 4, 5, 1000])
    X = rng.integers(0, n_levels, size=(n_samples, n_features)) / (n_levels - 1)
    if rng.random() < 0.3:
        X[:, -1] = X[:, 0]
    y = 0.05 * np.exp(
        rng.standard_normal(n_samples) + X @ rng.standard_normal(len(X.T))
    )
    y = np.round(y, 2) + 0.01 if rng.random() < 0.3 else y
    _, distinct = np.unique(np.column_stack([X, y]), axis=0, return_index=True)
    return X[distinct], y[distinct]


@pytest.mark.parametrize("scoring", ["spearman", "press"])
@pytest.mark.parametrize("alpha", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("first_seed", range(0, 40, 10))
def test_winner_is_the_exact_winner(first_seed, alpha, scoring):
    for seed in range(first_seed, first_seed + 10):
        X, y = make_problem(seed)
        selector = ModelSelector(alpha=alpha, scoring=scoring).fit(X, y)
        name, score = exact_winner(X, y, alpha, scoring)
        assert (seed, selector.best_basis_) == (seed, name)
        assert selector.best_score_ == pytest.approx(score, rel=1e-8, abs=1e-12)


def make_symmetric_problem(seed):
    """Draw a full grid whose mirror images take equally long: exact ties abound."""
    rng = np.random.default_rng(seed)
    levels = np.linspace(0, 1, rng.integers(2, 5))
    X = np.array(list(product(levels, repeat=rng.integers(1, 3))))
    distance = np.round(12 * np.abs(X - 0.5).sum(axis=1)).astype(int)
    y = rng.integers(1, 6, size=distance.max() + 1)[distance].astype(float)
    y[rng.integers(len(y))] += rng.integers(2)
    return X, y


@pytest.mark.parametrize("alpha", [1e-3, 0.1])
@pytest.mark.parametrize("seed", range(20))
def test_rounding_does_not_decide_between_symmetric_samples(seed, alpha):
    X, y = make_symmetric_problem(seed)
    selector = ModelSelector(alpha=alpha).fit(X, y)
    name, score = exact_winner(X, y, alpha, "spearman")
    assert selector.best_basis_ == name
    assert selector.best_score_ == pytest.approx(score, abs=1e-12)
