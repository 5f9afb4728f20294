import os
import subprocess
import sys

import pytest


@pytest.fixture
def run_command():
    """Run the command line in a process of its own, with its output in pipes."""

    def run(*arguments, **options):
        return subprocess.run(
            [sys.executable, "-m", "fasta_learn", *arguments],
            capture_output=True,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
            timeout=120,
            check=False,
            **options,
        )

    return run


@pytest.fixture
def write_pool_file(tmp_path):
    """Write a pool of a grid of blocks whose durations are given by a function."""

    def write(duration, name="grid.csv", n_blocks=8):
        lines = ["BLOCK,num_warps,duration_ms"]
        for block in range(n_blocks):
            for warps in range(1, 5):
                lines.append(f"{2**block},{warps},{duration(block, warps)}")
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    return write
