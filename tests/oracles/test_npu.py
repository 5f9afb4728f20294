import numpy as np
import pytest
from simulated_npu import SimulatedAutotuner, tiles

from fasta_learn.exceptions import MissingExtraError
from fasta_learn.oracles import NPUKernelOracle, _npu_device


def from_autotuner(**options):
    tuner = SimulatedAutotuner(tiles())
    return NPUKernelOracle.from_autotuner(tuner, (), clock=tuner.clock, **options)


def test_missing_torch_npu_is_named():
    with pytest.raises(MissingExtraError, match=r"torch_npu.*fasta-learn\[npu\]"):
        NPUKernelOracle(lambda: None, (), (1,))


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("timer", "clock", "timer must be one of"),
        ("batch_size", 0, "batch_size must be a positive int, got 0"),
        ("n_jobs", 0, "n_jobs must be a positive int or None, got 0"),
        ("lookahead", -1, "lookahead must be 'auto' or an int"),
        ("compile_timeout", 0, "compile_timeout must be a positive"),
    ],
)
def test_options_are_checked(option, value, message):
    with pytest.raises(ValueError, match=message):
        from_autotuner(**{option: value})


def test_lookahead_is_twice_the_jobs():
    assert from_autotuner(n_jobs=3).lookahead == 6
    assert from_autotuner(n_jobs=3, lookahead=1).lookahead == 1


def test_backend_is_chosen_at_the_first_measurement():
    with from_autotuner() as oracle:
        assert oracle.backend is None
        oracle.measure(oracle.configs[:1])
        assert oracle.backend == "events"
        oracle.open_pool(oracle.configs)
        assert oracle.backend is None


def test_events_take_configs_only_when_they_are_due():
    with from_autotuner() as oracle:
        taken = []
        answers = oracle.measure_each(
            taken.append(config) or config for config in oracle.configs
        )
        next(answers)
        assert len(taken) == 1


def test_best_so_far_cuts_off_until_another_pool_is_opened():
    tuner = SimulatedAutotuner(tiles(), lambda p: p["X0BLOCK"])
    with NPUKernelOracle.from_autotuner(tuner, (), clock=tuner.clock) as oracle:
        first, last = oracle.configs[0], oracle.configs[-1]
        oracle.measure([first])
        assert oracle.measure([last])[0].info["cut_off"]
        oracle.open_pool(oracle.configs)
        assert not oracle.measure([last])[0].info["cut_off"]


def test_closed_oracle_opens_again():
    oracle = from_autotuner()
    oracle.measure(oracle.configs[:1])
    oracle.close()
    assert oracle.measure(oracle.configs[:1])[0].ok
    oracle.close()


def test_other_timers_take_as_many_as_a_session_times(monkeypatch):
    tuner = SimulatedAutotuner(tiles((32, 64, 128)))
    sessions = []

    class Timer:
        def time(self, calls, kernel):
            sessions.append((len(calls), kernel))
            return [np.array([1.0])] * len(calls)

    monkeypatch.setattr(_npu_device, "choose_backend", lambda wish: "mspti")
    monkeypatch.setattr(_npu_device, "make_timer", lambda backend: Timer())
    with NPUKernelOracle.from_autotuner(tuner, (), batch_size=4) as oracle:
        answers = oracle.measure(oracle.configs)
    assert all(answer.ok for answer in answers)
    assert sessions == [(4, "triton"), (2, "triton")]
