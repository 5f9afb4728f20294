import csv
import json
import logging
import math
import multiprocessing
import os
import sys

import pytest

from fasta_learn._cli import main
from fasta_learn.inductor import _statistics, statistics, summary
from fasta_learn.inductor._statistics import FIELDS, SearchRecord, read_records, record

sys.path.insert(0, os.path.dirname(__file__))
from children import run_child

SEARCH = SearchRecord(
    kind="mm",
    name="triton_mm_0",
    shape="64x32x16",
    dtype="float16",
    device="NVIDIA H200",
    n_pool=1206,
    n_measured=60,
    n_failed=2,
    stock_ms=0.05,
    best_ms=0.04,
    seconds=4.25,
    compile_seconds=3.5,
    stop_reason="budget",
    winner='BLOCK_M=64, "quoted"',
    pid=17,
)


@pytest.fixture(autouse=True)
def _no_records(monkeypatch):
    monkeypatch.setattr(_statistics, "_records", [])
    monkeypatch.setattr(_statistics, "_told", set())


@pytest.fixture
def path(tmp_path, monkeypatch):
    """Turn on the file of statistics."""
    path = tmp_path / "new" / "searches.csv"
    monkeypatch.setattr(_statistics, "_path", path)
    return path


def test_records_are_kept_in_order():
    record(SEARCH)
    record(SearchRecord(kind="reduction", name="sum"))
    first, second = statistics()
    assert (first["name"], first["best_ms"]) == ("triton_mm_0", 0.04)
    assert (second["name"], second["pid"]) == ("sum", os.getpid())
    assert math.isnan(second["stock_ms"])


def test_statistics_are_copies():
    record(SEARCH)
    statistics()[0]["name"] = "changed"
    assert statistics()[0]["name"] == "triton_mm_0"


def test_each_search_is_logged_in_one_line(caplog):
    caplog.set_level(logging.INFO, "fasta_learn.inductor")
    record(SEARCH)
    (line,) = [r.getMessage() for r in caplog.records]
    assert line == (
        "mm triton_mm_0 64x32x16 float16: search, 60 of 1206 measured, 2 failed, "
        "0.0400 ms (0.800 of Inductor's choice), 4.25 s (3.50 s compiling), budget: "
        'BLOCK_M=64, "quoted"'
    )


def test_line_leaves_out_what_is_unknown(caplog):
    caplog.set_level(logging.INFO, "fasta_learn.inductor")
    record(SearchRecord(kind="mm", name="mm", n_pool=21, source="frozen"))
    (line,) = [r.getMessage() for r in caplog.records]
    assert line == (
        "mm mm: frozen, 0 of 21 measured, 0 failed, 0.00 s (0.00 s compiling)"
    )


def test_lines_are_shown_by_torch_logs(tmp_path):
    code = """
import json, torch
from fasta_learn.inductor._statistics import SearchRecord, record
record(SearchRecord(kind="reduction", name="some_sum"))
print(json.dumps(None))
"""
    for variables, n_lines in (({}, 0), ({"TORCH_LOGS": "fasta_learn.inductor"}, 1)):
        _, errors = run_child(code, tmp_path, **variables)
        assert errors.count("reduction some_sum: search") == n_lines


def test_summary_counts_searches_and_compares_all_kernels():
    record(SEARCH)
    record(SearchRecord(kind="mm", name="b", source="store", stock_ms=1.0, best_ms=0.2))
    record(SearchRecord(kind="mm", name="c", n_pool=4, n_measured=4, seconds=1.0))
    # The geometric mean of 0.8 and 0.2 is 0.4.
    assert summary() == (
        "2 searches: 64 of 1210 configs measured (2 failed) in 5.2 s, 3.5 s of it "
        "compiling; 1 without a search; kernels take 0.400 of the time of Inductor's "
        "own choice"
    )


