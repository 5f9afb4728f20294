"""Record the pools of tests/benchmarks/kernels on the GPU of this machine.

    python tests/benchmarks/record_kernels.py FOLDER

measures every config of every pool: compiled in threads, checked against a reference,
timed as docs/user_guide/timing.rst says, slow configs to the end. It goes on from its
journals when it is started again (do so after exit code 3), with --only some of the
pools are recorded, and with --max-seconds it stops in time. Empty Triton's cache first,
or the compile seconds mean nothing.
"""

import argparse
import sys
import time
from pathlib import Path

import kernels
import torch

from fasta_learn.experiments import record_pool


def record(name: str, folder: Path, seconds: float) -> str:
    """Record one pool and return a line about it."""
    make, parameters = kernels.POOLS[name]
    started = time.monotonic()
    recording = record_pool(
        make(**parameters), folder, name=name, max_seconds=seconds, isolate=False
    )
    torch.cuda.empty_cache()
    taken = time.monotonic() - started
    if recording.pool is None:
        n_known = recording.n_known + recording.n_measured
        return f"{n_known} of {recording.n_configs} configs, {taken:.1f} s"
    return f"{recording.pool!r}, {recording.n_measured} measured in {taken:.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", default=list(kernels.POOLS)
    )
    parser.add_argument("--max-seconds", type=float, default=float("inf"))
    args = parser.parse_args()
    deadline = time.monotonic() + args.max_seconds
    for name in args.only:
        left = deadline - time.monotonic()
        if left <= 0 or (args.folder / f"{name}.csv").exists():
            continue
        try:
            line = record(name, args.folder, left)
        except RuntimeError as error:  # a config broke the device: start again
            print(f"{name}: {error}", flush=True)
            sys.exit(3)
        print(f"{name}: {line}", flush=True)


if __name__ == "__main__":
    main()
