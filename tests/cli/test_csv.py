"""``--csv`` of ``search`` and ``tune``."""

import math

import pandas as pd
import pytest

from fasta_learn._cli import main
from fasta_learn.datasets import load_pool
from fasta_learn.report import read_facts


def test_table_has_each_measurement_and_its_config(run_search, tmp_path):
    path = tmp_path / "results.csv"
    record = run_search.json("swiglu_8M", "--csv", path)
    pool, table = load_pool("swiglu_8M"), pd.read_csv(path)
    assert len(table) == record["n_measured"]
    for row in table.to_dict("records"):
        config = pool.configs[row["index"]]
        assert {name: row[name] for name in config} == config
        assert row["duration"] == pool.durations[row["index"]]


def test_output_is_the_same(run_search, tmp_path):
    plain = run_search.json("swiglu_8M")
    record = run_search.json("swiglu_8M", "--csv", tmp_path / "results.csv")
    assert run_search.without_time(record) == run_search.without_time(plain)


def test_report_reads_it(run_search, tmp_path):
    path = tmp_path / "results.csv"
    record = run_search.json("swiglu_8M", "--csv", path)
    assert read_facts(path)["best"]["config"] == record["best_config"]


def test_parameter_with_the_name_of_a_column(run_search, tmp_path):
    pool, path = tmp_path / "pool.csv", tmp_path / "results.csv"
    lines = [f"{value},{value % 3 + 1}.5" for value in range(9)]
    pool.write_text("\n".join(["round,duration_ms", *lines]))
    run_search.json(pool, "--csv", path)
    table = pd.read_csv(path)
    assert list(table["round_parameter"]) == list(table["index"])


def test_failed_configs_have_their_reason(run_tune, spec_folder):
    run_tune.json("standin:add", "--budget", "1.0", "--csv", "results.csv")
    table = pd.read_csv("results.csv")
    failed = table[table["BLOCK"] * table["num_warps"] > 2048]
    assert len(failed) > 0
    assert set(failed["reason"]) == {"shared memory: 9 of 4 bytes"}
    assert set(failed["duration"]) == {math.inf}


def test_interrupted_search_has_what_was_measured(spec_folder):
    assert main(["tune", "standin:broken_later", "--csv", "results.csv"]) == 130
    assert (pd.read_csv("results.csv")["BLOCK"] >= 64).all()


@pytest.mark.parametrize("command", ["search", "tune"])
def test_place_is_checked_before_anything_else(capsys, tmp_path, command):
    assert main([command, "no_such_pool", "--csv", str(tmp_path)]) == 2
    assert "it is a folder" in capsys.readouterr().err
