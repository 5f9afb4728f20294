"""What the entry point of fasta_learn adds to ``import torch``.

    python tests/benchmarks/bench_import.py

imports torch in fresh processes, in turns: without entry points, with fasta_learn off,
and with ``FASTA_LEARN=1``. It prints the median and the quartiles of the time of the
import, and of its ratio to the import without entry points of the same turn.
"""

import argparse
import os
import subprocess
import sys

import numpy as np

VARIANTS = {
    "without entry points": {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    "off": {"FASTA_LEARN": "0"},
    "on": {"FASTA_LEARN": "1"},
}
CODE = """
import time
started = time.perf_counter()
import torch
print(time.perf_counter() - started)
"""


def import_seconds(variables: dict[str, str]) -> float:
    """Seconds that the import takes in a process of its own."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("FASTA_LEARN")}
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env=clean | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=20)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    names = list(VARIANTS)
    seconds = np.empty((args.turns, len(names)))
    for variables in VARIANTS.values():  # once more, to have all files at hand
        import_seconds(variables)
    for turn in range(args.turns):
        for i in rng.permutation(len(names)):
            seconds[turn, i] = import_seconds(VARIANTS[names[i]])
    ratios = seconds / seconds[:, :1]
    print("| import torch | median | quartiles | ratio | quartiles | added |")
    print("|---|---|---|---|---|---|")
    for i, name in enumerate(names):
        low, median, high = 1e3 * np.quantile(seconds[:, i], [0.25, 0.5, 0.75])
        first, middle, last = np.quantile(ratios[:, i], [0.25, 0.5, 0.75])
        added = 1e3 * np.median(seconds[:, i] - seconds[:, 0])
        print(
            f"| {name} | {median:.0f} ms | {low:.0f}–{high:.0f} ms "
            f"| {middle:.3f} | {first:.3f}–{last:.3f} | {added:+.1f} ms |"
        )


if __name__ == "__main__":
    main()
