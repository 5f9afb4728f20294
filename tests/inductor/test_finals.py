import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fasta_learn.exceptions import AllConfigsFailedError
from fasta_learn.inductor._finals import decide


class NoisyDevice:
    """Durations with noise, a drift that never ends, and now and then a hiccup."""

    def __init__(self, durations, *, noise=0.0, drift=0.0, hiccups=0.0, seed=0):
        self.durations = durations
        self.noise, self.drift, self.hiccups = noise, drift, hiccups
        self.random = np.random.default_rng(seed)
        self.calls = []

    def __call__(self, name):
        self.calls.append(name)
        factor = math.exp(self.noise * self.random.standard_normal())
        factor *= 1 + self.drift * len(self.calls)
        if self.random.random() < self.hiccups:
            factor *= 3.0
        return self.durations[name] * factor


def share_taken(durations, name, n_seeds=200, **device):
    """How often a finalist is taken against the incumbent called stock."""
    taken = 0
    others = [other for other in durations if other != "stock"]
    for seed in range(n_seeds):
        verdict = decide(
            others,
            ["stock"],
            NoisyDevice(durations, seed=seed, **device),
            random_state=seed,
        )
        taken += verdict.index == name
    return taken / n_seeds


def test_a_contender_beyond_the_margin_is_taken():
    device = NoisyDevice({"stock": 0.050, "other": 0.045})
    assert decide(["other"], ["stock"], device, random_state=0).index == "other"


@pytest.mark.parametrize("duration", [0.0495, 0.0500, 0.0600])
def test_a_contender_within_the_margin_is_not(duration):
    device = NoisyDevice({"stock": 0.050, "other": duration})
    assert decide(["other"], ["stock"], device, random_state=0).index == "stock"


def test_the_margin_is_the_given_one():
    device = NoisyDevice({"stock": 0.050, "other": 0.0495})
    verdict = decide(["other"], ["stock"], device, margin=0.005, random_state=0)
    assert verdict.index == "other"


def test_the_fastest_of_several_contenders_is_taken():
    device = NoisyDevice({"stock": 1.0, "a": 0.9, "b": 0.8, "c": 0.85})
    assert decide(["a", "b", "c"], ["stock"], device, random_state=0).index == "b"


def test_the_fastest_incumbent_is_the_measure():
    device = NoisyDevice({"extern": 1.0, "default": 0.8, "other": 0.79})
    verdict = decide(["other"], ["extern", "default"], device, random_state=0)
    assert (verdict.index, verdict.incumbent) == ("default", "default")
    assert_allclose(verdict.ratios["extern"], 1.25)


def test_a_contender_that_is_an_incumbent_needs_no_margin():
    device = NoisyDevice({"extern": 1.0, "default": 0.99})
    verdict = decide(["default"], ["extern", "default"], device, random_state=0)
    assert verdict.index == "default"


def test_without_incumbents_the_fastest_is_taken():
    device = NoisyDevice({"a": 1.0, "b": 0.999})
    verdict = decide(["a", "b"], [], device, random_state=0)
    assert (verdict.index, verdict.incumbent) == ("b", None)
    assert math.isnan(verdict.ratios["a"])


def test_noise_of_two_per_cent_makes_no_winner_of_an_equal():
    durations = {"stock": 0.05, "other": 0.05}
    assert share_taken(durations, "other", noise=0.02) <= 0.01


def test_six_equal_contenders_hardly_ever_win_by_luck():
    durations = {"stock": 0.05, **dict.fromkeys("abcdef", 0.05)}
    assert share_taken(durations, "stock", noise=0.02) >= 0.97


def test_noise_of_two_per_cent_hides_no_gain_of_six():
    durations = {"stock": 0.05, "other": 0.047}
    assert share_taken(durations, "other", noise=0.02) >= 0.99


def test_hiccups_hide_no_gain():
    durations = {"stock": 0.05, "other": 0.047}
    assert share_taken(durations, "other", noise=0.01, hiccups=0.1) >= 0.97


def test_a_drift_makes_no_winner_and_hides_none():
    # Within a race the device gets slower by a third.
    assert share_taken({"stock": 0.05, "other": 0.05}, "other", drift=0.01) <= 0.01
    assert share_taken({"stock": 0.05, "other": 0.046}, "other", drift=0.01) >= 0.99


