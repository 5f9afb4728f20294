import csv
import json
import math
import signal
from importlib.resources import files

import pytest

from fasta_learn import ActiveConfigSearch, dynamic_filter_search
from fasta_learn._cli import main
from fasta_learn.configs import write_pool
from fasta_learn.datasets import load_pool
from fasta_learn.oracles import RecordedOracle
from fasta_learn.search import CertaintyStop

KEYS = [
    "pool",
    "n_configs",
    "n_measured",
    "budget",
    "best_config",
    "best_duration_ms",
    "stop_reason",
    "confidence",
    "confidence_label",
    "seconds",
    "regret",
    "catch",
]


def bowl(block, warps):
    return 1 + 0.3 * (block - 5) ** 2 + 0.2 * (warps - 2) ** 2


def search_json(capsys, *arguments, status=0):
    assert main(["search", *map(str, arguments), "--json"]) == status
    return json.loads(capsys.readouterr().out, parse_constant=pytest.fail)


def search_text(capsys, *arguments, status=0):
    assert main(["search", *map(str, arguments)]) == status
    return capsys.readouterr().out


def search_error(capsys, *arguments, status=2):
    assert main(["search", *map(str, arguments)]) == status
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("fasta-learn: error: ")
    return line


def without_time(record):
    return {key: value for key, value in record.items() if key != "seconds"}


def read_rows(name):
    path = files("fasta_learn.datasets") / "pools" / f"{name}.csv"
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def parse_table(out):
    """The rows of the table of rounds, after its header."""
    lines = out.split("\n\n")[1].splitlines()
    assert lines[0].split() == [
        "round",
        "measured",
        "failed",
        "predicted",
        "best",
        "regret",
    ]
    return [line.split() for line in lines[1:]]


def parse_summary(out):
    lines = out.split("\n\n")[2].splitlines()
    return dict(line.split("  ", 1) for line in lines if not line.startswith(" "))


# -- JSON


def test_json_has_exactly_the_promised_keys(capsys):
    assert list(search_json(capsys)) == KEYS


def test_json_of_a_shipped_pool_agrees_with_its_file(capsys):
    record = search_json(capsys, "attn_16_4096_128", "--budget", 30, "--seed", 3)
    rows = read_rows("attn_16_4096_128")
    durations = [float(row["duration_ms"]) for row in rows]
    (found,) = (
        float(row["duration_ms"])
        for row in rows
        if all(row[key] == str(value) for key, value in record["best_config"].items())
    )
    assert record["n_configs"] == len(rows)
    assert record["n_measured"] == record["budget"] == 30
    assert record["best_duration_ms"] == found
    assert record["regret"] == pytest.approx(found / min(durations) - 1)
    assert record["catch"] is (found <= 1.05 * min(durations))
    assert record["stop_reason"] == "budget"
    assert 0 < record["confidence"] < 1
    assert record["confidence_label"] in ("high", "med", "low")
    assert record["seconds"] > 0


def test_json_is_one_line(capsys):
    assert main(["search", "swiglu_8M", "--json"]) == 0
    assert capsys.readouterr().out.count("\n") == 1


def test_without_a_pool_one_that_ships_is_searched(capsys):
    assert search_json(capsys)["pool"] == "mm_2048_2048_2048"


def test_result_is_that_of_the_estimator(capsys):
    pool = load_pool("rope_4096_32_128")
    search = ActiveConfigSearch(budget=20, random_state=5)
    search.fit(pool.configs, pool.durations)
    record = search_json(capsys, "rope_4096_32_128", "--budget", 20, "--seed", 5)
    assert record["best_config"] == search.best_config_
    assert record["confidence"] == search.confidence_
    assert record["confidence_label"] == search.confidence_label_


@pytest.mark.parametrize("probability", ["0.9", "90%"])
def test_stop_at_a_probability(capsys, probability):
    pool = load_pool("rope_4096_32_128")
    stop = CertaintyStop(probability=0.9)
    search = ActiveConfigSearch(budget=0.5, stopping=stop, random_state=0)
    search.fit(pool.configs, pool.durations)
    record = search_json(
        capsys, "rope_4096_32_128", "--budget=50%", f"--stop-at={probability}"
    )
    assert record["stop_reason"] == search.stop_reason_ == "confident"
    assert record["n_measured"] == search.n_measured_ < search.n_budget_
    assert record["confidence"] == search.confidence_ >= 0.9


