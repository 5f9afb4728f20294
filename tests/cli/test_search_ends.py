import signal

import pytest

from fasta_learn._cli import main
from fasta_learn.oracles import RecordedOracle

# -- Journal


def test_journal_resumes_without_measuring(run_search, tmp_path):
    journal = tmp_path / "runs.jsonl"
    first = run_search.text("swiglu_8M", "--journal", journal)
    before = journal.read_bytes()
    second = run_search.text("swiglu_8M", "--journal", journal)
    assert run_search.parse_summary(first)["journal"].split(":")[0].strip() == (
        "0 known before, 28 added"
    )
    assert run_search.parse_summary(second)["journal"].split(":")[0].strip() == (
        "28 known before, 0 added"
    )
    assert journal.read_bytes() == before
    assert run_search.parse_table(first) == run_search.parse_table(second)


def test_journal_goes_on_where_it_was_cut(run_search, tmp_path):
    journal = tmp_path / "runs.jsonl"
    whole = run_search.json("swiglu_8M", "--journal", journal)
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:11]) + lines[11][:20])
    out = run_search.text("swiglu_8M", "--journal", journal)
    assert "10 known before, 18 added" in run_search.parse_summary(out)["journal"]
    assert journal.read_text().splitlines(keepends=True) == lines
    again = run_search.json("swiglu_8M", "--journal", journal)
    assert run_search.without_time(again) == run_search.without_time(whole)


def test_journal_serves_other_seeds(run_search, tmp_path):
    journal = tmp_path / "runs.jsonl"
    run_search.json("swiglu_8M", "--journal", journal, "--seed", 0)
    record = run_search.json("swiglu_8M", "--journal", journal, "--seed", 1)
    plain = run_search.json("swiglu_8M", "--seed", 1)
    assert run_search.without_time(record) == run_search.without_time(plain)


def test_journal_of_another_pool_is_refused(run_search, tmp_path):
    journal = tmp_path / "runs.jsonl"
    run_search.json("swiglu_8M", "--journal", journal)
    before = journal.read_bytes()
    line = run_search.error("rope_4096_32_128", "--journal", journal)
    assert f"the journal {journal} was recorded for something else" in line
    assert journal.read_bytes() == before


def test_file_that_is_no_journal_is_left_alone(run_search, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("mine\n")
    assert "is not a journal" in run_search.error("--journal", path)
    assert path.read_text() == "mine\n"


def test_journal_needs_its_directory(run_search, tmp_path):
    journal = tmp_path / "none" / "runs.jsonl"
    assert "does not exist" in run_search.error("--journal", journal)


# -- Nothing found


def test_all_failed_is_1(run_search, write_pool_file):
    path = write_pool_file(lambda block, warps: "inf")
    line = run_search.error(path, status=1)
    assert "all 6 measured configs failed" in line


def test_all_failed_has_nulls_in_json(run_search, write_pool_file):
    path = write_pool_file(lambda block, warps: "inf")
    record = run_search.json(path, status=1)
    assert record["n_measured"] == 6
    for key in ("best_config", "best_duration_ms", "confidence", "regret"):
        assert record[key] is None
    assert record["catch"] is False


def test_measured_ones_failed_but_others_run(run_search, write_pool_file):
    path = write_pool_file(lambda block, warps: 1.0 if block + warps == 1 else "inf")
    record = run_search.json(path, "--budget", 2, status=1)
    assert (record["n_measured"], record["regret"]) == (2, None)


def test_no_time_at_all_is_1(run_search):
    record = run_search.json("--time-budget", 1e-9, status=1)
    assert (record["n_measured"], record["stop_reason"]) == (0, "time")


# -- Interruption


@pytest.fixture
def interrupt_after(monkeypatch):
    """Have Ctrl-C pressed after so many measurements."""

    def arrange(n_measurements):
        measure_each = RecordedOracle.measure_each

        def interrupted(oracle, configs):
            for measurement in measure_each(oracle, configs):
                if oracle.n_measured > n_measurements:
                    signal.raise_signal(signal.SIGINT)
                yield measurement

        monkeypatch.setattr(RecordedOracle, "measure_each", interrupted)

    return arrange


@pytest.mark.parametrize("n_measurements", [1, 4, 20])
def test_interrupted_search_writes_the_best_so_far(
    run_search, interrupt_after, n_measurements
):
    interrupt_after(n_measurements)
    out = run_search.text("swiglu_8M", status=130)
    assert run_search.parse_table(out)[-1][1] == str(n_measurements)
    assert run_search.parse_summary(out)["stopped"].strip().startswith("interrupted")


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ([], "with --journal FILE, the same command could go on from here"),
        (["--journal", "runs.jsonl"], "the same command goes on from runs.jsonl"),
    ],
)
def test_interrupt_says_how_to_go_on(
    capsys, tmp_path, monkeypatch, interrupt_after, options, hint
):
    monkeypatch.chdir(tmp_path)
    interrupt_after(20)
    assert main(["search", "swiglu_8M", *options]) == 130
    assert capsys.readouterr().err == f"fasta-learn: interrupted; {hint}\n"


def test_interrupted_search_writes_json(run_search, interrupt_after):
    interrupt_after(20)
    record = run_search.json("swiglu_8M", status=130)
    assert list(record) == ["pool", *run_search.KEYS, "regret", "catch"]
    assert (record["n_measured"], record["stop_reason"]) == (20, "interrupted")


def test_interrupted_at_once_writes_nothing(run_search, interrupt_after):
    interrupt_after(0)
    assert run_search.text("swiglu_8M", status=130) == ""


def test_interrupted_search_resumes(run_search, tmp_path, interrupt_after, monkeypatch):
    journal = tmp_path / "runs.jsonl"
    with monkeypatch.context():
        interrupt_after(20)
        run_search.text("swiglu_8M", "--journal", journal, status=130)
    monkeypatch.undo()
    out = run_search.text("swiglu_8M", "--journal", journal)
    assert "20 known before, 8 added" in run_search.parse_summary(out)["journal"]


# -- As a process


def test_piped_search_is_quiet(run_command):
    done = run_command("search", "swiglu_8M")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert "\r" not in done.stdout


def test_all_failed_process_exits_with_1(run_command, write_pool_file):
    done = run_command("search", write_pool_file(lambda block, warps: "inf"))
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
