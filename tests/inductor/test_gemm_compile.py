"""Tests of compiles that run ahead."""

import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parent))


class Choice:
    """A choice that can be compiled ahead, in threads."""

    def __init__(self, error=None):
        self.error = error
        self.go = threading.Event()
        self.n_compiles = 0

    def precompile(self):
        self.go.wait(10)
        self.n_compiles += 1
        if self.error is not None:
            raise self.error


@pytest.fixture
def make(monkeypatch):
    from torch._inductor import config

    from fasta_learn.inductor import _gemm_compile
    from fasta_learn.inductor._gemm_compile import Compiles

    monkeypatch.setattr(_gemm_compile, "_HAS_SAFE_THREADS", True)
    made = []

    def make(**options):
        with config.patch(compile_threads=1):
            made.append(Compiles(**options))
        return made[-1]

    yield make
    for compiles in made:
        compiles.close()


def test_what_is_compiled_ahead_is_ready_when_it_is_compiled(make):
    compiles, choice = make(n_jobs=1), Choice()
    compiles.start(choice)
    assert not compiles.is_ready(choice)

    choice.go.set()
    compiles.wait([choice])

    assert compiles.is_ready(choice)
    assert compiles.error(choice) is None
    assert compiles.seconds > 0


def test_an_error_is_kept(make):
    compiles, choice = make(n_jobs=1), Choice(RuntimeError("no such tile"))
    choice.go.set()
    compiles.start(choice)

    assert str(compiles.error(choice)) == "no such tile"


def test_a_choice_is_compiled_once(make):
    compiles, choice = make(n_jobs=2), Choice()
    choice.go.set()
    compiles.start(choice)
    compiles.start(choice)
    compiles.error(choice)

    assert choice.n_compiles == 1


def test_what_can_not_be_compiled_ahead_is_ready_at_once(make):
    compiles, choice = make(), SimpleNamespace()
    compiles.start(choice)
    assert compiles.is_ready(choice)


def test_old_interpreters_compile_no_two_at_a_time(make, monkeypatch):
    from fasta_learn.inductor import _gemm_compile

    monkeypatch.setattr(_gemm_compile, "_HAS_SAFE_THREADS", False)
    compiles, choice = make(), Choice()
    compiles.start(choice)

    assert compiles.is_ready(choice)
    assert choice.n_compiles == 0


class Workers:
    """Stands in for Inductor's compile processes."""

    def __init__(self):
        self.jobs = []
        self.is_waited_for = False

    def wait_pool_ready(self, timeout):
        self.is_waited_for = True

    def use_process_pool(self):
        return True

    def __call__(self):
        return self

    def triton(self, kernel_name, source_code):
        future = Future()
        self.jobs.append((kernel_name, source_code, future))
        return SimpleNamespace(future=future)


@pytest.fixture
def workers(monkeypatch):
    import torch._inductor.async_compile as module

    workers = Workers()
    monkeypatch.setattr(module, "AsyncCompile", workers)
    monkeypatch.setattr(module, "get_compile_threads", lambda: 4)
    return workers


@pytest.fixture
def template(tmp_path):
    """Give a choice of Inductor's that is a template for a GPU."""
    from torch._inductor.autotune_process import TritonGPUBenchmarkRequest
    from torch._inductor.select_algorithm import TritonTemplateCaller

    path = tmp_path / "template.py"
    path.write_text("the source")
    choice = TritonTemplateCaller.__new__(TritonTemplateCaller)
    choice.bmreq = TritonGPUBenchmarkRequest.__new__(TritonGPUBenchmarkRequest)
    choice.bmreq.module_path, choice.bmreq.kernel_name = str(path), "triton_mm"
    return choice


def test_templates_are_compiled_by_inductors_processes(workers, template):
    from fasta_learn.inductor._gemm_compile import Compiles

    compiles = Compiles()
    compiles.start(template)
    ((name, source, future),) = workers.jobs

    assert (name, source) == ("triton_mm", "the source")
    assert workers.is_waited_for
    assert not compiles.is_ready(template)
    future.set_exception(RuntimeError("it crashed"))
    assert str(compiles.error(template)) == "it crashed"
    compiles.close()


def test_nobody_waits_for_the_processes_while_lowering(workers):
    from fasta_learn.inductor._gemm_compile import Compiles

    assert Compiles(may_wait=False).has_processes
    assert not workers.is_waited_for


def test_what_was_compiled_is_forgotten_in_the_end(workers, template):
    from torch._inductor.async_compile import CompiledTritonKernels

    from fasta_learn.inductor._gemm_compile import Compiles

    compiles = Compiles()
    compiles.start(template)
    CompiledTritonKernels.save("the source", workers.jobs[0][2])
    compiles.close()

    assert CompiledTritonKernels.get("the source") is None
