import math
import threading
import time

import numpy as np
import pytest
import torch
from sample_kernels import (
    accumulate,
    accumulate_kernel,
    broken_kernel,
    matmul_kernel,
    scale,
    scale_kernel,
)
from simulated_cuda import illegal_access

from fasta_learn.oracles._timing import TimingPlan
from fasta_learn.oracles._triton_device import LocalDevice
from fasta_learn.oracles._triton_kernel import Workload

N = 256


def scale_workload(**options):
    x = torch.arange(float(N))
    return Workload(scale_kernel, [x, torch.zeros(N), N], (1,), **options)


@pytest.fixture
def open_device():
    opened = []

    def open_one(workload, cuda, **options):
        options = {"clock": cuda.clock, "n_threads": 1, "forks": False, **options}
        opened.append(LocalDevice(workload, **options))
        return opened[-1]

    yield open_one
    for device in opened:
        device.close()


def test_duration_is_that_of_the_launch(simulate, open_device):
    cuda = simulate(duration=lambda config: 64 / config["BLOCK"])
    device = open_device(scale_workload(), cuda)
    answer = device.measure({"BLOCK": 32})
    assert (answer.status, answer.duration) == ("ok", 2.0)
    assert answer.duration_p20 == answer.duration_p80 == 2.0
    assert answer.compile_seconds > 0
    assert answer.run_seconds > 0


def test_options_of_a_config_reach_the_compiler(simulate, open_device):
    cuda = simulate(duration=lambda config: config["num_warps"])
    device = open_device(scale_workload(), cuda)
    assert device.measure({"BLOCK": 128, "num_warps": 2}).duration == 2.0


def test_info_tells_resources_and_timing(simulate, open_device):
    cuda = simulate(duration=0.5)
    device = open_device(scale_workload(), cuda, plan=TimingPlan(min_launches=5))
    info = device.measure({"BLOCK": 64}).info
    assert info["registers"] > 0
    assert info["spills"] == 0
    assert info["shared_bytes"] == 0
    assert info["n_launches"] == 5
    assert info["standard_error_ms"] == 0.0
    assert info["cut_off"] is False


def test_single_launch_has_no_standard_error(simulate, open_device):
    device = open_device(scale_workload(), simulate(duration=5000.0))
    assert device.measure({"BLOCK": 64}).info["standard_error_ms"] is None


def test_slow_config_is_cut_off_by_the_best(simulate, open_device):
    device = open_device(scale_workload(), simulate(duration=2.0))
    answer = device.measure({"BLOCK": 64}, best=1.0)
    assert answer.ok
    assert answer.info["cut_off"] is True


@pytest.mark.parametrize("best", [None, math.inf, 1.9])
def test_config_that_may_win_is_not_cut_off(simulate, open_device, best):
    device = open_device(scale_workload(), simulate(duration=2.0))
    assert device.measure({"BLOCK": 64}, best=best).info["cut_off"] is False


def test_compile_error_is_a_measurement(simulate, open_device):
    cuda = simulate()
    x = torch.zeros(N)
    device = open_device(Workload(broken_kernel, [x, x, N], (1,)), cuda)
    answer = device.measure({"BLOCK": 64})
    assert answer.status == "compile_error"
    assert answer.compile_seconds > 0
    assert cuda.loads == []


def test_too_much_shared_memory_is_told_with_its_limit(simulate, open_device):
    cuda = simulate(limits={"max_shared_mem": 4096})
    a = torch.zeros(64, 64, dtype=torch.float16)
    device = open_device(
        Workload(matmul_kernel, [a, a, a.clone(), 64, 64, 64], (1,)), cuda
    )
    answer = device.measure({"BM": 64, "BN": 64, "BK": 64})
    assert answer.status == "out_of_resources"
    assert answer.info["limit"] == 4096
    assert answer.info["required"] == answer.info["shared_bytes"] > 4096


def test_wrong_result_is_told(simulate, open_device):
    def compute(args):
        args["y"].copy_(args["x"] if args["BLOCK"] == 32 else 2 * args["x"])

    cuda = simulate(compute=compute)
    workload = scale_workload(check={"y": 2 * torch.arange(float(N))})
    device = open_device(workload, cuda)
    assert device.measure({"BLOCK": 32}).status == "wrong_result"
    assert device.measure({"BLOCK": 64}).ok


