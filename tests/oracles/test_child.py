import ctypes
import gc
import os
import signal
import subprocess
import sys
import time
from types import ModuleType, SimpleNamespace

import pytest

from fasta_learn.oracles import CallableOracle

# No call that ends comes near this many seconds, on however slow a machine.
LONG = 60.0


# A child can't import the tests, so all that it calls is local to a function.
def make_function():
    def measure(config):
        if "do" in config:
            config["do"]()
        return config.get("ms", os.getpid())

    return measure


def hang():
    return lambda: time.sleep(1000)


@pytest.fixture
def make_oracle():
    made = []

    def make(function=None, **parameters):
        made.append(CallableOracle(function or make_function(), **parameters))
        return made[-1]

    yield make
    for oracle in made:
        oracle.close()


def pid_of(answer):
    """Give the process that has measured a config without ms."""
    return int(answer.duration)


def test_one_child_measures_all_configs(make_oracle):
    first, second, third = make_oracle(timeout=LONG).measure([{}, {"ms": 2.0}, {}])
    assert second.duration == 2.0
    assert pid_of(first) == pid_of(third) != os.getpid()


def test_hanging_config_times_out_and_the_rest_is_measured(make_oracle):
    oracle = make_oracle(timeout=1)
    first, hung, last = oracle.measure([{"ms": 1}, {"ms": 2, "do": hang()}, {"ms": 3}])
    assert (hung.status, hung.reason) == ("timeout", "no answer within 1 s")
    assert hung.run_seconds >= 1
    assert (first.duration, last.duration) == (1.0, 3.0)


def test_hanging_child_is_ended(make_oracle, processes):
    oracle = make_oracle(timeout=1)
    (first,) = oracle.measure([{}])
    oracle.measure([{"do": hang()}])
    assert not processes.is_alive(pid_of(first))


def test_child_that_never_yields_to_python_is_ended(make_oracle):
    config = {"ms": 1, "do": lambda: ctypes.PyDLL(None).sleep(1000)}
    (answer,) = make_oracle(timeout=0.3).measure([config])
    assert answer.status == "timeout"


def test_processes_that_the_function_started_are_ended(
    make_oracle, processes, tmp_path
):
    def start_and_hang():
        child = subprocess.Popen(["sleep", "1000"])
        (tmp_path / "pid").write_text(str(child.pid))
        time.sleep(1000)

    (answer,) = make_oracle(timeout=2).measure([{"ms": 1, "do": start_and_hang}])
    assert answer.status == "timeout"
    assert processes.wait_until_gone(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (lambda: os._exit(3), "the child process ended with exit code 3"),
        (lambda: sys.exit(4), "the child process ended with exit code 4"),
        (
            lambda: os.kill(os.getpid(), signal.SIGSEGV),
            "the child process was ended by signal 11 (SIGSEGV)",
        ),
        (
            lambda: os.kill(os.getpid(), signal.SIGRTMIN + 1),
            f"the child process was ended by signal {signal.SIGRTMIN + 1}",
        ),
    ],
)
def test_function_that_ends_its_process_is_a_failure(make_oracle, end, reason):
    oracle = make_oracle(timeout=LONG)
    dead, alive = oracle.measure([{"ms": 1, "do": end}, {"ms": 2}])
    assert (dead.status, dead.reason) == ("error", reason)
    assert alive.duration == 2.0


def test_child_killed_between_calls_is_replaced(make_oracle, processes):
    oracle = make_oracle(timeout=LONG)
    pid = pid_of(oracle.measure([{}])[0])
    os.kill(pid, signal.SIGKILL)
    assert processes.wait_until_gone(pid)
    assert oracle.measure([{"ms": 2}])[0].duration == 2.0


@pytest.mark.parametrize(
    ("error", "status"), [(ValueError, "error"), (MemoryError, "out_of_memory")]
)
def test_exception_in_the_child_is_a_failure(make_oracle, error, status):
    def fail(config):
        raise error("no such\ntile")

    (answer,) = make_oracle(fail, timeout=LONG).measure([{}])
    assert answer.status == status
    assert answer.reason == f"{error.__name__}: no such tile"
    assert answer.run_seconds is not None


def test_answer_that_can_not_be_sent_is_a_failure(make_oracle):
    (answer,) = make_oracle(lambda config: lambda: 1, timeout=LONG).measure([{}])
    assert answer.status == "error"
    assert "the answer could not be sent to the parent" in answer.reason


def test_config_that_can_not_be_loaded_is_a_failure(make_oracle):
    class Config:
        def __reduce__(self):
            return int, ("no number",)

    bad, good = make_oracle(timeout=LONG).measure([Config(), {"ms": 2}])
    assert bad.status == "error"
    assert "the config could not be loaded in the child: ValueError" in bad.reason
    assert good.ok


def test_config_objects_with_lambdas_are_sent(make_oracle):
    config = SimpleNamespace(kwargs={"BLOCK": 64}, pre_hook=lambda: 2.0)
    (answer,) = make_oracle(lambda c: c.pre_hook(), timeout=LONG).measure([config])
    assert answer.duration == 2.0


def test_function_that_prints_is_measured(make_oracle, capfd):
    def greet(config):
        os.write(1, b"hello")
        return 2.0

    (answer,) = make_oracle(greet, timeout=LONG).measure([{}])
    assert answer.duration == 2.0
    assert capfd.readouterr().out == "hello"


