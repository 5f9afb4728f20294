import math

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from fasta_learn.configs import Pool
from fasta_learn.exceptions import AllConfigsFailedError


def make_pool(**changes):
    parts = {
        "configs": [{"a": 1}, {"a": 2, "b": "x"}, {"a": 3}],
        "durations": [0.5, np.inf, 0.25],
        "status": ["ok", "compile_error", "ok"],
        "name": "three",
        "extra": pd.DataFrame({"duration_p20_ms": [0.4, np.nan, 0.2]}),
        "description": "made up",
    }
    return Pool(**{**parts, **changes})


def test_parts():
    pool = make_pool()
    assert len(pool) == 3
    assert pool.durations.dtype == np.float64
    assert pool.status == ["ok", "compile_error", "ok"]
    assert (pool.name, pool.description) == ("three", "made up")


def test_default_status_follows_the_durations():
    assert make_pool(status=[]).status == ["ok", "failed", "ok"]


def test_failed_configs_get_infinite_durations():
    pool = make_pool(durations=[0.5, 0.1, np.nan], status=["ok", "error", "timeout"])
    assert_array_equal(pool.durations, [0.5, np.inf, np.inf])


def test_durations_are_copied():
    durations = np.array([0.5, np.inf, 0.25])
    pool = make_pool(durations=durations)
    durations[0] = 9
    assert pool.durations[0] == 0.5


def test_extra_is_empty_by_default():
    pool = Pool([{"a": 1}], [1.0])
    assert pool.extra.shape == (1, 0)


def test_pool_can_not_be_changed():
    with pytest.raises(AttributeError):
        make_pool().name = "other"


def test_best_duration():
    assert make_pool().best_duration == 0.25


@pytest.mark.parametrize(
    ("duration", "expected"), [(0.25, 0.0), (0.5, 1.0), (math.inf, math.inf)]
)
def test_regret(duration, expected):
    assert make_pool().regret(duration) == expected


@pytest.mark.parametrize(
    ("duration", "tolerance", "expected"),
    [
        (0.25, 1.05, True),
        (0.2625, 1.05, True),
        (0.2626, 1.05, False),
        (0.5, 2.0, True),
        (math.inf, 1.05, False),
    ],
)
def test_is_catch(duration, tolerance, expected):
    assert make_pool().is_catch(duration, tolerance) is expected


def test_default_tolerance_is_five_percent():
    assert make_pool().is_catch(0.2624)
    assert not make_pool().is_catch(0.27)


def test_pool_in_which_everything_failed():
    pool = Pool([{"a": 1}], [np.inf])
    assert pool.best_duration == math.inf
    assert not pool.is_catch(math.inf)
    with pytest.raises(AllConfigsFailedError, match="no config of the pool"):
        pool.regret(1.0)


def test_to_frame():
    frame = make_pool().to_frame()
    assert list(frame.columns) == ["a", "b", "duration_ms", "duration_p20_ms", "status"]
    assert frame["a"].tolist() == [1, 2, 3]
    assert frame["b"].tolist() == [None, "x", None]
    assert frame["duration_ms"].tolist() == [0.5, np.inf, 0.25]


def test_repr_is_short():
    assert repr(make_pool()) == (
        "Pool(name='three', n_configs=3, n_failed=1, best_duration=0.25)"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"configs": [{"a": 1}]}, "configs has 1 items"),
        ({"status": ["ok"]}, "status has 1 items"),
        ({"extra": pd.DataFrame({"duration_x": [1.0]})}, "extra has 1 items"),
        ({"durations": [[1.0, 2.0, 3.0]]}, r"of shape \(1, 3\)"),
        ({"durations": [0.5, np.nan, 1], "status": []}, r"durations\[1\] is nan"),
        ({"durations": [0.5, np.inf, -1.0]}, r"durations\[2\] is -1.0"),
        ({"durations": [0.5, np.inf, 0.0]}, r"durations\[2\] is 0.0"),
        ({"durations": [np.inf, 1, 1]}, r"status\[0\] is 'ok', but durations\[0\]"),
        (
            {"configs": [{"a": 1}, {"a": 2}, {"a": 1}]},
            r"1 configs .* more than once: configs\[2\] is configs\[0\]",
        ),
    ],
)
def test_wrong_parts_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        make_pool(**changes)


def test_empty_pool_is_refused():
    with pytest.raises(ValueError, match="pool is empty"):
        Pool([], [])


def test_configs_that_differ_in_type_only_are_distinct():
    assert len(Pool([{"a": 1}, {"a": True}], [1.0, 1.0])) == 2
