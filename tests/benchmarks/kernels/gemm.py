"""Matrix products with a tile of the result for each program."""

import torch
import triton
import triton.language as tl

from fasta_learn.oracles import KernelSpec

from ._common import Tensors, expect, grouped_tile, load_tile, tiles


@triton.jit
def matmul_kernel(
    a,
    b,
    c,
    m,
    n,
    k,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
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
        left = load_tile(a, rows, ks, m, k, stride_am, stride_ak)
        right = load_tile(b, ks, cols, k, n, stride_bk, stride_bn)
        acc = tl.dot(left, right, acc)
    mask = (rows[:, None] < m) & (cols[None, :] < n)
    out = acc.to(c.dtype.element_ty)
    tl.store(c + rows[:, None] * n + cols[None, :], out, mask)


def matmul(m, n, k, dtype="float16", layout="nn"):
    """C = A B; ``layout`` "nt": B is stored transposed, "tn": A is."""
    make = Tensors()
    a = make.normal(m, k, dtype=dtype, scale=k**-0.25)
    b = make.normal(k, n, dtype=dtype, scale=k**-0.25)
    if layout[0] == "t":
        a = a.T.contiguous().T
    if layout[1] == "t":
        b = b.T.contiguous().T
    c = make.empty(m, n, dtype=dtype)
    return KernelSpec(
        kernel=matmul_kernel,
        args=(a, b, c, m, n, k, *a.stride(), *b.stride()),
        grid=lambda meta: (
            triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),
        ),
        configs=tiles(n_bytes=a.element_size()),
        check=expect(c=a.float() @ b.float()),
        shape={"m": m, "n": n, "k": k},
    )


@triton.jit
def gated_linear_kernel(
    x,
    gate,
    up,
    out,
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
    gates = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    values = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        ks = start + tl.arange(0, BLOCK_K)
        left = load_tile(x, rows, ks, m, k, k, 1)
        gates = tl.dot(left, load_tile(gate, ks, cols, k, n, n, 1), gates)
        values = tl.dot(left, load_tile(up, ks, cols, k, n, n, 1), values)
    values = values * gates * tl.sigmoid(gates)
    mask = (rows[:, None] < m) & (cols[None, :] < n)
    values = values.to(out.dtype.element_ty)
    tl.store(out + rows[:, None] * n + cols[None, :], values, mask)


def gated_linear(m, n, k, dtype="bfloat16"):
    """silu(X G) (X U): both products in one kernel."""
    make = Tensors()
    x = make.normal(m, k, dtype=dtype)
    gate, up = (make.normal(k, n, dtype=dtype, scale=k**-0.5) for _ in range(2))
    out = make.empty(m, n, dtype=dtype)
    wanted = torch.nn.functional.silu(x.float() @ gate.float()) * (
        x.float() @ up.float()
    )
    return KernelSpec(
        kernel=gated_linear_kernel,
        args=(x, gate, up, out, m, n, k),
        grid=lambda meta: (
            triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),
        ),
        configs=tiles(
            "BLOCK_M * BLOCK_N <= 2048 * num_warps",
            "(BLOCK_M + 2 * BLOCK_N) * BLOCK_K * num_stages <= 120000",
        ),
        check=expect(out=wanted),
        shape={"m": m, "n": n, "k": k},
    )
