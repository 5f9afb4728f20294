import statistics
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fasta_learn.heuristics import (
    HeuristicLog,
    LogMetadata,
    choices_of,
    group_inputs,
    write_log,
)

sys.path.insert(0, str(Path(__file__).parent))
from synthetic import COLUMNS, make_input, make_log

METADATA = LogMetadata("mm", 0, (0, 0), ("m",), ("dtype",))
DURATIONS = st.one_of(st.floats(1e-3, 1e3), st.just(np.inf))
ROWS = st.lists(
    st.tuples(
        st.integers(1, 3), st.sampled_from("ab"), st.sampled_from("pqr"), DURATIONS
    ),
    min_size=1,
    max_size=25,
)


def log_of(rows):
    frame = pd.DataFrame(rows, columns=["m", "dtype", "choice", "feedback"])
    frame = frame.astype({"dtype": "category", "choice": "category"})
    return HeuristicLog(METADATA, frame)


def only(rows):
    """Return the one input of rows, which are pairs of a choice and a duration."""
    inputs = group_inputs(log_of([(1, "a", *row) for row in rows]))
    assert len(inputs) == 1
    return inputs.iloc[0]


def test_median_and_noise_of_repetitions():
    row = only([("pad", 1.0), ("orig", 8.0), ("pad", 3.0), ("pad", 2.0)])
    assert row["median_pad"] == 2.0
    assert row["rel_std_pad"] == pytest.approx(0.5)  # of 1, 2, 3: std 1, mean 2
    assert (row["n_pad"], row["n_orig"]) == (3, 1)
    assert np.isnan(row["rel_std_orig"])


@pytest.mark.parametrize(
    ("durations", "median", "n_failed"),
    [
        ([np.inf, 1.0, 2.0], 2.0, 1),
        ([np.inf, np.inf, 2.0], np.inf, 2),
        ([np.inf, 2.0], np.inf, 1),
        ([np.inf], np.inf, 1),
    ],
)
def test_a_choice_that_failed_half_the_time_has_failed(durations, median, n_failed):
    row = only([("pad", duration) for duration in durations])
    assert row["median_pad"] == median
    assert row["n_failed_pad"] == n_failed


def test_failed_repetitions_are_no_noise():
    row = only([("pad", 1.0), ("pad", np.inf), ("pad", 3.0)])
    assert row["rel_std_pad"] == pytest.approx(np.sqrt(2) / 2)


@pytest.mark.parametrize(
    ("rows", "winner", "gap"),
    [
        ([("orig", 3.0), ("pad", 2.0)], "pad", 1.5),
        ([("orig", 2.0), ("pad", 3.0)], "orig", 1.5),
        ([("pad", 2.0), ("orig", 2.0)], "orig", 1.0),
        ([("orig", np.inf), ("pad", 2.0)], "pad", np.inf),
        ([("a", 4.0), ("b", 1.0), ("c", 2.0)], "b", 2.0),
    ],
)
def test_winner_and_gap(rows, winner, gap):
    row = only(rows)
    assert (row["winner"], row["gap"]) == (winner, gap)


def test_an_input_without_a_second_choice_has_no_gap():
    log = log_of([(1, "a", "orig", 2.0), (2, "a", "orig", 2.0), (2, "a", "pad", 3.0)])
    first = group_inputs(log).iloc[0]
    assert first["winner"] == "orig"
    assert np.isnan(first["gap"])
    assert np.isnan(first["median_pad"])
    assert first["n_pad"] == 0


def test_an_input_of_which_all_failed_has_no_winner():
    row = only([("orig", np.inf), ("pad", np.inf)])
    assert pd.isna(row["winner"])
    assert np.isnan(row["gap"])


@settings(deadline=None)
@given(ROWS)
def test_equals_plain_python(rows):
    log = log_of(rows)
    inputs = group_inputs(log)
    keys = sorted({row[:2] for row in rows})
    assert list(inputs[["m", "dtype"]].itertuples(index=False, name=None)) == keys
    for (_, row), key in zip(inputs.iterrows(), keys, strict=True):
        medians = {}
        for choice in log.choices:
            values = [r[3] for r in rows if r[:2] == key and r[2] == choice]
            ran = [value for value in values if value < np.inf]
            assert row[f"n_{choice}"] == len(values)
            assert row[f"n_failed_{choice}"] == len(values) - len(ran)
            if values:
                medians[choice] = statistics.median(values)
                assert row[f"median_{choice}"] == medians[choice]
            if len(ran) > 1:
                noise = statistics.stdev(ran) / statistics.mean(ran)
                assert row[f"rel_std_{choice}"] == pytest.approx(noise, abs=1e-9)
        best = min(medians.values())
        if best < np.inf:
            assert row["winner"] == min(c for c in medians if medians[c] == best)


def test_inputs_are_sorted_by_features_and_keep_their_types():
    log = make_log(40, seed=1)
    inputs = log.inputs()
    features = inputs[COLUMNS].astype(dict.fromkeys(COLUMNS[12:], str))
    expected = features.sort_values(COLUMNS, ignore_index=True)
    pd.testing.assert_frame_equal(features, expected)
    assert (inputs[COLUMNS].dtypes == log.frame[COLUMNS].dtypes).all()
    assert inputs.index.equals(pd.RangeIndex(40))


def test_choices_of_some_inputs():
    assert choices_of(make_log(5).inputs()[:1]) == ["orig", "pad"]


def test_groups_are_sizes_in_any_order():
    products = [
        make_input(9, 8, 7),
        make_input(7, 9, 8, "torch.float32"),
        make_input(9, 8, 7, transposed=(True, False)),
        make_input(9, 8, 8),
    ]
    inputs = make_log(inputs=pd.DataFrame(products)).inputs()
    same = inputs["n"].ne(8) | inputs["m"].ne(9)
    groups = inputs["group"]
    assert groups[same].nunique() == 1
    assert groups[~same].nunique() == 1
    assert groups.nunique() == 2


def test_without_sizes_each_input_is_a_group():
    log = log_of([(1, "a", "p", 1.0), (1, "b", "p", 1.0)])
    assert group_inputs(log)["group"].tolist() == [0, 1]


def test_a_log_without_rows_has_no_inputs(tmp_path):
    log = make_log(3)
    empty = HeuristicLog(log.metadata, log.frame[:0])
    inputs = empty.inputs()
    assert len(inputs) == 0
    assert {"winner", "gap", "group"} <= set(inputs.columns)


def test_synthetic_logs_can_be_written(tmp_path):
    write_log(make_log(5), tmp_path / "log")
    assert len((tmp_path / "log").read_text().splitlines()) == 2 + 5 * 3 * 2
