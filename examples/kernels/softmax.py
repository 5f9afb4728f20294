"""Softmax over the rows of a matrix, ready to be tuned on a GPU.

fasta-learn tune examples/kernels/softmax.py:softmax --set rows=8192
"""

import torch
import triton
import triton.language as tl

from fasta_learn import TileSpace
from fasta_learn.oracles import KernelSpec


@triton.jit
def softmax_kernel(x, y, rows, columns, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):
    row = (tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK))[:, None]
    top = tl.full((XBLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((XBLOCK,), tl.float32)
    for start in range(0, columns, RBLOCK):
        column = (start + tl.arange(0, RBLOCK))[None, :]
        mask = (row < rows) & (column < columns)
        part = tl.load(x + row * columns + column, mask, float("-inf"))
        part = tl.where(row < rows, part.to(tl.float32), 0.0)
        higher = tl.maximum(top, tl.max(part, 1))
        total = total * tl.exp(top - higher)
        total += tl.sum(tl.exp(part - higher[:, None]), 1)
        top = higher
    for start in range(0, columns, RBLOCK):
        column = (start + tl.arange(0, RBLOCK))[None, :]
        mask = (row < rows) & (column < columns)
        part = tl.load(x + row * columns + column, mask, 0.0).to(tl.float32)
        part = tl.exp(part - top[:, None]) / total[:, None]
        tl.store(y + row * columns + column, part.to(y.dtype.element_ty), mask)


def softmax(rows=4096, columns=1024):
    x = torch.randn(rows, columns, device="cuda")
    return KernelSpec(
        kernel=softmax_kernel,
        args=(x, torch.empty_like(x), rows, columns),
        grid=lambda meta: (triton.cdiv(rows, meta["XBLOCK"]),),
        configs=TileSpace(
            {
                "XBLOCK": TileSpace.powers_of_two(1, 32),
                "RBLOCK": TileSpace.powers_of_two(64, 4096),
                "num_warps": TileSpace.powers_of_two(1, 16),
            },
            constraints=["256 <= XBLOCK * RBLOCK", "XBLOCK * RBLOCK <= 16384"],
        ),
        check={"y": torch.softmax(x, 1)},
        shape={"x0": rows, "r0": columns},
    )
