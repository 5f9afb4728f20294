"""Runs code in a fresh process, as a user's program would run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def run_child(code, folder, **variables):
    """Run code, and return the JSON value of its last line and its standard error.

    Kernels, caches and stores of the child are in a folder; fasta_learn is off unless
    a variable says otherwise.
    """
    script = Path(folder) / "child.py"
    script.write_text(code)
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("FASTA_LEARN", "TORCH", "TRITON"))
    }
    environment |= {
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "FASTA_LEARN_CACHE_DIR": str(folder / "store"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, str(script)],
        env=environment | variables,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode:
        pytest.fail(f"the child failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1]), done.stderr
