"""Record pools of Triton kernels that had no part in any choice of the package.

    python tests/benchmarks/record_validation.py FOLDER --set validation
    python tests/benchmarks/record_validation.py FOLDER --set confirmation

needs an NVIDIA GPU, torch and triton. Every config of each pool is compiled by several
processes into Triton's cache, then timed one after the other: the median and the 20 and
80 % quantiles of repeated runs with the L2 cache flushed (triton.testing.do_bench). The
pools in validation_pools/ and confirmation_pools/ were recorded by this script; the
first were looked at when the default search was set, the second only afterwards.
"""

import argparse
import csv
import itertools
import math
import multiprocessing
import sys
from pathlib import Path

import numpy as np
import torch
import triton
from validation_kernels import (
    column_sum_kernel,
    gelu_transpose_kernel,
    layernorm_kernel,
    linear_kernel,
    softmax_kernel,
    stencil_kernel,
)

N_CONFIGS = 180
HALF_BYTES = 2


def half(*shape):
    return torch.randn(shape, device="cuda", dtype=torch.float16)


def powers(low, high):
    return [2**i for i in range(int(math.log2(low)), int(math.log2(high)) + 1)]


ROWS = {
    "X0BLOCK": powers(1, 64),
    "X0BLOCK_SUB": powers(1, 16),
    "R0BLOCK": powers(64, 8192),
    "num_warps": powers(1, 16),
}
TILES = {
    "BLOCK_M": powers(16, 256),
    "BLOCK_N": powers(16, 256),
    "BLOCK_K": powers(16, 128),
    "GROUP_M": [1, 4, 8],
    "num_warps": powers(2, 8),
    "num_stages": [2, 3, 4, 5],
}
PLANE = {
    "X0BLOCK": powers(4, 1024),
    "Y0BLOCK": powers(1, 256),
    "num_warps": powers(1, 16),
}
COLUMNS = {
    "X0BLOCK": powers(4, 512),
    "R0BLOCK": powers(4, 512),
    "SPLIT": powers(1, 64),
    "num_warps": powers(1, 16),
}


def rows_fit(c, limit=16384):
    tile = c["X0BLOCK_SUB"] * c["R0BLOCK"]
    return c["X0BLOCK_SUB"] <= c["X0BLOCK"] and 256 <= tile <= limit


def tiles_fit(c):
    area = c["BLOCK_M"] * c["BLOCK_N"]
    load = (c["BLOCK_M"] + c["BLOCK_N"]) * c["BLOCK_K"] * HALF_BYTES * c["num_stages"]
    return 1024 <= area <= 32768 and load <= 300_000


def plane_fits(c):
    return 128 <= c["X0BLOCK"] * c["Y0BLOCK"] <= 16384


def columns_fit(c):
    return 128 <= c["X0BLOCK"] * c["R0BLOCK"] <= 16384


def row_launcher(kernel, m, n, n_inputs):
    inputs, out = [half(m, n) for _ in range(n_inputs)], half(m, n)
    return lambda c: kernel[(triton.cdiv(m, c["X0BLOCK"]),)](*inputs, out, m, n, **c)


def gelu_launcher(m, n):
    x, out = half(m, n), half(n, m)
    return lambda c: gelu_transpose_kernel[
        (triton.cdiv(m, c["X0BLOCK"]), triton.cdiv(n, c["Y0BLOCK"]))
    ](x, out, m, n, **c)


def stencil_launcher(h, w):
    x, out = half(h, w), half(h, w)
    return lambda c: stencil_kernel[
        (triton.cdiv(h, c["Y0BLOCK"]), triton.cdiv(w, c["X0BLOCK"]))
    ](x, out, h, w, **c)


def column_launcher(m, n):
    x, out = half(m, n), torch.zeros(n, device="cuda", dtype=torch.float32)
    return lambda c: column_sum_kernel[(triton.cdiv(n, c["X0BLOCK"]), c["SPLIT"])](
        x, out, m, n, **c
    )


def linear_launcher(m, n, k):
    a, b, bias, out = half(m, k), half(k, n), half(n), half(m, n)
    return lambda c: linear_kernel[
        (triton.cdiv(m, c["BLOCK_M"]) * triton.cdiv(n, c["BLOCK_N"]),)
    ](a, b, bias, out, m, n, k, **c)


