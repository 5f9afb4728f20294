"""Show on a GPU that a search survives real faults, and a kill in the middle.

    python tests/benchmarks/bench_faults.py faults.json

A pool of good configs of one kernel has configs between them that read far out of
bounds, loop for ever, need more shared memory than there is, compute something else,
ask for more memory than there is, or do not compile. Three things are shown:

- a search over the whole pool finds the same config as measuring only the good ones,
  and tells every fault once, with its status and reason;
- a search that may measure half of the pool meets faults, too, and finds as good a
  config;
- a process that is killed in the middle goes on from its journal, and measures nothing
  again that was recorded.

It ends with exit code 1 if any of it fails.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

from fasta_learn import ActiveConfigSearch
from fasta_learn.oracles import (
    JournaledOracle,
    KernelSpec,
    TimingPlan,
    TritonKernelOracle,
)

ROWS, COLUMNS = 4096, 4096
FAULTS = {
    "out_of_bounds": "illegal_access",
    "endless": "timeout",
    "shared_memory": "out_of_resources",
    "wrong": "wrong_result",
    "memory": "out_of_memory",
    "no_compile": "compile_error",
}
_TOLERANCE = 1.05


@triton.jit
def faulty_copy_kernel(
    x, y, flag, rows, columns, X0BLOCK: tl.constexpr, R0BLOCK: tl.constexpr,
    FAULT: tl.constexpr,
):  # fmt: skip
    """Write ``2 * x`` row by row, unless the config has a fault."""
    row = tl.program_id(0).to(tl.int64) * X0BLOCK + tl.arange(0, X0BLOCK)[:, None]
    factor = 2.0
    if FAULT == "wrong":
        factor = 2.5
    if FAULT == "no_compile":
        tl.static_assert(False, "this config can't be compiled")
    if FAULT == "endless":
        while tl.load(flag, volatile=True) == 0:
            factor += 1.0
    if FAULT == "shared_memory":  # three stages of tiles of 128 KB
        inner = tl.arange(0, 128)
        total = tl.zeros((128, 128), tl.float32)
        for start in range(0, columns, 256):
            wide = start + tl.arange(0, 256)
            left = tl.load(x + inner[:, None] * columns + wide[None, :])
            right = tl.load(x + wide[:, None] * columns + inner[None, :])
            total = tl.dot(left, right, total)
        factor += tl.sum(total) * 0.0
    for start in range(0, columns, R0BLOCK):
        column = start + tl.arange(0, R0BLOCK)[None, :]
        inside = (row < rows) & (column < columns)
        place = row * columns + column
        if FAULT == "out_of_bounds":
            place += 1 << 44
        values = tl.load(x + place, mask=inside)
        tl.store(y + row * columns + column, factor * values, mask=inside)


def grid(meta: dict[str, Any]) -> tuple[int]:
    """Return the grid; one config asks for more memory than there is, as helpers do."""
    if meta["FAULT"] == "memory":
        torch.empty(1 << 42, dtype=torch.uint8, device="cuda")
    return (triton.cdiv(meta["rows"], meta["X0BLOCK"]),)


def good_configs() -> list[dict[str, Any]]:
    """Return configs that run."""
    return [
        {"X0BLOCK": x, "R0BLOCK": r, "FAULT": "", "num_warps": w, "num_stages": 2}
        for x in (1, 2, 4, 8)
        for r in (256, 1024, 4096)
        for w in (2, 4, 8, 16)
        if 64 * w // 4 <= x * r <= 8192
    ]


def bad_configs() -> list[dict[str, Any]]:
    """Return one config for each fault."""
    return [
        {"X0BLOCK": 4, "R0BLOCK": 1024, "FAULT": fault, "num_warps": 8, "num_stages": 4}
        for fault in FAULTS
    ]


def pool() -> list[dict[str, Any]]:
    """Return good configs with the bad ones spread among them."""
    configs, bad = good_configs(), bad_configs()
    step = len(configs) // (len(bad) + 1)
    for i, config in enumerate(bad):
        configs.insert((i + 1) * (step + 1) - 1, config)
    return configs


def faulty_copy() -> KernelSpec:
    """Return the spec that child processes load."""
    torch.manual_seed(0)
    x = torch.randn(ROWS, COLUMNS, device="cuda")
    flag = torch.zeros(1, dtype=torch.int32, device="cuda")
    return KernelSpec(
        kernel=faulty_copy_kernel,
        args=(x, torch.empty_like(x), flag, ROWS, COLUMNS),
        grid=grid,
        configs=pool(),
        check={"y": 2 * x},
        shape={"m": ROWS, "n": COLUMNS},
    )


def make_oracle(**options: Any) -> TritonKernelOracle:
    """Return an oracle whose child processes make the arguments by themselves."""
    options = {"run_timeout": 3.0, "compile_timeout": 30.0, **options}
    return TritonKernelOracle.from_spec(f"{Path(__file__)}:faulty_copy", **options)


def measure_good() -> tuple[dict[str, float], float]:
    """Measure the good configs exhaustively."""
    started = time.perf_counter()
    configs = good_configs()
    with make_oracle(timing=TimingPlan(cutoff=None)) as oracle:
        answers = oracle.measure(configs)
    failed = [answer.reason for answer in answers if not answer.ok]
    if failed:
        raise SystemExit(f"{len(failed)} good configs failed: {failed[0]}")
    durations = {
        json.dumps(config): answer.duration
        for config, answer in zip(configs, answers, strict=True)
    }
    return durations, time.perf_counter() - started


def search(budget: float, journal: Path | None = None) -> dict[str, Any]:
    """Search the pool with its faults, and tell what came out."""
    started = time.perf_counter()
    with make_oracle() as inner:
        oracle = inner if journal is None else JournaledOracle(inner, journal)
        fitted = ActiveConfigSearch(budget=budget, random_state=0)
        fitted.fit(pool(), oracle=oracle)
    result = {
        "best": dict(fitted.best_config_),
        "duration": float(fitted.best_duration_),
        "seconds": time.perf_counter() - started,
    }
    if journal is not None:
        result |= {"n_measured": oracle.n_measured, "n_replayed": oracle.n_replayed}
    return result


def tell_faults(journal: Path) -> list[dict[str, Any]]:
    """Return what the journal says of each bad config it has."""
    found = [
        {"fault": config["FAULT"], "status": answer.status, "reason": answer.reason}
        for config, answer in JournaledOracle.read(journal)
        if config["FAULT"]
    ]
    for entry in found:
        entry["ok"] = entry["status"] == FAULTS[entry["fault"]]
    return found


def kill_and_resume(folder: Path) -> dict[str, Any]:
    """Kill a search with SIGKILL once it has recorded a third, and start again."""
    journal = folder / "killed.jsonl"
    command = [sys.executable, __file__, "--search", str(journal)]
    process = subprocess.Popen(command, start_new_session=True)
    deadline = time.monotonic() + 60.0
    while process.poll() is None and _n_lines(journal) < len(pool()) // 3:
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    recorded = [json.dumps(config) for config, _ in JournaledOracle.read(journal)]
    result = search(1.0, journal)
    after = [json.dumps(config) for config, _ in JournaledOracle.read(journal)]
    return {
        **result,
        "n_recorded": len(recorded),
        "killed_in_the_middle": 0 < len(recorded) < len(pool()),
        "n_twice": len(after) - len(set(after)),
        "ok": result["n_measured"] == len(pool()) - len(recorded)
        and result["n_replayed"] == len(recorded)
        and after[: len(recorded)] == recorded,
    }


def _n_lines(journal: Path) -> int:
    return journal.read_text().count("\n") if journal.exists() else 0


def run() -> dict[str, Any]:
    """Run the drill, and return all that came out."""
    started = time.perf_counter()
    durations, seconds = measure_good()
    best = min(durations.values())
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "whole.jsonl"
        whole = search(1.0, journal)
        faults = tell_faults(journal)
        half = search(0.5)
        resumed = kill_and_resume(Path(folder))
    for result in (whole, half, resumed):
        # By the exhaustive durations, so that noise of one measurement counts once.
        known = durations.get(json.dumps(result["best"]))
        result["slowdown"] = float("inf") if known is None else known / best
    counts = Counter(entry["fault"] for entry in faults)
    checks = {
        "the whole pool's winner is right": whole["slowdown"] <= _TOLERANCE,
        "the half pool's winner is right": half["slowdown"] <= _TOLERANCE,
        "each fault is told once": counts == Counter(list(FAULTS)),
        "each fault has its status": all(entry["ok"] for entry in faults),
        "it was killed in the middle": resumed["killed_in_the_middle"],
        "nothing recorded is measured again": resumed["ok"],
        "the resumed winner is right": resumed["slowdown"] <= _TOLERANCE,
    }
    return {
        "device": torch.cuda.get_device_name(),
        "n_good": len(durations),
        "best_good_ms": best,
        "good_seconds": seconds,
        "whole": whole,
        "half": half,
        "resumed": resumed,
        "faults": faults,
        "checks": checks,
        "seconds": time.perf_counter() - started,
    }


def show(report: dict[str, Any]) -> None:
    """Print the report as a table."""
    print(
        f"{report['device']}: {report['n_good']} good configs, {len(FAULTS)} bad ones"
    )
    print(f"{'run':<12}{'seconds':>8}{'best ms':>10}{'slowdown':>10}")
    print(
        f"{'good only':<12}{report['good_seconds']:8.1f}{report['best_good_ms']:10.4f}"
    )
    for name in ("whole", "half", "resumed"):
        row = report[name]
        print(
            f"{name:<12}{row['seconds']:8.1f}{row['duration']:10.4f}"
            f"{row['slowdown']:10.4f}"
        )
    for entry in report["faults"]:
        print(f"{entry['fault']:<14} {entry['status']:<17} {entry['reason'][:90]}")
    row = report["resumed"]
    print(
        f"killed after {row['n_recorded']} of {report['n_good'] + len(FAULTS)}; then "
        f"{row['n_replayed']} replayed, {row['n_measured']} measured"
    )
    for text, holds in report["checks"].items():
        print(f"{'yes' if holds else 'NO':<4} {text}")
    print(f"{report['seconds']:.0f} s in all")


def main() -> int:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("report", type=Path, nargs="?", help="JSON file to write")
    parser.add_argument("--search", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.search is not None:
        search(1.0, args.search)
        return 0
    report = run()
    show(report)
    if args.report is not None:
        args.report.write_text(json.dumps(report, indent=1) + os.linesep)
    return 0 if all(report["checks"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