def test_file_has_a_header_and_a_line_for_each_search(path):
    record(SEARCH)
    record(SEARCH)
    with open(path, newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == list(FIELDS)
    assert rows[1] == rows[2]
    assert rows[1][:5] == ["mm", "triton_mm_0", "64x32x16", "float16", "NVIDIA H200"]


def test_file_reads_back(path):
    unknown = SearchRecord(kind="custom_op", name="line\nbreak", device="", pid=3)
    record(SEARCH)
    record(unknown)
    first, second = read_records(path)
    assert first == vars(SEARCH)
    assert math.isnan(second.pop("best_ms"))
    assert second == {k: v for k, v in vars(unknown).items() if k != "best_ms"} | {
        "stock_ms": second["stock_ms"]
    }


def test_nothing_is_written_without_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record(SEARCH)
    assert list(tmp_path.iterdir()) == []


def write_many(path, pid, start):
    _statistics._path = path
    start.wait()
    for _ in range(50):
        record(SearchRecord(kind="mm", name="x" * 3000, pid=pid))


def test_processes_share_a_file(path):
    context = multiprocessing.get_context("fork")
    start = context.Barrier(4)
    children = [
        context.Process(target=write_many, args=(path, pid, start)) for pid in range(4)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    pids = [entry["pid"] for entry in read_records(path)]
    assert sorted(pids) == [pid for pid in range(4) for _ in range(50)]


def test_file_that_cannot_be_written_is_told_once(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(_statistics, "_path", tmp_path / "file" / "searches.csv")
    record(SEARCH)
    record(SEARCH)
    (warning,) = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert "statistics can't be written" in warning.getMessage()
    assert len(statistics()) == 2


def test_file_of_something_else_is_left_alone(path, caplog):
    path.parent.mkdir()
    path.write_text("a,b\n1,2\n")
    record(SEARCH)
    assert path.read_text() == "a,b\n1,2\n"
    assert "other columns" in caplog.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "does not begin with the columns kind,name"),
        ("a,b\n1,2\n", "does not begin with the columns kind,name"),
        (",".join(FIELDS) + "\nmm,x\n", r"line 2 has 2 values; there are 16 columns"),
        (
            ",".join(FIELDS) + "\n" + ",".join(["many"] * len(FIELDS)) + "\n",
            r"line 2 has a value that is no number: .*many",
        ),
    ],
)
def test_file_that_cannot_be_read_is_an_error(tmp_path, text, message):
    path = tmp_path / "searches.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_records(path)


def test_report_shows_each_search_and_the_sum(path, capsys):
    record(SEARCH)
    record(SearchRecord(kind="mm", name="known", source="store"))
    assert main(["report", str(path)]) == 0
    header, first, second, blank, last = capsys.readouterr().out.splitlines()
    assert header.split()[:4] == ["kind", "name", "shape", "dtype"]
    expected = "mm triton_mm_0 64x32x16 float16 search 60 of 1206 2 50.00 µs 40.00 µs"
    assert first.split() == [*expected.split(), "0.800", "4.25"]
    assert second.split()[:5] == ["mm", "known", "-", "-", "store"]
    assert second.split()[-4:] == ["-", "-", "-", "0.00"]
    assert blank == ""
    assert last == summary()


def test_report_writes_json(path, capsys):
    record(SEARCH)
    record(SearchRecord(kind="mm", name="known", source="store"))
    assert main(["report", str(path), "--json"]) == 0
    out = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert out["mean_ratio"] == pytest.approx(0.8)
    assert out["searches"][0] == vars(SEARCH)
    assert out["searches"][1]["best_ms"] is None


def test_report_of_no_searches_is_the_sum(path, capsys):
    path.parent.mkdir()
    path.write_text(",".join(FIELDS) + "\n")
    assert main(["report", str(path)]) == 0
    assert capsys.readouterr().out.startswith("0 searches: ")


def test_report_names_a_missing_file(tmp_path, capsys):
    path = tmp_path / "none.csv"
    assert main(["report", str(path)]) == 2
    error = capsys.readouterr().err
    assert (
        error
        == f"fasta-learn: error: {path}: No such file or directory; check the path\n"
    )
