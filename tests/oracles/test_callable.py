import functools
import math
import os
import pickle
import threading
import warnings

import joblib
import numpy as np
import pytest

from fasta_learn._compat import cloudpickle
from fasta_learn.oracles import CallableOracle, Measurement


def block_of(config):
    return config["block"]


def blocks(*values):
    return [{"block": value} for value in values]


def raise_error(error):
    raise error


class OutOfMemoryError(RuntimeError):
    """Named as the one of torch, which is no MemoryError."""


@pytest.mark.parametrize("n_jobs", [None, 1, 2])
def test_order_is_kept(n_jobs):
    values = [5.0, 3.0, 4.0, 1.0, 2.0]
    answers = CallableOracle(block_of, n_jobs=n_jobs).measure(blocks(*values))
    assert [answer.duration for answer in answers] == values


def test_function_may_answer_with_a_measurement():
    answer = Measurement(0.5, compile_seconds=2.0, info={"registers": 64})
    assert CallableOracle(lambda config: answer).measure([{}]) == [answer]


def test_run_seconds_are_recorded_and_compile_seconds_are_not_known():
    (answer,) = CallableOracle(block_of).measure(blocks(1.0))
    assert 0 <= answer.run_seconds < math.inf
    assert answer.compile_seconds is None


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (ValueError("no such\ntile"), "error", "ValueError: no such tile"),
        (KeyError("BLOCK"), "error", "KeyError: 'BLOCK'"),
        (MemoryError(), "out_of_memory", "MemoryError"),
        (OutOfMemoryError("CUDA"), "out_of_memory", "OutOfMemoryError: CUDA"),
    ],
)
def test_exception_is_a_failed_measurement(error, status, reason):
    (answer,) = CallableOracle(lambda config: raise_error(error)).measure([{}])
    assert (answer.status, answer.reason) == (status, reason)
    assert answer.run_seconds is not None


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_interrupts_are_passed_on(interrupt):
    oracle = CallableOracle(lambda config: raise_error(interrupt()))
    with pytest.raises(interrupt):
        oracle.measure([{}])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (math.nan, "duration is NaN"),
        (-1.0, "duration is negative"),
        ("fast", "duration must be a number, got 'fast'"),
        (None, "duration must be a number, got None"),
        (True, "duration must be a number, got True"),
        ([0.5], "duration must be a number, got [0.5]"),
        (math.inf, "the function answered inf"),
    ],
)
def test_answer_that_is_no_duration_is_a_failure(value, reason):
    (answer,) = CallableOracle(lambda config: value).measure([{}])
    assert answer.status == "error"
    assert reason in answer.reason


@pytest.mark.parametrize("value", [np.float32(0.5), np.int64(2), 2])
def test_any_real_number_is_a_duration(value):
    (answer,) = CallableOracle(lambda config: value).measure([{}])
    assert answer.duration == float(value)


def test_a_failure_does_not_stop_the_rest():
    answers = CallableOracle(lambda config: 1 / config["block"]).measure(blocks(0, 2))
    assert [answer.status for answer in answers] == ["error", "ok"]


def test_measure_each_calls_the_function_only_when_asked():
    called = []
    oracle = CallableOracle(lambda config: called.append(config) or 1.0)
    next(oracle.measure_each(blocks(1, 2, 3)))
    assert called == blocks(1)


def test_joblib_backend_is_taken_from_the_context():
    oracle = CallableOracle(
        lambda config: Measurement(1.0, info={"thread": threading.get_ident()})
    )
    with joblib.parallel_config(backend="threading", n_jobs=2):
        answers = oracle.measure(blocks(1, 2))
    assert all(answer.info["thread"] != threading.get_ident() for answer in answers)


def test_process_backend_measures_in_other_processes():
    oracle = CallableOracle(lambda config: Measurement(1.0, info={"pid": os.getpid()}))
    with joblib.parallel_config(backend="loky", n_jobs=2):
        answers = oracle.measure(blocks(1, 2, 3))
    assert len(answers) == 3
    assert all(answer.info["pid"] != os.getpid() for answer in answers)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"function": 3}, TypeError, "function must be callable, got 3"),
        ({"n_jobs": 1.5}, TypeError, "n_jobs must be an int or None, got 1.5"),
        ({"timeout": 0}, ValueError, "timeout must be a positive, finite"),
        ({"timeout": -1}, ValueError, "timeout must be a positive, finite"),
        ({"timeout": math.inf}, ValueError, "timeout must be a positive, finite"),
        ({"timeout": math.nan}, ValueError, "timeout must be a positive, finite"),
        ({"timeout": "3"}, ValueError, "timeout must be a positive, finite"),
    ],
)
def test_bad_parameters_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        CallableOracle(**{"function": block_of, **arguments})


def test_fingerprint_names_the_function():
    assert CallableOracle(math.sqrt).fingerprint() == {
        "oracle": "CallableOracle",
        "function": "math.sqrt",
    }


def test_fingerprint_looks_through_partial():
    oracle = CallableOracle(functools.partial(math.pow, 2.0))
    assert oracle.fingerprint()["function"] == "math.pow"


def test_fingerprint_of_the_user_wins():
    fingerprint = {"kernel": "gemm", "device": "H200"}
    assert (
        CallableOracle(block_of, fingerprint=fingerprint).fingerprint() == fingerprint
    )


def test_close_without_children_does_nothing():
    with CallableOracle(block_of) as oracle:
        pass
    assert oracle.measure(blocks(1.0))[0].duration == 1.0


@pytest.mark.parametrize("timeout", [None, 30.0])
def test_pickled_oracle_measures(timeout):
    with CallableOracle(lambda config: 2.0, timeout=timeout) as oracle:
        oracle.measure([{}])
        copy = pickle.loads(cloudpickle.dumps(oracle))
    with copy:
        assert copy.measure([{}])[0].duration == 2.0


def test_stopping_early_with_threads_leaves_the_oracle_usable():
    oracle = CallableOracle(block_of, n_jobs=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # joblib tells of the unused answers
        answers = oracle.measure_each(blocks(1.0, 2.0, 3.0))
        next(answers)
        answers.close()
    assert oracle.measure(blocks(4.0))[0].duration == 4.0
