import csv
import io
import math

import pytest

from fasta_learn._cli import _record
from fasta_learn.configs import read_pool
from fasta_learn.oracles import JournaledOracle, TimingPlan

pytestmark = pytest.mark.usefixtures("spec_folder")


def n_measured(folder):
    return len((folder / "measured.txt").read_text().splitlines())


def test_pool_card_and_journal_are_written(run_record, spec_folder):
    run_record.text("standin:add", "-o", "pools")
    names = sorted(path.name for path in (spec_folder / "pools").iterdir())
    assert names == ["add_1024.csv", "add_1024.jsonl", "add_1024.md"]
    pool = read_pool("pools/add_1024.csv")
    assert (len(pool), pool.best_duration) == (22, 1.0)


def test_line_about_the_pool(run_record):
    assert run_record.text("standin:add", "-o", "pools").splitlines() == [
        "add_1024: 22 configs (0 known before, 22 measured now), 3 failed (3 × "
        "out_of_resources), best 1.000 ms, written to pools/add_1024.csv"
    ]


def test_line_about_a_pool_without_failures(run_record):
    out = run_record.text("standin:add", "--set=limit=9999", "-o", "pools")
    assert "none failed, best 1.000 ms" in out


def test_several_specs(run_record, spec_folder):
    out = run_record.text("standin:add(rows=7)", "standin:add", "--output", "pools")
    assert [line.split(":")[0] for line in out.splitlines()] == ["add_7", "add_1024"]
    assert len(list((spec_folder / "pools").glob("*.csv"))) == 2


@pytest.mark.parametrize("seed", [0, 5])
def test_sample_is_seeded(run_record, seed):
    for folder in ("one", "two"):
        run_record.text("standin:add", "-o", folder, "--sample=9", "--seed", seed)
    one, two = (read_pool(f"{folder}/add_1024.csv") for folder in ("one", "two"))
    assert len(one) == 9
    assert one.configs == two.configs


def test_seed_decides_about_the_sample(run_record):
    for seed in (0, 1):
        run_record.text("standin:add", f"-o{seed}", "--sample=9", "--seed", seed)
    assert read_pool("0/add_1024.csv").configs != read_pool("1/add_1024.csv").configs


def test_options_are_those_of_the_oracle(run_record, spec_folder):
    run_record.text("standin:add", "-opools", "--devices=0,1", "--jobs=3")
    text = (spec_folder / "options.txt").read_text()
    options = eval(text, {"TimingPlan": TimingPlan})
    timing = TimingPlan(cutoff=None)
    assert options == {"devices": [0, 1], "n_jobs": 3, "timing": timing}


# -- Going on


def test_second_run_measures_nothing(run_record, spec_folder):
    run_record.text("standin:add", "-o", "pools")
    before = (spec_folder / "pools" / "add_1024.csv").read_bytes()
    out = run_record.text("standin:add", "-o", "pools")
    assert "22 configs (22 known before, 0 measured now)" in out
    assert n_measured(spec_folder) == 22
    assert (spec_folder / "pools" / "add_1024.csv").read_bytes() == before


def test_time_that_is_up(run_record, spec_folder):
    arguments = ("standin:add", "standin:add(rows=7)", "-o", "pools")
    out = run_record.text(*arguments, "--max-seconds", "1e-9", status=3)
    assert out.splitlines() == [
        "the time was up with 2 of the pools to complete (standin:add, "
        "standin:add(rows=7)); the same command goes on from there"
    ]
    assert not (spec_folder / "pools").exists()


def test_time_that_is_up_in_the_middle(run_record, spec_folder, monkeypatch):
    ticks = iter(range(100))
    monkeypatch.setattr("time.monotonic", lambda: float(next(ticks)))
    arguments = ("standin:add", "-o", "pools")
    out = run_record.text(*arguments, "--max-seconds", "8", status=3)
    monkeypatch.undo()
    monkeypatch.chdir(spec_folder)
    n_first = n_measured(spec_folder)
    assert 1 < n_first < 22
    assert out.splitlines() == [
        f"add_1024: {n_first} of 22 configs (0 known before, {n_first} measured now), "
        "kept in pools/add_1024.jsonl",
        "the time was up with 1 of the pools to complete (standin:add); the same "
        "command goes on from there",
    ]
    assert not (spec_folder / "pools" / "add_1024.csv").exists()
    out = run_record.text(*arguments)
    assert f"({n_first} known before, {22 - n_first} measured now)" in out
    assert n_measured(spec_folder) == 22


