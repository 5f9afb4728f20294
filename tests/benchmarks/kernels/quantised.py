"""Products with weights of 8 and 4 bits, and making 8-bit numbers."""

import torch
import triton
import triton.language as tl

from fasta_learn.oracles import KernelSpec

from ._common import Tensors, expect, grouped_tile, load_tile, powers, space, tiles


@triton.jit
def int8_weights_kernel(
    a,
    b,
    scales,
    c,
    m,
    n,
    k,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    tile_m, tile_n = grouped_tile(
        tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP_M
    )
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        ks = start + tl.arange(0, BLOCK_K)
        left = load_tile(a, rows, ks, m, k, k, 1)
        right = load_tile(b, ks, cols, k, n, n, 1)
        acc = tl.dot(left, right.to(left.dtype), acc)
    acc *= tl.load(scales + cols, cols < n, 0.0)[None, :]
    mask = (rows[:, None] < m) & (cols[None, :] < n)
    at = c + rows[:, None] * n + cols[None, :]
    tl.store(at, acc.to(c.dtype.element_ty), mask)


def tile_grid(m, n):
    return lambda meta: (
        triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),
    )


def int8_weights(m, n, k, dtype="float16"):
    """Half-precision rows times weights of 8 bits with a scale for each column."""
    make = Tensors()
    a = make.normal(m, k, dtype=dtype)
    b = make.integers(-127, 128, k, n, dtype="int8")
    scales = make.uniform(n, low=0.5, high=1.5) * k**-0.5 / 73
    return KernelSpec(
        kernel=int8_weights_kernel,
        args=(a, b, scales, make.empty(m, n, dtype=dtype), m, n, k),
        grid=tile_grid(m, n),
        configs=tiles("BLOCK_K * BLOCK_N <= 2048 * num_warps", BLOCK_M=[16, 32, 64]),
        check=expect(c=a.float() @ b.float() * scales),
        shape={"m": m, "n": n, "k": k},
    )


@triton.jit
def int8_matmul_kernel(
    a,
    b,
    row_scales,
    col_scales,
    c,
    m,
    n,
    k,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    tile_m, tile_n = grouped_tile(
        tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP_M
    )
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.int32)
    for start in range(0, k, BLOCK_K):
        ks = start + tl.arange(0, BLOCK_K)
        left = load_tile(a, rows, ks, m, k, k, 1)
        right = load_tile(b, ks, cols, k, n, 1, k)
        acc = tl.dot(left, right, acc, out_dtype=tl.int32)
    scaled = acc.to(tl.float32) * tl.load(row_scales + rows, rows < m, 0.0)[:, None]
    scaled *= tl.load(col_scales + cols, cols < n, 0.0)[None, :]
    mask = (rows[:, None] < m) & (cols[None, :] < n)
    at = c + rows[:, None] * n + cols[None, :]
    tl.store(at, scaled.to(c.dtype.element_ty), mask)


def int8_matmul(m, n, k, dtype="bfloat16"):
    """Product of 8-bit matrices, B stored transposed, with scales for both."""
    make = Tensors()
    a = make.integers(-127, 128, m, k, dtype="int8")
    b = make.integers(-127, 128, n, k, dtype="int8")
    row_scales = make.uniform(m, low=0.5, high=1.5) * k**-0.25 / 73
    col_scales = make.uniform(n, low=0.5, high=1.5) * k**-0.25 / 73
    wanted = a.double() @ b.double().T * row_scales[:, None] * col_scales
    out = make.empty(m, n, dtype=dtype)
    return KernelSpec(
        kernel=int8_matmul_kernel,
        args=(a, b, row_scales, col_scales, out, m, n, k),
        grid=tile_grid(m, n),
        configs=tiles(BLOCK_K=[32, 64, 128, 256], n_bytes=1),
        check=expect(c=wanted),
        shape={"m": m, "n": n, "k": k},
    )


