import os
import subprocess
import sys
import time
from pathlib import Path

import pytest


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


@pytest.fixture
def vectors():
    """Give two vectors, the second of which is to be written."""
    # Only tests of Triton kernels wait for the imports of torch and triton.
    from workloads import make_vectors

    return make_vectors()
