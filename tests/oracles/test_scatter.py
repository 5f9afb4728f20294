"""RecordedOracle with noise."""

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.stats import kstest, norm

from fasta_learn.configs import Pool
from fasta_learn.oracles import RecordedOracle

CONFIGS = [{"BLOCK": block} for block in (16, 32, 64, 128)]
DURATIONS = [1.0, 2.0, 4.0, math.inf]
# The third has no percentiles; its duration is known exactly.
P20, P80 = [0.9, 1.99, math.nan, math.nan], [1.2, 2.02, math.nan, math.nan]


def make_oracle(noise=1.0, seed=0):
    return RecordedOracle(
        CONFIGS,
        DURATIONS,
        duration_p20=P20,
        duration_p80=P80,
        noise=noise,
        seed=seed,
    )


def durations_of(answers):
    return [answer.duration for answer in answers]


def repeats(oracle, config, n_repeats):
    return np.array(durations_of(oracle.measure([config] * n_repeats)))


def test_no_noise_answers_as_recorded():
    assert durations_of(make_oracle(0.0).measure(CONFIGS)) == DURATIONS


@pytest.mark.parametrize("index", [0, 1])
def test_logarithms_are_normal_with_the_spread_of_the_percentiles(index):
    logs = np.log(repeats(make_oracle(), CONFIGS[index], 3000) / DURATIONS[index])
    # From the 20th to the 80th percentile are 2 x 0.8416 standard deviations.
    spread = math.log(P80[index] / P20[index]) / (2 * 0.8416212)
    assert kstest(logs, norm(0, spread).cdf).pvalue > 0.01


def test_noise_multiplies_the_spread():
    one, four = (
        np.log(repeats(make_oracle(noise), CONFIGS[0], 20)) for noise in (1, 4)
    )
    assert_allclose(four, 4 * one)


def test_same_seed_same_answers_and_other_seed_other():
    asked = CONFIGS[:2] * 3
    first, again, other = (make_oracle(seed=s).measure(asked) for s in (3, 3, 4))
    assert first == again
    assert not set(durations_of(first)) & set(durations_of(other))


def test_answers_do_not_depend_on_what_else_is_asked():
    one, other = make_oracle(), make_oracle()
    a, b = CONFIGS[:2]
    (a1,), (b1,), (a2,) = (one.measure([config]) for config in (a, b, a))
    assert list(other.measure_each([b, a, a])) == [b1, a1, a2]


def test_answers_do_not_depend_on_the_order_of_the_recording():
    backwards = RecordedOracle(
        CONFIGS[:2][::-1], [2.0, 1.0], duration_p20=P20[1::-1], duration_p80=P80[1::-1],
        noise=1,
    )  # fmt: skip
    assert backwards.measure(CONFIGS[:2]) == make_oracle().measure(CONFIGS[:2])


@pytest.mark.parametrize("method", ["measure", "measure_each", "remeasure_each"])
def test_measuring_again_answers_otherwise(method):
    oracle = make_oracle()
    answers = [next(iter(getattr(oracle, method)(CONFIGS[:1]))) for _ in range(50)]
    assert len(set(durations_of(answers))) == 50


def test_configs_scatter_independently():
    oracle = make_oracle()
    logs = [np.log(repeats(oracle, config, 2000)) for config in CONFIGS[:2]]
    assert abs(np.corrcoef(logs)[0, 1]) < 0.07  # three standard deviations


def test_failed_config_fails_always():
    assert durations_of(make_oracle().measure(CONFIGS[3:] * 3)) == [math.inf] * 3


def test_config_without_percentiles_does_not_scatter():
    assert durations_of(make_oracle().measure(CONFIGS[2:3] * 3)) == [4.0] * 3


@pytest.mark.parametrize(("p20", "p80"), [(0.0, 1.1), (1.1, 1.05)])
def test_percentiles_that_tell_nothing_do_not_scatter(p20, p80):
    oracle = RecordedOracle(
        CONFIGS[:2], [1.0, 2.0], duration_p20=[p20, 1.9], duration_p80=[p80, 2.1],
        noise=1,
    )  # fmt: skip
    assert durations_of(oracle.measure(CONFIGS[:1] * 3)) == [1.0] * 3


def test_percentiles_keep_their_ratio_to_the_duration():
    for answer in make_oracle().measure(CONFIGS[:1] * 5):
        assert answer.duration_p20 / answer.duration == pytest.approx(0.9)
        assert answer.duration_p80 / answer.duration == pytest.approx(1.2)


def test_pool_brings_its_percentiles():
    extra = pd.DataFrame({"duration_p20_ms": P20, "duration_p80_ms": P80})
    pool = Pool(CONFIGS, DURATIONS, extra=extra)
    oracle = RecordedOracle.from_pool(pool, noise=2, seed=5)
    expected = make_oracle(2, 5).measure(CONFIGS)
    assert durations_of(oracle.measure(CONFIGS)) == durations_of(expected)


def test_pickled_oracle_goes_on():
    oracle = make_oracle()
    oracle.measure(CONFIGS[:1])
    copy = pickle.loads(pickle.dumps(oracle))
    assert copy.measure(CONFIGS[:1]) == oracle.measure(CONFIGS[:1])


def test_noise_is_part_of_the_fingerprint():
    identities = [
        str(make_oracle(*settings).fingerprint())
        for settings in ((0.0, 0), (1.0, 0), (1.0, 1), (2.0, 0))
    ]
    assert len(set(identities)) == 4


def test_seed_without_noise_is_no_part_of_the_fingerprint():
    assert make_oracle(0.0, 1).fingerprint() == make_oracle(0.0, 2).fingerprint()


@pytest.mark.parametrize("noise", [-0.1, math.nan, math.inf, "recorded", None, True])
def test_wrong_noise_is_refused(noise):
    with pytest.raises(ValueError, match="noise must be a finite number"):
        make_oracle(noise)


@pytest.mark.parametrize("seed", [-1, 0.5, None])
def test_wrong_seed_is_refused(seed):
    with pytest.raises(ValueError, match="seed must be an int of at least 0"):
        make_oracle(seed=seed)


@pytest.mark.parametrize("more", [{}, {"duration_p20": P20, "duration_p80": P20}])
def test_noise_without_percentiles_is_refused(more):
    with pytest.raises(ValueError, match="noise needs recorded percentiles"):
        RecordedOracle(CONFIGS, DURATIONS, noise=1.0, **more)