def test_confidence_for_people(capsys):
    record = search_json(capsys, "swiglu_8M", "--budget", 12)
    assert main(["search", "swiglu_8M", "--budget", "12"]) == 0
    line = capsys.readouterr().out.rstrip().splitlines()[-1]
    assert line.startswith("confidence")
    assert f"{record['confidence']:.0%} to be within 5 % of the fastest" in line
    assert f"{record['confidence_label']} by the rule" in line


@pytest.mark.parametrize("profile", ["production", "reference"])
def test_profile_is_the_dynamic_filter(capsys, profile):
    pool = load_pool("rope_4096_32_128")
    search = dynamic_filter_search(profile, random_state=1)
    search.fit(pool.configs, pool.durations)
    record = search_json(capsys, "rope_4096_32_128", "--profile", profile, "--seed", 1)
    assert record["budget"] == search.n_budget_
    assert record["n_measured"] == search.n_measured_
    assert record["best_config"] == search.best_config_


@pytest.mark.parametrize(
    ("budget", "n_budget"), [("0.25", 8), ("25%", 8), ("7", 7), ("1.0", 32), ("1", 1)]
)
def test_budget_is_a_share_or_a_number(capsys, write_pool_file, budget, n_budget):
    record = search_json(capsys, write_pool_file(bowl), "--budget", budget)
    assert record["budget"] == record["n_measured"] == n_budget


def test_whole_budget_finds_the_best(capsys, write_pool_file):
    record = search_json(capsys, write_pool_file(bowl), "--budget", "1.0")
    assert record["best_config"] == {"BLOCK": 32, "num_warps": 2}
    assert (record["regret"], record["catch"]) == (0.0, True)
    assert record["stop_reason"] == "all"


def test_equal_seeds_give_equal_results(capsys):
    runs = [search_json(capsys, "gemv_11008_4096", "--seed", 9) for _ in range(2)]
    assert without_time(runs[0]) == without_time(runs[1])


# -- Kinds of files


def test_kernel_tuner_cache(capsys, tmp_path):
    cache = {
        f"{block},{warps}": {
            "block_size_x": block,
            "warps": warps,
            "time": block / warps,
        }
        for block in (32, 64, 128)
        for warps in (1, 2, 4)
    }
    path = tmp_path / "add.json"
    keys = {"block_size_x": [32, 64, 128], "warps": [1, 2, 4]}
    header = {"kernel_name": "add", "tune_params_keys": list(keys), "tune_params": keys}
    path.write_text(json.dumps({**header, "cache": cache}))
    record = search_json(capsys, path, "--budget", "1.0")
    assert record["best_config"] == {"block_size_x": 32, "warps": 4}
    assert record["best_duration_ms"] == 8.0


@pytest.mark.parametrize("name", ["copy.csv.gz", "copy.parquet"])
def test_file_gives_the_same_as_the_shipped_pool(capsys, tmp_path, name):
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    write_pool(load_pool("swiglu_8M"), tmp_path / name)
    record = search_json(capsys, tmp_path / name)
    shipped = search_json(capsys, "swiglu_8M")
    assert record["pool"] == "copy"
    assert record["best_config"] == shipped["best_config"]


# -- Text


def test_headline_counts_the_pool(capsys):
    out = search_text(capsys, "swiglu_8M")
    assert out.splitlines()[0] == "swiglu_8M: 140 configs, 3 parameters, budget 28"


@pytest.mark.parametrize("name", ["mm_500_512_30000", "attn_16_4096_128"])
@pytest.mark.parametrize("seed", [0, 1])
def test_table_has_first_improving_and_last_rounds(capsys, name, seed):
    pool = load_pool(name)
    search = ActiveConfigSearch(random_state=seed).fit(pool.configs, pool.durations)
    bests = [math.inf] + [record["best_duration"] for record in search.rounds_]
    expected = [
        [str(record["round"]), str(record["n_measured"])]
        for record, before in zip(search.rounds_, bests, strict=False)
        if record["best_duration"] < before or record["round"] == len(search.rounds_)
    ]
    rows = parse_table(search_text(capsys, name, "--seed", seed))
    assert [row[:2] for row in rows] == expected


