import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fasta_learn.oracles._timing import TimingPlan, time_launches

DURATIONS = st.lists(st.floats(0, 1e6), min_size=1, max_size=60)


class SimulatedClock:
    """Gives durations in ms from a function of the number of launches so far."""

    def __init__(self, duration_of):
        self.duration_of = duration_of
        self.batches = []
        self.prepares = []

    def time_batch(self, launch, n_launches, prepare):
        start = sum(self.batches)
        self.batches.append(n_launches)
        self.prepares.append(prepare)
        for _ in range(n_launches):
            launch()
        return np.array([self.duration_of(start + i) for i in range(n_launches)])


def noisy(typical, relative_sd, seed=0):
    rng = np.random.default_rng(seed)
    return SimulatedClock(
        lambda i: typical * math.exp(relative_sd * rng.standard_normal())
    )


def time_config(clock, plan=None, **options):
    return time_launches(lambda: None, clock, plan or TimingPlan(), **options)


# ---- precision


def test_a_quiet_config_takes_the_fewest_launches():
    clock = noisy(0.1, 0.001)
    timing = time_config(clock)
    assert clock.batches == [1, 7]
    assert timing.n_launches == 7


def test_the_warm_up_is_not_in_the_timing():
    timing = time_config(SimulatedClock(lambda i: 9.0 if i == 0 else 1.0))
    assert timing.durations.tolist() == [1.0] * 7


@pytest.mark.parametrize("n_warmup", [1, 2, 5])
def test_as_many_warm_ups_as_wished(n_warmup):
    clock = SimulatedClock(lambda i: 2.0 if i < n_warmup else 1.0)
    timing = time_config(clock, TimingPlan(n_warmup=n_warmup))
    assert timing.durations.tolist() == [1.0] * 7


def test_without_warm_up_the_first_launch_counts():
    clock = SimulatedClock(lambda i: 1.0 + 0.001 * i)
    timing = time_config(clock, TimingPlan(n_warmup=0))
    assert timing.durations[0] == 1.0
    assert clock.batches == [1, 6]


def test_a_noisy_config_is_launched_until_it_is_precise():
    timing = time_config(noisy(0.1, 0.02))
    assert 7 < timing.n_launches < 100
    assert timing.standard_error <= 0.005 * timing.median


def test_batches_grow_with_what_is_lacking_but_at_most_to_the_triple():
    clock = noisy(0.01, 0.5)
    time_config(clock, TimingPlan(max_launches=1000))
    assert clock.batches[:4] == [1, 7, 14, 42]


def test_small_lacks_are_made_up_for_by_whole_batches():
    clocks = [noisy(0.1, 0.01, seed) for seed in range(50)]
    for clock in clocks:
        time_config(clock)
    later = [size for clock in clocks for size in clock.batches[2:]]
    assert min(later) == 7


def test_a_wished_precision_decides_how_many_launches():
    rough = time_config(noisy(0.1, 0.01), TimingPlan(relative_error=0.01))
    fine = time_config(noisy(0.1, 0.01), TimingPlan(relative_error=0.002))
    assert rough.n_launches < fine.n_launches


def test_the_medians_spread_no_more_than_wished():
    medians = [time_config(noisy(0.1, 0.02, seed)).median for seed in range(300)]
    # The rule looks at its estimate several times, which costs a little.
    assert np.std(medians) < 1.3 * 0.005 * 0.1


def test_durations_of_zero_are_all_timed():
    timing = time_config(SimulatedClock(lambda i: 0.0))
    assert (timing.median, timing.n_launches) == (0.0, 7)


def test_mostly_zero_durations_end_at_the_cap():
    clock = SimulatedClock(lambda i: float(i % 3 == 0))
    assert time_config(clock, TimingPlan(max_ms=1e6)).n_launches == 100


# ---- caps


def test_launches_are_capped():
    timing = time_config(noisy(0.01, 0.5), TimingPlan(max_launches=40))
    assert timing.n_launches == 40


def test_device_time_is_capped():
    timing = time_config(noisy(1.0, 0.3), TimingPlan(max_ms=20.0))
    assert timing.durations.sum() <= 22.0
    assert timing.n_launches >= 15


def test_a_launch_of_a_third_of_the_cap_is_timed_thrice():
    assert time_config(noisy(9.0, 0.1)).n_launches == 3


def test_a_launch_over_the_cap_is_launched_thrice_warm_up_included():
    clock = SimulatedClock(lambda i: 100.0 + i)
    timing = time_config(clock)
    assert timing.durations.tolist() == [100.0, 101.0, 102.0]
    assert clock.batches == [1, 1, 1]


@pytest.mark.parametrize("n_warmup", [0, 1, 5])
def test_a_launch_of_more_than_a_second_is_launched_once(n_warmup):
    clock = SimulatedClock(lambda i: 1500.0)
    timing = time_config(clock, TimingPlan(n_warmup=n_warmup))
    assert timing.durations.tolist() == [1500.0]
    assert clock.batches == [1]


def test_a_slow_first_launch_does_not_make_a_fast_config_slow():
    clock = SimulatedClock(lambda i: 80.0 if i == 0 else 0.01)
    timing = time_config(clock)
    assert timing.durations.tolist() == [0.01] * 7


def test_warm_ups_are_bounded_by_the_cap():
    clock = SimulatedClock(lambda i: 12.0)
    time_config(clock, TimingPlan(n_warmup=50))
    assert clock.batches == [1, 2, 3]


def test_a_plan_of_one_launch():
    timing = time_config(noisy(0.1, 0.1), TimingPlan(min_launches=1, max_launches=1))
    assert timing.n_launches == 1