def test_loading_the_function_does_not_count(make_oracle):
    class SlowToLoad:
        def __reduce__(self):
            return time.sleep, (1.0,)

    slow = SlowToLoad()
    oracle = make_oracle(lambda config: 2.0 if slow is None else 3.0, timeout=0.5)
    assert oracle.measure([{}])[0].duration == 2.0


def test_child_imports_from_where_its_parent_does(make_oracle, tmp_path, monkeypatch):
    (tmp_path / "module_beside_the_script.py").write_text("DURATION = 2.5\n")
    monkeypatch.syspath_prepend(tmp_path)

    def measure(config):
        import module_beside_the_script

        return module_beside_the_script.DURATION

    assert make_oracle(measure, timeout=LONG).measure([{}])[0].duration == 2.5


def test_function_that_can_not_be_loaded_is_an_error(make_oracle, monkeypatch):
    module = ModuleType("module_that_no_child_can_import")
    exec("def measure(config):\n    return 1.0\n", module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    oracle = make_oracle(module.measure, timeout=LONG)
    message = "can't be loaded in a child process: ModuleNotFoundError"
    with pytest.raises(RuntimeError, match=message):
        oracle.measure([{}])


def test_function_that_crashes_on_loading_is_an_error(make_oracle):
    class Crash:
        def __reduce__(self):
            return os._exit, (5,)

    crash = Crash()
    oracle = make_oracle(lambda config: crash, timeout=LONG)
    with pytest.raises(RuntimeError, match=r"can't be loaded.* exit code 5"):
        oracle.measure([{}])


def test_children_measure_at_a_time_in_order(make_oracle):
    oracle = make_oracle(timeout=2, n_jobs=2)
    configs = [{"ms": i, "do": hang()} if i == 1 else {"ms": i} for i in range(6)]
    answers = oracle.measure(configs)
    assert [a.duration for i, a in enumerate(answers) if i != 1] == [0, 2, 3, 4, 5]
    assert answers[1].status == "timeout"


def test_close_ends_every_child_and_frees_its_descriptors(make_oracle, processes):
    before = processes.n_descriptors()
    oracle = make_oracle(timeout=LONG)
    (answer,) = oracle.measure([{}])
    oracle.close()
    assert not processes.is_alive(pid_of(answer))
    assert processes.n_descriptors() == before


def test_timeouts_and_crashes_leak_no_descriptors(make_oracle, processes):
    before = processes.n_descriptors()
    oracle = make_oracle(timeout=0.3)
    oracle.measure([{"ms": 1, "do": hang()}, {"ms": 1, "do": lambda: os._exit(1)}])
    assert processes.n_descriptors() == before


def test_with_block_ends_the_child(processes):
    with CallableOracle(make_function(), timeout=LONG) as oracle:
        (answer,) = oracle.measure([{}])
    assert not processes.is_alive(pid_of(answer))


def test_child_ends_with_its_oracle():
    oracle = CallableOracle(make_function(), timeout=LONG)
    (answer,) = oracle.measure([{}])
    del oracle
    gc.collect()
    assert not os.path.exists(f"/proc/{pid_of(answer)}")  # not even a zombie


def test_idle_child_ends_in_an_orderly_way(make_oracle, tmp_path):
    def register():
        import atexit

        atexit.register((tmp_path / "ended").write_text, "yes")

    oracle = make_oracle(timeout=LONG)
    oracle.measure([{"ms": 1, "do": register}])
    oracle.close()
    assert (tmp_path / "ended").read_text() == "yes"


def test_closed_oracle_starts_a_new_child(make_oracle):
    oracle = make_oracle(timeout=LONG)
    oracle.measure([{"ms": 1}])
    oracle.close()
    assert oracle.measure([{"ms": 2}])[0].duration == 2.0


def test_interrupt_ends_the_child(make_oracle, processes, tmp_path):
    def interrupt_parent_and_hang():
        (tmp_path / "pid").write_text(str(os.getpid()))
        os.kill(os.getppid(), signal.SIGINT)
        time.sleep(1000)

    with pytest.raises(KeyboardInterrupt):
        make_oracle(timeout=LONG).measure([{"ms": 1, "do": interrupt_parent_and_hang}])
    assert not processes.is_alive(int((tmp_path / "pid").read_text()))


def test_forked_process_leaves_the_child_to_its_parent(make_oracle):
    oracle = make_oracle(timeout=LONG)
    pid = pid_of(oracle.measure([{}])[0])
    forked = os.fork()
    if forked == 0:
        own = pid_of(oracle.measure([{}])[0])
        oracle.close()
        os._exit(0 if own != pid else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 0
    assert pid_of(oracle.measure([{}])[0]) == pid


def test_child_of_a_killed_parent_ends(start_script, processes):
    script = """
import os, time
from fasta_learn.oracles import CallableOracle

def measure(config):
    print(os.getpid(), flush=True)
    time.sleep(1000)

CallableOracle(measure, timeout=1000).measure([{}])
"""
    parent = start_script(script)
    pid = int(parent.stdout.readline())
    parent.kill()
    assert processes.wait_until_gone(pid)


def test_main_script_needs_no_guard(start_script):
    script = """
from fasta_learn.oracles import CallableOracle

def measure(config):
    return helper(config)

def helper(config):
    return 2.0 * config["a"]

print(CallableOracle(measure, timeout=60).measure([{"a": 3}])[0].duration)
"""
    assert start_script(script).communicate()[0] == "6.0\n"
