"""Settings of the tests that run in the NPU test bed's environment, and only there.

The ordinary test command does not collect this folder; `tests/npu/run` makes the
environment and runs it.
"""

import os
import sys
from pathlib import Path

import pytest

_TESTS = Path(__file__).parent.parent
_FOLDERS = [str(_TESTS / "npu_testbed"), str(_TESTS / "npu"), str(_TESTS / "oracles")]


def _activate():
    """Start the test bed, before anything imports torch: torch_npu loads with it."""
    sys.path[:0] = _FOLDERS
    import npu_testbed

    try:
        npu_testbed.activate()
    except npu_testbed.TestbedError as error:
        raise pytest.UsageError(
            f"tests/npu needs the environment that tests/npu/run makes: {error}"
        ) from error
    return npu_testbed


_BED = _activate()


@pytest.fixture(scope="session")
def triton_folder(tmp_path_factory):
    """Give the folder where kernels that were compiled once are found again."""
    return tmp_path_factory.mktemp("triton")


@pytest.fixture(autouse=True)
def bed(tmp_path, triton_folder, monkeypatch):
    """Give the test bed with empty logs, no faults, and the default latency.

    Inductor's caches and the store of fasta_learn are empty. Triton's is the run's: a
    kernel that an earlier test has compiled is in `compile_log`, with few seconds.
    """
    import torch
    from torch._inductor.utils import fresh_cache

    _BED.reset()
    _BED.set_latency()
    torch._dynamo.reset()
    monkeypatch.setenv("FASTA_LEARN_CACHE_DIR", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)  # torch_npu's profilers write to the working folder
    with fresh_cache(dir=str(tmp_path)):
        os.environ["TRITON_CACHE_DIR"] = str(triton_folder)
        yield _BED
    _BED.reset()
    _BED.set_latency()


@pytest.fixture
def child_environment(tmp_path):
    """Give the environment of a child process that activates the test bed.

    Its caches are folders of the test, so that a second child finds what the first
    one has stored.
    """
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(_FOLDERS),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"),
    }
