"""Tests of compiling configs from the source that Inductor has generated."""

import ast

import pytest
from simulated_inductor import NAMES, SimulatedInductor, write_source

from fasta_learn.inductor._pointwise_compile import Compiler, with_config

CONFIG = {"XBLOCK": 256, "num_warps": 2, "num_stages": 1}


@pytest.mark.parametrize("kind", ["pointwise", "reduction", "user"])
def test_all_lines_of_the_kernel_stay_where_they_are(kind):
    source = write_source(kind)
    changed = with_config(source, NAMES[kind], CONFIG)

    differ = [
        (old, new)
        for old, new in zip(source.splitlines(), changed.splitlines(), strict=True)
        if old != new
    ]
    assert len(differ) == 1
    assert differ[0][0].startswith("@triton_heuristics.")
    ast.parse(changed)


def test_a_source_without_the_kernel_is_refused():
    with pytest.raises(ValueError, match="no kernel 'other'"):
        with_config(write_source("pointwise"), "other", CONFIG)


@pytest.fixture
def inductor(simulate, tmp_path, monkeypatch):
    bed = SimulatedInductor(simulate(), tmp_path, monkeypatch)
    yield bed
    bed.close()


def test_a_worker_compiles_what_this_process_would(inductor):
    tuner = inductor.load("reduction")
    config = {"XBLOCK": 2, "R0_BLOCK": 1024, "num_warps": 2, "num_stages": 1}
    compiler = Compiler(tuner)
    compiler.announce(config)
    launcher = compiler.launcher(config)

    assert len(inductor.workers.jobs) == 1
    assert launcher.config.kwargs == {"XBLOCK": 2, "R0_BLOCK": 1024}
    here = compiler._load(compiler._compile_here(config))
    # Triton found it in its cache: the sources are the same kernel to it.
    assert here.cache_hash == launcher.cache_hash
    assert inductor.cuda.compiles[-1][1]


def test_a_config_that_does_not_compile_says_why(inductor):
    tuner = inductor.load("pointwise")
    config = {"XBLOCK": 100, "num_warps": 4, "num_stages": 1}  # no power of two
    compiler = Compiler(tuner)
    compiler.announce(config)
    with pytest.raises(Exception, match="power of 2"):
        compiler.launcher(config)


def test_jobs_wait_until_workers_are_there(inductor, monkeypatch):
    from torch._inductor.async_compile import AsyncCompile

    tuner = inductor.load("pointwise")
    compiler = Compiler(tuner)
    monkeypatch.setattr(AsyncCompile, "use_process_pool", lambda: False)
    compiler.announce(CONFIG)
    other = {**CONFIG, "num_warps": 4}
    compiler.announce(other)
    compiler.launcher(CONFIG)
    assert not inductor.workers.jobs

    monkeypatch.setattr(AsyncCompile, "use_process_pool", lambda: True)
    compiler.launcher(other)
    assert len(inductor.workers.jobs) == 1


def test_no_more_compiles_than_wanted(inductor):
    tuner = inductor.load("pointwise")
    assert Compiler(tuner, 2).n_jobs == 2
    assert Compiler(tuner, 100).n_jobs == 4


def test_seconds_are_those_that_were_waited(inductor):
    compiler = Compiler(inductor.load("pointwise"))
    compiler.launcher(CONFIG)
    assert compiler.seconds > 0
