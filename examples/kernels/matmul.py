"""A matrix product in half precision, ready to be tuned on a GPU.

fasta-learn tune examples/kernels/matmul.py:matmul --set m=512 --set n=4096
"""

import torch
import triton
import triton.language as tl

from fasta_learn import TileSpace
from fasta_learn.oracles import KernelSpec


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
):
    # GROUP_M rows of tiles are worked on together, so that they share the cache.
    program, tiles_n = tl.program_id(0), tl.cdiv(n, BLOCK_N)
    first = program // (GROUP_M * tiles_n) * GROUP_M
    height = tl.minimum(tl.cdiv(m, BLOCK_M) - first, GROUP_M)
    inside = program % (GROUP_M * tiles_n)
    row = (first + inside % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = inside // height * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        depth = start + tl.arange(0, BLOCK_K)
        mask_a = (row[:, None] < m) & (depth[None, :] < k)
        mask_b = (depth[:, None] < k) & (column[None, :] < n)
        left = tl.load(a + row[:, None] * k + depth[None, :], mask_a, 0.0)
        right = tl.load(b + depth[:, None] * n + column[None, :], mask_b, 0.0)
        total = tl.dot(left, right, total)
    mask = (row[:, None] < m) & (column[None, :] < n)
    at = c + row[:, None] * n + column[None, :]
    tl.store(at, total.to(c.dtype.element_ty), mask)


def matmul(m=2048, n=2048, k=2048):
    a = torch.randn(m, k, device="cuda", dtype=torch.float16)
    b = torch.randn(k, n, device="cuda", dtype=torch.float16)
    return KernelSpec(
        kernel=matmul_kernel,
        args=(a, b, torch.empty(m, n, device="cuda", dtype=torch.float16), m, n, k),
        grid=lambda meta: (
            triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),
        ),
        configs=TileSpace(
            {
                "BLOCK_M": [32, 64, 128, 256],
                "BLOCK_N": [32, 64, 128, 256],
                "BLOCK_K": [32, 64, 128],
                "GROUP_M": [1, 8],
                "num_warps": [4, 8],
                "num_stages": [2, 3, 4],
            },
            constraints=[
                "1024 <= BLOCK_M * BLOCK_N",
                "BLOCK_M * BLOCK_N <= 4096 * num_warps",
                # Two bytes an element, and at most 227 KiB of shared memory.
                "2 * (BLOCK_M + BLOCK_N) * BLOCK_K * num_stages <= 227 * 1024",
            ],
        ),
        check={"c": a @ b},
        shape={"m": m, "n": n, "k": k},
    )
