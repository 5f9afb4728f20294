import math
import sys
from pathlib import Path

import pytest

# The kernels that are tuned, and how they are called.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def store_folder(tmp_path, monkeypatch):
    """Keep the results of each test in a folder of its own."""
    monkeypatch.setenv("FASTA_LEARN_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("FASTA_LEARN_FROZEN", raising=False)
    return tmp_path / "autotune"


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


@pytest.fixture
def bench(cuda):
    """Give a benchmark function of a user's for the simulated device."""
    from bench_tuning import Bench

    return Bench(cuda)


def duration_of(config):
    """Answer a duration in ms."""
    block, warps = math.log2(config["BLOCK"]), math.log2(config["num_warps"])
    return 1 + 0.2 * (block - 8) ** 2 + 0.1 * (warps - 1) ** 2
