"""Leave-one-out predictions against refitting and against higher precision."""

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fasta_learn.bases import (
    CubicBasis,
    FourierBasis,
    LinearBasis,
    PolynomialBasis,
    QuadraticBasis,
)
from fasta_learn.model_selection import loo_predictions
from fasta_learn.model_selection._leave_one_out import ridge_coefficients

NESTED = [LinearBasis, QuadraticBasis, PolynomialBasis, CubicBasis]


def refit(design, durations, alpha, weight):
    """Ridge by least squares on stacked rows, not by normal equations."""
    root = np.sqrt(weight)
    n_terms = design.shape[1]
    rows = np.vstack([design * root[:, None], np.sqrt(alpha) * np.eye(n_terms)])
    target = np.concatenate([durations * root, np.zeros(n_terms)])
    return np.linalg.lstsq(rows, target, rcond=None)[0]


def refit_without_each(design, durations, alpha, weight=None):
    weight = np.ones(len(durations)) if weight is None else weight
    predictions = []
    for i in range(len(durations)):
        kept = np.delete(np.arange(len(durations)), i)
        coef = refit(design[kept], durations[kept], alpha, weight[kept])
        predictions.append(design[i] @ coef)
    return np.array(predictions)


def refit_in_high_precision(design, durations, alpha, clip=None):
    """Refit without each sample by 80 digits, or clip what one full fit leaves."""
    with mpmath.workdps(80):
        rows, target = mpmath.matrix(design.tolist()), mpmath.matrix(list(durations))
        penalty = mpmath.mpf(alpha) * mpmath.eye(design.shape[1])
        whole = rows.T * rows + penalty
        predictions = []
        for i in range(len(durations)):
            row = rows[i, :]
            gram = whole if clip else whole - row.T * row
            moment = rows.T * target - (0 if clip else target[i]) * row.T
            predicted = (row * mpmath.lu_solve(gram, moment))[0]
            if clip:
                spare = 1 - (row * mpmath.lu_solve(whole, row.T))[0]
                error = target[i] - predicted
                predicted = target[i] - error / max(spare, mpmath.mpf(clip))
            predictions.append(float(predicted))
    return np.array(predictions)


def make_nested_design(n_samples, n_features=3, seed=0):
    rng = np.random.default_rng(seed)
    design = CubicBasis().fit_transform(rng.random((n_samples, n_features)))
    durations = rng.gamma(2.0, size=n_samples)
    return design, durations, [basis.n_terms(n_features) for basis in NESTED]


def bad_designs():
    rng = np.random.default_rng(5)
    X = rng.random((9, 2))
    near = np.hstack([X, X[:, :1] + 1e-9 * rng.standard_normal((9, 1))])
    levels = np.array([[a, b] for a in (0, 0.5, 1) for b in (0, 0.5, 1)])
    return {
        "duplicate columns": np.hstack([np.ones((9, 1)), X, X]),
        "duplicate columns, wider than long": np.hstack([np.ones((9, 1)), *[X] * 5]),
        "near-duplicate columns": LinearBasis().fit_transform(near),
        "near-duplicates expanded": PolynomialBasis().fit_transform(near),
        "three levels, cubic": CubicBasis().fit_transform(levels),
        "three levels, Fourier": FourierBasis().fit_transform(levels),
        "three levels, all rows twice": np.repeat(
            QuadraticBasis().fit_transform(levels[:5]), 2, axis=0
        ),
        "constant column": np.hstack([np.ones((9, 2)), X]),
        "zero column": np.hstack([np.ones((9, 1)), np.zeros((9, 1)), X]),
    }


BAD_DESIGNS = bad_designs()


@pytest.mark.parametrize("n_samples", [8, 12, 25, 60])
@pytest.mark.parametrize("alpha", [1e-3, 0.1, 1.0, 1e3])
def test_every_prefix_matches_refitting(alpha, n_samples):
    design, durations, ends = make_nested_design(n_samples)
    rows = loo_predictions(design, durations, alpha, ends, max_leverage=1.0)
    for row, end in zip(rows, ends, strict=True):
        expected = refit_without_each(design[:, :end], durations, alpha)
        assert_allclose(row, expected, rtol=1e-8)


@pytest.mark.parametrize("n_samples", [8, 25])
@pytest.mark.parametrize("alpha", [1e-3, 0.1, 1e3])
def test_every_prefix_matches_weighted_refitting(alpha, n_samples):
    design, durations, ends = make_nested_design(n_samples)
    weight = np.random.default_rng(1).exponential(size=n_samples)
    rows = loo_predictions(
        design, durations, alpha, ends, sample_weight=weight, max_leverage=1.0
    )
    for row, end in zip(rows, ends, strict=True):
        expected = refit_without_each(design[:, :end], durations, alpha, weight)
        assert_allclose(row, expected, rtol=1e-8)


