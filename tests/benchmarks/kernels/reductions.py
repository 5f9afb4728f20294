"""Reductions of rows, of columns and of everything."""

import torch
import triton
import triton.language as tl

from fasta_learn.oracles import KernelSpec

from ._common import Tensors, arrives_last, expect, powers, space


@triton.jit
def row_argmax_kernel(
    x,
    values_out,
    places_out,
    n_rows,
    n_cols,
    X0BLOCK: tl.constexpr,
    R0BLOCK: tl.constexpr,
):
    rows = tl.program_id(0) * X0BLOCK + tl.arange(0, X0BLOCK)
    best = tl.full((X0BLOCK, R0BLOCK), -float("inf"), tl.float32)
    places = tl.zeros((X0BLOCK, R0BLOCK), tl.int32)
    for start in range(0, n_cols, R0BLOCK):
        cols = start + tl.arange(0, R0BLOCK)
        mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
        at = x + rows[:, None] * n_cols + cols[None, :]
        values = tl.load(at, mask, -float("inf")).to(tl.float32)
        places = tl.where(values > best, cols[None, :], places)
        best = tl.maximum(values, best)
    top = tl.max(best, 1)
    # Of equal values the first counts.
    place = tl.min(tl.where(best == top[:, None], places, n_cols), 1)
    tl.store(values_out + rows, top, rows < n_rows)
    tl.store(places_out + rows, place, rows < n_rows)


def row_argmax(rows, cols, dtype="float32"):
    """The largest value of each row and where it is."""
    make = Tensors()
    x = make.normal(rows, cols, dtype=dtype)
    top = x.max(1)
    return KernelSpec(
        kernel=row_argmax_kernel,
        args=(x, make.zeros(rows), make.zeros(rows, dtype="int32"), rows, cols),
        grid=lambda meta: (triton.cdiv(rows, meta["X0BLOCK"]),),
        configs=space(
            {
                "X0BLOCK": powers(1, 64),
                "R0BLOCK": powers(16, 4096),
                "num_warps": powers(1, 16),
                "num_stages": [1, 2, 3, 4],
            },
            "X0BLOCK * R0BLOCK >= 32 * num_warps",
            "X0BLOCK * R0BLOCK <= 1024 * num_warps",
        ),
        check=expect(values_out=top.values, places_out=top.indices),
        shape={"x0": rows, "r0": cols},
    )


@triton.jit
def column_moments_kernel(
    x,
    sums_out,
    squares_out,
    n_rows,
    n_cols,
    X0BLOCK: tl.constexpr,
    R0BLOCK: tl.constexpr,
    SPLIT_K: tl.constexpr,
):
    cols = tl.program_id(0) * X0BLOCK + tl.arange(0, X0BLOCK)
    sums = tl.zeros((R0BLOCK, X0BLOCK), tl.float32)
    squares = tl.zeros((R0BLOCK, X0BLOCK), tl.float32)
    for start in range(tl.program_id(1) * R0BLOCK, n_rows, SPLIT_K * R0BLOCK):
        rows = start + tl.arange(0, R0BLOCK)
        mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
        at = x + rows[:, None] * n_cols + cols[None, :]
        values = tl.load(at, mask, 0.0).to(tl.float32)
        sums += values
        squares += values * values
    inside = cols < n_cols
    tl.atomic_add(sums_out + cols, tl.sum(sums, 0), inside, sem="relaxed")
    tl.atomic_add(squares_out + cols, tl.sum(squares, 0), inside, sem="relaxed")


def column_moments(rows, cols, dtype="bfloat16"):
    """Sum and sum of squares of each column, added up by atomics."""
    make = Tensors()
    x = make.normal(rows, cols, dtype=dtype, scale=rows**-0.25)
    wide = x.double()
    return KernelSpec(
        kernel=column_moments_kernel,
        args=(x, make.zeros(cols), make.zeros(cols), rows, cols),
        grid=lambda meta: (triton.cdiv(cols, meta["X0BLOCK"]), meta["SPLIT_K"]),
        configs=space(
            {
                "X0BLOCK": powers(8, 256),
                "R0BLOCK": powers(4, 256),
                "SPLIT_K": powers(1, 128),
                "num_warps": powers(1, 8),
                "num_stages": [1, 2, 3],
            },
            "X0BLOCK * R0BLOCK >= 32 * num_warps",
            "X0BLOCK * R0BLOCK <= 1024 * num_warps",
        ),
        reset_to_zero=("sums_out", "squares_out"),
        check=expect(sums_out=wide.sum(0), squares_out=wide.square().sum(0)),
        shape={"x0": cols, "r0": rows},
    )


@triton.jit
def dot_product_kernel(
    x,
    y,
    partial,
    counter,
    out,
    n,
    R0BLOCK: tl.constexpr,
    SPLIT_K: tl.constexpr,
):
    acc = tl.zeros((R0BLOCK,), tl.float32)
    for start in range(tl.program_id(0) * R0BLOCK, n, SPLIT_K * R0BLOCK):
        at = start + tl.arange(0, R0BLOCK)
        left = tl.load(x + at, at < n, 0.0).to(tl.float32)
        acc += left * tl.load(y + at, at < n, 0.0).to(tl.float32)
    tl.store(partial + tl.program_id(0), tl.sum(acc, 0))
    if arrives_last(counter, SPLIT_K):
        parts = tl.load(partial + tl.arange(0, SPLIT_K), cache_modifier=".cg")
        tl.store(out, tl.sum(parts, 0))


def dot_product(n, dtype="float16"):
    """The dot product of two vectors; the last program adds up the parts."""
    make = Tensors()
    x, y = (make.normal(n, dtype=dtype, scale=n**-0.25) for _ in range(2))
    buffers = make.zeros(4096), make.zeros(1, dtype="int32"), make.zeros(1)
    return KernelSpec(
        kernel=dot_product_kernel,
        args=(x, y, *buffers, n),
        grid=lambda meta: (meta["SPLIT_K"],),
        configs=space(
            {
                "R0BLOCK": powers(128, 8192),
                "SPLIT_K": powers(64, 4096),
                "num_warps": powers(1, 16),
                "num_stages": [1, 2, 3, 4],
            },
            "R0BLOCK >= 32 * num_warps",
            "R0BLOCK <= 1024 * num_warps",
        ),
        check=expect(out=torch.dot(x.double(), y.double())[None]),
        shape={"r0": n},
    )
