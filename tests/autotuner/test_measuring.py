import math

import numpy as np
import pytest
import torch

from fasta_learn.autotuner._measuring import (
    BenchmarkOracle,
    LaunchHook,
    WatchedOracle,
    timings_of,
)
from fasta_learn.configs import config_key
from fasta_learn.oracles import CallableOracle, Measurement, check_oracle

CONFIGS = [{"BLOCK": 32}, {"BLOCK": 64}, {"BLOCK": 128}]


def duration(config):
    return 64 / config["BLOCK"]


@pytest.mark.parametrize(
    "oracle", [BenchmarkOracle(duration), WatchedOracle(CallableOracle(duration))]
)
def test_keeps_to_the_interface(oracle):
    check_oracle(oracle, CONFIGS, rtol=0, one_by_one=True)


def test_watching_remembers_the_first_measurement():
    answers = iter([2.0, 1.0])
    watched = WatchedOracle(CallableOracle(lambda config: next(answers)))
    watched.measure(CONFIGS[:1])
    list(watched.remeasure_each(CONFIGS[:1]))
    assert {key: m.duration for key, m in watched.seen.items()} == {
        config_key(CONFIGS[0]): 2.0
    }


def test_watching_announces_each_config():
    announced = []
    watched = WatchedOracle(CallableOracle(duration), announced.append)
    watched.measure(CONFIGS)
    assert announced == CONFIGS


def test_watching_passes_on_what_is_made_ready():
    oracle = CallableOracle(duration)
    prepared = []
    oracle.lookahead, oracle.n_parallel = 3, 2
    oracle.prepare = prepared.extend
    watched = WatchedOracle(oracle)
    watched.prepare(CONFIGS)
    assert prepared == CONFIGS
    assert (watched.lookahead, watched.n_parallel) == (3, 2)


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ([3.0, 2.0, 4.0], [3.0, 2.0, 4.0]),
        ((3.0, 2.0, 4.0), [3.0, 2.0, 4.0]),
        (np.array([3.0, 2.0, 4.0]), [3.0, 2.0, 4.0]),
        (torch.tensor([3.0, 2.0, 4.0]), [3.0, 2.0, 4.0]),
        (3, [3.0, 3.0, 3.0]),
        ([3.0], [3.0, 3.0, 3.0]),
        ([math.inf] * 3, [math.inf] * 3),
        ("fast", [math.inf] * 3),
        ([math.nan], [math.inf] * 3),
        ([], [math.inf] * 3),
    ],
)
def test_answers_of_a_benchmark_function(answer, wanted):
    (measurement,) = BenchmarkOracle(lambda config: answer).measure(CONFIGS[:1])
    assert timings_of(measurement) == wanted


def test_a_failure_of_a_benchmark_function_has_a_reason():
    def fail(config):
        raise torch.OutOfMemoryError("CUDA out of memory")

    (measurement,) = BenchmarkOracle(fail).measure(CONFIGS[:1])
    assert measurement.status == "out_of_memory"
    assert "CUDA out of memory" in measurement.reason


def test_quantiles_may_be_unknown():
    assert timings_of(Measurement(2.0, duration_p80=3.0)) == [2.0, 2.0, 3.0]


def test_a_hook_is_called_for_launches_only():
    calls = []
    hook = LaunchHook(calls.append)
    hook({"a": 1})
    hook({"a": 2}, reset_only=True)
    assert calls == [{"a": 1}]
