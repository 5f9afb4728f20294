"""torch.compile on an Ascend NPU, with real compiles and simulated latencies."""

import copy
import csv
import logging
import math
import pickle
import subprocess
import sys
import textwrap

import pytest
from npu_graphs import GRAPHS, run_again, run_graph
from torch_npu._inductor.runtime import triton_heuristics

from fasta_learn import inductor
from fasta_learn.inductor._npu_autotuner import find_stock
from fasta_learn.inductor._npu_stages import HEADER, stages_file


def budget_of(n_candidates):
    return max(12, math.ceil(0.4 * n_candidates))


def stages_of(folder):
    (path,) = folder.glob("duration-stats-*.csv")
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert tuple(header) == HEADER
    return rows


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch):
    for name in ("FASTA_DYNAMIC_FILTER", "FASTA_CONFIG_OPTIMIZER", "FASTA_LEARN_RUN"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", GRAPHS)
def test_first_round_then_refinement_then_done(name, tmp_path, monkeypatch):
    monkeypatch.setenv("FASTA_AUTOTUNE_STATS", str(tmp_path / "stages"))
    tuned = run_graph(name)
    rows = stages_of(tmp_path / "stages")
    stages = [row[1] for row in rows]
    assert stages[:3] == ["R1_COMPILE", "R1_BENCHMARK", "R2"]
    assert stages[-1] == "DONE"
    n_first, n_measured = int(rows[1][3]), int(rows[-1][3])
    assert 0 < n_first < n_measured == tuned.record["n_measured"]
    assert {row[0] for row in rows} == {tuned.tuner.get_fn_name()}


@pytest.mark.parametrize("name", GRAPHS)
def test_no_more_is_measured_than_the_budget(name):
    tuned = run_graph(name)
    n_candidates = len(tuned.tuner.candidate_plan["candidate_entries"])
    assert tuned.record["n_pool"] == n_candidates
    assert tuned.record["n_measured"] <= budget_of(n_candidates)
    assert len(tuned.compiles) < tuned.variants


@pytest.mark.parametrize("budget", [6, 0.25])
def test_budget_can_be_set(budget):
    tuned = run_graph("row_reduction", npu_budget=budget)
    assert tuned.record["n_measured"] == {6: 6, 0.25: 9}[budget]


def test_first_round_is_compiled_before_the_first_run(bed, monkeypatch):
    seen = []
    stock = find_stock().autotuner

    def autotuner(tuner, *args, **kwargs):
        seen.append(len(bed.compile_log()))
        return stock(tuner, *args, **kwargs)

    monkeypatch.setattr(find_stock(), "autotuner", autotuner)
    tuned = run_graph("row_reduction")
    assert 0 < seen[0] < len(tuned.compiles)


def test_chosen_config_is_the_fastest_that_was_measured():
    tuned = run_graph("row_reduction")
    named = [launch for launch in tuned.launches if launch.kernel == tuned.last.kernel]
    assert tuned.last.ms == min(launch.ms for launch in named)
    assert tuned.record["best_ms"] == pytest.approx(tuned.last.ms, rel=1e-3)


def test_overflows_of_the_buffer_are_failed_configs():
    tuned = run_graph("column_reduction")
    failed = [record for record in tuned.compiles if not record.ok]
    assert {record.error for record in failed} == {"ub_overflow"}
    assert tuned.record["n_failed"] >= len(failed) > 0
    # What needs no less than a config that did not fit is not compiled.
    assert len(failed) < sum(
        not record.ok for record in run_graph("column_reduction", stock=True).compiles
    )


def test_winner_is_in_the_cache_of_torch_npu():
    first = run_again("row_reduction")
    again = run_again("row_reduction")
    assert len(again.launches) == 1
    assert again.record is None
    assert again.last.constants == first.last.constants


def test_torch_npu_itself_reads_the_winner():
    first = run_again("row_reduction")
    again = run_again("row_reduction", npu=False)
    assert type(again.tuner) is find_stock()
    assert len(again.launches) == 1
    assert again.last.constants == first.last.constants


SECOND_PROCESS = """
    import npu_testbed
    npu_testbed.activate()
    import torch, fasta_learn.inductor as inductor
    assert inductor.is_enabled()
    torch.compile(lambda x: (x * x).sum(-1), dynamic=False)(
        torch.empty(4096, 1024, device="npu"))
    print(npu_testbed.launch_count(), len(inductor.statistics()))
"""


def test_second_process_measures_nothing(child_environment):
    environment = {**child_environment, "FASTA_LEARN": "1"}
    program = [sys.executable, "-c", textwrap.dedent(SECOND_PROCESS)]

    def run():
        done = subprocess.run(
            program, env=environment, capture_output=True, text=True, check=True
        )
        n_launches, n_searches = done.stdout.split()[-2:]
        return int(n_launches), int(n_searches)

    n_launches, n_searches = run()
    assert (n_launches > 20, n_searches) == (True, 1)
    assert run() == (1, 0)


def test_known_measurements_are_not_made_again(tmp_path):
    first = run_graph("row_reduction", store=tmp_path / "store")
    again = run_graph("row_reduction", store=tmp_path / "store")
    assert (first.record["source"], again.record["source"]) == ("search", "store")
    assert len(again.launches) <= 1 + len(again.compiles)
    assert again.last.constants == first.last.constants


def test_equal_seeds_choose_the_same_configs():
    first, again = (run_graph("layer_norm", random_state=3) for _ in range(2))
    compiled = [{str(r.config) for r in tuned.compiles} for tuned in (first, again)]
    assert compiled[0] == compiled[1]
    assert first.last.constants == again.last.constants


def test_disabling_puts_all_back():
    names = ("NPUCachingAutotuner", "triton_config_npu_index", "cached_autotune")
    before = {name: getattr(triton_heuristics, name) for name in names}
    own = dict(vars(before["NPUCachingAutotuner"]))
    with inductor.enable():
        now = triton_heuristics.NPUCachingAutotuner
        assert issubclass(now, before["NPUCachingAutotuner"])
        assert now is not before["NPUCachingAutotuner"]
    assert {name: getattr(triton_heuristics, name) for name in names} == before
    assert dict(vars(before["NPUCachingAutotuner"])) == own


def test_switched_off_leaves_all_to_torch_npu():
    tuned = run_graph("row_reduction", npu=False)
    assert type(tuned.tuner) is find_stock()
    assert len(tuned.compiles) == tuned.variants


def test_kernels_are_not_marked_for_the_gpu_search():
    tuned = run_graph("row_reduction", pointwise=True)
    assert "fasta_learn" not in tuned.tuner.inductor_meta
    assert not tuned.tuner.inductor_meta.get("coordinate_descent_tuning")


def test_frozen_leaves_what_is_not_known_to_torch_npu():
    tuned = run_graph("row_reduction", frozen=True)
    assert len(tuned.compiles) == tuned.variants
    assert tuned.record is None


def test_deterministic_reductions_are_left_to_torch_npu(monkeypatch):
    monkeypatch.setattr(
        find_stock(), "_should_skip_autotune_for_determinism", lambda self: True
    )
    tuned = run_graph("row_reduction")
    assert len(tuned.compiles) == tuned.variants
    assert tuned.record is None


def test_dynamic_filter_on_request(monkeypatch, caplog):
    monkeypatch.setenv("FASTA_DYNAMIC_FILTER", "1")
    monkeypatch.setenv("FASTA_HIGH_BUDGET", "0.5")
    with caplog.at_level(logging.INFO, logger="fasta_learn.inductor"):
        tuned = run_graph("row_reduction")
    # D <= 3 and N <= 150: the class of a high budget.
    assert "N 36, D 2, class high" in caplog.text
    assert tuned.record["n_measured"] <= 18


def test_dynamic_filter_0_leaves_all_to_torch_npu(monkeypatch):
    monkeypatch.setenv("FASTA_DYNAMIC_FILTER", "0")
    assert type(run_graph("row_reduction").tuner) is find_stock()


def test_config_optimizer_prunes_a_larger_pool_and_keeps_experts(monkeypatch):
    stock = run_graph("row_reduction", stock=True).tuner
    experts = [copy.deepcopy(config.kwargs) for config in stock.configs]
    monkeypatch.setenv("FASTA_CONFIG_OPTIMIZER", "1")
    tuned = run_graph("row_reduction")
    pool = [config.kwargs for config in tuned.tuner.configs]
    assert all(expert in pool for expert in experts)
    others = [config for config in pool if config not in experts]
    # At most 50 stay of about a thousand, each with and without a second buffer.
    assert 50 < len(others) <= 100
    assert {config["multibuffer"] for config in others} == {False, True}
    assert tuned.record["n_measured"] <= budget_of(len(pool))


def test_config_optimizer_does_without_a_generator_that_fails(monkeypatch):
    """For column reductions that of torch_npu 2.13 raises an AttributeError."""
    monkeypatch.setenv("FASTA_CONFIG_OPTIMIZER", "1")
    tuned = run_graph("column_reduction")
    assert len(tuned.tuner.configs) == 40


def test_summary_line_tells_the_compiles_saved(caplog):
    with caplog.at_level(logging.INFO, logger="fasta_learn.inductor"):
        tuned = run_graph("row_reduction")
    saved = 1 - len(tuned.compiles) / tuned.variants
    assert f"({saved:.0%} saved)" in caplog.text


def test_autotuner_of_a_worker_process_goes_on_in_another(monkeypatch):
    """A compile worker sends the autotuner as a pickle after the first round."""
    copies = []
    precompile = find_stock().precompile

    def precompile_and_send(tuner, *args, **kwargs):
        precompile(tuner, warm_cache_only=True)
        held_back = tuner.prepare_for_pickle()
        copies.append(pickle.loads(pickle.dumps(tuner)))
        tuner.restore_after_unpickle(held_back)
        return precompile(tuner, *args, **kwargs)

    monkeypatch.setattr(find_stock(), "precompile", precompile_and_send)
    tuned = run_graph("row_reduction")
    (sent,) = copies
    assert type(sent) is type(tuned.tuner)
    assert sent._fasta_learn == tuned.tuner._fasta_learn
    assert 1 < len(sent.compile_results) < len(tuned.compiles)


def test_stages_of_many_processes_go_to_one_file(tmp_path, monkeypatch):
    monkeypatch.setenv("FASTA_LEARN_RUN", "job/7")
    assert stages_file(str(tmp_path)).name == "duration-stats-job_7.csv"