def test_other_sample_in_the_same_folder_is_refused(run_record):
    run_record.text("standin:add", "-o", "pools", "--sample", 5)
    line = run_record.error("standin:add", "-o", "pools", "--sample", 6)
    assert "was recorded for something else: pool differ" in line


def test_recording_without_its_journal_is_not_overwritten(run_record, spec_folder):
    run_record.text("standin:add", "-o", "pools", "--sample", 5)
    (spec_folder / "pools" / "add_1024.jsonl").unlink()
    line = run_record.error("standin:add", "-o", "pools")
    assert "pools/add_1024.csv: this pool was recorded before and its journal" in line


# -- Progress


def test_progress_of_each_measurement(run_record, recorder, monkeypatch):
    monkeypatch.setattr(_record, "make_display", lambda: recorder)
    run_record.text("standin:add", "-o", "pools")
    assert recorder.calls[0] == ("start", 22)
    # BLOCK=16, num_warps=1 takes 1 + 3 + 1 ms.
    assert recorder.calls[1] == (1, "best 5.000 ms")
    assert recorder.calls[22] == (22, "best 1.000 ms")
    assert recorder.calls[23:] == ["stop"]


def test_interrupted_recording_is_kept(run_record, recorder, monkeypatch):
    def interrupt(done, best):
        if done == 3:
            raise KeyboardInterrupt

    recorder.update = interrupt
    monkeypatch.setattr(_record, "make_display", lambda: recorder)
    assert run_record.text("standin:add", "-o", "pools", status=130) == ""
    assert recorder.calls == [("start", 22), "stop"]
    assert len(JournaledOracle.read("pools/add_1024.jsonl")) == 3


# -- What goes wrong


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["standin:add"], "the following arguments are required: -o/--output"),
        (["-o", "pools"], "the following arguments are required: SPEC"),
        (["standin:none", "-o", "pools"], "has no function 'none'"),
        (
            ["standin:driverless", "-o", "pools"],
            "add_kernel can't be measured: 0 active",
        ),
        (["standin:no_device", "-o", "pools"], "Found no NVIDIA driver"),
        (["standin:add", "-o", "pools", "--sample", "0"], "'0' is no whole number"),
        (["standin:add", "-o", "pools", "--max-seconds", "0"], "'0' is no positive"),
        (["standin:add", "-o", "standin.py"], "standin.py: File exists"),
    ],
)
def test_bad_input(run_record, arguments, message):
    assert message in run_record.error(*arguments)


def test_piped_process_is_quiet(run_command, spec_folder):
    done = run_command("record", "standin:add", "-o", "pools", cwd=spec_folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 1


def test_columns(run_record, spec_folder):
    run_record.text("standin:add", "-o", "pools")
    text = (spec_folder / "pools" / "add_1024.csv").read_text()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert ",".join(rows[0]) == (
        "BLOCK,num_warps,duration_ms,duration_p20_ms,duration_p80_ms,compile_seconds,"
        "registers,spills,shared_bytes,status"
    )
    assert ",".join(rows[0].values()) == "16,1,5.0,0.5,9.0,0.5,32,0,64,ok"
    assert ",".join(rows[-1].values()) == (
        "1024,8,inf,,,0.25,,,,out_of_resources: shared memory: 9 of 4 bytes"
    )


@pytest.mark.usefixtures("simulated_gpu")
def test_kernel_is_compiled_and_recorded(run_record, spec_folder):
    run_record.text("scale.py:scale", "--no-isolate", "-o", "pools")
    pool = read_pool("pools/scale_5000.csv")
    assert pool.durations.tolist() == [0.5, 0.5, 1.0, 1.0, 2.0, 2.0] + [math.inf] * 2
    assert {status.split(":")[0] for status in pool.status} == {"ok", "compile_error"}
    assert (pool.extra["registers"][:6] > 0).all()
    assert (pool.extra["compile_seconds"][:6] > 0).all()
