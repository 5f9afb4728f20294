"""What goes wrong while a kernel is tuned: the model always runs in the end.

Compiles are real but for the injected failures; latencies are simulated.
"""

import importlib.metadata
import logging
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from npu_graphs import run_graph
from torch._inductor.exc import InductorError
from torch_npu._inductor.runtime import triton_heuristics

from fasta_learn import inductor
from fasta_learn.inductor import _guard, _npu_hooks, _npu_search
from fasta_learn.inductor._hook_table import parse_row
from fasta_learn.inductor._npu_autotuner import find_stock
from fasta_learn.oracles import _npu_device
from fasta_learn.oracles._npu_clock import NPUClock

GRAPH = "row_reduction"


@pytest.fixture(autouse=True)
def _fresh_warnings(monkeypatch):
    monkeypatch.setattr(_guard, "_warned", set())


@pytest.fixture
def kernel_launches(bed):
    """Count the launches of kernels, which come after the first round's compiles."""
    return lambda: bed.launch_count("triton_per_fused_mul_sum_0")


def fastest(tuned):
    return min(r.ms for r in tuned.launches if r.kernel == tuned.last.kernel)


def every_second(seen):
    """Fail each second config, the same ones whenever they come again."""

    def wants(kernel, config):
        seen.setdefault(str(sorted(config.items())), len(seen) % 2 == 0)
        return seen[str(sorted(config.items()))]

    return wants


def test_half_of_the_first_round_does_not_compile(bed, kernel_launches):
    seen = {}
    wants = every_second(seen)
    bed.fail_compile_if(lambda *args: not kernel_launches() and wants(*args))
    tuned = run_graph(GRAPH)
    assert sum(seen.values()) >= 2
    assert tuned.record["n_failed"] >= sum(seen.values())
    assert tuned.last.ms == fastest(tuned)


def test_nothing_of_the_later_rounds_compiles(bed, kernel_launches):
    bed.fail_compile_if(lambda kernel, config: kernel_launches() > 0)
    tuned = run_graph(GRAPH)
    late = [record for record in tuned.compiles if record.error == "injected"]
    assert late
    assert tuned.last.ms == fastest(tuned)
    assert tuned.record["best_ms"] == pytest.approx(tuned.last.ms, rel=1e-3)


def test_nothing_of_the_first_round_compiles(bed):
    """Then torch_npu compiles all, and tunes in its own way."""
    first = [record.config for record in run_graph(GRAPH, npu_budget=6).compiles[:2]]
    bed.fail_compile_if(lambda kernel, config: config in first)
    tuned = run_graph(GRAPH, npu_budget=2)
    assert tuned.last.ms == fastest(tuned)


def test_nothing_compiles_at_all(bed):
    """This is an error, with and without the search."""
    bed.fail_compile_if(lambda kernel, config: True, required_bits=2_000_000)
    with pytest.raises(InductorError, match="No valid triton configs"):
        run_graph(GRAPH)


@pytest.mark.parametrize("at", ["launch", "sync"])
def test_some_candidates_do_not_launch(bed, at):
    bed.fail_launch_if(lambda name, constants, grid: constants.get("X0BLOCK") == 96, at)
    tuned = run_graph(GRAPH)
    assert tuned.record["n_failed"] > 0
    assert tuned.last.constants["X0BLOCK"] != 96
    assert tuned.last.ms == fastest(tuned)


def test_only_one_candidate_launches(bed):
    """It is found, though the budget was used up by others."""
    stock = run_graph(GRAPH, stock=True)
    only = {k: stock.launches[-1].constants[k] for k in ("X0BLOCK", "X0BLOCK_SUB")}

    def wants(name, constants, grid):
        return "x0_numel" in constants and any(
            constants.get(k) != v for k, v in only.items()
        )

    bed.fail_launch_if(wants)
    tuned = run_graph(GRAPH)
    assert {k: tuned.last.constants[k] for k in only} == only


def test_nothing_launches_at_all(bed):
    bed.fail_launch_if(lambda name, constants, grid: "x0_numel" in constants)
    with pytest.raises(RuntimeError, match="injected launch failure"):
        run_graph(GRAPH)


class ShortTimer:
    """Gives one timing less than there were launches."""

    name = "profiler"

    def time(self, calls, kernel):
        for call in calls:
            call()
        return [np.array([1.0])] * (len(calls) - 1)


def test_wrong_number_of_timings(monkeypatch):
    monkeypatch.setattr(_npu_device, "choose_backend", lambda wish: "profiler")
    monkeypatch.setattr(_npu_device, "make_timer", lambda backend: ShortTimer())
    tuned = run_graph(GRAPH)
    assert tuned.record["n_measured"] > 0
    assert tuned.last.ms == fastest(tuned)
    assert tuned.record["best_ms"] == pytest.approx(tuned.last.ms, rel=1e-3)


@pytest.fixture
def raising_timer(monkeypatch):
    def time_batch(self, *args, **kwargs):
        raise RuntimeError("the events are broken")

    monkeypatch.setattr(NPUClock, "time_batch", time_batch)


def test_raising_timer(raising_timer):
    """torch_npu times what has been compiled."""
    tuned = run_graph(GRAPH)
    assert tuned.last.ms == fastest(tuned)


