"""Batched matrix products: equal ones, and ragged ones as in a mixture of experts."""

import itertools

import torch
import triton
import triton.language as tl

from fasta_learn.oracles import KernelSpec

from ._common import Tensors, expect, grouped_tile, load_tile, tiles


@triton.jit
def batched_matmul_kernel(
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
):
    batch = tl.program_id(1)
    tile_m, tile_n = grouped_tile(
        tl.program_id(0), tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), GROUP_M
    )
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    a += batch * m * k
    b += batch * k * n
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        ks = start + tl.arange(0, BLOCK_K)
        left = load_tile(a, rows, ks, m, k, k, 1)
        acc = tl.dot(left, load_tile(b, ks, cols, k, n, n, 1), acc)
    mask = (rows[:, None] < m) & (cols[None, :] < n)
    at = c + batch * m * n + rows[:, None] * n + cols[None, :]
    tl.store(at, acc.to(c.dtype.element_ty), mask)


def batched_matmul(batch, m, n, k, dtype="float16"):
    """C[i] = A[i] B[i]."""
    make = Tensors()
    a = make.normal(batch, m, k, dtype=dtype, scale=k**-0.25)
    b = make.normal(batch, k, n, dtype=dtype, scale=k**-0.25)
    c = make.empty(batch, m, n, dtype=dtype)
    return KernelSpec(
        kernel=batched_matmul_kernel,
        args=(a, b, c, m, n, k),
        grid=lambda meta: (
            triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),
            batch,
        ),
        configs=tiles(
            "BLOCK_M * BLOCK_K <= 2048 * num_warps",
            "BLOCK_N * BLOCK_K <= 2048 * num_warps",
        ),
        check=expect(c=a.float() @ b.float()),
        shape={"batch": batch, "m": m, "n": n, "k": k},
    )


@triton.jit
def expert_matmul_kernel(
    x,
    weights,
    out,
    offsets,
    n,
    k,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    expert = tl.program_id(2)
    first = tl.load(offsets + expert)
    stop = tl.load(offsets + expert + 1)
    rows = first + tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    if first + tl.program_id(1) * BLOCK_M < stop:
        weights += expert * k * n
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for start in range(0, k, BLOCK_K):
            ks = start + tl.arange(0, BLOCK_K)
            left = load_tile(x, rows, ks, stop, k, k, 1)
            acc = tl.dot(left, load_tile(weights, ks, cols, k, n, n, 1), acc)
        mask = (rows[:, None] < stop) & (cols[None, :] < n)
        at = out + rows[:, None] * n + cols[None, :]
        tl.store(at, acc.to(out.dtype.element_ty), mask)


def expert_matmul(tokens, experts, n, k, dtype="bfloat16"):
    """Tokens sorted by expert; the share of an expert falls off geometrically."""
    make = Tensors()
    shares = list(itertools.accumulate(0.9**i for i in range(experts)))
    starts = [0, *(round(share / shares[-1] * tokens) for share in shares)]
    sizes = [stop - start for start, stop in itertools.pairwise(starts)]
    offsets = torch.tensor(starts, dtype=torch.int32, device=make.device)
    x = make.normal(tokens, k, dtype=dtype, scale=k**-0.25)
    weights = make.normal(experts, k, n, dtype=dtype, scale=k**-0.25)
    out = make.empty(tokens, n, dtype=dtype)
    parts = zip(x.split(sizes), weights, strict=True)
    wanted = torch.cat([part.float() @ weight.float() for part, weight in parts])
    return KernelSpec(
        kernel=expert_matmul_kernel,
        args=(x, weights, out, offsets, n, k),
        grid=lambda meta: (
            triton.cdiv(n, meta["BLOCK_N"]),
            triton.cdiv(max(sizes), meta["BLOCK_M"]),
            experts,
        ),
        configs=tiles(GROUP_M=None),
        check=expect(out=wanted),
        shape={"experts": experts, "m": tokens, "n": n, "k": k},
    )
