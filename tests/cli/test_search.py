import csv
import json
import math
from importlib.resources import files

import pytest

from fasta_learn import ActiveConfigSearch, dynamic_filter_search
from fasta_learn._cli import main
from fasta_learn.configs import write_pool
from fasta_learn.datasets import list_pools, load_pool
from fasta_learn.search import CertaintyStop


def bowl(block, warps):
    return 1 + 0.3 * (block - 5) ** 2 + 0.2 * (warps - 2) ** 2


def read_rows(name):
    path = files("fasta_learn.datasets") / "pools" / "original" / f"{name}.csv"
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


# -- JSON


def test_json_has_exactly_the_promised_keys(run_search):
    assert list(run_search.json()) == ["pool", *run_search.KEYS, "regret", "catch"]


def test_json_of_a_shipped_pool_agrees_with_its_file(run_search):
    record = run_search.json("attn_16_4096_128", "--budget", 30, "--seed", 3)
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


def test_without_a_pool_one_that_ships_is_searched(run_search):
    assert run_search.json()["pool"] == "mm_2048_2048_2048"


def test_result_is_that_of_the_estimator(run_search):
    pool = load_pool("rope_4096_32_128")
    search = ActiveConfigSearch(budget=20, random_state=5)
    search.fit(pool.configs, pool.durations)
    record = run_search.json("rope_4096_32_128", "--budget", 20, "--seed", 5)
    assert record["best_config"] == search.best_config_
    assert record["confidence"] == search.confidence_
    assert record["confidence_label"] == search.confidence_label_


@pytest.mark.parametrize("probability", ["0.9", "90%"])
def test_stop_at_a_probability(run_search, probability):
    pool = load_pool("rope_4096_32_128")
    stop = CertaintyStop(probability=0.9)
    search = ActiveConfigSearch(budget=0.5, stopping=stop, random_state=0)
    search.fit(pool.configs, pool.durations)
    record = run_search.json(
        "rope_4096_32_128", "--budget=50%", f"--stop-at={probability}"
    )
    assert record["stop_reason"] == search.stop_reason_ == "confident"
    assert record["n_measured"] == search.n_measured_ < search.n_budget_
    assert record["confidence"] == search.confidence_ >= 0.9


def test_confidence_for_people(run_search, capsys):
    record = run_search.json("swiglu_8M", "--budget", 12)
    assert main(["search", "swiglu_8M", "--budget", "12"]) == 0
    line = capsys.readouterr().out.rstrip().splitlines()[-1]
    assert line.startswith("confidence")
    assert f"{record['confidence']:.0%} to be within 5 % of the fastest" in line
    assert f"{record['confidence_label']} by the rule" in line


@pytest.mark.parametrize("profile", ["production", "reference"])
def test_profile_is_the_dynamic_filter(run_search, profile):
    pool = load_pool("rope_4096_32_128")
    search = dynamic_filter_search(profile, random_state=1)
    search.fit(pool.configs, pool.durations)
    record = run_search.json("rope_4096_32_128", "--profile", profile, "--seed", 1)
    assert record["budget"] == search.n_budget_
    assert record["n_measured"] == search.n_measured_
    assert record["best_config"] == search.best_config_


@pytest.mark.parametrize(
    ("budget", "n_budget"), [("0.25", 8), ("25%", 8), ("7", 7), ("1.0", 32), ("1", 1)]
)
def test_budget_is_a_share_or_a_number(run_search, write_pool_file, budget, n_budget):
    record = run_search.json(write_pool_file(bowl), "--budget", budget)
    assert record["budget"] == record["n_measured"] == n_budget


def test_whole_budget_finds_the_best(run_search, write_pool_file):
    record = run_search.json(write_pool_file(bowl), "--budget", "1.0")
    assert record["best_config"] == {"BLOCK": 32, "num_warps": 2}
    assert (record["regret"], record["catch"]) == (0.0, True)
    assert record["stop_reason"] == "all"


def test_equal_seeds_give_equal_results(run_search):
    runs = [run_search.json("gemv_11008_4096", "--seed", 9) for _ in range(2)]
    assert run_search.without_time(runs[0]) == run_search.without_time(runs[1])


# -- Kinds of files


def test_kernel_tuner_cache(run_search, tmp_path):
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
    record = run_search.json(path, "--budget", "1.0")
    assert record["best_config"] == {"block_size_x": 32, "warps": 4}
    assert record["best_duration_ms"] == 8.0


@pytest.mark.parametrize("name", ["copy.csv.gz", "copy.parquet"])
def test_file_gives_the_same_as_the_shipped_pool(run_search, tmp_path, name):
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    write_pool(load_pool("swiglu_8M"), tmp_path / name)
    record = run_search.json(tmp_path / name)
    shipped = run_search.json("swiglu_8M")
    assert record["pool"] == "copy"
    assert record["best_config"] == shipped["best_config"]


# -- Text


