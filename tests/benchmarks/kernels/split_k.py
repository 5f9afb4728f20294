"""Matrix products with few tiles, whose long inner axis several programs share."""

import triton
import triton.language as tl

from fasta_learn.oracles import KernelSpec

from ._common import Tensors, arrives_last, expect, load_tile, tiles


@triton.jit
def split_k_sum(
    a,
    b,
    rows,
    cols,
    m,
    n,
    k,
    stride_am,
    stride_ak,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SPLIT_K: tl.constexpr,
):
    """Return the part of a tile that the steps of this program give."""
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(tl.program_id(2) * BLOCK_K, k, SPLIT_K * BLOCK_K):
        ks = start + tl.arange(0, BLOCK_K)
        left = load_tile(a, rows, ks, m, k, stride_am, stride_ak)
        acc = tl.dot(left, load_tile(b, ks, cols, k, n, n, 1), acc)
    return acc


@triton.jit
def split_k_atomic_kernel(
    a,
    b,
    c,
    m,
    n,
    k,
    stride_am,
    stride_ak,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SPLIT_K: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = split_k_sum(
        a,
        b,
        rows,
        cols,
        m,
        n,
        k,
        stride_am,
        stride_ak,
        BLOCK_M,
        BLOCK_N,
        BLOCK_K,
        SPLIT_K,
    )
    mask = (rows[:, None] < m) & (cols[None, :] < n)
    tl.atomic_add(c + rows[:, None] * n + cols[None, :], acc, mask, sem="relaxed")


@triton.jit
def split_k_workspace_kernel(
    a,
    b,
    c,
    partial,
    counters,
    m,
    n,
    k,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SPLIT_K: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = split_k_sum(
        a, b, rows, cols, m, n, k, k, 1, BLOCK_M, BLOCK_N, BLOCK_K, SPLIT_K
    )
    mask = (rows[:, None] < m) & (cols[None, :] < n)
    at = rows[:, None] * n + cols[None, :]
    if SPLIT_K > 1:
        tl.store(partial + tl.program_id(2) * m * n + at, acc, mask)
        tile = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
        if arrives_last(counters + tile, SPLIT_K):
            acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
            for part in range(SPLIT_K):
                acc += tl.load(
                    partial + part * m * n + at, mask, 0.0, cache_modifier=".cg"
                )
            tl.store(c + at, acc.to(c.dtype.element_ty), mask)
    else:
        tl.store(c + at, acc.to(c.dtype.element_ty), mask)


def split_grid(m, n):
    return lambda meta: (
        triton.cdiv(m, meta["BLOCK_M"]),
        triton.cdiv(n, meta["BLOCK_N"]),
        meta["SPLIT_K"],
    )


def skinny_atomic(m, n, k, dtype="float16"):
    """Few rows; the parts of a tile are added up by atomics."""
    make = Tensors()
    a = make.normal(m, k, dtype=dtype, scale=k**-0.25)
    b = make.normal(k, n, dtype=dtype, scale=k**-0.25)
    c = make.zeros(m, n)
    return KernelSpec(
        kernel=split_k_atomic_kernel,
        args=(a, b, c, m, n, k, *a.stride()),
        grid=split_grid(m, n),
        configs=tiles(BLOCK_M=[16, 32], GROUP_M=None, SPLIT_K=[1, 2, 4, 8, 16]),
        reset_to_zero=("c",),
        check=expect(c=a.float() @ b.float()),
        shape={"m": m, "n": n, "k": k},
    )


def weight_gradient(m, n, k, dtype="bfloat16"):
    """A^T B over a long batch axis k, added up in float32 by atomics."""
    make = Tensors()
    a = make.normal(k, m, dtype=dtype, scale=k**-0.25)
    b = make.normal(k, n, dtype=dtype, scale=k**-0.25)
    c = make.zeros(m, n)
    return KernelSpec(
        kernel=split_k_atomic_kernel,
        args=(a, b, c, m, n, k, *a.T.stride()),
        grid=split_grid(m, n),
        configs=tiles(
            "BLOCK_M >= 32",
            "BLOCK_N >= 32",
            "BLOCK_K >= 32",
            GROUP_M=None,
            SPLIT_K=[1, 2, 4, 8, 16],
        ),
        reset_to_zero=("c",),
        check=expect(c=a.float().T @ b.float()),
        shape={"m": m, "n": n, "k": k},
    )


def skinny_workspace(m, n, k, dtype="bfloat16"):
    """Few rows; the last program of a tile adds up the parts in a second buffer."""
    make = Tensors()
    a = make.normal(m, k, dtype=dtype, scale=k**-0.25)
    b = make.normal(k, n, dtype=dtype, scale=k**-0.25)
    c = make.empty(m, n, dtype=dtype)
    partial = make.zeros(16, m, n)
    counters = make.zeros(triton.cdiv(m, 16) * triton.cdiv(n, 16), dtype="int32")
    return KernelSpec(
        kernel=split_k_workspace_kernel,
        args=(a, b, c, partial, counters, m, n, k),
        grid=split_grid(m, n),
        configs=tiles(BLOCK_M=[16, 32, 64], GROUP_M=None, SPLIT_K=[1, 2, 4, 8, 16]),
        check=expect(c=a.float() @ b.float()),
        shape={"m": m, "n": n, "k": k},
    )