POOLS = {
    "softmax_8192_1023": (
        ROWS,
        rows_fit,
        lambda: row_launcher(softmax_kernel, 8192, 1023, 1),
    ),
    "softmax_512_32000": (
        ROWS,
        rows_fit,
        lambda: row_launcher(softmax_kernel, 512, 32000, 1),
    ),
    "add_layernorm_4096_4096": (
        ROWS,
        rows_fit,
        lambda: row_launcher(layernorm_kernel, 4096, 4096, 2),
    ),
    "add_layernorm_32768_768": (
        ROWS,
        rows_fit,
        lambda: row_launcher(layernorm_kernel, 32768, 768, 2),
    ),
    "gelu_transpose_4096_4096": (PLANE, plane_fits, lambda: gelu_launcher(4096, 4096)),
    "stencil_4096_4096": (PLANE, plane_fits, lambda: stencil_launcher(4096, 4096)),
    "column_sum_16384_2048": (
        COLUMNS,
        columns_fit,
        lambda: column_launcher(16384, 2048),
    ),
    "column_sum_1000_50000": (
        COLUMNS,
        columns_fit,
        lambda: column_launcher(1000, 50000),
    ),
    "linear_1000_777_3000": (
        TILES,
        tiles_fit,
        lambda: linear_launcher(1000, 777, 3000),
    ),
    "linear_64_11008_4096": (
        TILES,
        tiles_fit,
        lambda: linear_launcher(64, 11008, 4096),
    ),
    "linear_4096_4096_4096": (
        TILES,
        tiles_fit,
        lambda: linear_launcher(4096, 4096, 4096),
    ),
}

CONFIRMATION = {
    "softmax_2048_5000": (
        ROWS,
        rows_fit,
        lambda: row_launcher(softmax_kernel, 2048, 5000, 1),
    ),
    "softmax_65536_256": (
        ROWS,
        rows_fit,
        lambda: row_launcher(softmax_kernel, 65536, 256, 1),
    ),
    "add_layernorm_16384_1536": (
        ROWS,
        rows_fit,
        lambda: row_launcher(layernorm_kernel, 16384, 1536, 2),
    ),
    "gelu_transpose_8192_1000": (PLANE, plane_fits, lambda: gelu_launcher(8192, 1000)),
    "stencil_2048_8192": (PLANE, plane_fits, lambda: stencil_launcher(2048, 8192)),
    "column_sum_65536_256": (
        COLUMNS,
        columns_fit,
        lambda: column_launcher(65536, 256),
    ),
    "column_sum_4096_4096": (
        COLUMNS,
        columns_fit,
        lambda: column_launcher(4096, 4096),
    ),
    "linear_256_4096_1024": (
        TILES,
        tiles_fit,
        lambda: linear_launcher(256, 4096, 1024),
    ),
    "linear_8192_1024_512": (
        TILES,
        tiles_fit,
        lambda: linear_launcher(8192, 1024, 512),
    ),
    "linear_1536_1536_6144": (
        TILES,
        tiles_fit,
        lambda: linear_launcher(1536, 1536, 6144),
    ),
}
SETS = {"validation": POOLS, "confirmation": CONFIRMATION}
EVERY = POOLS | CONFIRMATION


def choose_configs(space, fits, seed):
    """Draw the configs of a pool from all that make sense."""
    names = list(space)
    every = [
        dict(zip(names, values, strict=True))
        for values in itertools.product(*space.values())
    ]
    every = [config for config in every if fits(config)]
    order = np.random.default_rng(seed).permutation(len(every))[:N_CONFIGS]
    return [every[i] for i in order]


def try_configs(task):
    """Compile and run configs once; answer the names of the errors."""
    name, configs = task
    launch = EVERY[name][2]()
    errors = []
    for config in configs:
        try:
            launch(config)
            torch.cuda.synchronize()
            errors.append("ok")
        except Exception as error:
            errors.append(type(error).__name__)
    return errors


def time_configs(name, configs, statuses):
    launch = EVERY[name][2]()
    for config, status in zip(configs, statuses, strict=True):
        times = [math.inf] * 3
        if status == "ok":
            times = triton.testing.do_bench(
                lambda config=config: launch(config),
                warmup=5,
                rep=20,
                quantiles=[0.5, 0.2, 0.8],
            )
        yield [*config.values(), *times, status]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--set", choices=SETS, default="validation")
    parser.add_argument("--processes", type=int, default=14)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    with context.Pool(args.processes) as workers:
        for seed, (name, (space, fits, _)) in enumerate(SETS[args.set].items()):
            configs = choose_configs(space, fits, seed)
            parts = [configs[i :: args.processes] for i in range(args.processes)]
            answers = workers.map(try_configs, [(name, part) for part in parts])
            statuses = [""] * len(configs)
            for i, answer in enumerate(answers):
                statuses[i :: args.processes] = answer
            rows = list(time_configs(name, configs, statuses))
            with (args.folder / f"{name}.csv").open("w", newline="") as file:
                writer = csv.writer(file)
                header = [*space, "duration_ms", "duration_p20_ms", "duration_p80_ms"]
                writer.writerow([*header, "status"])
                writer.writerows(rows)
            best = min(row[-4] for row in rows)
            sys.stderr.write(f"{name}: {len(rows)} configs, best {best:.4f} ms\n")


if __name__ == "__main__":
    main()
