import json
import math

import numpy as np
import pytest
from scipy.stats import spearmanr

from fasta_learn import ActiveConfigSearch
from fasta_learn.experiments import replay, summarize
from fasta_learn.inductor._statistics import SearchRecord, _append
from fasta_learn.oracles import CallableOracle, JournaledOracle
from fasta_learn.report import read_facts
from fasta_learn.search import Racing


def test_journal_counts(small_journal):
    facts = read_facts(small_journal)
    assert facts["kind"] == "journal"
    assert facts["file"] == "journal.jsonl"
    assert facts["name"] == "add<kernel>"
    assert (facts["n_measured"], facts["n_failed"], facts["n_repeats"]) == (7, 2, 0)


def test_best_config_is_one_to_copy(small_journal):
    best = read_facts(small_journal)["best"]
    assert best["position"] == 5
    assert best["config"] == {"BLOCK": 256, "num_warps": 4}
    assert best["triton_config"] == "triton.Config({'BLOCK': 256}, num_warps=4)"
    assert (best["duration_ms"], best["p20_ms"]) == (0.5, 0.45)


def test_config_without_launch_options_is_no_triton_config(write_journal):
    path = write_journal([({"tile": 4}, 1.0)])
    assert read_facts(path)["best"]["triton_config"] is None


def test_improvements_are_those_faster_than_all_before(small_journal):
    steps = read_facts(small_journal)["improvements"]
    assert [(s["position"], s["duration_ms"]) for s in steps] == [
        (1, 4.0),
        (2, 2.0),
        (5, 0.5),
    ]


def test_journal_has_no_rounds(small_journal):
    assert read_facts(small_journal)["rounds"] == []


def test_failures_that_differ_in_numbers_are_one(small_journal):
    (failure,) = read_facts(small_journal)["failures"]
    assert failure["status"] == "out_of_resources"
    assert failure["reason"] == "shared memory: 9 of <4> bytes"
    assert (failure["count"], failure["n_reasons"]) == (2, 2)
    assert failure["example"]["config"]["BLOCK"] == 128


def test_time_is_added_up(small_journal):
    assert read_facts(small_journal)["time"] == {
        "n_known": 7,
        "compile_seconds": 5 * 0.5 + 2 * 0.25,
        "run_seconds": 5 * 0.125,
        "failed_seconds": 2 * 0.25,
        "repeat_seconds": 0.0,
    }


def test_about_is_the_flattened_fingerprint(small_journal):
    about = read_facts(small_journal)["about"]
    assert about["device"] == "H200"
    assert about["versions.a"] == "1"


def test_varying_parameters_are_told_with_each_value(small_journal):
    (entry,) = read_facts(small_journal)["parameters"]
    assert entry["name"] == "BLOCK"
    assert [value["value"] for value in entry["values"]] == [
        "16", "32", "64", "128", "256", "512", "1024"
    ]  # fmt: skip
    failed = entry["values"][3]
    assert (failed["n_measured"], failed["n_failed"]) == (1, 1)
    assert failed["best_ms"] is failed["mean_speed"] is None


def test_effect_of_a_parameter_that_acts_is_the_greatest(write_journal):
    path = write_journal(
        [
            ({"idle": idle, "BLOCK": 2**block}, 1.0 + abs(block - 6))
            for block in range(4, 10)
            for idle in (1, 2, 3)
        ]
    )
    first, second = read_facts(path)["parameters"]
    assert (first["name"], second["name"]) == ("BLOCK", "idle")
    speeds = [value["mean_speed"] for value in first["values"]]
    # Speeds relative to the best, known from how the durations are made.
    expected = [1 / (1 + abs(block - 6)) for block in range(4, 10)]
    assert speeds == pytest.approx(expected, abs=0.05)
    assert first["effect"] == pytest.approx(max(speeds) - min(speeds))
    assert second["effect"] < 0.05


def test_parameter_of_many_values_is_told_in_groups(write_journal):
    path = write_journal([({"x": x}, 1.0 + x) for x in range(30)])
    (entry,) = read_facts(path)["parameters"]
    assert len(entry["values"]) == 12
    assert entry["values"][0]["value"] == "0 … 2"
    assert sum(value["n_measured"] for value in entry["values"]) == 30


def test_parameter_that_some_configs_lack(write_journal):
    path = write_journal(
        [({"x": x, **({"y": [x]} if x % 2 else {})}, 1.0 + x) for x in range(6)]
    )
    by_name = {entry["name"]: entry for entry in read_facts(path)["parameters"]}
    values = {value["value"]: value for value in by_name["y"]["values"]}
    assert set(values) == {"not set", "[1]", "[3]", "[5]"}
    assert values["not set"]["n_measured"] == 3


