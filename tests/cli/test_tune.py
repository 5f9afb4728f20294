import json
import sys

import pytest

from fasta_learn import ActiveConfigSearch, dynamic_filter_search
from fasta_learn.oracles import JournaledOracle, load_kernel_spec

COSTS = ["compile_seconds", "run_seconds", "failures"]

pytestmark = pytest.mark.usefixtures("spec_folder")


def n_measured(folder):
    return len((folder / "measured.txt").read_text().splitlines())


def search_by_hand(spec, **settings):
    with spec.oracle() as oracle:
        return ActiveConfigSearch(**settings).fit(spec.configs, oracle=oracle)


# -- Result


def test_json_has_exactly_the_promised_keys(run_tune):
    assert list(run_tune.json("standin:add")) == ["kernel", *run_tune.KEYS, *COSTS]


@pytest.mark.parametrize("spec", ["standin:add", "standin.py:add"])
def test_whole_budget_finds_the_best(run_tune, spec_folder, spec):
    record = run_tune.json(spec, "--budget", "1.0")
    assert record["kernel"] == "add_1024"
    assert record["best_config"] == {"BLOCK": 128, "num_warps": 2}
    assert record["best_duration_ms"] == 1.0
    assert record["n_measured"] == record["n_configs"] == n_measured(spec_folder) == 22
    # 19 configs run, 3 fail: BLOCK 512 with 8 warps, and 1024 with 4 and 8.
    assert record["compile_seconds"] == 19 * 0.5 + 3 * 0.25
    assert record["run_seconds"] == 19 * 0.125
    assert record["failures"] == {"out_of_resources: shared memory: 9 of 4 bytes": 3}


def test_result_is_that_of_the_estimator(run_tune):
    search = search_by_hand(load_kernel_spec("standin:add"), budget=0.4, random_state=7)
    record = run_tune.json("standin:add", "--budget=40%", "--seed", 7)
    assert record["n_measured"] == search.n_measured_
    assert record["best_config"] == search.best_config_
    assert record["confidence"] == search.confidence_


def test_profile_is_the_dynamic_filter(run_tune):
    spec = load_kernel_spec("standin:add")
    search = dynamic_filter_search("reference", random_state=0)
    with spec.oracle() as oracle:
        search.fit(spec.configs, oracle=oracle)
    record = run_tune.json("standin:add", "--profile", "reference")
    assert record["budget"] == search.n_budget_
    assert record["n_measured"] == search.n_measured_


def test_text_ends_with_a_line_to_copy(run_tune):
    out = run_tune.text("standin:add", "--budget", "1.0")
    assert out.endswith("\n\ntriton.Config({'BLOCK': 128}, num_warps=2)\n")


def test_text_looks_like_that_of_search(run_tune):
    out = run_tune.text("standin:add", "--budget", "1.0")
    headline = "add_1024: 22 configs, 2 parameters, budget 22"
    assert out.splitlines()[0] == headline
    table = run_tune.parse_table(out, last_column="best")
    assert table[0][:3] == ["1", "5", table[0][2]]
    assert table[-1][1:3] == ["22", "3"]
    assert table[-1][-2:] == ["1.000", "ms"]
    summary = run_tune.parse_summary(out)
    assert summary["best config"].strip() == "BLOCK=128, num_warps=2"
    assert summary["duration"].strip() == "1.000 ms"
    assert "regret" not in summary
    assert summary["measured"].strip() == (
        "22 of 22 configs (100.0 %), 3 failed; 0.0 % saved"
    )
    assert summary["cost"].strip() == "10.2 s of compiling, 2.4 s of running"
    assert summary["failures"].strip() == (
        "3 × out_of_resources: shared memory: 9 of 4 bytes"
    )


def test_text_tells_what_the_rest_would_cost(run_tune):
    out = run_tune.text("standin:add", "--set", "limit=99999", "--budget", 10)
    assert "the 12 other configs would cost about 7.5 s" in " ".join(out.split())


def test_round_trip_of_the_line_to_copy(run_tune):
    import triton

    line = run_tune.text("standin:add", "--budget", 5).splitlines()[-1]
    config = eval(line, {"triton": triton})
    best = run_tune.json("standin:add", "--budget", 5)["best_config"]
    assert {**config.kwargs, "num_warps": config.num_warps} == best


# -- Settings


def test_set_is_an_argument_of_the_function(run_tune):
    record = run_tune.json("standin:add", "--set", "rows=77", "--set", "dtype=bf16")
    assert record["kernel"] == "add_77_bf16"


def test_arguments_may_stand_in_the_spec(run_tune):
    spec = "standin:add(rows=77, dtype='bf16')"
    record = run_tune.json(spec, "--set", "rows=3", "--set", "limit=9999")
    assert record["kernel"] == "add_77_9999_bf16"


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ([], {}),
        (["--devices", "0"], {"devices": [0]}),
        (["--devices", "1,0", "--jobs", "4"], {"devices": [1, 0], "n_jobs": 4}),
        (["--no-isolate"], {"isolate": False}),
    ],
)
def test_options_are_those_of_the_oracle(run_tune, spec_folder, arguments, options):
    run_tune.json("standin:add", *arguments)
    assert eval((spec_folder / "options.txt").read_text()) == options


