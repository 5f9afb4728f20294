"""Settings of the whole test run."""

import os
import sys
from pathlib import Path

import pytest

# scikit-learn's common tests skip their array API check without it; SciPy reads it
# when it is imported.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

# Tests and the children that they start import simulated_cuda, sample_kernels and more.
sys.path.insert(0, str(Path(__file__).parent / "oracles"))

# They need an environment of their own: tests/npu/run makes it and runs them.
collect_ignore = ["npu"]


@pytest.fixture(scope="session")
def kernel_cache(tmp_path_factory):
    """Give the folder where all tests of a run keep compiled kernels."""
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture
def simulate(kernel_cache):
    """Start simulated CUDA devices that stop at the end of the test."""
    # Only tests of Triton kernels wait for the imports of torch and triton.
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