def test_a_clear_outcome_needs_few_rounds():
    device = NoisyDevice({"stock": 0.05, "other": 0.03}, noise=0.01)
    assert decide(["other"], ["stock"], device, random_state=0).n_rounds <= 5


def test_who_is_clearly_too_slow_is_measured_no_more():
    device = NoisyDevice({"stock": 1.0, "slow": 2.0, "close": 0.97}, noise=0.02)
    verdict = decide(["slow", "close"], ["stock"], device, random_state=0)
    assert device.calls.count("slow") < device.calls.count("close")
    assert device.calls.count("close") == verdict.n_rounds


def test_rounds_are_bounded():
    device = NoisyDevice({"stock": 1.0, "other": 0.98}, noise=0.05)
    verdict = decide(["other"], ["stock"], device, n_rounds=9, random_state=0)
    assert verdict.n_rounds <= 9
    assert len(device.calls) == 2 * verdict.n_rounds


def test_each_round_has_an_order_of_its_own():
    device = NoisyDevice({"stock": 1.0, "a": 0.97, "b": 0.97}, noise=0.05)
    decide(["a", "b"], ["stock"], device, random_state=0)
    rounds = [tuple(device.calls[i : i + 3]) for i in range(0, 12, 3)]
    assert all(set(names) == {"stock", "a", "b"} for names in rounds)
    assert len(set(rounds)) > 1


def test_equal_seeds_measure_in_the_same_order():
    calls = []
    for _ in range(2):
        device = NoisyDevice({"stock": 1.0, "a": 0.97, "b": 0.96}, noise=0.05)
        decide(["a", "b"], ["stock"], device, random_state=3)
        calls.append(device.calls)
    assert calls[0] == calls[1]


def test_a_single_finalist_is_measured_once():
    device = NoisyDevice({"stock": 0.05})
    verdict = decide([], ["stock"], device)
    assert (verdict.index, device.calls) == ("stock", ["stock"])
    assert verdict.durations == {"stock": 0.05}


def test_a_contender_that_fails_is_out():
    device = NoisyDevice({"stock": 0.05, "other": math.inf})
    verdict = decide(["other"], ["stock"], device, random_state=0)
    assert verdict.index == "stock"
    assert verdict.ratios["other"] == verdict.durations["other"] == math.inf
    assert device.calls.count("other") == 1


def test_without_an_incumbent_that_runs_a_contender_is_taken():
    device = NoisyDevice({"stock": math.inf, "other": 0.05, "slow": 0.06})
    verdict = decide(["slow", "other"], ["stock"], device, random_state=0)
    assert (verdict.index, verdict.incumbent) == ("other", None)


def test_a_failure_of_all_is_an_error():
    device = NoisyDevice({"stock": math.inf, "other": math.inf})
    with pytest.raises(AllConfigsFailedError, match="2 finalists failed"):
        decide(["other"], ["stock"], device)


def test_medians_and_ratios_are_told():
    values = {"stock": iter([2.0, 4.0, 3.0]), "other": iter([1.0, 1.0, 3.0])}
    verdict = decide(["other"], ["stock"], lambda name: next(values[name]), n_rounds=3)
    assert verdict.durations == {"stock": 3.0, "other": 1.0}
    assert verdict.ratios == {"stock": 1.0, "other": 0.5}


def test_no_finalist_is_an_error():
    with pytest.raises(ValueError, match="neither a contender nor an incumbent"):
        decide([], [], lambda name: 1.0)


@pytest.mark.parametrize("margin", [-0.1, 1.0])
def test_a_margin_out_of_range_is_an_error(margin):
    with pytest.raises(ValueError, match=r"margin must be in \[0, 1\)"):
        decide(["other"], ["stock"], lambda name: 1.0, margin=margin)


def test_no_rounds_are_an_error():
    with pytest.raises(ValueError, match="n_rounds must be at least 1"):
        decide(["other"], ["stock"], lambda name: 1.0, n_rounds=0)


def test_the_fastest_incumbent_is_found_among_near_ties():
    durations = {"extern": 1.03, "default": 1.0, "slow": 2.0}
    taken = [
        decide(
            ["slow"],
            ["extern", "default"],
            NoisyDevice(durations, noise=0.04, seed=seed),
            random_state=seed,
        ).index
        for seed in range(100)
    ]
    assert taken.count("default") >= 90
