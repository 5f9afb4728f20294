import math
import sys
from pathlib import Path

import pytest

# The stand-in for a GPU and the kernels of the tests of oracles.
sys.path.insert(0, str(Path(__file__).parents[1] / "oracles"))


@pytest.fixture(autouse=True)
def store_folder(tmp_path, monkeypatch):
    """Keep the results of each test in a folder of its own."""
    monkeypatch.setenv("FASTA_LEARN_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("FASTA_LEARN_FROZEN", raising=False)
    return tmp_path / "autotune"


@pytest.fixture(scope="session")
def kernel_cache(tmp_path_factory):
    """Give the folder where all tests of a run keep compiled kernels."""
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture
def simulate(kernel_cache):
    """Start simulated CUDA devices that stop at the end of the test."""
    from simulated_cuda import SimulatedCuda

    started = []

    def start(**parameters):
        cuda = SimulatedCuda(**{"cache_dir": kernel_cache, **parameters})
        cuda.start()
        started.append(cuda)
        return cuda

    yield start
    for cuda in reversed(started):
        cuda.stop()


@pytest.fixture
def cuda(simulate, monkeypatch):
    """Start a device on which BLOCK 256 with two warps is the fastest config."""
    cuda = simulate(duration=duration_of)

    class Clock:
        """Times launches on the simulated clock."""

        def __init__(self, device=None):
            self.time_batch = cuda.clock.time_batch

        def close(self):
            """Hold nothing."""

    monkeypatch.setattr("fasta_learn.oracles._triton_device.CudaClock", Clock)
    return cuda


def duration_of(config):
    """Answer a duration in ms."""
    block, warps = math.log2(config["BLOCK"]), math.log2(config["num_warps"])
    return 1 + 0.2 * (block - 8) ** 2 + 0.1 * (warps - 1) ** 2