def test_headline_counts_the_pool(run_search):
    out = run_search.text("swiglu_8M")
    assert out.splitlines()[0] == "swiglu_8M: 140 configs, 3 parameters, budget 28"


@pytest.mark.parametrize("name", ["mm_500_512_30000", "attn_16_4096_128"])
@pytest.mark.parametrize("seed", [0, 1])
def test_table_has_first_improving_and_last_rounds(run_search, name, seed):
    pool = load_pool(name)
    search = ActiveConfigSearch(random_state=seed).fit(pool.configs, pool.durations)
    bests = [math.inf] + [record["best_duration"] for record in search.rounds_]
    expected = [
        [str(record["round"]), str(record["n_measured"])]
        for record, before in zip(search.rounds_, bests, strict=False)
        if record["best_duration"] < before or record["round"] == len(search.rounds_)
    ]
    rows = run_search.parse_table(run_search.text(name, "--seed", seed))
    assert [row[:2] for row in rows] == expected


def test_table_ends_with_the_result(run_search):
    out = run_search.text("attn_16_4096_128", "--seed", 2)
    record = run_search.json("attn_16_4096_128", "--seed", 2)
    last = run_search.parse_table(out)[-1]
    assert last[1] == str(record["n_measured"])
    assert last[-4:] == [
        f"{1000 * record['best_duration_ms']:.1f}",
        "µs",
        f"{100 * record['regret']:.1f}",
        "%",
    ]


def test_summary_tells_a_catch(run_search, write_pool_file):
    path = write_pool_file(lambda block, warps: 1.0 if block + warps < 11 else 0.99)
    summary = run_search.parse_summary(run_search.text(path, "--budget", "1"))
    assert summary["regret"].strip() == (
        "1.0 %: a catch, within 5 % of the fastest of the pool (990.0 µs)"
    )


def test_summary_tells_a_miss(run_search, write_pool_file):
    path = write_pool_file(lambda block, warps: 1.0 if block + warps < 11 else 0.5)
    summary = run_search.parse_summary(run_search.text(path, "--budget", "1"))
    assert summary["regret"].strip() == (
        "100.0 %: no catch, the fastest of the pool takes 500.0 µs"
    )


def test_summary_counts_what_was_saved(run_search, write_pool_file):
    path = write_pool_file(lambda block, warps: "inf" if warps > 3 else bowl(block, 1))
    summary = run_search.parse_summary(run_search.text(path, "--budget", "1.0"))
    assert summary["measured"].strip() == (
        "32 of 32 configs (100.0 %), 8 failed; 0.0 % saved"
    )
    assert summary["regret"].strip() == "0.0 %: it is the fastest of the pool"


def test_summary_tells_when_the_rounds_end_first(run_search):
    out = run_search.text("mm_2048_2048_2048", "--profile", "production")
    assert (
        "the rounds of the profile are used up"
        in run_search.parse_summary(out)["stopped"]
    )


# -- Bad input


@pytest.mark.parametrize(
    "budget", ["0", "0.0", "-1", "1.5", "120%", "%", "half", "nan", "inf", "-3", "1e3"]
)
def test_bad_budget(run_search, budget):
    line = run_search.error(f"--budget={budget}")
    assert f"argument --budget: {budget!r} is neither a share" in line


@pytest.mark.parametrize("seed", ["-1", "1.5", "x", str(2**32)])
def test_bad_seed(run_search, seed):
    assert f"argument --seed: {seed!r}" in run_search.error(f"--seed={seed}")


@pytest.mark.parametrize("seconds", ["0", "-1", "x", "nan"])
def test_bad_time_budget(run_search, seconds):
    line = run_search.error(f"--time-budget={seconds}")
    assert f"argument --time-budget: {seconds!r}" in line


@pytest.mark.parametrize("probability", ["0", "1", "95", "100%", "x", "nan", "-0.5"])
def test_bad_probability(run_search, probability):
    line = run_search.error(f"--stop-at={probability}")
    assert f"argument --stop-at: {probability!r} is no probability" in line


def test_unknown_pool_gets_close_names_and_a_way_to_list_all(run_search):
    line = run_search.error("swiglu_8m")
    assert "swiglu_8M" in line
    assert "fasta-learn search --help" in line


def test_help_lists_the_shipped_pools_by_collection(run_search):
    names = " ".join(run_search.text("--help").split())
    original, kernels = names.partition("in original: ")[2].split("; in kernels: ")
    assert original.split(", ") == list_pools("original")
    assert kernels.rstrip(".").split(", ") == list_pools("kernels")


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
def test_broken_file_is_refused_with_its_place(run_search, tmp_path, text, places):
    path = tmp_path / "broken.csv"
    path.write_text(text)
    line = run_search.error(path)
    for place in [str(path), *places]:
        assert place in line


def test_unknown_kind_of_file(run_search, tmp_path):
    path = tmp_path / "pool.txt"
    path.write_text("BLOCK,duration_ms\n32,1.0\n")
    assert ".csv" in run_search.error(path)