def test_table_ends_with_the_result(capsys):
    out = search_text(capsys, "attn_16_4096_128", "--seed", 2)
    record = search_json(capsys, "attn_16_4096_128", "--seed", 2)
    last = parse_table(out)[-1]
    assert last[1] == str(record["n_measured"])
    assert last[-4:] == [
        f"{1000 * record['best_duration_ms']:.1f}",
        "µs",
        f"{100 * record['regret']:.1f}",
        "%",
    ]


def test_summary_tells_a_catch(capsys, write_pool_file):
    path = write_pool_file(lambda block, warps: 1.0 if block + warps < 11 else 0.99)
    summary = parse_summary(search_text(capsys, path, "--budget", "1"))
    assert summary["regret"].strip() == (
        "1.0 %: a catch, within 5 % of the fastest of the pool (990.0 µs)"
    )


def test_summary_tells_a_miss(capsys, write_pool_file):
    path = write_pool_file(lambda block, warps: 1.0 if block + warps < 11 else 0.5)
    summary = parse_summary(search_text(capsys, path, "--budget", "1"))
    assert summary["regret"].strip() == (
        "100.0 %: no catch, the fastest of the pool takes 500.0 µs"
    )


def test_summary_counts_what_was_saved(capsys, write_pool_file):
    path = write_pool_file(lambda block, warps: "inf" if warps > 3 else bowl(block, 1))
    summary = parse_summary(search_text(capsys, path, "--budget", "1.0"))
    assert summary["measured"].strip() == (
        "32 of 32 configs (100.0 %), 8 failed; 0.0 % saved"
    )
    assert summary["regret"].strip() == "0.0 %: it is the fastest of the pool"


def test_summary_tells_when_the_rounds_end_first(capsys):
    out = search_text(capsys, "mm_2048_2048_2048", "--profile", "production")
    assert "the rounds of the profile are used up" in parse_summary(out)["stopped"]


# -- Journal


def test_journal_resumes_without_measuring(capsys, tmp_path):
    journal = tmp_path / "runs.jsonl"
    first = search_text(capsys, "swiglu_8M", "--journal", journal)
    before = journal.read_bytes()
    second = search_text(capsys, "swiglu_8M", "--journal", journal)
    assert parse_summary(first)["journal"].split(":")[0].strip() == (
        "0 known before, 28 added"
    )
    assert parse_summary(second)["journal"].split(":")[0].strip() == (
        "28 known before, 0 added"
    )
    assert journal.read_bytes() == before
    assert parse_table(first) == parse_table(second)


def test_journal_goes_on_where_it_was_cut(capsys, tmp_path):
    journal = tmp_path / "runs.jsonl"
    whole = search_json(capsys, "swiglu_8M", "--journal", journal)
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:11]) + lines[11][:20])
    out = search_text(capsys, "swiglu_8M", "--journal", journal)
    assert "10 known before, 18 added" in parse_summary(out)["journal"]
    assert journal.read_text().splitlines(keepends=True) == lines
    again = search_json(capsys, "swiglu_8M", "--journal", journal)
    assert without_time(again) == without_time(whole)


def test_journal_serves_other_seeds(capsys, tmp_path):
    journal = tmp_path / "runs.jsonl"
    search_json(capsys, "swiglu_8M", "--journal", journal, "--seed", 0)
    record = search_json(capsys, "swiglu_8M", "--journal", journal, "--seed", 1)
    plain = search_json(capsys, "swiglu_8M", "--seed", 1)
    assert without_time(record) == without_time(plain)


def test_journal_of_another_pool_is_refused(capsys, tmp_path):
    journal = tmp_path / "runs.jsonl"
    search_json(capsys, "swiglu_8M", "--journal", journal)
    before = journal.read_bytes()
    line = search_error(capsys, "rope_4096_32_128", "--journal", journal)
    assert f"the journal {journal} was recorded for something else" in line
    assert journal.read_bytes() == before


