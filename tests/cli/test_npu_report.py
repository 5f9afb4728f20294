import json

import pytest

from fasta_learn._cli import main
from fasta_learn.inductor._npu_stages import Stage, Stages
from fasta_learn.inductor._statistics import SearchRecord, _append
from fasta_learn.oracles import JournaledOracle, RecordedOracle


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    for name in ("FASTA_AUTOTUNE_STATS", "FASTA_LEARN_STATISTICS", "FASTA_LEARN_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FASTA_LEARN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("FASTA_LEARN_RUN", "run")
    return tmp_path / "cache" / "autotune" / "npu" / "kernel-0123"


@pytest.fixture
def report(tmp_path, capsys):
    def make(*arguments):
        path = tmp_path / "report.json"
        assert main(["doctor", "--report", str(path), *arguments]) == 0
        assert "fasta_learn" in capsys.readouterr().out
        return json.loads(path.read_text("utf-8"))

    return make


def write_journal(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    oracle = RecordedOracle([{"X0BLOCK": 64}], [0.25])
    JournaledOracle(oracle, path).measure([{"X0BLOCK": 64}])


def test_report_has_what_doctor_finds_and_the_settings(report, monkeypatch):
    monkeypatch.setenv("FASTA_LEARN_NPU_BUDGET", "0.5")
    monkeypatch.setenv("SECRET_OF_ANOTHER_PROGRAM", "hidden")
    found = report()
    assert {"fasta_learn", "packages", "inductor", "npu_versions"} <= set(found)
    assert found["settings"]["npu_budget"] == 0.5
    assert found["environment"]["FASTA_LEARN_NPU_BUDGET"] == "0.5"
    assert "hidden" not in json.dumps(found)


def test_report_has_the_journals_of_the_store_and_others(report, store, tmp_path):
    write_journal(store / "0123.jsonl")
    write_journal(tmp_path / "own" / "journal.jsonl")
    found = report("--journal", str(tmp_path / "own" / "journal.jsonl"))
    assert set(found["journals"]) == {"kernel-0123/0123.jsonl", "own/journal.jsonl"}
    ((config, measurement),) = found["journals"]["kernel-0123/0123.jsonl"]
    assert (config, measurement["duration"]) == ({"X0BLOCK": 64}, 0.25)


def test_report_has_the_statistics(report, tmp_path, monkeypatch):
    path = tmp_path / "searches.csv"
    _append(path, SearchRecord(kind="reduction", name="kernel", best_ms=0.5))
    monkeypatch.setenv("FASTA_LEARN_STATISTICS", str(path))
    (record,) = report()["statistics"]
    assert (record["name"], record["best_ms"]) == ("kernel", 0.5)


@pytest.mark.parametrize("wish", [None, "folder"])
def test_report_has_the_stages(report, tmp_path, monkeypatch, wish):
    folder = "1"
    if wish is not None:
        folder = str(tmp_path / wish)
        monkeypatch.setenv("FASTA_AUTOTUNE_STATS", folder)
    Stages([Stage("R2", 4, 0.0, 1.0)]).write("kernel", folder, 4)
    rows = report()["stages"]["duration-stats-run.csv"]
    assert rows[1][:4] == ["kernel", "R2", "1000.000", "4"]


def test_what_can_not_be_read_is_told_in_its_place(report, store, monkeypatch):
    store.mkdir(parents=True)
    (store / "torn.jsonl").write_text("this is no journal\n")
    monkeypatch.setenv("FASTA_LEARN_STATISTICS", str(store / "missing.csv"))
    monkeypatch.setenv("FASTA_LEARN_MARGIN", "much")
    found = report()
    assert found["statistics"].startswith("FileNotFoundError")
    assert found["settings"].startswith("ValueError: FASTA_LEARN_MARGIN")
    assert "Error" in found["journals"]["kernel-0123/torn.jsonl"]
