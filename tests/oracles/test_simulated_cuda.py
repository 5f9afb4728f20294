"""Tests of the stand-in: what others are tested with must not deceive them."""

import re
import subprocess
from pathlib import Path

import pytest
import sample_kernels as kernels
import torch
import triton
from simulated_cuda import StickyError, illegal_access, read_resources
from triton import knobs


@pytest.fixture
def vectors():
    return torch.arange(256.0), torch.zeros(256)


def launch(x, y, **config):
    return kernels.scale_kernel[(1,)](x, y, 256, **{"BLOCK": 256, **config})


def test_launch_computes_and_moves_the_clock(simulate, vectors):
    cuda = simulate(duration=lambda c: c["num_warps"] / 2, compute=kernels.scale)
    launch(*vectors, num_warps=4)
    launch(*vectors, num_warps=1)
    assert torch.equal(vectors[1], 2 * vectors[0])
    assert cuda.clock.now == 2.5
    assert [c["num_warps"] for c in cuda.launches] == [4, 1]


def test_registers_and_stack_are_those_of_the_compiled_kernel(simulate, tmp_path):
    simulate()
    a, b, c = (torch.zeros(256, 256, dtype=torch.float16) for _ in range(3))
    config = {"BM": 128, "BN": 256, "BK": 32, "num_warps": 4}
    kernel = kernels.matmul_kernel[(2, 1)](a, b, c, 256, 256, 256, **config)
    path = tmp_path / "kernel.cubin"
    path.write_bytes(kernel.asm["cubin"])
    command = [knobs.nvidia.cuobjdump.path, "-res-usage", path]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    registers, stack = map(int, re.search(r"REG:(\d+) STACK:(\d+)", listing).groups())
    assert stack > 0
    assert read_resources(kernel.asm["cubin"]) == (registers, stack)
    assert (kernel.n_regs, kernel.n_spills) == (registers, stack // 4)


def test_autotuner_of_triton_finds_the_fastest_config(simulate, vectors):
    x, y = vectors
    simulate(duration=lambda config: abs(config["BLOCK"] - 128) + 1.0)
    configs = [triton.Config({"BLOCK": block}) for block in (32, 64, 128, 256)]
    tuned = triton.autotune(configs, key=["n"])(kernels.scale_kernel)
    tuned[(1,)](x, y, 256)
    assert tuned.best_config.kwargs == {"BLOCK": 128}


def test_fault_of_a_run_comes_out_when_the_device_is_waited_for(simulate, vectors):
    def fail(config, stage):
        if stage == "run":
            raise RuntimeError("CUDA error: out of memory")

    cuda = simulate(fault=fail)
    launch(*vectors)
    with pytest.raises(RuntimeError, match="out of memory"):
        cuda.synchronize()
    cuda.synchronize()


def test_sticky_fault_breaks_the_device(simulate, vectors):
    def fail(config, stage):
        if stage == "launch":
            raise illegal_access()

    cuda = simulate(fault=fail)
    for call in (lambda: launch(*vectors), lambda: launch(*vectors), cuda.synchronize):
        with pytest.raises(StickyError):
            call()
    assert cuda.launches == []


def test_fault_while_loading(simulate, vectors):
    def fail(config, stage):
        if stage == "load" and config["BLOCK"] == 256:
            raise RuntimeError("Triton Error [CUDA]: no kernel image")

    cuda = simulate(fault=fail)
    launch(*vectors, BLOCK=128)
    with pytest.raises(RuntimeError, match="no kernel image"):
        launch(*vectors)
    assert [config["BLOCK"] for config in cuda.loads] == [128]


def test_kernels_are_compiled_anew_by_the_next_simulation(simulate, vectors, tmp_path):
    for folder in ("first", "second"):
        cuda = simulate(cache_dir=Path(tmp_path, folder))
        launch(*vectors)
        assert [cached for _, cached in cuda.compiles] == [False]
        cuda.stop()


def test_devices_are_current_for_a_thread_each(simulate):
    simulate(n_devices=2)
    driver = triton.runtime.driver.active
    with driver.get_device_interface().device(1):
        assert driver.get_current_device() == 1
    assert driver.get_current_device() == 0
    with pytest.raises(RuntimeError, match="invalid device"):
        driver.set_current_device(2)