def test_predictions_of_a_journal_leave_each_config_out(small_journal):
    known = read_facts(small_journal)["predictions"]
    assert known["origin"] == "left out"
    assert [pair["position"] for pair in known["pairs"]] == [1, 2, 3, 5, 7]
    assert [pair["measured_ms"] for pair in known["pairs"]] == [4.0, 2.0, 3.0, 0.5, 1.0]


def test_fewer_than_five_that_ran_are_not_learned(write_journal):
    path = write_journal([({"x": x}, 1.0 + x) for x in range(4)])
    facts = read_facts(path)
    assert facts["predictions"]["origin"] is None
    assert facts["parameters"][0]["effect"] is None


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_configs_that_can_not_be_learned_are_told_all_the_same(write_journal, odd):
    facts = read_facts(write_journal([({"x": odd, "y": y}, 1.0) for y in range(6)]))
    assert facts["predictions"]["origin"] is None
    assert facts["best"]["config"] == {"x": None, "y": 0}


def test_journal_without_a_config_that_ran(write_journal):
    facts = read_facts(write_journal([({"x": x}, math.inf) for x in range(6)]))
    assert facts["best"] is None
    assert facts["improvements"] == facts["fastest"] == []
    assert facts["n_failed"] == 6


def test_raced_journal_names_what_the_search_named(tmp_path):
    configs = [{"x": x, "y": y} for x in range(6) for y in range(6)]
    generator = np.random.default_rng(0)
    oracle = CallableOracle(
        lambda c: float((1 + c["x"] + c["y"]) ** 0.2 * generator.lognormal(0, 0.05))
    )
    path = tmp_path / "raced.jsonl"
    search = ActiveConfigSearch(budget=24, racing=Racing(), random_state=0)
    search.fit(configs, oracle=JournaledOracle(oracle, path))
    facts = read_facts(path)
    assert facts["best"]["config"] == search.best_config_
    assert facts["best"]["duration_ms"] == search.best_duration_
    assert facts["n_repeats"] == len(search.replicates_) > 0


def test_finalist_that_failed_once_does_not_win(tmp_path):
    answers = iter([1.0, 2.0, math.inf, 2.5])
    journal = JournaledOracle(
        CallableOracle(lambda config: next(answers)), tmp_path / "j.jsonl"
    )
    configs = [{"x": 1}, {"x": 2}]
    journal.measure(configs)
    list(journal.remeasure_each(configs))
    best = read_facts(tmp_path / "j.jsonl")["best"]
    assert (best["config"], best["duration_ms"]) == ({"x": 2}, 2.5)


def test_torn_last_line_is_left_out(small_journal):
    small_journal.write_bytes(small_journal.read_bytes()[:-9])
    assert read_facts(small_journal)["n_measured"] == 6


def test_results_are_those_of_the_search(results_path, search):
    facts = read_facts(results_path)
    assert facts["kind"] == "results"
    assert facts["best"]["index"] == search.best_index_
    assert facts["best"]["duration_ms"] == search.best_duration_
    assert facts["best"]["config"] is None
    assert facts["n_measured"] == search.n_measured_


def test_rounds_are_those_of_the_search(results_path, search):
    rounds = read_facts(results_path)["rounds"]
    assert [entry["n_measured"] for entry in rounds] == [
        record["n_measured"] for record in search.rounds_
    ]
    assert [entry["best_ms"] for entry in rounds] == [
        record["best_duration"] for record in search.rounds_
    ]


def test_failures_of_results_are_those_of_the_search(results_path, search):
    failed = search.results_["status"] != "ok"
    facts = read_facts(results_path)
    assert facts["n_failed"] == failed.sum() > 0
    assert sum(entry["count"] for entry in facts["failures"]) == failed.sum()


def test_predictions_are_those_of_the_search(results_path, search):
    known = read_facts(results_path)["predictions"]
    table = search.results_
    table = table[np.isfinite(table["duration"]) & table["predicted"].notna()]
    assert known["origin"] == "search"
    assert len(known["pairs"]) == len(table)
    error = (table["predicted"] / table["duration"] - 1).abs().median()
    assert known["median_error"] == pytest.approx(error)
    expected = spearmanr(table["predicted"], table["duration"]).statistic
    assert known["rank_correlation"] == pytest.approx(expected)


