import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fasta_learn.heuristics import HeuristicLog, LogMetadata, merge_logs, write_log

METADATA = LogMetadata("mm", 232448, (9, 0), ("m", "k"), ("dtype",))
NAMES = ["m", "k", "dtype", "choice", "feedback"]


def log_of(*rows, metadata=METADATA, problems=()):
    frame = pd.DataFrame(rows, columns=NAMES)
    frame = frame.astype({"m": np.int64, "k": np.int64, "feedback": np.float64})
    frame = frame.astype({"dtype": "category", "choice": "category"})
    return HeuristicLog(metadata, frame, list(problems))


def rows_of(log):
    return list(log.frame[NAMES].astype(object).itertuples(index=False, name=None))


ORIG = (8, 3, "a", "orig", 1.0)
PAD = (8, 3, "a", "pad", 2.0)


def test_rows_follow_each_other():
    other = (4, 3, "b", "orig", 3.0)
    merged, report = merge_logs([log_of(ORIG, PAD), log_of(other)])
    assert rows_of(merged) == [ORIG, PAD, other]
    assert merged.metadata == METADATA
    assert (report.n_rows, report.n_inputs, report.n_copies) == (3, 2, 0)


def test_files_are_merged_by_name(tmp_path):
    paths = [tmp_path / name for name in ("one.txt", "two.xz")]
    write_log(log_of(ORIG), paths[0])
    write_log(log_of(PAD), paths[1])
    merged, report = merge_logs(paths)
    assert rows_of(merged) == [ORIG, PAD]
    assert report.files["name"].tolist() == [str(path) for path in paths]


def test_columns_and_keys_may_stand_in_any_order(tmp_path):
    write_log(log_of(ORIG), tmp_path / "one")
    values = json.loads(METADATA.header_line())
    values["numerical_features"].reverse()
    head = json.dumps({**dict(reversed(values.items())), "choices": ["orig"]})
    names = "feedback,choice,dtype,k,m"
    (tmp_path / "two").write_text(f"{head}\n{names}\n2.0,pad,a,3,8\n")
    merged, _ = merge_logs([tmp_path / "one", tmp_path / "two"])
    assert rows_of(merged) == [ORIG, PAD]
    assert list(merged.frame.columns) == NAMES


def test_categories_are_sorted_over_all_logs():
    merged, _ = merge_logs([log_of((1, 1, "b", "pad", 1.0)), log_of(ORIG)])
    assert merged.frame["dtype"].cat.categories.tolist() == ["a", "b"]


def test_other_devices_are_an_error_that_says_which():
    other = LogMetadata("mm", 166912, (8, 0), ("m", "k"), ("dtype",))
    message = (
        r"logs\[0\] and logs\[2\] can't be merged: they differ in shared_memory 232448 "
        r"and 166912; device_capa"
    )
    with pytest.raises(ValueError, match=message):
        merge_logs([log_of(ORIG), log_of(PAD), log_of(ORIG, metadata=other)])


@pytest.mark.parametrize("logs", [[], "log.txt", log_of(ORIG)])
def test_logs_must_be_a_list(logs):
    with pytest.raises(ValueError, match="a list of at least one log"):
        merge_logs(logs)


def test_strict_reading_is_passed_on(tmp_path):
    path = tmp_path / "log"
    write_log(log_of(ORIG), path)
    with path.open("a") as file:
        file.write("8,3\n")
    with pytest.raises(ValueError, match="line 4"):
        merge_logs([path], strict=True)
    assert merge_logs([path])[1].problems == [(str(path), 4, "2 fields instead of 5")]


def test_the_same_log_twice_is_once():
    log = log_of(ORIG, ORIG, PAD)
    merged, report = merge_logs([log, log])
    assert rows_of(merged) == [ORIG, ORIG, PAD]
    assert report.n_copies == 3
    assert report.files["n_copies"].tolist() == [0, 3]


def test_a_log_that_went_on_adds_what_is_new():
    merged, report = merge_logs([log_of(ORIG, PAD), log_of(ORIG, PAD, ORIG)])
    assert rows_of(merged) == [ORIG, PAD, ORIG]
    assert report.files["n_copies"].tolist() == [0, 2]


SOME = st.lists(st.sampled_from([ORIG, PAD, (*ORIG[:4], 3.0)]), max_size=8)