@triton.jit
def int4_weights_kernel(
    a,
    packed,
    scales,
    c,
    m,
    n,
    half,
    GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    rows = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, half, BLOCK_K):
        ks = start + tl.arange(0, BLOCK_K)
        both = load_tile(packed, ks, cols, half, n, n, 1)
        group = ks // GROUP
        below = tl.cdiv(half, GROUP)
        low_scale = load_tile(scales, group, cols, below, n, n, 1)
        high_scale = load_tile(scales + below * n, group, cols, below, n, n, 1)
        left = load_tile(a, rows, ks, m, half, half * 2, 1)
        right = ((both & 15).to(tl.float32) - 8.0) * low_scale
        acc = tl.dot(left, right.to(left.dtype), acc)
        left = load_tile(a + half, rows, ks, m, half, half * 2, 1)
        right = ((both >> 4).to(tl.float32) - 8.0) * high_scale
        acc = tl.dot(left, right.to(left.dtype), acc)
    mask = (rows[:, None] < m) & (cols[None, :] < n)
    at = c + rows[:, None] * n + cols[None, :]
    tl.store(at, acc.to(c.dtype.element_ty), mask)


def int4_weights(m, n, k, group=128, dtype="float16"):
    """Rows times weights of 4 bits with a scale for each column and group of k.

    A byte holds the weights of k in its low and of k + half in its high bits.
    """
    make = Tensors()
    a = make.normal(m, k, dtype=dtype)
    packed = make.integers(0, 256, k // 2, n, dtype="uint8")
    scales = make.uniform(k // group, n, low=0.5, high=1.5) * k**-0.5 / 5
    scales = scales.to(a.dtype)
    weights = torch.cat([packed & 15, packed >> 4]).float() - 8
    weights = weights * scales.float().repeat_interleave(group, 0)
    return KernelSpec(
        kernel=int4_weights_kernel,
        args=(a, packed, scales, make.empty(m, n, dtype=dtype), m, n, k // 2),
        grid=lambda meta: (
            triton.cdiv(n, meta["BLOCK_N"]),
            triton.cdiv(m, meta["BLOCK_M"]),
        ),
        configs=tiles(
            "BLOCK_K * BLOCK_N <= 1024 * num_warps",
            BLOCK_M=[16, 32, 64],
            BLOCK_K=[32, 64, 128],
            GROUP_M=None,
            num_stages=[1, 2, 3, 4, 5],
        ),
        constants={"GROUP": group},
        check=expect(c=a.float() @ weights),
        shape={"m": m, "n": n, "k": k},
    )


@triton.jit
def quantise_rows_kernel(
    x,
    out,
    scales,
    n_rows,
    n_cols,
    X0BLOCK: tl.constexpr,
    R0BLOCK: tl.constexpr,
):
    rows = tl.program_id(0) * X0BLOCK + tl.arange(0, X0BLOCK)
    tops = tl.zeros((X0BLOCK, R0BLOCK), tl.float32)
    for start in range(0, n_cols, R0BLOCK):
        cols = start + tl.arange(0, R0BLOCK)
        mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
        values = tl.load(x + rows[:, None] * n_cols + cols[None, :], mask, 0.0)
        tops = tl.maximum(tops, tl.abs(values.to(tl.float32)))
    scale = tl.maximum(tl.max(tops, 1), 1e-10) / 127.0
    tl.store(scales + rows, scale, rows < n_rows)
    for start in range(0, n_cols, R0BLOCK):
        cols = start + tl.arange(0, R0BLOCK)
        mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
        at = rows[:, None] * n_cols + cols[None, :]
        values = tl.load(x + at, mask, 0.0).to(tl.float32) / scale[:, None]
        values = tl.floor(values + 0.5)
        tl.store(out + at, values.to(tl.int8), mask)


def quantise_rows(rows, cols, dtype="float16"):
    """Rows rounded to 8 bits, each by the scale of its largest value."""
    make = Tensors()
    x = make.normal(rows, cols, dtype=dtype)
    scales = x.float().abs().amax(1) / 127
    wanted = (x.float() / scales[:, None]).round()
    outputs = make.empty(rows, cols, dtype="int8"), make.zeros(rows)
    return KernelSpec(
        kernel=quantise_rows_kernel,
        args=(x, *outputs, rows, cols),
        grid=lambda meta: (triton.cdiv(rows, meta["X0BLOCK"]),),
        configs=space(
            {
                "X0BLOCK": powers(1, 32),
                "R0BLOCK": powers(64, 8192),
                "num_warps": powers(1, 16),
                "num_stages": [1, 2, 3],
            },
            "X0BLOCK * R0BLOCK >= 64 * num_warps",
            "X0BLOCK * R0BLOCK <= 1024 * num_warps",
        ),
        check=expect(out=wanted, scales=scales),
        shape={"x0": rows, "r0": cols},
    )