def test_file_that_is_no_journal_is_left_alone(capsys, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("mine\n")
    assert "is not a journal" in search_error(capsys, "--journal", path)
    assert path.read_text() == "mine\n"


def test_journal_needs_its_directory(capsys, tmp_path):
    journal = tmp_path / "none" / "runs.jsonl"
    assert "does not exist" in search_error(capsys, "--journal", journal)


# -- Bad input


@pytest.mark.parametrize(
    "budget", ["0", "0.0", "-1", "1.5", "120%", "%", "half", "nan", "inf", "-3", "1e3"]
)
def test_bad_budget(capsys, budget):
    line = search_error(capsys, f"--budget={budget}")
    assert f"argument --budget: {budget!r} is neither a share" in line


@pytest.mark.parametrize("seed", ["-1", "1.5", "x", str(2**32)])
def test_bad_seed(capsys, seed):
    assert f"argument --seed: {seed!r}" in search_error(capsys, f"--seed={seed}")


@pytest.mark.parametrize("seconds", ["0", "-1", "x", "nan"])
def test_bad_time_budget(capsys, seconds):
    line = search_error(capsys, f"--time-budget={seconds}")
    assert f"argument --time-budget: {seconds!r}" in line


@pytest.mark.parametrize("probability", ["0", "1", "95", "100%", "x", "nan", "-0.5"])
def test_bad_probability(capsys, probability):
    line = search_error(capsys, f"--stop-at={probability}")
    assert f"argument --stop-at: {probability!r} is no probability" in line


def test_unknown_pool_gets_close_names_and_a_way_to_list_all(capsys):
    line = search_error(capsys, "swiglu_8m")
    assert "swiglu_8M" in line
    assert "fasta-learn search --help" in line


def test_help_lists_the_shipped_pools(capsys):
    out = search_text(capsys, "--help")
    assert "swiglu_8M" in out
    assert "xent_2048_50257" in out


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("BLOCK,duration_ms\n32,1.0\n64,fast\n", ["line 3", "'duration_ms'"]),
        ("BLOCK,duration_ms\n32,1.0\n32,2.0\n", ["line 3"]),
        ("BLOCK,duration_ms\n32\n", ["line 2", "'duration_ms'"]),
        ("BLOCK,time\n32,1.0\n", ["duration_ms"]),
        ("", ["empty"]),
    ],
)
def test_broken_file_is_refused_with_its_place(capsys, tmp_path, text, places):
    path = tmp_path / "broken.csv"
    path.write_text(text)
    line = search_error(capsys, path)
    for place in [str(path), *places]:
        assert place in line


def test_unknown_kind_of_file(capsys, tmp_path):
    path = tmp_path / "pool.txt"
    path.write_text("BLOCK,duration_ms\n32,1.0\n")
    assert ".csv" in search_error(capsys, path)


# -- Nothing found


def test_all_failed_is_1(capsys, write_pool_file):
    path = write_pool_file(lambda block, warps: "inf")
    line = search_error(capsys, path, status=1)
    assert "all 6 measured configs failed" in line


def test_all_failed_has_nulls_in_json(capsys, write_pool_file):
    path = write_pool_file(lambda block, warps: "inf")
    record = search_json(capsys, path, status=1)
    assert record["n_measured"] == 6
    for key in ("best_config", "best_duration_ms", "confidence", "regret"):
        assert record[key] is None
    assert record["catch"] is False


def test_measured_ones_failed_but_others_run(capsys, write_pool_file):
    path = write_pool_file(lambda block, warps: 1.0 if block + warps == 1 else "inf")
    record = search_json(capsys, path, "--budget", 2, status=1)
    assert (record["n_measured"], record["regret"]) == (2, None)


def test_no_time_at_all_is_1(capsys):
    record = search_json(capsys, "--time-budget", 1e-9, status=1)
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
    capsys, interrupt_after, n_measurements
):
    interrupt_after(n_measurements)
    out = search_text(capsys, "swiglu_8M", status=130)
    assert parse_table(out)[-1][1] == str(n_measurements)
    assert parse_summary(out)["stopped"].strip().startswith("interrupted")


def test_interrupted_search_writes_json(capsys, interrupt_after):
    interrupt_after(20)
    record = search_json(capsys, "swiglu_8M", status=130)
    assert list(record) == KEYS
    assert (record["n_measured"], record["stop_reason"]) == (20, "interrupted")


def test_interrupted_at_once_writes_nothing(capsys, interrupt_after):
    interrupt_after(0)
    assert search_text(capsys, "swiglu_8M", status=130) == ""


def test_interrupted_search_resumes(capsys, tmp_path, interrupt_after, monkeypatch):
    journal = tmp_path / "runs.jsonl"
    with monkeypatch.context():
        interrupt_after(20)
        search_text(capsys, "swiglu_8M", "--journal", journal, status=130)
    monkeypatch.undo()
    out = search_text(capsys, "swiglu_8M", "--journal", journal)
    assert "20 known before, 8 added" in parse_summary(out)["journal"]


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