def test_every_timer_raises(raising_timer, monkeypatch, caplog):
    def benchmark_gpu(*args, **kwargs):
        raise RuntimeError("these are broken, too")

    monkeypatch.setattr(triton_heuristics.benchmarker, "benchmark_gpu", benchmark_gpu)
    with caplog.at_level(logging.WARNING, logger="fasta_learn.inductor"):
        tuned = run_graph(GRAPH)
    assert tuned.last.constants["x0_numel"] == 4096
    assert "could be timed" in caplog.text


def test_compile_error_that_passes_is_tried_again(monkeypatch):
    failed = []
    compile_one = find_stock()._precompile_config

    def compile_at_second_try(self, cfg):
        if cfg._runtime_variant_id not in failed:
            failed.append(cfg._runtime_variant_id)
            raise SystemError("AST constructor recursion depth mismatch (before=47)")
        return compile_one(self, cfg)

    monkeypatch.setattr(find_stock(), "_precompile_config", compile_at_second_try)
    tuned = run_graph(GRAPH)
    assert len(failed) == len(tuned.compiles)
    assert tuned.record["n_failed"] == 0


@pytest.mark.parametrize("name", ["__init__", "run"])
def test_fault_of_our_own_is_warned_of_once_and_torch_npu_goes_on(
    monkeypatch, caplog, name
):
    def fail(*args, **kwargs):
        raise ZeroDivisionError("a fault of our own")

    monkeypatch.setattr(_npu_search.NPUSearch, name, fail)
    with caplog.at_level(logging.WARNING, logger="fasta_learn.inductor"):
        tuned = run_graph(GRAPH)
        run_graph(GRAPH)
    assert caplog.text.count("a fault of our own") == 1
    assert tuned.last.ms == fastest(tuned)
    assert tuned.record is None


def test_torch_npu_that_has_drifted_is_left_alone(monkeypatch, caplog):
    hook = parse_row("npu", _npu_hooks.HEURISTICS, "NPUCachingAutotuner.run(other)")
    monkeypatch.setattr(_npu_hooks, "NPU_HOOKS", (hook,))
    with caplog.at_level(logging.WARNING, logger="fasta_learn.inductor"):
        tuned = run_graph(GRAPH)
    assert type(tuned.tuner) is find_stock()
    assert (
        "NPUCachingAutotuner.run of torch_npu 2.13.0 has the parameters" in caplog.text
    )


def test_old_torch_npu_is_left_alone_and_named(monkeypatch, caplog):
    version = importlib.metadata.version
    monkeypatch.setattr(
        _npu_hooks.importlib.metadata,
        "version",
        lambda name: "2.7.1.post11" if name == "torch_npu" else version(name),
    )
    with caplog.at_level(logging.WARNING, logger="fasta_learn.inductor"):
        tuned = run_graph(GRAPH)
    assert type(tuned.tuner) is find_stock()
    assert "torch_npu 2.7.1.post11 is not supported" in caplog.text
    assert "report" not in caplog.text


def test_invalid_variable_is_named(monkeypatch, caplog):
    monkeypatch.setenv("FASTA_MAX_ROUNDS", "many")
    with caplog.at_level(logging.WARNING, logger="fasta_learn.inductor"):
        tuned = run_graph(GRAPH)
    assert type(tuned.tuner) is find_stock()
    assert "FASTA_MAX_ROUNDS must be an integer of at least 1" in caplog.text


def test_timer_that_can_not_be_used_is_replaced_by_events(monkeypatch, caplog):
    monkeypatch.setenv("FASTA_MSPTI_EN", "1")
    with caplog.at_level(logging.WARNING, logger="fasta_learn.inductor"):
        tuned = run_graph(GRAPH)
    assert tuned.last.ms == fastest(tuned)
    assert "mspti" in caplog.text


CHILD = """
    import os, signal, sys
    import npu_testbed
    npu_testbed.activate()
    import torch, fasta_learn.inductor as inductor
    model, fatal = npu_testbed.AnalyticLatency(), int(sys.argv[1])

    def latency(kernel, constants, grid):
        if fatal and npu_testbed.launch_count(kernel) == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return model(kernel, constants, grid)

    npu_testbed.set_latency(latency)
    with inductor.enable():
        torch.compile(lambda x: (x * x).sum(-1), dynamic=False)(
            torch.empty(4096, 1024, device="npu"))
    (launch,) = npu_testbed.launch_log()[-1:]
    (record,) = inductor.statistics()
    print(npu_testbed.launch_count(), launch.ms, record["winner"])
"""


def test_process_that_is_killed_between_rounds(child_environment):
    program = [sys.executable, "-c", textwrap.dedent(CHILD)]

    environment = {
        **child_environment,
        "FASTA_LEARN_CACHE_DIR": f"{os.getcwd()}/store",
        "TORCHINDUCTOR_CACHE_DIR": f"{os.getcwd()}/inductor",
    }

    def run(fatal):
        return subprocess.run(
            [*program, str(fatal)], env=environment, capture_output=True, text=True
        )

    whole = run_graph(GRAPH)
    assert run(100).returncode == -signal.SIGKILL
    n_launches, ms, winner = run(0).stdout.split()[-3:]
    assert (float(ms), winner) == (whole.last.ms, whole.record["winner"])
    # What the first process has measured is in a journal.
    assert int(n_launches) < len(whole.launches) - 50


def test_summary_of_the_process(bed):
    run_graph(GRAPH)
    assert "configs measured" in inductor.summary()
