"""Live on a GPU: a transformer block, forward and backward, by ``torch.compile``.

    python tests/benchmarks/bench_inductor_block.py --output block.json

The block is compiled in four modes, each with empty caches: Inductor as it is, with
``max_autotune``, with ``coordinate_descent_tuning`` on top, and ``max_autotune`` under
``fasta_learn.inductor.enable()`` with an empty store. Seconds are those of the first
step, forward and backward. Steps of all modes are then timed in turns of random order.
At last a second process takes a first step in some of the modes, with the caches that
the first process left.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import inductor_rows
import inductor_runs
from inductor_rows import Rows, log
from inductor_runs import GRAPH_MODES, OutOfTimeError, Session, compare

# Batch, length, width, heads; bfloat16 on a GPU.
SIZES = {"block 4x2048x1024": (4, 2048, 1024, 16)}
CPU = {"block 2x16x32": (2, 16, 32, 4)}
WARM_MODES = ("coordinate descent", "fasta_learn")
STEPS = 10

SOURCE = """\
import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        batch, length, width = x.shape
        shape = (batch, length, self.n_heads, width // self.n_heads)
        y = self.norm1(x)
        query = self.query(y).view(shape).transpose(1, 2)
        key = self.key(y).view(shape).transpose(1, 2)
        value = self.value(y).view(shape).transpose(1, 2)
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def run(block, x):
    return block(x).float().square().mean()
"""


class Step:
    """Forward and backward of one block, compiled in one mode or not at all."""

    def __init__(self, session, mode, sizes):
        torch, device = session.torch, session.args.device
        batch, length, width, n_heads = sizes
        dtype = torch.float32 if device == "cpu" else torch.bfloat16
        module = session.write(f"block {mode}", SOURCE)
        torch.manual_seed(0)
        with torch.device(device):
            self.block = module.Block(width, n_heads).to(dtype)
            self.x = torch.randn(batch, length, width, dtype=dtype, requires_grad=True)
        self.run = module.run if mode == "eager" else session.wrap(module.run)
        self.loss = None

    def __call__(self):
        self.x.grad = None
        for parameter in self.block.parameters():
            parameter.grad = None
        self.loss = self.run(self.block, self.x)
        self.loss.backward()

    def gradient(self):
        return self.x.grad


def first_step(session, mode, sizes, folder):
    """Take the first step in a mode, with the caches of its own in a folder."""
    step = Step(session, mode, sizes)
    slug = mode.replace(" ", "_")
    path = folder / f"caches_{slug}"
    path.mkdir(exist_ok=True)
    with session.caches(path):
        record = session.first_call(mode, step, store=folder / "store")
    return step, record


def run_child(args, name, sizes):
    rows = Rows(args.output)
    folder = Path(tempfile.mkdtemp(prefix="bench_block_"))
    session = Session(args, GRAPH_MODES, folder)
    rows.data["about"] = session.about()
    row = {"status": "running", "folder": str(folder), "modes": {}}
    rows.write(name, row)
    steps = {"eager": Step(session, "eager", sizes)}
    steps["eager"]()
    expected = steps["eager"].gradient().clone()
    for mode in session.modes:
        try:
            step, record = first_step(session, mode, sizes, folder)
        except (Exception, OutOfTimeError) as error:
            row["modes"][mode] = {"failed": repr(error)[:1000]}
            log(f"{mode} failed with {error!r}")
            continue
        record["error"] = inductor_runs.largest_error(step.gradient(), expected)
        row["modes"][mode], steps[mode] = record, step
        rows.write()
        n_searches = len(record["searches"])
        log(f"{mode}: first step in {record['seconds']:.1f} s, {n_searches} searches")
    row["steps"] = time_steps(session, steps)
    row["status"] = "done"
    rows.write()
    log(", ".join(f"{mode} {value:.3f} ms" for mode, value in medians(row).items()))


def time_steps(session, steps):
    """Time some steps of each mode in every round; durations of one step in ms."""
    rounds = {mode: [] for mode in steps}
    order = random.Random(0)
    with session.no_recompile():
        for step in steps.values():
            for _ in range(3):
                step()
        for _ in range(session.args.rounds):
            for mode in order.sample(list(steps), len(steps)):
                session.synchronize()
                started = time.perf_counter()
                for _ in range(STEPS):
                    steps[mode]()
                session.synchronize()
                rounds[mode].append((time.perf_counter() - started) * 1e3 / STEPS)
    return rounds


def medians(row):
    return {mode: statistics.median(times) for mode, times in row["steps"].items()}


def run_warm(args, name, sizes):
    """In a second process: the first step with caches that are there."""
    rows = Rows(args.output)
    row = rows.rows[name]
    folder = Path(row["folder"])
    session = Session(args, GRAPH_MODES, folder)
    row["warm"] = {}
    for mode in WARM_MODES:
        if mode not in session.modes or "failed" in row["modes"].get(mode, {}):
            continue
        _, record = first_step(session, mode, sizes, folder)
        row["warm"][mode] = record
        log(f"{mode}: first step in a second process in {record['seconds']:.1f} s")
        rows.write()


def print_table(rows):
    """Print the table of the README."""
    print(json.dumps(rows.data["about"]))
    for name, row in rows.rows.items():
        if row.get("status") != "done":
            print(f"\n{name}: {row.get('status')}")
            continue
        print(
            f"\n{name}\n\n| mode | first step | first step of a second process "
            "| measured in it | step | of the step of default |\n" + "|---" * 6 + "|"
        )
        times = medians(row)
        for mode in times:
            record = row["modes"].get(mode)
            warm = row.get("warm", {}).get(mode)
            cells = [
                f"{record['seconds']:.1f} s" if record else "-",
                f"{warm['seconds']:.1f} s" if warm else "-",
                str(count_measured(warm)) if warm else "-",
                f"{times[mode]:.3f} ms",
                format_ratio(row["steps"], mode),
            ]
            print(f"| {mode} | " + " | ".join(cells) + " |")


def count_measured(record):
    return sum(
        search["n_measured"]
        for search in record["searches"]
        if search["source"] == "search"
    )


def format_ratio(steps, mode):
    if "default" not in steps:
        return "-"
    ratio, error = compare(steps, mode, "default")
    return f"{ratio:.3f} ± {error:.3f}"


def main():
    parser = inductor_rows.make_parser(__doc__, GRAPH_MODES)
    parser.add_argument("--warm", action="store_true", help=argparse.SUPPRESS)
    parser.set_defaults(deadline=300.0, mode_limit=150.0)
    args = parser.parse_args()
    known = CPU if args.device == "cpu" else SIZES
    name = inductor_rows.list_or_choose(args, list(known), list(known))[0]
    if args.warm:
        run_warm(args, name, known[name])
    elif args.child:
        run_child(args, name, known[name])
    else:
        rows = inductor_rows.supervise(args, [name])
        row = rows.rows.get(name, {})
        # The caches of the first process may be gone where the row is from another day.
        is_left = row.get("status") == "done" and "warm" not in row
        if is_left and Path(row["folder"]).exists():
            subprocess.run([sys.executable, *sys.argv, "--warm"])
        print_table(Rows(args.output))


if __name__ == "__main__":
    main()
