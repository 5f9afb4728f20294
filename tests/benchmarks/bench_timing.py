"""How repeatable the timing of a config is, and how right the ranking of near-ties.

    python tests/benchmarks/bench_timing.py timing.json

needs a CUDA device and takes less than a minute. Four kernels of about 5 µs, 30 µs,
300 µs and 5 ms are timed 20 times each, once with an idle host and once while eight
threads compile; triton's do_bench does the same for comparison. Then about a dozen
near-tied configs of a matrix product are ranked by single timings and compared with
2,000 launches of each in turn.
"""

import argparse
import functools
import itertools
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

# Before triton is imported: every compile of this script is to be a real one.
os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp(prefix="bench_timing_")

import torch
import triton
import triton.language as tl

from fasta_learn.oracles._cuda_clock import CudaClock
from fasta_learn.oracles._timing import TimingPlan, time_launches

N_REPEATS = 20
N_COMPILE_THREADS = 8
IDLE_SECONDS = 0.02  # the device waits between two configs of a search, too
N_TIED = 12
N_RANKINGS = 5
N_REFERENCE, N_IN_TURN = 2000, 16
PLANS = {
    "default": TimingPlan(),
    "min_launches=15": TimingPlan(min_launches=15),
    "relative_error=0.002": TimingPlan(relative_error=0.002, max_launches=300),
}
Launch = Callable[[], object]


@triton.jit
def copy_kernel(x, y, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + offsets, tl.load(x + offsets))


@triton.jit
def softmax_kernel(x, y, COLUMNS: tl.constexpr):
    offsets = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    row = tl.load(x + offsets).to(tl.float32)
    row = tl.exp(row - tl.max(row, axis=0))
    tl.store(y + offsets, (row / tl.sum(row, axis=0)).to(y.dtype.element_ty))


@triton.jit
def matmul_kernel(
    a,
    b,
    c,
    m,
    n,
    k,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    OFFSET: tl.constexpr,
):
    program = tl.program_id(0)
    n_tiles_m = tl.cdiv(m, BLOCK_M)
    n_tiles_n = tl.cdiv(n, BLOCK_N)
    first_m = program // (GROUP_M * n_tiles_n) * GROUP_M
    group = min(n_tiles_m - first_m, GROUP_M)
    tile_m = first_m + program % (GROUP_M * n_tiles_n) % group
    tile_n = program % (GROUP_M * n_tiles_n) // group
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        left = tl.load(a + rows[:, None] * k + (start + inner)[None, :])
        right = tl.load(b + (start + inner)[:, None] * n + columns[None, :])
        total = tl.dot(left, right, total)
    c_tile = c + rows[:, None] * n + columns[None, :]
    tl.store(c_tile, (total + OFFSET).to(c.dtype.element_ty))


TILES = ((128, 128, 64), (128, 256, 64), (64, 128, 64), (128, 64, 64), (64, 256, 64))
CONFIGS = [
    {
        "BLOCK_M": tile[0],
        "BLOCK_N": tile[1],
        "BLOCK_K": tile[2],
        "GROUP_M": group,
        "num_warps": n_warps,
        "num_stages": n_stages,
    }
    for tile, group, n_warps, n_stages in itertools.product(
        TILES, (4, 8), (4, 8), (3, 4)
    )
]


class Matmul:
    """A matrix product in half precision, launched with any config."""

    def __init__(self, m: int, n: int, k: int) -> None:
        self.size = (m, n, k)
        self.a = torch.randn(m, k, device="cuda", dtype=torch.float16)
        self.b = torch.randn(k, n, device="cuda", dtype=torch.float16)
        self.c = torch.empty(m, n, device="cuda", dtype=torch.float16)

    def launcher(self, config: dict) -> Launch:
        m, n, _ = self.size
        n_tiles = triton.cdiv(m, config["BLOCK_M"]) * triton.cdiv(n, config["BLOCK_N"])
        arguments = (self.a, self.b, self.c, *self.size)
        return functools.partial(
            matmul_kernel.run,
            *arguments,
            grid=(n_tiles,),
            warmup=False,
            OFFSET=0,
            **config,
        )

    def compile(self, config: dict) -> str | None:
        """Compile a config; give the error of one that can't be."""
        try:
            self.launcher(config)(warmup=True)
        except Exception as error:
            return f"{type(error).__name__}: {str(error).splitlines()[0]}"
        return None


