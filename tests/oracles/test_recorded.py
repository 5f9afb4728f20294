import math
import pickle
from types import SimpleNamespace

import numpy as np
import pytest

from fasta_learn.configs import read_pool
from fasta_learn.oracles import RecordedOracle

CONFIGS = [{"BLOCK": 32, "num_warps": 4}, {"BLOCK": 64, "num_warps": 4}]


def durations_of(answers):
    return [answer.duration for answer in answers]


def test_answers_in_the_order_of_the_question():
    oracle = RecordedOracle(CONFIGS, [0.25, 0.5])
    asked = [CONFIGS[1], CONFIGS[0], CONFIGS[1]]
    assert durations_of(oracle.measure(asked)) == [0.5, 0.25, 0.5]


def test_order_of_parameters_does_not_matter():
    oracle = RecordedOracle(CONFIGS, [0.25, 0.5])
    assert durations_of(oracle.measure([{"num_warps": 4, "BLOCK": 64}])) == [0.5]


def test_config_objects_are_known_by_their_parameters():
    config = SimpleNamespace(kwargs={"BLOCK": 64}, num_warps=4)
    oracle = RecordedOracle(CONFIGS, [0.25, 0.5])
    assert durations_of(oracle.measure([config])) == [0.5]


def test_matrix_pool_is_asked_by_rows():
    matrix = np.array([[16.0, 1.0], [32.0, 2.0]])
    oracle = RecordedOracle(matrix, [0.25, 0.5])
    assert durations_of(oracle.measure(matrix[::-1])) == [0.5, 0.25]


def test_infinite_duration_is_a_failure():
    (answer,) = RecordedOracle(CONFIGS[:1], [math.inf]).measure(CONFIGS[:1])
    assert (answer.status, answer.duration) == ("error", math.inf)


def test_recorded_status_is_kept():
    oracle = RecordedOracle(CONFIGS, [0.5, math.inf], status=["ok", "out_of_resources"])
    answers = oracle.measure(CONFIGS)
    assert [answer.status for answer in answers] == ["ok", "out_of_resources"]


def test_unknown_status_becomes_the_reason():
    oracle = RecordedOracle(CONFIGS[:1], [math.inf], status=["RuntimeFailedConfig"])
    (answer,) = oracle.measure(CONFIGS[:1])
    assert (answer.status, answer.reason) == ("error", "RuntimeFailedConfig")


def test_percentiles_are_kept_where_known():
    oracle = RecordedOracle(
        CONFIGS, [0.5, 0.6], duration_p20=[0.4, math.nan], duration_p80=[0.7, math.nan]
    )
    known, unknown = oracle.measure(CONFIGS)
    assert (known.duration_p20, known.duration_p80) == (0.4, 0.7)
    assert (unknown.duration_p20, unknown.duration_p80) == (None, None)


@pytest.mark.parametrize(
    ("durations", "more", "message"),
    [
        ([0.5, math.nan], {}, r"durations\[1\] is NaN; use inf"),
        ([-1, 0.5], {}, r"durations\[0\] is -1.0 \(negative\)"),
        ([0.5], {}, r"shape \(1,\), but there are 2 configs"),
        ([[0.5], [1.0]], {}, r"shape \(2, 1\)"),
        ([0.5, 1.0], {"status": ["ok"]}, "status has 1 entries, .* 2 configs"),
        ([0.5, math.inf], {"status": ["ok", "ok"]}, r"configs\[1\]: status 'ok' contr"),
        ([0.5, 1.0], {"status": ["ok", "error"]}, r"configs\[1\]: status 'error' cont"),
        ([0.5, 1.0], {"duration_p20": [0.5]}, "duration_p20 has the shape"),
        ([0.5, 1.0], {"duration_p80": [0.5, -1]}, r"configs\[1\]: duration_p80 is neg"),
    ],
)
def test_bad_recordings_are_refused(durations, more, message):
    with pytest.raises(ValueError, match=message):
        RecordedOracle(CONFIGS, durations, **more)


