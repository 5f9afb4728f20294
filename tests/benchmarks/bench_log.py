"""Time and memory of reading, grouping, merging and writing a large log.

Each step runs in a process of its own, so that its peak memory is its own; all but
the first read the log too:

    python tests/benchmarks/bench_log.py --rows 2000000

``--damaged`` puts torn lines, commas and further headers into the file.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "heuristics"))

_STEPS = ("read", "inputs", "features", "merge", "write")


def make_file(path: Path, n_rows: int, damaged: bool) -> None:
    """Write a log that repeats synthetic inputs with durations of their own."""
    import numpy as np
    from synthetic import A100, make_log

    log = make_log(20_000, n_repetitions=1)
    lines = [
        line.rsplit(",", 1)[0]
        for line in log.frame.astype(str).agg(",".join, axis=1).tolist()
    ]
    durations = np.random.default_rng(0).lognormal(size=n_rows).tolist()
    with path.open("w") as file:
        file.write(A100.metadata.header_line() + "\n")
        file.write(",".join(log.frame.columns) + "\n")
        for index, duration in enumerate(durations):
            line = f"{lines[index % len(lines)]},{duration}"
            if damaged and index % 3 == 1:
                line = _damage(line, index)
            file.write(line + "\n")


def _damage(line: str, index: int) -> str:
    return (line[:40], line.replace("False", "a,b", 1), line + "x")[index % 9 // 3]


def run_step(step: str, path: Path) -> int:
    """Run one step; return the number of rows or inputs."""
    from fasta_learn.heuristics import PadFeatures, merge_logs, read_log, write_log

    if step == "merge":
        return merge_logs([path])[1].n_inputs
    log = read_log(path)
    if step == "inputs":
        return len(log.inputs())
    if step == "features":
        return len(PadFeatures().fit(log.frame).transform(log.frame))
    if step == "write":
        write_log(log, path.with_suffix(".copy"))
    return len(log)


def main() -> None:
    """Make the file and run the steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--damaged", action="store_true")
    parser.add_argument("--step", choices=_STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        start, busy = time.perf_counter(), time.process_time()
        count = run_step(options.step, options.path)
        seconds, busy = time.perf_counter() - start, time.process_time() - busy
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"{options.step:9} {count:9} {seconds:7.1f} s ({busy:.1f} s busy)  "
            f"{peak:5.2f} GB peak"
        )
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.txt"
        make_file(path, options.rows, options.damaged)
        print(f"{options.rows} rows, {path.stat().st_size / 1e6:.0f} MB")
        for step in _STEPS:
            command = [sys.executable, __file__, "--step", step, "--path", str(path)]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