@settings(deadline=None, max_examples=60)
@given(st.lists(SOME, min_size=1, max_size=4))
def test_of_equal_rows_as_many_are_kept_as_one_log_has_most(lists):
    merged, report = merge_logs([log_of(*rows) for rows in lists])
    for row in {row for rows in lists for row in rows}:
        assert rows_of(merged).count(row) == max(rows.count(row) for rows in lists)
    assert report.n_rows + report.n_copies == sum(map(len, lists))


def test_medians_that_are_far_apart_are_contradictions():
    other = [(*ORIG[:4], value) for value in (1.2, 1.3, 1.4)]
    merged, report = merge_logs([log_of(ORIG, PAD), log_of(*other, PAD)])
    assert len(merged) == 5
    (found,) = report.contradictions.to_dict("records")
    assert found == {
        "m": 8,
        "k": 3,
        "dtype": "a",
        "choice": "orig",
        "low": 1.0,
        "high": 1.3,
        "ratio": 1.3,
        "low_file": "logs[0]",
        "high_file": "logs[1]",
    }


@pytest.mark.parametrize(("tolerance", "n_found"), [(0.29, 1), (0.31, 0)])
def test_tolerance_says_how_far(tolerance, n_found):
    logs = [log_of((*ORIG[:4], 1.3)), log_of(ORIG)]
    _, report = merge_logs(logs, tolerance=tolerance)
    assert len(report.contradictions) == n_found


def test_what_failed_in_one_log_alone_is_a_contradiction():
    failed = (*ORIG[:4], np.inf)
    _, report = merge_logs([log_of(failed, PAD), log_of(ORIG), log_of(failed)])
    assert report.contradictions["ratio"].tolist() == [np.inf]
    assert report.contradictions["low_file"].tolist() == ["logs[1]"]


def test_what_failed_in_all_logs_is_none():
    failed = (*ORIG[:4], np.inf)
    _, report = merge_logs([log_of(failed), log_of(failed, PAD)])
    assert len(report.contradictions) == 0


def test_repetitions_within_a_log_do_not_contradict():
    _, report = merge_logs([log_of(ORIG, (*ORIG[:4], 9.0))])
    assert len(report.contradictions) == 0


def test_failed_rows_are_counted_by_choice():
    failed = [(m, 3, "a", "orig", np.inf) for m in (1, 1, 2)]
    _, report = merge_logs([log_of(*failed[:2], PAD), log_of(failed[2], ORIG)])
    assert report.failed.to_dict("records") == [
        {"choice": "orig", "n_rows": 4, "n_failed": 3, "n_inputs": 2},
        {"choice": "pad", "n_rows": 1, "n_failed": 0, "n_inputs": 0},
    ]
    assert report.files["n_failed"].tolist() == [2, 1]


def test_inputs_that_lack_a_choice_are_counted():
    _, report = merge_logs([log_of(ORIG), log_of(PAD, (1, 1, "a", "pad", 1.0))])
    assert (report.n_inputs, report.n_incomplete) == (2, 1)


def test_problems_name_their_log():
    logs = [log_of(ORIG), log_of(PAD, problems=[(7, "odd")])]
    merged, report = merge_logs(logs)
    assert report.problems == [("logs[1]", 7, "odd")]
    assert merged.problems == [(7, "logs[1]: odd")]
    assert report.files["n_problems"].tolist() == [0, 1]


def test_empty_logs_do_not_matter():
    merged, report = merge_logs([log_of(), log_of(ORIG), log_of()])
    assert rows_of(merged) == [ORIG]
    assert report.files["n_inputs"].tolist() == [0, 1, 0]


def test_the_report_reads_as_text():
    logs = [log_of(ORIG, PAD, (*ORIG[:4], np.inf)), log_of(ORIG, (1, 1, "a", "pad", 2))]
    assert str(merge_logs(logs)[1]).splitlines() == [
        "logs[0]: 3 rows, 1 inputs, 1 failed, 0 copies, 0 problems",
        "logs[1]: 2 rows, 2 inputs, 0 failed, 1 copies, 0 problems",
        "merged: 4 rows, 2 inputs, 1 of them without some choice, 1 copies left out, "
        "1 contradictions",
    ]