def test_config_that_writes_nothing_does_not_pass_by_an_earlier_result(
    simulate, open_device
):
    def compute(args):
        if args["BLOCK"] == 64:
            scale(args)

    workload = scale_workload(check={"y": 2 * torch.arange(float(N))})
    device = open_device(workload, simulate(compute=compute))
    assert device.measure({"BLOCK": 64}).ok
    assert device.measure({"BLOCK": 32}).status == "wrong_result"


def test_each_launch_begins_with_the_same_values(simulate, open_device):
    seen = []

    def compute(args):
        seen.append(args["y"].clone())
        accumulate(args)

    x, y = torch.ones(N), torch.full((N,), 5.0)
    workload = Workload(
        accumulate_kernel,
        [x, y, N],
        (1,),
        restore_value=["y"],
        check={"y": torch.full((N,), 6.0)},
    )
    device = open_device(workload, simulate(compute=compute))
    assert device.measure({"BLOCK": 64}).ok
    assert len(seen) > 3
    assert all(torch.equal(values, torch.full((N,), 5.0)) for values in seen)


def test_close_puts_the_arguments_back(simulate, open_device):
    x, y = torch.ones(N), torch.full((N,), 5.0)
    workload = Workload(accumulate_kernel, [x, y, N], (1,), restore_value=["y"])
    device = open_device(workload, simulate(compute=accumulate))
    device.measure({"BLOCK": 64})
    device.close()
    assert torch.equal(y, torch.full((N,), 5.0))


def fail_once(error, stage):
    errors = [error]

    def fault(config, at):
        if at == stage and errors:
            raise errors.pop()

    return fault


def out_of_memory():
    return torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 TiB.")


@pytest.mark.parametrize("stage", ["load", "launch", "run"])
def test_out_of_memory_is_tried_once_more(simulate, open_device, stage):
    cuda = simulate(fault=fail_once(out_of_memory(), stage))
    assert open_device(scale_workload(), cuda).measure({"BLOCK": 64}).ok


def test_lasting_lack_of_memory_is_told(simulate, open_device):
    n_tries = 0

    def fault(config, stage):
        nonlocal n_tries
        if stage == "launch":
            n_tries += 1
            raise out_of_memory()

    device = open_device(scale_workload(), simulate(fault=fault))
    answer = device.measure({"BLOCK": 64})
    assert (answer.status, n_tries) == ("out_of_memory", 2)


def test_failure_costs_only_its_config(simulate, open_device):
    cuda = simulate(fault=fail_once(RuntimeError("odd"), "launch"))
    device = open_device(scale_workload(), cuda)
    answers = [device.measure({"BLOCK": block}) for block in (32, 64)]
    assert [answer.status for answer in answers] == ["error", "ok"]
    assert answers[0].reason == "RuntimeError: odd"


def test_broken_device_refuses_further_configs(simulate, open_device):
    def fault(config, stage):
        if stage == "run":
            raise illegal_access()

    device = open_device(scale_workload(), simulate(fault=fault))
    assert device.measure({"BLOCK": 64}).status == "illegal_access"
    assert "illegal memory access" in device.broken
    with pytest.raises(RuntimeError, match=r"broken the device .* isolate=True"):
        device.measure({"BLOCK": 32})


def test_config_is_compiled_once(simulate, open_device):
    cuda = simulate()
    device = open_device(scale_workload(), cuda, n_threads=2)
    device.prepare([{"BLOCK": 64}, {"BLOCK": 64}])
    device.measure({"BLOCK": 64})
    device.measure({"BLOCK": np.int64(64)})
    assert [config["BLOCK"] for config, _ in cuda.compiles] == [64]
    assert len(cuda.loads) == 1


class ControlledWorkload:
    """A workload whose compiles wait until they are let go."""

    def __init__(self, inner):
        self._inner = inner
        self.may_go = threading.Semaphore(0)
        self.started = []
        self.at_once = self.most_at_once = 0
        self._lock = threading.Lock()

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def compile(self, config):
        with self._lock:
            self.started.append(config["BLOCK"])
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        self.may_go.acquire(timeout=20)
        with self._lock:
            self.at_once -= 1
        return self._inner.compile(config)

    def wait_for(self, n_started):
        deadline = time.monotonic() + 20
        while len(self.started) < n_started and time.monotonic() < deadline:
            time.sleep(0.005)
        assert len(self.started) >= n_started


