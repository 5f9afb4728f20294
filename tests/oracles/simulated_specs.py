"""Kernels on simulated devices, with real faults; for tests and their children.

A child process that imports this module, or calls `faulty`, simulates a device from
then on, if the environment names a folder for compiled kernels and notes.
"""

import os
import signal
import time
from pathlib import Path

import torch
import triton
import triton.language as tl
from simulated_cuda import SimulatedCuda, illegal_access

from fasta_learn.oracles import KernelSpec, _triton_device

FOLDER = "FASTA_LEARN_TEST_FOLDER"
N = 256


def note(what):
    """Write down what happens in which process, for the test to read."""
    device = os.environ.get("CUDA_VISIBLE_DEVICES")
    with open(Path(os.environ[FOLDER]) / "notes", "a") as file:
        file.write(f"{os.getpid()} {device} {what}\n")


def fail_to_compile(args):
    fault = args["FAULT"]
    if FOLDER in os.environ:
        note(f"compile {fault or args['BLOCK']}")
    if fault == "compile_crash":
        time.sleep(0.3)  # so that others are being compiled, too
        os.kill(os.getpid(), signal.SIGSEGV)
    elif fault == "compile_hang":
        time.sleep(1000)
    elif fault == "compile_error":
        raise ValueError("no such tile")
    return 0


def fail_to_run(config, stage):
    if stage != "run":
        return
    fault = config["FAULT"]
    note(f"run {fault or config['BLOCK']}")
    if fault == "illegal":
        raise illegal_access()
    if fault == "hang":
        time.sleep(1000)
    if fault == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "interrupt":
        os.kill(os.getppid(), signal.SIGINT)
        time.sleep(1000)
    if fault == "memory":
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 TiB.")


def compute(args):
    args["y"].copy_(3 * args["x"] if args["FAULT"] == "wrong" else 2 * args["x"])


@triton.heuristics({"MODE": fail_to_compile})
@triton.jit
def faulty_kernel(
    x, y, n, BLOCK: tl.constexpr, FAULT: tl.constexpr, MODE: tl.constexpr
):
    tl.static_assert(BLOCK <= 4096, "BLOCK is too large")
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < n
    tl.store(y + places, 2 * tl.load(x + places, mask=inside), mask=inside)


def make_arguments():
    x = torch.arange(float(N))
    return {"x": x, "y": torch.zeros(N), "n": N}


def faulty():
    args = make_arguments()
    return KernelSpec(
        kernel=faulty_kernel,
        args=args,
        grid=(1,),
        configs=[good(32)],
        check={"y": 2 * args["x"]},
    )


def refuse():
    raise ValueError("there is no such shape")


def end_process():
    note("start")
    os._exit(7)


def good(block):
    return {"BLOCK": block, "FAULT": ""}


def bad(fault, block=32):
    return {"BLOCK": block, "FAULT": fault}


class OwnClock:
    """Stands in for the clock that a device opens and closes by itself."""

    def __init__(self, cuda):
        self.time_batch = cuda.clock.time_batch

    def close(self):
        self.time_batch = None


def simulate_device():
    folder = Path(os.environ[FOLDER])
    cuda = SimulatedCuda(
        duration=lambda config: 1024.0 / config["BLOCK"],
        compute=compute,
        fault=fail_to_run,
        cache_dir=folder / "kernels",
    )
    cuda.start()
    note("start")
    _triton_device.CudaClock = lambda device: OwnClock(cuda)


if FOLDER in os.environ:
    simulate_device()
