import json

import pytest

from fasta_learn._cli import main
from fasta_learn.inductor._statistics import SearchRecord, _append


@pytest.fixture
def run_report(capsys):
    def run(*arguments, status=0):
        assert main(["report", *map(str, arguments)]) == status
        return capsys.readouterr()

    return run


@pytest.fixture
def journal(tmp_path, run_search, write_pool_file):
    """The journal of a search over a grid, whose best config has BLOCK=8."""
    pool = write_pool_file(lambda block, warps: 1 + abs(block - 3) + warps / 8)
    path = tmp_path / "grid.jsonl"
    run_search.text(pool, "--journal", path)
    return path


@pytest.fixture
def statistics(tmp_path):
    path = tmp_path / "statistics.csv"
    _append(path, SearchRecord(kind="mm", name="matmul", stock_ms=2.0, best_ms=1.0))
    return path


def test_text_of_a_journal(run_report, journal):
    out = run_report(journal).out
    assert out.splitlines()[0].endswith("configs measured, 0 failed")
    assert "\nbest config  BLOCK=8, num_warps=1\n" in out
    assert out.splitlines()[-1] == "triton.Config({'BLOCK': 8}, num_warps=1)"


def test_text_of_statistics_is_its_table(run_report, statistics):
    out = run_report(statistics).out
    assert out.split()[:4] == ["kind", "name", "shape", "dtype"]
    assert "matmul" in out


def test_text_of_a_replay(run_report, tmp_path, write_pool_file, capsys):
    pool = write_pool_file(lambda block, warps: 1 + block + warps)
    runs = tmp_path / "runs.csv"
    options = ["--search", "random", "--budget", "4", "--seeds", "2", "--csv", runs]
    assert main(["replay", pool, *map(str, options)]) == 0
    capsys.readouterr()
    out = run_report(runs).out
    assert out.startswith("2 runs on 1 pool with 2 seeds")
    assert "random" in out


def test_page_is_written(run_report, journal, tmp_path):
    page = tmp_path / "report.html"
    assert run_report(journal, "-o", page).out == f"written to {page}\n"
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")


def test_json_has_the_facts(run_report, journal):
    facts = json.loads(run_report(journal, "--json").out, parse_constant=pytest.fail)
    assert facts["kind"] == "journal"
    assert facts["best"]["config"] == {"BLOCK": 8, "num_warps": 1}


def test_json_and_page_together(run_report, statistics, tmp_path):
    page = tmp_path / "report.html"
    facts = json.loads(run_report(statistics, "--json", "--output", page).out)
    assert facts["mean_ratio"] == 0.5
    assert "matmul" in page.read_text("utf-8")


def check_error(captured, *words):
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("fasta-learn: error: ")
    for word in words:
        assert word in line


def test_wrong_file_is_one_line(run_report, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("a\nb\n")
    check_error(run_report(path, status=2), "notes.txt", "give a journal")


def test_missing_file_is_one_line(run_report, tmp_path):
    check_error(run_report(tmp_path / "none", status=2), "No such file or directory")


def test_folder_is_one_line(run_report, tmp_path):
    check_error(run_report(tmp_path, status=2), "Is a directory")


def test_page_never_replaces_its_source(run_report, journal):
    before = journal.read_bytes()
    captured = run_report(journal, "-o", journal, status=2)
    check_error(captured, "name another for the output")
    assert journal.read_bytes() == before


def test_page_in_a_missing_folder_is_one_line(run_report, journal, tmp_path):
    captured = run_report(journal, "-o", tmp_path / "no" / "r.html", status=2)
    check_error(captured, "its folder does not exist; make it first")


def test_help_has_an_example(capsys):
    assert main(["report", "--help"]) == 0
    assert "fasta-learn report mm.jsonl -o report.html" in capsys.readouterr().out