plans = st.builds(
    lambda fewest, more, **rest: TimingPlan(
        min_launches=fewest, max_launches=fewest + more, **rest
    ),
    st.integers(1, 20),
    st.integers(0, 100),
    relative_error=st.floats(1e-4, 0.5),
    n_warmup=st.integers(0, 5),
    max_ms=st.floats(0.01, 1e3),
    cutoff=st.none() | st.floats(1.01, 10),
)


@settings(deadline=None)
@example(TimingPlan(min_launches=1, max_launches=1, max_ms=0.5), 1.0, 0.0, None, 0)
@given(
    plans,
    st.floats(1e-4, 3e3),
    st.floats(0, 1),
    st.none() | st.floats(1e-4, 1e3),
    st.integers(0, 99),
)
def test_every_plan_ends_within_its_caps(plan, typical, spread, best, seed):
    rng = np.random.default_rng(seed)
    clock = SimulatedClock(lambda i: typical * (1 + spread * rng.random()))
    timing = time_config(clock, plan, best=best)
    assert 1 <= timing.n_launches <= plan.max_launches
    assert sum(clock.batches) <= timing.n_launches + plan.n_warmup
    slowest = 2 * typical
    # An early estimate of the launch may be half of what follows.
    assert timing.durations.sum() <= max(2 * plan.max_ms, 3 * slowest) + slowest
    if timing.cut_off:
        assert timing.durations.min() > plan.cutoff * best
    elif typical > 2 * 1000:
        assert timing.n_launches == 1
    elif slowest < plan.max_ms / 1000:
        assert timing.n_launches >= plan.min_launches


# ---- cut-off


def test_a_config_that_cannot_win_stops_after_its_first_batch():
    clock = noisy(0.2, 0.1)
    timing = time_config(clock, best=0.1)
    assert timing.cut_off
    assert clock.batches == [1, 7]


def test_one_fast_launch_is_enough_to_stay():
    clock = SimulatedClock(lambda i: 0.149 if i == 5 else 0.2 + 0.01 * i)
    timing = time_config(clock, best=0.1)
    assert not timing.cut_off
    assert timing.n_launches > 7


@pytest.mark.parametrize("best", [None, math.inf])
def test_no_best_no_cut_off(best):
    assert not time_config(noisy(5.0, 0.01), best=best).cut_off


def test_cut_off_can_be_switched_off():
    timing = time_config(noisy(5.0, 0.01), TimingPlan(cutoff=None), best=0.001)
    assert not timing.cut_off


def test_another_factor_cuts_off_elsewhere():
    wide = time_config(noisy(0.2, 0.01), TimingPlan(cutoff=2.5), best=0.1)
    assert not wide.cut_off


def test_a_slow_warm_up_alone_cuts_nothing_off():
    clock = SimulatedClock(lambda i: 20.0 if i == 0 else 0.1)
    assert not time_config(clock, best=0.1).cut_off


def test_one_probing_launch_alone_cuts_nothing_off():
    clock = SimulatedClock(lambda i: 20.0 if i == 0 else 0.1)
    assert not time_config(clock, TimingPlan(n_warmup=0), best=0.1).cut_off


def test_two_launches_over_the_cap_are_enough_to_cut_off():
    clock = SimulatedClock(lambda i: 400.0)
    timing = time_config(clock, best=1.0)
    assert (timing.cut_off, clock.batches) == (True, [1, 1])


def test_a_launch_of_seconds_is_cut_off_at_once():
    clock = SimulatedClock(lambda i: 4000.0)
    timing = time_config(clock, best=1.0)
    assert (timing.cut_off, clock.batches) == (True, [1])


def test_a_config_as_fast_as_the_limit_is_rarely_cut_off():
    # Its launches are beyond its median, the limit, with probability 1/2 each.
    n_cut = sum(
        time_config(noisy(0.15, 0.05, seed), best=0.1).cut_off for seed in range(2000)
    )
    assert n_cut <= 2000 / 2**7 + 4 * math.sqrt(2000 / 2**7)


@settings(deadline=None)
@given(st.floats(0.001, 20.0), st.integers(0, 99))
def test_a_winner_with_outliers_is_not_cut_off(typical, seed):
    rng = np.random.default_rng(seed)
    outlier = rng.integers(7)
    clock = SimulatedClock(lambda i: typical * (3.0 if i % 7 == outlier else 1.0))
    assert not time_config(clock, best=1.01 * typical).cut_off


@pytest.mark.parametrize("best", [0.0, -1.0, math.nan])
def test_best_must_be_positive(best):
    with pytest.raises(ValueError, match="best must be a positive duration"):
        time_config(noisy(1.0, 0.1), best=best)


# ---- the clock


def test_prepare_goes_to_the_clock():
    clock = noisy(0.1, 0.02)
    prepare = object()
    time_config(clock, prepare=prepare)
    assert set(clock.prepares) == {prepare}


def test_launch_goes_to_the_clock():
    launches = []
    clock = noisy(0.1, 0.001)
    time_launches(lambda: launches.append(1), clock, TimingPlan())
    assert len(launches) == 8


def test_a_clock_that_gives_too_few_durations_is_refused():
    class ShortClock:
        def time_batch(self, launch, n_launches, prepare):
            return np.ones(max(n_launches - 1, 1))

    with pytest.raises(ValueError, match="gave 6 durations of 7 launches"):
        time_config(ShortClock())


def test_an_error_of_the_launch_comes_through():
    def launch():
        raise RuntimeError("out of registers")

    with pytest.raises(RuntimeError, match="out of registers"):
        time_launches(launch, noisy(1.0, 0.1), TimingPlan())