def make_launches() -> dict[str, Launch]:
    """Return launches of about 5 µs, 30 µs, 300 µs and 5 ms on an H200."""
    x = torch.randn(2**20, device="cuda", dtype=torch.float16)
    rows = torch.randn(8192, 4096, device="cuda", dtype=torch.float16)
    y, out = torch.empty_like(x), torch.empty_like(rows)
    config = CONFIGS[2]
    return {
        "copy": lambda: copy_kernel[(2**20 // 1024,)](x, y, BLOCK=1024),
        "softmax": lambda: softmax_kernel[(8192,)](rows, out, COLUMNS=4096),
        "matmul": Matmul(4096, 4096, 4096).launcher(config),
        "large matmul": Matmul(12288, 12288, 10240).launcher(config),
    }


@contextmanager
def compiling(n_threads: int) -> Iterator[list[int]]:
    """Compile other matrix products all the time in so many threads."""
    target = triton.runtime.driver.active.get_current_target()
    numbers, done, n_compiled = itertools.count(1), threading.Event(), []

    def work() -> None:
        while not done.is_set():
            compile_one(target, next(numbers))
            n_compiled.append(1)

    threads = [threading.Thread(target=work) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    try:
        yield n_compiled
    finally:
        done.set()
        for thread in threads:
            thread.join()


def compile_one(target: object, number: int) -> None:
    signature = {"a": "*fp16", "b": "*fp16", "c": "*fp16"}
    signature |= dict.fromkeys("mnk", "i32")
    constants = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8}
    constants["OFFSET"] = number  # no two are the same, so that no cache answers
    signature |= dict.fromkeys(constants, "constexpr")
    source = triton.compiler.ASTSource(matmul_kernel, signature, constants)
    triton.compile(source, target=target, options={"num_warps": 4, "num_stages": 3})


def spread(launch: Launch, time_once: Callable[[Launch], tuple[float, int]]) -> dict:
    """Time a launch some times; say how far the durations are apart."""
    durations, n_launches = [], []
    start = time.perf_counter()
    for _ in range(N_REPEATS):
        time.sleep(IDLE_SECONDS)
        duration, n = time_once(launch)
        durations.append(duration)
        n_launches.append(n)
    seconds = (time.perf_counter() - start) / N_REPEATS - IDLE_SECONDS
    median = float(np.median(durations))
    return {
        "median_ms": median,
        "spread": (max(durations) - min(durations)) / median,
        "relative_sd": float(np.std(durations, ddof=1)) / median,
        "mean_launches": float(np.mean(n_launches)),
        "seconds_each": seconds,
        "durations_ms": durations,
    }


def measure_spreads(launches: dict[str, Launch], clock: CudaClock, load: str) -> list:
    def ours(launch: Launch) -> tuple[float, int]:
        timing = time_launches(launch, clock, TimingPlan())
        return timing.median, timing.n_launches

    def theirs(launch: Launch) -> tuple[float, int]:
        return triton.testing.do_bench(launch, 2, 10, return_mode="median"), 0

    rows = []
    for (name, launch), (method, time_once) in itertools.product(
        launches.items(), {"fasta_learn": ours, "do_bench": theirs}.items()
    ):
        row = {"kernel": name, "load": load, "method": method}
        rows.append(row | spread(launch, time_once))
        print(
            f"{name:13s} {load:10s} {method:12s} {rows[-1]['median_ms']:9.5f} ms  "
            f"spread {100 * rows[-1]['spread']:6.2f} %  "
            f"sd {100 * rows[-1]['relative_sd']:5.2f} %  "
            f"launches {rows[-1]['mean_launches']:5.1f}  "
            f"{1e3 * rows[-1]['seconds_each']:6.1f} ms each",
            flush=True,
        )
    return rows


def near_ties(matmul: Matmul, clock: CudaClock) -> list[dict]:
    """Give the fastest configs of the product, compiled in threads."""
    with ThreadPoolExecutor(os.cpu_count()) as executor:
        errors = list(executor.map(matmul.compile, CONFIGS))
    for config, error in zip(CONFIGS, errors, strict=True):
        if error is not None:
            print(f"not compiled: {config}: {error}")
    compiled = [c for c, e in zip(CONFIGS, errors, strict=True) if e is None]
    durations = [
        time_launches(matmul.launcher(config), clock, TimingPlan()).median
        for config in compiled
    ]
    return [compiled[i] for i in np.argsort(durations)[:N_TIED]]


def reference_durations(launches: list[Launch], clock: CudaClock) -> NDArray:
    """Time launches in turn, in an order that changes; one row each, in ms."""
    rng = np.random.default_rng(0)
    durations: list[list[float]] = [[] for _ in launches]
    for _ in range(N_REFERENCE // N_IN_TURN):
        for i in rng.permutation(len(launches)):
            durations[i].extend(clock.time_batch(launches[i], N_IN_TURN, None))
    return np.array(durations)


def compare_ranking(medians: NDArray, reference: NDArray) -> dict:
    """Count the pairs more than 1 % apart that are the wrong way round."""
    n_pairs = n_wrong = 0
    for i, j in itertools.permutations(range(len(reference)), 2):
        if reference[j] > 1.01 * reference[i]:
            n_pairs += 1
            n_wrong += bool(medians[j] <= medians[i])
    regret = reference[np.argmin(medians)] / reference.min() - 1
    return {"pairs": n_pairs, "wrong": n_wrong, "regret": float(regret)}


def measure_ranking(launches: list[Launch], clock: CudaClock) -> dict:
    raw = reference_durations(launches, clock)
    reference = np.median(raw, axis=1)
    halves = [np.median(raw[:, k::2], axis=1) for k in (0, 1)]
    result: dict = {
        "reference_ms": reference.tolist(),
        "reference_half_difference": float(np.max(np.abs(halves[0] / halves[1] - 1))),
        "plans": {},
    }
    gaps = 100 * (np.sort(reference) / reference.min() - 1)
    print("reference:", " ".join(f"+{gap:.1f}" for gap in gaps), "%")
    for name, plan in PLANS.items():
        rankings = []
        start = time.perf_counter()
        for _ in range(N_RANKINGS):
            timings = [time_launches(launch, clock, plan) for launch in launches]
            medians = np.array([timing.median for timing in timings])
            rankings.append(compare_ranking(medians, reference))
            rankings[-1]["medians_ms"] = medians.tolist()
            rankings[-1]["n_launches"] = [timing.n_launches for timing in timings]
        seconds = (time.perf_counter() - start) / N_RANKINGS / len(launches)
        result["plans"][name] = {"seconds_each": seconds, "rankings": rankings}
        print(
            f"{name:22s} wrong {sum(r['wrong'] for r in rankings)} of "
            f"{sum(r['pairs'] for r in rankings)} pairs > 1 % apart, regret "
            + " ".join(f"{100 * r['regret']:.2f}" for r in rankings)
            + f" %, launches {np.mean([r['n_launches'] for r in rankings]):.1f}, "
            f"{1e3 * seconds:.1f} ms each",
            flush=True,
        )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, help="JSON file to write")
    output = parser.parse_args().output
    start = time.perf_counter()
    torch.manual_seed(0)
    print(torch.cuda.get_device_name(), "torch", torch.__version__, end=" ")
    print("triton", triton.__version__, "python", sys.version.split()[0])
    launches = make_launches()
    for launch in launches.values():
        launch()
    torch.cuda.synchronize()
    with CudaClock() as clock:
        spreads = measure_spreads(launches, clock, "idle")
        with compiling(N_COMPILE_THREADS) as n_compiled:
            spreads += measure_spreads(launches, clock, "compiling")
        print(f"{len(n_compiled)} kernels were compiled meanwhile")
        matmul = Matmul(2048, 2048, 2048)
        tied = near_ties(matmul, clock)
        ranking = measure_ranking([matmul.launcher(c) for c in tied], clock)
    seconds = time.perf_counter() - start
    print(f"{seconds:.1f} s in all")
    result = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "spreads": spreads,
        "compiled_meanwhile": len(n_compiled),
        "tied_configs": tied,
        "ranking": ranking,
        "seconds": seconds,
    }
    output.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