def test_duplicates_are_refused_with_both_positions():
    configs = [*CONFIGS, {"num_warps": np.int64(4), "BLOCK": 32}]
    with pytest.raises(ValueError, match=r"configs\[0\] and configs\[2\] are equal"):
        RecordedOracle(configs, [1, 2, 3])


@pytest.mark.parametrize("method", ["measure", "measure_each"])
def test_unknown_config_is_named(method):
    oracle = RecordedOracle(CONFIGS, [0.25, 0.5], name="gemm")
    with pytest.raises(ValueError, match=r"'BLOCK': 7.* not among the 2 .*'gemm'"):
        list(getattr(oracle, method)([{"BLOCK": 7}]))


def test_n_measured_counts_answers():
    oracle = RecordedOracle(CONFIGS, [0.25, 0.5])
    oracle.measure(CONFIGS)
    next(oracle.measure_each(CONFIGS))
    assert oracle.n_measured == 3


def test_fingerprint_does_not_depend_on_the_order():
    one = RecordedOracle(CONFIGS, [0.25, 0.5])
    other = RecordedOracle(CONFIGS[::-1], [0.5, 0.25])
    assert one.fingerprint() == other.fingerprint()


@pytest.mark.parametrize(
    "other",
    [
        RecordedOracle(CONFIGS, [0.25, 0.6]),
        RecordedOracle(CONFIGS, [0.5, 0.25]),
        RecordedOracle(CONFIGS[:1], [0.25]),
        RecordedOracle(CONFIGS, [0.25, 0.5], name="other"),
        RecordedOracle(CONFIGS, [0.25, 0.5], duration_p20=[0.2, 0.4]),
    ],
)
def test_fingerprint_tells_recordings_apart(other):
    assert RecordedOracle(CONFIGS, [0.25, 0.5]).fingerprint() != other.fingerprint()


def test_pickled_oracle_answers():
    oracle = pickle.loads(pickle.dumps(RecordedOracle(CONFIGS, [0.25, 0.5])))
    assert durations_of(oracle.measure(CONFIGS)) == [0.25, 0.5]


def test_from_pool_takes_all_that_the_file_has(tmp_path):
    path = tmp_path / "tiles.csv"
    path.write_text(
        "BLOCK,num_warps,duration_ms,duration_p20_ms,duration_p80_ms,status\n"
        "32,4,0.25,0.2,0.3,ok\n"
        "64,8,,,,out_of_resources\n"
    )
    oracle = RecordedOracle.from_pool(read_pool(path))
    ran, failed = oracle.measure(
        [{"BLOCK": 32, "num_warps": 4}, {"BLOCK": 64, "num_warps": 8}]
    )
    assert (ran.duration, ran.duration_p20, ran.duration_p80) == (0.25, 0.2, 0.3)
    assert (failed.status, failed.duration_p20) == ("out_of_resources", None)
    assert oracle.name == "tiles"


@pytest.mark.parametrize(
    ("recorded", "status"),
    [
        ("OutOfResources", "out_of_resources"),
        ("CompileError", "compile_error"),
        ("PTXASError", "error"),
    ],
)
def test_names_of_exceptions_become_statuses(recorded, status):
    oracle = RecordedOracle(
        [{"A": 1}, {"A": 2}], [np.inf, 1.0], status=[recorded, "ok"]
    )
    answer = oracle.measure([{"A": 1}])[0]
    assert (answer.status, answer.reason) == (status, recorded)


def test_status_with_a_reason_is_taken_apart():
    status = ["out_of_resources: shared memory: 9 of 4", "no status: at all"]
    oracle = RecordedOracle([{"a": 1}, {"a": 2}], [np.inf] * 2, status=status)
    first, second = oracle.measure([{"a": 1}, {"a": 2}])
    assert (first.status, first.reason) == (
        "out_of_resources",
        "shared memory: 9 of 4",
    )
    assert (second.status, second.reason) == ("error", "no status: at all")
