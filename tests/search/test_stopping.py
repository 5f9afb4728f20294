"""The stops and confidence labels of the dynamic filter on constructed cases."""

import numpy as np
import pytest

from fasta_learn.search import Convergence
from fasta_learn.search._stopping import label_confidence


@pytest.fixture
def ask(make_state):
    """Ask a rule after two rounds of these durations and this margin."""

    def ask(rule, first, second=(), margin=1.0):
        durations = [*first, *second]
        state = make_state(
            np.zeros((100, 1)), measured=range(len(durations)), durations=durations
        )
        rounds = [{"n_measured": len(first), "margin": np.nan}]
        if second:
            rounds.append({"n_measured": len(durations)})
        rounds[-1]["margin"] = margin
        return rule(state, rounds)

    return ask


@pytest.mark.parametrize(
    ("margin", "expected"),
    [(1.0, None), (2.0, None), (2.01, "converged"), (np.inf, "converged"),
     (np.nan, None), (-3.0, None)],
)  # fmt: skip
def test_margin_stop(ask, margin, expected):
    assert ask(Convergence(2.0), [1, 2, 3], margin=margin) == expected


def l1_by_hand(first, second):
    """Distance of the normalised ten-bin histograms of two successive rounds."""
    now = np.array([*first, *second], dtype=float)
    low, high = now.min(), now.max()

    def shares(sample):
        bins = np.minimum(((sample - low) / (high - low) * 10).astype(int), 9)
        return np.bincount(bins, minlength=10) / len(sample)

    return np.abs(shares(np.array(first, dtype=float)) - shares(now)).sum()


@pytest.mark.parametrize("seed", range(8))
def test_histogram_stop_is_the_distance_of_the_histograms(ask, seed):
    rng = np.random.default_rng(seed)
    first, second = rng.random(20).tolist(), rng.random(6).tolist()
    distance = l1_by_hand(first, second)
    assert distance > 0.01
    assert ask(Convergence(9.0, l1=0.999 * distance), first, second) is None
    assert ask(Convergence(9.0, l1=1.001 * distance), first, second) == "converged"


def test_histogram_that_stands_still_stops(ask):
    assert ask(Convergence(9.0), [1.0, 2.0, 3.0], [1.0, 2.0, 3.0]) == "converged"


def test_histogram_that_moves_goes_on(ask):
    # Shares 1/2, 1/2 against 1/3, 2/3: a distance of 1/3.
    assert ask(Convergence(9.0), [1.0, 2.0], [2.0]) is None


def test_one_round_has_no_histogram_before_it(ask):
    assert ask(Convergence(9.0), [1.0, 1.0, 1.0]) is None


def test_equal_durations_stand_still(ask):
    assert ask(Convergence(9.0), [1.0, 1.0], [1.0]) == "converged"


def test_failed_configs_are_not_in_the_histograms(ask):
    inf = np.inf
    assert ask(Convergence(9.0), [1.0, 2.0, inf], [1.0, 2.0, inf]) == "converged"
    assert ask(Convergence(9.0), [1.0, 2.0], [inf, inf]) == "converged"
    assert ask(Convergence(9.0), [inf, inf], [1.0, 2.0]) is None
    assert ask(Convergence(9.0), [inf, inf], [inf]) is None


def test_rounds_run_out(ask):
    rule = Convergence(9.0, max_rounds=2)
    assert ask(rule, [1.0, 2.0]) is None
    assert ask(rule, [1.0, 2.0], [5.0]) == "budget"


def test_converging_has_precedence_over_the_rounds(ask):
    rule = Convergence(2.0, max_rounds=1)
    assert ask(rule, [1.0, 2.0], margin=2.5) == "converged"


TABLE = [
    # k >= 3
    (0.5, 0.0, 3, "high"),
    (np.nan, 0.0, 3, "high"),
    (0.5, 0.9, 9, "high"),
    # margin >= 1 and R2 >= .5
    (1.0, 0.5, 1, "high"),
    (np.inf, 1.0, 2, "high"),
    # margin >= 1, or R2 >= .6
    (1.0, 0.49, 1, "med"),
    (1.0, 0.0, 0, "med"),
    (0.99, 0.6, 1, "med"),
    (0.99, 0.99, 2, "med"),
    (np.nan, 0.6, 1, "med"),
    # k <= 1 and R2 < .3
    (0.99, 0.29, 1, "low"),
    (0.99, 0.0, 0, "low"),
    (np.nan, 0.0, 1, "low"),
    # else
    (0.99, 0.3, 1, "med"),
    (0.99, 0.59, 1, "med"),
    (0.99, 0.0, 2, "med"),
]


@pytest.mark.parametrize(("margin", "r2", "n_near_optimal", "expected"), TABLE)
def test_confidence(margin, r2, n_near_optimal, expected):
    assert label_confidence(margin, r2, n_near_optimal) == expected
