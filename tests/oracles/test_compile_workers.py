import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import triton
from sample_kernels import matmul_kernel, scale_kernel

from fasta_learn.oracles import _triton_binding as binding
from fasta_learn.oracles._compile_workers import CompileWorkers
from fasta_learn.oracles._triton_device import LocalDevice
from fasta_learn.oracles._triton_failures import CompileFailedError, classify
from fasta_learn.oracles._triton_kernel import Workload

N = 1000


def scale_workload(**options):
    x = torch.arange(float(N))
    return Workload(
        scale_kernel,
        (x, torch.zeros(N), N),
        lambda meta: (triton.cdiv(N, meta["BLOCK"]),),
        **options,
    )


def matmul_workload():
    a, b, c = (torch.zeros(64, 64, dtype=torch.float16) for _ in range(3))
    return Workload(matmul_kernel, (a, b, c, 64, 64, 64), (1,))


@pytest.fixture
def start():
    started = []

    def start_workers(*parameters):
        started.append(CompileWorkers(*parameters))
        return started[-1]

    yield start_workers
    for workers in started:
        workers.close()


class Sabotaged:
    """A workload that does something else where BLOCK is 512."""

    def __init__(self, inner, deed):
        self._inner, self._deed = inner, deed

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def compile(self, config):
        if config["BLOCK"] == 512:
            self._deed()
        return self._inner.compile(config)


def test_this_process_finds_what_a_worker_compiled(simulate, start, tmp_path):
    cuda = simulate(cache_dir=tmp_path)
    workload = scale_workload()
    facts = start(workload, 1)({"BLOCK": 64, "num_warps": 2})
    assert facts.seconds > 0
    assert not facts.cached
    assert cuda.compiles == [] or all(hit for _, hit in cuda.compiles)
    workload.first_launch({"BLOCK": 64, "num_warps": 2})
    assert len(cuda.launches) == 1


def test_several_threads_have_a_worker_each(simulate, start):
    simulate()
    workers = start(scale_workload(), 2)
    configs = [{"BLOCK": 2**i} for i in range(5, 11)]
    with ThreadPoolExecutor(2) as pool:
        facts = list(pool.map(workers, configs))
    assert all(each.shared_bytes == 0 for each in facts)


@pytest.mark.parametrize(
    "config", [{"BM": 100, "BN": 64, "BK": 32}, {"BM": 64, "BN": 64}], ids=str
)
def test_failures_are_those_of_a_compile_here(simulate, start, config):
    simulate()
    with pytest.raises(Exception) as here:
        matmul_workload().compile(config)
    with pytest.raises(CompileFailedError) as there:
        start(matmul_workload(), 1)(config)
    assert classify(there.value, "compile") == classify(here.value, "compile")


def test_a_hook_of_a_config_travels(simulate, start):
    simulate()
    config = triton.Config({"BLOCK": 256}, pre_hook=lambda arguments: None)
    assert start(scale_workload(), 1)(config).seconds > 0


def test_a_crash_costs_one_worker(simulate, start):
    simulate()
    workload = Sabotaged(scale_workload(), lambda: os.kill(os.getpid(), signal.SIGKILL))
    workers = start(workload, 1)
    with pytest.raises(CompileFailedError, match="the compiler has crashed") as error:
        workers({"BLOCK": 512})
    assert classify(error.value, "compile").status == "compile_error"
    assert workers({"BLOCK": 128}).seconds > 0


def test_without_a_server_of_forks_configs_are_compiled_here(simulate, start):
    simulate()
    workload = Sabotaged(scale_workload(), lambda: os.kill(os.getpid(), signal.SIGKILL))
    workers = start(workload, 1)
    with open(f"/proc/{workers._workers[0].pid}/stat") as file:
        server = int(file.read().split(")")[-1].split()[1])
    os.kill(server, signal.SIGKILL)
    with pytest.raises(CompileFailedError):
        workers({"BLOCK": 512})
    assert workers({"BLOCK": 128}).shared_bytes == 0


def test_a_compile_that_takes_too_long_is_ended(simulate, start):
    simulate()
    workers = start(Sabotaged(scale_workload(), lambda: time.sleep(60)), 1, 0.3)
    with pytest.raises(TimeoutError, match=r"compiling took more than 0\.3 s"):
        workers({"BLOCK": 512})
    assert workers({"BLOCK": 128}).seconds > 0


def test_closing_ends_the_processes(simulate, start, processes):
    simulate()
    workers = start(scale_workload(), 2)
    pids = [worker.pid for worker in workers._workers]
    workers.close()
    assert not any(map(processes.is_alive, pids))


def test_a_device_compiles_in_workers(simulate):
    cuda = simulate(duration=lambda config: config["BLOCK"] / 64)
    with LocalDevice(scale_workload(), clock=cuda.clock, n_threads=2) as device:
        device.prepare([{"BLOCK": 64}, {"BLOCK": 128}])
        answers = [device.measure({"BLOCK": block}) for block in (64, 128, 256)]
        crashed = device.measure({"BLOCK": 100})
    assert [answer.duration for answer in answers] == [1, 2, 4]
    assert all(answer.compile_seconds > 0 for answer in answers)
    assert crashed.status == "compile_error"


def test_a_device_without_workers_compiles_in_threads(simulate, monkeypatch):
    def refuse(*parameters):
        raise OSError("no")

    monkeypatch.setattr("fasta_learn.oracles._triton_device.CompileWorkers", refuse)
    cuda = simulate()
    with LocalDevice(scale_workload(), clock=cuda.clock, n_threads=1) as device:
        assert device.measure({"BLOCK": 64}).ok


def test_a_lock_that_is_held_during_the_fork_does_not_hang_a_worker(simulate, start):
    simulate()
    workload = scale_workload()
    workload.fill_tables()
    workload.fill_tables = lambda: None  # this process would wait for the locks
    lock, held, done = workload._jit._hash_lock, threading.Event(), threading.Event()

    def hold():
        with lock, binding._TABLES:
            held.set()
            done.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    try:
        (worker,) = start(workload, 1)._workers
        assert worker.compile({"BLOCK": 64}, 30).shared_bytes == 0
    finally:
        done.set()
        holder.join()


def test_workers_end_with_a_process_that_is_killed(tmp_path, processes):
    script = tmp_path / "killed.py"
    script.write_text(
        textwrap.dedent(
            """
            import os, signal, sys
            sys.path[:0] = sys.argv[1:]
            from simulated_cuda import SimulatedCuda
            from test_compile_workers import CompileWorkers, scale_workload

            with SimulatedCuda():
                workers = CompileWorkers(scale_workload(), 2)
                print(*[w.pid for w in workers._workers], flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            """
        )
    )
    here = os.path.dirname(__file__)
    done = subprocess.run(
        [sys.executable, script, here], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2
    assert all(map(processes.wait_until_gone, pids))
