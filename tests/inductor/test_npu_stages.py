import csv
import logging
import multiprocessing

import pytest

from fasta_learn.inductor._npu_stages import (
    HEADER,
    Stages,
    _append,
    run_name,
    stages_file,
)
from fasta_learn.inductor._npu_stages import Stage as NPUStage


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("FASTA_LEARN_RUN", "")
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    monkeypatch.setenv("FASTA_LEARN_CACHE_DIR", str(tmp_path / "cache"))


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_stages_of_a_kernel_are_rows_and_done_is_all_of_them(tmp_path):
    stages = Stages([NPUStage("R1_COMPILE", 5, 100.0, 100.25)])
    stages.done.append(NPUStage("R1_BENCHMARK", 7, 101.0, 101.5))
    stages.write("kernel", str(tmp_path), 7)
    (path,) = tmp_path.glob("duration-stats-*.csv")
    assert rows_of(path) == [
        ["Kernel", "Stage", "Duration(ms)", "Configs", "Start TS", "End TS"],
        ["kernel", "R1_COMPILE", "250.000", "5", "100.000000", "100.250000"],
        ["kernel", "R1_BENCHMARK", "500.000", "7", "101.000000", "101.500000"],
        ["kernel", "DONE", "1500.000", "7", "100.000000", "101.500000"],
    ]
    assert stages.seconds == 0.75


def test_stage_is_noted_though_it_fails():
    stages = Stages()
    with pytest.raises(ZeroDivisionError), stages.stage("R2", 4):
        raise ZeroDivisionError
    (stage,) = stages.done
    assert (stage.name, stage.n_configs) == ("R2", 4)
    assert stage.end >= stage.start


def write_many(folder, number):
    for _ in range(20):
        _append(folder / "stages.csv", f"kernel{number}", [NPUStage("R2", 1, 0.0, 1.0)])


def test_many_processes_write_one_file(tmp_path):
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=write_many, args=(tmp_path, number))
        for number in range(3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    header, *rows = rows_of(tmp_path / "stages.csv")
    assert tuple(header) == HEADER
    assert len(rows) == 60
    assert {len(row) for row in rows} == {6}


def test_file_is_in_the_folder_of_the_user(tmp_path):
    path = stages_file("1")
    assert path.parent == tmp_path / "cache" / "npu"
    assert stages_file(str(tmp_path)).parent == tmp_path


def test_children_share_the_name_of_the_run():
    name = run_name()
    assert run_name() == name  # by the environment, which children inherit


def test_ranks_of_torchrun_share_the_name_of_the_run(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "job 12")
    assert run_name() == "job_12"


def test_nothing_is_written_unless_it_is_wanted(tmp_path):
    Stages([NPUStage("R2", 1, 0.0, 1.0)]).write("kernel", None, 1)
    Stages().write("kernel", str(tmp_path / "stages"), 0)
    assert list(tmp_path.iterdir()) == []


def test_folder_that_can_not_be_written_is_told_once(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    stages = Stages([NPUStage("R2", 1, 0.0, 1.0)])
    with caplog.at_level(logging.WARNING, logger="fasta_learn.inductor"):
        for _ in range(2):
            stages.write("kernel", str(tmp_path / "file" / "folder"), 1)
    assert caplog.text.count("stages can't be written") == 1