def test_time_budget_ends_it(run_tune):
    record = run_tune.json("standin:add", "--time-budget", 1e-9, status=1)
    assert (record["n_measured"], record["stop_reason"]) == (0, "time")


# -- Journal


def test_journal_resumes_without_measuring(run_tune, spec_folder):
    arguments = ("standin:add", "--budget", "10", "--journal", "tune.jsonl")
    first = run_tune.json(*arguments)
    assert n_measured(spec_folder) == 10
    second = run_tune.text(*arguments)
    assert n_measured(spec_folder) == 10
    assert len(JournaledOracle.read("tune.jsonl")) == 10
    summary = run_tune.parse_summary(second)
    assert summary["journal"].strip().startswith("10 known before, 0 added")
    assert summary["cost"].strip() == "0.0 s of compiling, 0.0 s of running"
    again = run_tune.json(*arguments)
    assert again["best_config"] == first["best_config"]
    assert (again["compile_seconds"], again["run_seconds"]) == (0, 0)


def test_journal_of_another_size_is_refused(run_tune):
    run_tune.json("standin:add", "--journal", "tune.jsonl")
    line = run_tune.error("standin:add", "--set=rows=5", "--journal=tune.jsonl")
    assert "was recorded for something else: rows differ" in line


# -- What goes wrong


def test_all_failed_is_1(run_tune):
    line = run_tune.error("standin:add", "--set", "limit=1", status=1)
    assert "all 4 measured configs failed: 4 × out_of_resources" in line


def test_all_failed_in_json(run_tune):
    record = run_tune.json("standin:add", "--set", "limit=1", status=1)
    assert list(record) == ["kernel", *run_tune.KEYS, *COSTS]
    assert (record["best_config"], record["best_duration_ms"]) == (None, None)
    assert record["failures"] == {"out_of_resources: shared memory: 9 of 4 bytes": 4}


def test_interrupted_search_writes_the_best_so_far(run_tune):
    out = run_tune.text("standin:broken_later", "--budget", "1.0", status=130)
    summary = run_tune.parse_summary(out)
    assert summary["stopped"].strip().startswith("interrupted")
    assert out.splitlines()[-1].startswith("triton.Config(")


def test_driver_that_fails_is_one_line(run_tune):
    assert run_tune.error("standin:driverless") == (
        "fasta-learn: error: add_kernel can't be measured: 0 active drivers ([]). "
        "There should be one. ('fasta-learn doctor' shows the devices)"
    )


def test_spec_that_fails_is_one_line(run_tune):
    line = run_tune.error("standin:no_device")
    assert "calling 'standin:no_device' failed: RuntimeError: Found no NVIDIA" in line


@pytest.mark.parametrize("module", ["torch", "triton"])
def test_missing_package_is_one_line(run_tune, spec_folder, monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    (spec_folder / "needs.py").write_text(f"import {module}\n")
    line = run_tune.error("needs.py:add")
    assert f"needs.py needs {module}, which can't be imported" in line
    assert line.endswith("install it by: pip install 'fasta-learn[torch]'.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: SPEC"),
        (["standin"], "'standin' names no kernel spec; write module:function or"),
        (["none.py:add"], "none.py: No such file or directory"),
        (["standin:none"], "has no function 'none'"),
        (["standin:add", "--set", "rows"], "'rows' is not of the form name=value"),
        (["standin:add", "--set", "a b=1"], "'a b=1' is not of the form name=value"),
        (
            ["standin:add", "--set", "columns=1"],
            "unexpected keyword argument 'columns'",
        ),
        (["standin:add(3)"], "only keyword arguments are known"),
        (["standin:add(rows=x)"], "the arguments of 'standin:add(rows=x)' can't be"),
        (["standin:add(rows=3"], "the arguments of 'standin:add(rows=3' can't be"),
        (["standin:add(rows=3).x"], "the arguments of 'standin:add(rows=3).x' can't"),
        (["standin:add", "--devices", "a"], "'a' is no list of different device"),
        (["standin:add", "--devices", "0,0"], "'0,0' is no list of different device"),
        (["standin:add", "--jobs", "0"], "'0' is no whole number of at least 1"),
        (["standin:add", "--budget", "x"], "'x' is neither a share"),
    ],
)
def test_bad_input(run_tune, arguments, message):
    assert message in run_tune.error(*arguments)


def test_piped_process_is_quiet(run_command, spec_folder):
    done = run_command("tune", "standin:add", "--json", cwd=spec_folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["kernel"] == "add_1024"


# -- With Triton


@pytest.mark.usefixtures("simulated_gpu")
def test_kernel_is_compiled_and_searched(run_tune):
    record = run_tune.json("scale.py:scale", "--no-isolate", "--budget", "1.0")
    assert record["kernel"] == "scale_5000"
    assert record["best_config"]["BLOCK"] == 32
    assert record["best_duration_ms"] == 0.5
    assert record["compile_seconds"] > 0
    ((reason, count),) = record["failures"].items()
    assert (reason.split(":")[0], count) == ("compile_error", 2)


def test_without_a_gpu_it_is_one_line(run_tune, simulated_gpu):
    simulated_gpu.stop()
    line = run_tune.error("scale.py:scale", "--no-isolate")
    assert "'fasta-learn doctor' shows" in line
