import threading

import pytest
from simulated_npu import facts

from fasta_learn.oracles import _npu_compiling
from fasta_learn.oracles._npu_compiling import NPUCompiler, PatientCompiler


class Task:
    """A task whose variants are the sub-blocks; compiles as the test says."""

    def __init__(self, compile=lambda variant: facts(), rescue=lambda variant: None):
        self._compile, self.rescue = compile, rescue
        self.compiled = []
        self._lock = threading.Lock()

    def fill_tables(self):
        pass

    def variant(self, config):
        if "sub" not in config:
            raise ValueError("no config")
        return {"sub": config["sub"]}

    def compile(self, variant):
        with self._lock:
            self.compiled.append(dict(variant))
        return self._compile(variant)


@pytest.fixture
def make_compiler():
    made = []

    def make(task, n_threads=1, timeout=20.0):
        made.append(NPUCompiler(task, n_threads, timeout))
        return made[-1]

    yield make
    for compiler in made:
        compiler.threads.close()


def candidates(*pairs):
    return [{"block": block, "sub": sub} for block, sub in pairs]


def test_variant_is_compiled_once(make_compiler):
    task = Task()
    compiler = make_compiler(task, n_threads=2)
    pool = candidates((1, 8), (2, 8), (1, 16))
    compiler.prepare(pool)
    for config in pool:
        compiler.compile(config)
    assert sorted(variant["sub"] for variant in task.compiled) == [8, 16]
    assert [compiler.number(config) for config in pool] == [0, 0, 1]


def test_first_candidate_pays_for_its_variant(make_compiler):
    compiler = make_compiler(Task())
    first, second = candidates((1, 8), (2, 8))
    compiler.compile(first)
    assert compiler.charge(first) > 0
    assert compiler.charge(second) == compiler.charge(first) == 0


def test_what_is_no_config_is_left_out_by_prepare(make_compiler):
    task = Task()
    compiler = make_compiler(task)
    compiler.prepare([{"block": 1}, *candidates((1, 8))])
    compiler.compile({"sub": 8})
    assert task.compiled == [{"sub": 8}]
    assert compiler.charge({"block": 1}) == 0


def refuse_unless_fused(variant):
    if not variant.get("fused"):
        raise RuntimeError("refused")
    return facts(changed={"fused": True})


def with_fusion(variant):
    return None if "fused" in variant else {**variant, "fused": True}


def test_first_failures_are_tried_with_other_options(make_compiler):
    task = Task(refuse_unless_fused, with_fusion)
    compiler = make_compiler(task)
    first, second = candidates((1, 8), (2, 8))
    assert compiler.compile(first).changed == {"fused": True}
    assert compiler.compile(second).changed == {"fused": True}
    assert task.compiled == [{"sub": 8}, {"sub": 8, "fused": True}]


def test_no_other_options_once_a_config_has_compiled(make_compiler):
    def compile(variant):
        return facts() if variant["sub"] == 8 else refuse_unless_fused(variant)

    compiler = make_compiler(Task(compile, with_fusion))
    compiler.compile({"sub": 8})
    with pytest.raises(RuntimeError, match="refused"):
        compiler.compile({"sub": 16})


def test_error_without_other_options_is_the_one_that_counts(make_compiler):
    def compile(variant):
        raise RuntimeError("second" if "fused" in variant else "first")

    compiler = make_compiler(Task(compile, with_fusion))
    with pytest.raises(RuntimeError, match="first"):
        compiler.compile({"sub": 8})


def test_compiling_may_take_only_so_long(make_compiler):
    hang = threading.Event()
    compiler = make_compiler(Task(lambda variant: hang.wait(20)), timeout=0.05)
    with pytest.raises(TimeoutError, match=r"0\.05 s"):
        compiler.compile({"sub": 8})
    hang.set()


def test_error_that_passes_is_tried_once_more():
    errors = [SystemError("AST constructor recursion depth mismatch")]

    def compile(variant):
        if errors:
            raise errors.pop()
        return variant

    assert PatientCompiler(compile)("variant") == "variant"


def test_second_error_that_passes_is_raised():
    n_calls = []

    def compile(variant):
        n_calls.append(variant)
        raise SystemError("AST constructor recursion depth mismatch")

    with pytest.raises(SystemError):
        PatientCompiler(compile)("variant")
    assert len(n_calls) == 2


def test_final_error_is_not_tried_again():
    n_calls = []

    def compile(variant):
        n_calls.append(variant)
        raise RuntimeError("ub overflow, requires 2 bits while 1 bits available")

    with pytest.raises(RuntimeError):
        PatientCompiler(compile)("variant")
    assert len(n_calls) == 1


def test_another_try_is_alone():
    """While one compiles once more, no other compile runs or begins."""
    running, most = set(), {"retry": 0}
    is_first, may_end = threading.Event(), threading.Event()

    def compile(variant):
        running.add(variant)
        try:
            if variant == "slow":
                is_first.set()
                may_end.wait(20)
            elif variant == "mixed up" and "seen" not in most:
                most["seen"] = 1
                may_end.set()
                raise SystemError("AST constructor recursion depth mismatch")
            elif variant == "mixed up":
                most["retry"] = len(running)
        finally:
            running.discard(variant)

    compiler = PatientCompiler(compile)
    slow = threading.Thread(target=compiler, args=("slow",))
    slow.start()
    is_first.wait(20)
    compiler("mixed up")
    slow.join(20)
    assert most["retry"] == 1


def test_compile_that_hangs_does_not_keep_others_waiting(monkeypatch):
    monkeypatch.setattr(_npu_compiling, "_LONGEST_WAIT", 0.05)
    hangs, may_end, errors = threading.Event(), threading.Event(), []

    def compile(variant):
        if variant == "hanging":
            hangs.set()
            may_end.wait(20)
        elif not errors:
            errors.append(variant)
            raise SystemError("AST constructor recursion depth mismatch")
        return variant

    compiler = PatientCompiler(compile)
    hanging = threading.Thread(target=compiler, args=("hanging",))
    hanging.start()
    hangs.wait(20)
    assert compiler("mixed up") == "mixed up"
    may_end.set()
    hanging.join(20)