BLOCKS = [32, 64, 128, 256, 512, 1024]


def test_prepare_compiles_as_many_at_once_as_there_are_threads(simulate, open_device):
    workload = ControlledWorkload(scale_workload())
    device = open_device(workload, simulate(), n_threads=2)
    device.prepare({"BLOCK": block} for block in BLOCKS)
    workload.wait_for(2)
    time.sleep(0.05)
    assert workload.started == BLOCKS[:2]
    workload.may_go.release(len(BLOCKS))
    for block in BLOCKS:
        assert device.compile({"BLOCK": block}).seconds > 0
    assert workload.started == BLOCKS
    assert workload.most_at_once == 2


def test_config_that_is_asked_for_is_compiled_next(simulate, open_device):
    workload = ControlledWorkload(scale_workload())
    device = open_device(workload, simulate())
    device.prepare({"BLOCK": block} for block in BLOCKS)
    workload.wait_for(1)
    threading.Timer(0.1, workload.may_go.release, [len(BLOCKS)]).start()
    device.compile({"BLOCK": 1024})
    assert workload.started[:2] == [32, 1024]


class WatchedClock:
    """Notes how many compiles had begun when a timing began and ended."""

    def __init__(self, clock, workload):
        self._clock, self._workload = clock, workload
        self.counts = []

    def time_batch(self, launch, n_launches, prepare=None):
        before = len(self._workload.started)
        self._workload.may_go.release()  # a thread becomes free, with work to do
        time.sleep(0.1)
        self.counts.append((before, len(self._workload.started)))
        return self._clock.time_batch(launch, n_launches, prepare)


def test_no_compile_begins_during_a_timing(simulate, open_device):
    cuda = simulate()
    workload = ControlledWorkload(scale_workload())
    clock = WatchedClock(cuda.clock, workload)
    device = open_device(workload, cuda, clock=clock)
    workload.may_go.release()
    device.prepare({"BLOCK": block} for block in BLOCKS)
    assert device.measure({"BLOCK": 32}).ok
    assert clock.counts == [(2, 2)] * len(clock.counts)
    workload.wait_for(3)  # and then it does
    workload.may_go.release(len(BLOCKS))


def test_compile_goes_on_between_timings(simulate, open_device):
    workload = scale_workload()
    started = []
    device = open_device(
        workload, simulate(), watch=lambda event, config: started.append(event)
    )
    device.measure({"BLOCK": 32})
    device.prepare([{"BLOCK": 64}, {"BLOCK": 128}])
    for _ in range(3):  # what is measured needs no thread
        device.measure({"BLOCK": 32})
    assert started.count("compiling") >= 2


def test_compile_timeout_is_told_and_frees_the_thread(simulate, open_device):
    workload = ControlledWorkload(scale_workload())
    device = open_device(workload, simulate(), compile_timeout=0.2)
    answer = device.measure({"BLOCK": 32})
    assert answer.status == "timeout"
    assert answer.reason == "TimeoutError: compiling took more than 0.2 s"
    workload.may_go.release(2)  # one for the thread that was given up
    assert device.measure({"BLOCK": 64}).ok


def test_watch_is_told_what_happens(simulate, open_device):
    events = []
    device = open_device(
        scale_workload(), simulate(), watch=lambda *event: events.append(event)
    )
    device.measure({"BLOCK": 64})
    config = {"BLOCK": 64}
    assert events == [
        ("compiling", config),
        ("compiled", config),
        ("running", config),
    ]


def test_closed_device_refuses_and_has_no_threads(simulate, open_device):
    before = threading.active_count()
    device = open_device(scale_workload(), simulate(), n_threads=3)
    device.prepare([{"BLOCK": block} for block in BLOCKS])
    device.close()
    assert threading.active_count() == before
    with pytest.raises(RuntimeError, match="closed"):
        device.measure({"BLOCK": 2048})


def test_old_kernels_are_unloaded(simulate, open_device, monkeypatch):
    monkeypatch.setattr("fasta_learn.oracles._triton_device._MOST_LOADED", 1)
    cuda = simulate()
    device = open_device(scale_workload(), cuda)
    for block in (32, 64, 32):
        assert device.measure({"BLOCK": block}).ok
    assert len(cuda.loads) == 3
