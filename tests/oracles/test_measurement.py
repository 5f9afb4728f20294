import dataclasses
import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fasta_learn.oracles import Measurement, bound_reason

FAILED_STATUSES = [
    "compile_error",
    "out_of_resources",
    "launch_error",
    "illegal_access",
    "timeout",
    "wrong_result",
    "out_of_memory",
    "error",
]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"duration": math.nan}, "duration is NaN; use inf"),
        ({"duration": -0.5}, r"duration is negative \(-0.5\)"),
        ({"duration": -math.inf, "status": "error"}, "duration is negative"),
        ({"duration": "0.5"}, "duration must be a number, got '0.5'"),
        ({"duration": None}, "duration must be a number, got None"),
        ({"duration": True}, "duration must be a number, got True"),
        ({"duration": 10**400}, "duration is too large"),
        ({"duration": math.inf}, "status 'ok' contradicts duration inf"),
        ({"duration": 0.5, "status": "timeout"}, "contradicts duration 0.5"),
        ({"duration": 0.5, "status": "fine"}, "status must be one of .* got 'fine'"),
        ({"duration": 0.5, "compile_seconds": math.nan}, "compile_seconds is NaN"),
        ({"duration": 0.5, "run_seconds": -1}, "run_seconds is negative"),
        ({"duration": 0.5, "duration_p20": math.inf}, "duration_p20 is inf; use None"),
        ({"duration": 0.5, "duration_p80": "1"}, "duration_p80 must be a number"),
        ({"duration": 0.5, "info": {"f": object()}}, "info can't be written as JSON"),
        ({"duration": 0.5, "info": {"f": math.nan}}, "info can't be written as JSON"),
    ],
)
def test_invalid_values_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Measurement(**arguments)


@pytest.mark.parametrize("status", FAILED_STATUSES)
def test_failed_has_infinite_duration_and_the_status(status):
    measurement = Measurement.failed(status, "why")
    assert (measurement.duration, measurement.status) == (math.inf, status)
    assert not measurement.ok


def test_failed_refuses_ok():
    with pytest.raises(ValueError, match="'ok' contradicts duration inf"):
        Measurement.failed("ok")


def test_failed_keeps_times_and_info():
    measurement = Measurement.failed(
        "error", "why", compile_seconds=2, run_seconds=3, info={"registers": 255}
    )
    assert measurement.compile_seconds == 2.0
    assert measurement.run_seconds == 3.0
    assert measurement.info == {"registers": 255}


def test_finite_duration_is_ok_by_default():
    assert Measurement(0.5).ok


def test_measurement_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Measurement(0.5).duration = 0.1


def test_numpy_numbers_become_python_numbers():
    measurement = Measurement(
        np.float32(0.5), run_seconds=np.int64(3), info={"registers": np.int32(64)}
    )
    assert type(measurement.duration) is float
    assert type(measurement.run_seconds) is float
    assert type(measurement.info["registers"]) is int


def test_info_is_a_copy():
    info = {"registers": [1, 2]}
    measurement = Measurement(0.5, info=info)
    info["registers"].append(3)
    assert measurement.info == {"registers": [1, 2]}


def test_equal_measurements_hash_equal():
    assert len({Measurement(0.5, info={"a": 1}), Measurement(0.5, info={"a": 1})}) == 1


def test_reason_is_one_bounded_line():
    measurement = Measurement.failed("error", "line one\n\tline two\r\n" * 100)
    assert measurement.reason.startswith("line one line two line one")
    assert len(measurement.reason) == 200
    assert measurement.reason.endswith("…")


@pytest.mark.parametrize(
    ("given_reason", "expected"),
    [
        ("short", "short"),
        ("  a \n b\tc ", "a b c"),
        ("\x1b[31mred\x1b[0m", "[31mred [0m"),
        ("a\x00b\udc80c", "a b c"),
        ("é → 寄存器", "é → 寄存器"),
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 199 + "…"),
        ("", ""),
        (ValueError("no such tile"), "ValueError: no such tile"),
        (ValueError(), "ValueError"),
        (KeyError("BLOCK"), "KeyError: 'BLOCK'"),
    ],
)
def test_bound_reason(given_reason, expected):
    assert bound_reason(given_reason) == expected


@given(st.text())
def test_bound_reason_is_always_one_printable_line(text):
    reason = bound_reason(text)
    assert len(reason) <= 200
    assert reason.isprintable()
    assert bound_reason(reason) == reason


def test_bound_reason_of_an_exception_whose_message_fails():
    class BrokenError(Exception):
        def __str__(self):
            raise RuntimeError

    expected = "BrokenError: (its message can't be shown: RuntimeError)"
    assert bound_reason(BrokenError()) == expected


numbers = st.floats(min_value=0, allow_infinity=False, allow_nan=False)
optional_numbers = st.none() | numbers
infos = st.dictionaries(st.text(), st.none() | st.integers() | numbers | st.text())


@st.composite
def measurements(draw):
    more = {
        "reason": draw(st.none() | st.text()),
        "compile_seconds": draw(optional_numbers),
        "run_seconds": draw(optional_numbers),
        "info": draw(infos),
    }
    if draw(st.booleans()):
        return Measurement(
            draw(numbers),
            duration_p20=draw(optional_numbers),
            duration_p80=draw(optional_numbers),
            **more,
        )
    return Measurement(math.inf, draw(st.sampled_from(FAILED_STATUSES)), **more)


@given(measurements())
def test_strict_json_brings_the_same_measurement_back(measurement):
    text = json.dumps(measurement.to_dict(), allow_nan=False)
    assert Measurement.from_dict(json.loads(text)) == measurement


def test_to_dict_leaves_out_what_is_unknown():
    assert Measurement(0.5).to_dict() == {"duration": 0.5, "status": "ok"}


def test_to_dict_of_a_failed_one():
    assert Measurement.failed("timeout", "3 s").to_dict() == {
        "duration": "inf",
        "status": "timeout",
        "reason": "3 s",
    }


@pytest.mark.parametrize("values", [{"status": "ok"}, {"duration": 1, "speed": 2}])
def test_from_dict_refuses_other_names(values):
    with pytest.raises(ValueError, match="a measurement has a duration and no"):
        Measurement.from_dict(values)


def test_pickle_round_trip():
    measurement = Measurement(0.5, info={"registers": 64})
    assert pickle.loads(pickle.dumps(measurement)) == measurement