@pytest.mark.parametrize("n_samples", [8, 25])
def test_samples_of_weight_zero_are_predicted_by_the_others(n_samples):
    design, durations, ends = make_nested_design(n_samples)
    weight = np.ones(n_samples)
    weight[[1, 4]] = 0
    rows = loo_predictions(
        design, durations, 0.1, ends, sample_weight=weight, max_leverage=1.0
    )
    for row, end in zip(rows, ends, strict=True):
        expected = refit_without_each(design[:, :end], durations, 0.1, weight)
        assert_allclose(row, expected, rtol=1e-8)


@pytest.mark.parametrize("alpha", [1e-10, 1e-6, 0.1])
@pytest.mark.parametrize("kind", BAD_DESIGNS)
def test_bad_designs_match_high_precision(kind, alpha):
    design = BAD_DESIGNS[kind]
    durations = np.random.default_rng(2).gamma(2.0, size=len(design))
    [row] = loo_predictions(design, durations, alpha, max_leverage=1.0)
    expected = refit_in_high_precision(design, durations, alpha)
    scale = np.abs(expected).max()
    assert_allclose(row, expected, rtol=1e-6, atol=1e-6 * scale)


@pytest.mark.parametrize("alpha", [1e-10, 0.1])
@pytest.mark.parametrize("kind", BAD_DESIGNS)
def test_clipped_predictions_match_high_precision(kind, alpha):
    design = BAD_DESIGNS[kind]
    durations = np.random.default_rng(2).gamma(2.0, size=len(design))
    [row] = loo_predictions(design, durations, alpha)
    expected = refit_in_high_precision(design, durations, alpha, clip="0.01")
    assert_allclose(row, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("n_samples", [6, 30])
def test_tiny_alpha_is_accurate_on_good_designs(n_samples):
    design, durations, ends = make_nested_design(n_samples)
    rows = loo_predictions(design, durations, 1e-10, ends[:3], max_leverage=1.0)
    for row, end in zip(rows, ends, strict=False):
        expected = refit_in_high_precision(design[:, :end], durations, 1e-10)
        assert_allclose(row, expected, rtol=1e-6)


@pytest.mark.parametrize("n_samples", [6, 8, 25])
def test_without_penalty_the_refit_of_least_norm_counts(n_samples):
    design, durations, ends = make_nested_design(n_samples)
    rows = loo_predictions(design, durations, 0.0, ends, max_leverage=1.0)
    for row, end in zip(rows, ends, strict=True):
        expected = refit_without_each(design[:, :end], durations, 0.0)
        assert_allclose(row, expected, rtol=1e-6)


@pytest.mark.parametrize("kind", sorted(k for k in BAD_DESIGNS if "near" not in k))
def test_without_penalty_any_rank_is_fine(kind):
    design = BAD_DESIGNS[kind]
    durations = np.random.default_rng(2).gamma(2.0, size=len(design))
    [row] = loo_predictions(design, durations, 0.0, max_leverage=1.0)
    expected = refit_without_each(design, durations, 0.0)
    assert_allclose(row, expected, rtol=1e-7, atol=1e-7)


def test_without_penalty_a_column_of_one_sample_drops_out_with_it():
    design = np.array([[1, 0.0], [1, 0], [1, 0], [1, 1]])
    durations = np.array([1.0, 2.0, 6.0, 9.0])
    [row] = loo_predictions(design, durations, 0.0, max_leverage=1.0)
    assert_allclose(row, [4, 3.5, 1.5, 3], rtol=1e-12)


def test_without_penalty_clipping_returns_an_interpolated_sample_itself():
    [row] = loo_predictions(np.eye(3), [1.0, 2.0, 3.0], 0.0)
    assert_allclose(row, [1, 2, 3])


def test_leave_one_out_mean_by_hand():
    [row] = loo_predictions(np.ones((3, 1)), [1, 2, 6], 0.0)
    assert_allclose(row, [4, 3.5, 1.5])


def test_the_intercept_is_penalised():
    # Left out, two ones remain: coefficient (a + b) / (2 + alpha).
    [row] = loo_predictions(np.ones((3, 1)), [1, 2, 6], 2.0)
    assert_allclose(row, [2, 7 / 4, 3 / 4])


def test_clip_by_hand():
    # H = 1/(1 + alpha) = 0.8 clipped at 0.5: e / 0.5 instead of e / 0.2.
    [row] = loo_predictions([[1.0]], [10.0], 0.25, max_leverage=0.5)
    assert_allclose(row, [10 - 2 / 0.5])


def test_clip_is_off_by_one_and_by_none():
    design, durations, ends = make_nested_design(8)
    assert_array_equal(
        loo_predictions(design, durations, 1e-3, ends, max_leverage=None),
        loo_predictions(design, durations, 1e-3, ends, max_leverage=1.0),
    )


@pytest.mark.parametrize("n_samples", [8, 25])
def test_prefixes_do_not_depend_on_their_company(n_samples):
    design, durations, ends = make_nested_design(n_samples)
    together = loo_predictions(design, durations, 0.1, ends)
    alone = [loo_predictions(design[:, :end], durations, 0.1)[0] for end in ends]
    assert_allclose(together, alone, rtol=1e-10)


def test_ends_may_come_in_any_order_and_twice():
    design, durations, _ = make_nested_design(12)
    shuffled = loo_predictions(design, durations, 0.1, [20, 4, 20, 7, 4])
    sorted_rows = loo_predictions(design, durations, 0.1, [4, 7, 20])
    assert_allclose(shuffled, sorted_rows[[2, 0, 2, 1, 0]], rtol=1e-10)


def test_scaling_the_durations_scales_the_predictions():
    design, durations, ends = make_nested_design(25)
    assert_array_equal(
        loo_predictions(design, 2.0**-20 * durations, 0.1, ends),
        2.0**-20 * loo_predictions(design, durations, 0.1, ends),
    )


def test_inputs_are_left_alone():
    design, durations, ends = make_nested_design(12)
    weight = np.ones(12)
    before = design.copy(), durations.copy()
    loo_predictions(design, durations, 0.1, ends, sample_weight=weight)
    assert_array_equal(design, before[0])
    assert_array_equal(durations, before[1])


@pytest.mark.parametrize("n_samples", [6, 40])
@pytest.mark.parametrize("alpha", [1e-3, 0.1, 10.0])
def test_coefficients_match_least_squares(alpha, n_samples):
    design, durations, _ = make_nested_design(n_samples)
    weight = np.random.default_rng(3).exponential(size=n_samples)
    coef = ridge_coefficients(design, durations, alpha, weight)
    expected = refit(design, durations, alpha, weight)
    assert_allclose(coef, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kind", BAD_DESIGNS)
def test_coefficients_without_penalty_have_least_norm(kind):
    design = BAD_DESIGNS[kind]
    durations = np.random.default_rng(2).gamma(2.0, size=len(design))
    coef = ridge_coefficients(design, durations, 0.0)
    expected = np.linalg.lstsq(design, durations, rcond=1e-14)[0]
    scale = np.abs(expected).max()
    assert_allclose(coef, expected, rtol=1e-6, atol=1e-6 * scale)


def test_coefficients_ignore_samples_of_weight_zero():
    design, durations, _ = make_nested_design(30)
    weight = np.r_[0.0, np.ones(29)]
    assert_allclose(
        ridge_coefficients(design, durations, 0.1, weight),
        ridge_coefficients(design[1:], durations[1:], 0.1),
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": -1.0}, "alpha is -1.0"),
        ({"alpha": np.nan}, "alpha is nan"),
        ({"alpha": np.inf}, "alpha is inf"),
        ({"ends": [1, 3]}, r"ends\[1\] is 3"),
        ({"ends": [0]}, r"ends\[0\] is 0"),
        ({"ends": [1.5]}, r"ends\[0\] is 1.5"),
        ({"max_leverage": 0.0}, "max_leverage is 0.0"),
        ({"max_leverage": 1.1}, "max_leverage is 1.1"),
        ({"sample_weight": [1, -2, 1]}, r"sample_weight\[1\] is -2"),
        ({"sample_weight": [0, 0, 0]}, "zero everywhere"),
        ({"sample_weight": [1, 1]}, "inconsistent numbers of samples"),
        ({"durations": [1, 2]}, "inconsistent numbers of samples"),
        ({"durations": [1, 2, np.nan]}, "durations contains NaN"),
        ({"design": [[1, np.inf]] * 3}, "design contains infinity"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    right = {"design": np.eye(3, 2), "durations": [1, 2, 3], "alpha": 0.1}
    with pytest.raises(ValueError, match=message):
        loo_predictions(**(right | arguments))
