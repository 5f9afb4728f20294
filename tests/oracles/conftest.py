import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

# Tests and the children that they start import simulated_cuda and sample_kernels.
sys.path.insert(0, str(Path(__file__).parent))


class ProcessTable:
    """What the tests ask about processes and descriptors."""

    @staticmethod
    def is_alive(pid):
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
            n_threads = len(os.listdir(f"/proc/{pid}/task"))
        except (FileNotFoundError, ProcessLookupError):
            return False
        # A zombie has ended, but not before its last thread.
        return n_threads > 1 or stat.rpartition(")")[2].split()[0] not in "ZX"

    def wait_until_gone(self, pid, seconds=20):
        deadline = time.monotonic() + seconds
        while self.is_alive(pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        return not self.is_alive(pid)

    @staticmethod
    def n_descriptors():
        return len(os.listdir("/proc/self/fd"))


@pytest.fixture
def processes():
    return ProcessTable()


@pytest.fixture
def start_script():
    """Start Python on a script; what still runs at the end of the test is killed."""
    started = []

    def start(text, *arguments):
        process = subprocess.Popen(
            [sys.executable, "-c", text, *map(str, arguments)],
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


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