def test_prediction_that_is_infinite_is_none(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text("duration,status,round,predicted\n1,ok,1,inf\n2,ok,1,4\n")
    (pair,) = read_facts(path)["predictions"]["pairs"]
    assert (pair["position"], pair["predicted_ms"]) == (2, 4.0)


def test_further_columns_are_parameters(full_path, search):
    facts = read_facts(full_path)
    assert facts["best"]["config"] == search.best_config_
    assert facts["best"]["triton_config"].startswith("triton.Config({'BLOCK_M': ")
    assert {entry["name"] for entry in facts["parameters"]} == set(search.best_config_)


def test_written_index_of_the_table_is_no_parameter(tmp_path, search):
    search.results_.to_csv(tmp_path / "r.csv")
    assert read_facts(tmp_path / "r.csv")["parameters"] == []


def test_replay_is_summarized(tmp_path, pool):
    runs = replay([pool], ["default", "random"], budgets=[0.1], n_seeds=2)
    runs.to_csv(tmp_path / "runs.csv", index=False)
    facts = read_facts(tmp_path / "runs.csv")
    assert (facts["kind"], facts["n_runs"], facts["n_seeds"]) == ("replay", 4, 2)
    expected = summarize(runs)["mean_regret"]
    assert [row["mean_regret"] for row in facts["searches"]] == pytest.approx(expected)
    assert facts["n_missed"] == (~runs["catch"]).sum()


def test_statistics_are_told_by_kind(tmp_path):
    path = tmp_path / "statistics.csv"
    for stock, best in ((2.0, 1.0), (1.0, 2.0)):
        _append(path, SearchRecord(kind="mm", name="a", stock_ms=stock, best_ms=best))
    _append(path, SearchRecord(kind="reduction", name="b", source="store"))
    facts = read_facts(path)
    assert facts["mean_ratio"] == pytest.approx(1.0)
    assert [row["kind"] for row in facts["kinds"]] == ["mm", "reduction"]
    assert (facts["kinds"][0]["n_kernels"], facts["kinds"][0]["n_slower"]) == (2, 1)
    assert facts["kinds"][1]["mean_ratio"] is None
    assert facts["n_searches"] == 2


def test_large_journal_is_learned_from_a_part(large_journal):
    facts = read_facts(large_journal)
    assert facts["n_measured"] == 3_000
    assert len(facts["predictions"]["pairs"]) == 512
    assert facts["best"]["duration_ms"] == 2.0


def test_facts_are_strict_json(small_journal, results_path):
    for path in (small_journal, results_path):
        facts = read_facts(path)
        assert json.loads(json.dumps(facts, allow_nan=False)) == facts


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; give a journal"),
        (b"\xff\xfe\x00 nothing", "is no file that a search has written; give a jour"),
        (b"a,b\n1,2\n", "is no file that a search has written"),
        (b"BLOCK,duration_ms\n1,2\n", "is a recorded pool.*fasta-learn search FILE"),
        (b'{"journal": 1}\n', "is not a journal: line 1 is no header"),
        (b'{"journal": "fasta_learn", "vers', "no measurement yet; run the search"),
        (b"index,duration,status,round\n", "no measurement yet; run the search"),
        (b"index,duration,status,round\n0,1.0,odd,1\n", "line 2.*status must be one"),
        (b"index,duration,status,round\n0,-1,ok,1\n", "line 2.*negative"),
        (b"index,duration,status,round\n0,,ok,1\n", "line 2.*no duration.*to_csv"),
        (b"index,duration,status,round\n0,x,ok,1\n", "line 2.*to_csv"),
        (b"index,duration,status,round\n0,1,ok,1\n1,2,3,4,5,6,7\n", "is no table"),
        (b"duration,status,round\n1,ok,1\n\xff,ok,1\n", "damaged: it is not text"),
        (b"kind,name,n_pool,stock_ms\n", "no file of FASTA_LEARN_STATISTICS of this"),
        (
            b"pool,search,budget,seed,n_configs,n_measured,regret,catch,n_near\n",
            "no complete runs of a replay.*replay --csv",
        ),
    ],
)
def test_wrong_file_is_told_with_what_to_do(tmp_path, content, message):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_facts(path)


def test_statistics_that_are_damaged(tmp_path):
    path = tmp_path / "statistics.csv"
    _append(path, SearchRecord(kind="mm", name="a"))
    path.write_bytes(path.read_bytes() + b"\xff")
    with pytest.raises(ValueError, match=r"damaged.*restore it"):
        read_facts(path)


def test_journal_with_a_config_that_is_none(small_journal):
    line = '{"key": "[]", "config": [], "measurement": {"duration": 1.0}}\n'
    small_journal.write_text(small_journal.read_text() + line)
    with pytest.raises(ValueError, match=r"no set of parameters: \[\]; delete"):
        read_facts(small_journal)


def test_seconds_in_a_table_of_results(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text(
        "duration,status,round,compile_seconds,run_seconds,x\n1,ok,1,0.5,,4\n"
    )
    facts = read_facts(path)
    assert facts["time"]["compile_seconds"] == 0.5
    assert facts["best"]["config"] == {"x": 4}


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_facts(tmp_path / "none")


def test_corrupted_line_is_named(small_journal):
    lines = small_journal.read_text().splitlines()
    lines[3] = "nonsense"
    small_journal.write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match=r"line 4 is corrupted.*delete this line"):
        read_facts(small_journal)
