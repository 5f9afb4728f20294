import os
import sys

import pytest

from fasta_learn.inductor import _workers

sys.path.insert(0, os.path.dirname(__file__))
from children import run_child

# A kernel that, where Inductor would compile it, tells what it finds there.
KERNEL = """
import os, sys
import fasta_learn.inductor as inductor

class Kernel:
    def precompile(self, warm_cache_only):
        from fasta_learn.inductor import _switch
        from torch.compiler import config
        settings = _switch._state.settings
        self.found = {
            "pid": os.getpid(),
            "on": inductor.is_enabled(),
            "budget": settings and settings.pointwise_budget,
            "tag": config.cache_key_tag,
            "loaded": "fasta_learn.inductor._pointwise" in sys.modules,
        }
    def prepare_for_pickle(self):
        pass

def load():
    return Kernel()
"""

PROGRAM = """
import json, os
import torch
import torch._inductor.async_compile as async_compile
import fasta_learn.inductor as inductor
from kernel import load

def compile():
    pool = async_compile.AsyncCompile.process_pool()
    kernel, _ = pool.submit(
        async_compile._worker_compile_triton, load, {}, {}
    ).result(timeout=120)
    return kernel.found

result = {"parent": os.getpid()}
%s
print(json.dumps(result))
async_compile.shutdown_compile_workers()
"""

LATE = """
result["stock"] = compile()
with inductor.enable(pointwise_budget=5):
    result["first"] = compile()
with inductor.enable(pointwise_budget=6):
    result["second"] = compile()
    result["tag"] = torch.compiler.config.cache_key_tag
result["after"] = compile()
"""

EARLY = """
result["first"] = compile()
inductor.disable()
result["after"] = compile()
"""


def run(steps, folder, **variables):
    (folder / "kernel.py").write_text(KERNEL)
    variables["TORCHINDUCTOR_COMPILE_THREADS"] = "2"
    return run_child(PROGRAM % steps, folder, **variables)[0]


@pytest.fixture(scope="module")
def late(tmp_path_factory):
    """Turn tuning on after the workers were started."""
    return run(LATE, tmp_path_factory.mktemp("late"))


@pytest.fixture(scope="module")
def early(tmp_path_factory):
    """Turn tuning on before the workers are started, by the environment."""
    folder = tmp_path_factory.mktemp("early")
    return run(EARLY, folder, FASTA_LEARN="1", FASTA_LEARN_POINTWISE_BUDGET="7")


@pytest.mark.parametrize("moment", ["stock", "first", "second", "after"])
def test_job_runs_in_another_process(late, moment):
    assert late[moment]["pid"] != late["parent"]


def test_job_carries_the_settings_that_are_on(late):
    found = [late[moment]["budget"] for moment in ("stock", "first", "second", "after")]
    assert found == [None, 5, 6, None]


def test_worker_has_the_caches_of_the_parent(late):
    assert late["second"]["tag"] == late["tag"]
    assert late["first"]["tag"] != late["tag"]
    assert late["stock"]["tag"] == late["after"]["tag"] == ""


def test_worker_is_off_between_jobs(late):
    assert (late["stock"]["on"], late["after"]["on"]) == (False, False)


def test_worker_gets_the_settings_of_the_environment(early):
    assert (early["first"]["on"], early["first"]["budget"]) == (True, 7)


def test_worker_of_an_enabled_process_is_off_for_stock_jobs(early):
    assert (early["after"]["on"], early["after"]["budget"]) == (False, None)


def test_workers_are_forked_with_what_they_need(early, late):
    assert early["after"]["loaded"]
    assert not late["stock"]["loaded"]


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["/x/torch/_inductor/compile_worker/__main__.py"], True),
        (["C:\\torch\\_inductor\\compile_worker\\__main__.py"], True),
        (["/x/train.py"], False),
        ([""], False),
        ([], False),
    ],
)
def test_parent_of_workers_is_told_by_its_script(monkeypatch, argv, expected):
    monkeypatch.setattr(sys, "argv", argv)
    assert _workers.is_worker() is expected


def test_preload_that_fails_is_no_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "fasta_learn.inductor._pointwise", None)
    told = []
    monkeypatch.setattr(_workers, "warn_once", lambda *args: told.append(args[0]))
    _workers.preload()
    assert told == ["pointwise"]
