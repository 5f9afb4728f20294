"""Softmax of causal scores, its backward pass, and cross entropy with gradient."""

import math

import torch
import triton
import triton.language as tl

from fasta_learn.oracles import KernelSpec

from ._common import Tensors, expect, powers, space

ROWS = {
    "X0BLOCK": powers(1, 32),
    "R0BLOCK": powers(64, 4096),
    "num_warps": powers(1, 16),
    "num_stages": [1, 2, 3],
}
FIT = (
    "X0BLOCK * R0BLOCK >= 64 * num_warps",
    "X0BLOCK * R0BLOCK <= 1024 * num_warps",
)


@triton.jit
def causal_softmax_kernel(
    x,
    out,
    n_rows,
    length,
    scale,
    X0BLOCK: tl.constexpr,
    R0BLOCK: tl.constexpr,
):
    rows = tl.program_id(0) * X0BLOCK + tl.arange(0, X0BLOCK)
    last = rows % length
    stop = tl.max(tl.where(rows < n_rows, last, 0), 0) + 1
    top = tl.full((X0BLOCK,), -1e30, tl.float32)
    total = tl.zeros((X0BLOCK,), tl.float32)
    for start in range(0, stop, R0BLOCK):
        cols = start + tl.arange(0, R0BLOCK)
        mask = (rows[:, None] < n_rows) & (cols[None, :] <= last[:, None])
        at = rows[:, None] * length + cols[None, :]
        values = tl.load(x + at, mask, -float("inf")).to(tl.float32) * scale
        new_top = tl.maximum(top, tl.max(values, 1))
        total *= tl.exp2(top - new_top)
        total += tl.sum(tl.exp2(values - new_top[:, None]), 1)
        top = new_top
    for start in range(0, length, R0BLOCK):
        cols = start + tl.arange(0, R0BLOCK)
        mask = (rows[:, None] < n_rows) & (cols[None, :] <= last[:, None])
        at = rows[:, None] * length + cols[None, :]
        values = tl.load(x + at, mask, -float("inf")).to(tl.float32) * scale
        values = tl.exp2(values - top[:, None]) / total[:, None]
        mask = (rows[:, None] < n_rows) & (cols[None, :] < length)
        tl.store(out + at, values.to(out.dtype.element_ty), mask)


def causal_softmax(heads, length, dtype="float16"):
    """Softmax of scaled scores, where a row sees the columns up to its own."""
    make = Tensors()
    x = make.normal(heads, length, length, dtype=dtype, scale=4)
    later = torch.ones(length, length, device=make.device).triu(1).bool()
    wanted = (x.float() * 0.5).masked_fill(later, -math.inf).softmax(-1)
    n_rows = heads * length
    return KernelSpec(
        kernel=causal_softmax_kernel,
        args=(x, torch.empty_like(x), n_rows, length, 0.5 * math.log2(math.e)),
        grid=lambda meta: (triton.cdiv(n_rows, meta["X0BLOCK"]),),
        configs=space(ROWS | {"R0BLOCK": powers(64, 1024)}, *FIT),
        check=expect(out=wanted),
        shape={"x0": n_rows, "r0": length},
    )


@triton.jit
def softmax_backward_kernel(
    y,
    grad,
    out,
    n_rows,
    n_cols,
    X0BLOCK: tl.constexpr,
    R0BLOCK: tl.constexpr,
):
    rows = tl.program_id(0) * X0BLOCK + tl.arange(0, X0BLOCK)
    sums = tl.zeros((X0BLOCK, R0BLOCK), tl.float32)
    for start in range(0, n_cols, R0BLOCK):
        cols = start + tl.arange(0, R0BLOCK)
        mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
        at = rows[:, None] * n_cols + cols[None, :]
        values = tl.load(y + at, mask, 0.0).to(tl.float32)
        sums += values * tl.load(grad + at, mask, 0.0).to(tl.float32)
    level = tl.sum(sums, 1)
    for start in range(0, n_cols, R0BLOCK):
        cols = start + tl.arange(0, R0BLOCK)
        mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
        at = rows[:, None] * n_cols + cols[None, :]
        values = tl.load(y + at, mask, 0.0).to(tl.float32)
        grads = tl.load(grad + at, mask, 0.0).to(tl.float32)
        values = values * (grads - level[:, None])
        tl.store(out + at, values.to(out.dtype.element_ty), mask)


def softmax_backward(rows, cols, dtype="bfloat16"):
    """The gradient of softmax from its result and the gradient of that."""
    make = Tensors()
    y = make.normal(rows, cols, dtype="float32").softmax(-1)
    y = y.to(getattr(torch, dtype))
    # Probabilities are about 1 / cols, so the gradients are about 1.
    grad = make.normal(rows, cols, dtype=dtype, scale=cols)
    product = y.float() * grad.float()
    wanted = product - y.float() * product.sum(1, keepdim=True)
    return KernelSpec(
        kernel=softmax_backward_kernel,
        args=(y, grad, torch.empty_like(y), rows, cols),
        grid=lambda meta: (triton.cdiv(rows, meta["X0BLOCK"]),),
        configs=space(ROWS, *FIT),
        check=expect(out=wanted),
        shape={"x0": rows, "r0": cols},
    )


@triton.jit
def cross_entropy_kernel(
    logits,
    labels,
    loss,
    grad,
    n_rows,
    n_cols,
    X0BLOCK: tl.constexpr,
    R0BLOCK: tl.constexpr,
):
    rows = tl.program_id(0) * X0BLOCK + tl.arange(0, X0BLOCK)
    inside = rows < n_rows
    label = tl.load(labels + rows, inside, 0)
    top = tl.full((X0BLOCK,), -1e30, tl.float32)
    total = tl.zeros((X0BLOCK,), tl.float32)
    for start in range(0, n_cols, R0BLOCK):
        cols = start + tl.arange(0, R0BLOCK)
        mask = inside[:, None] & (cols[None, :] < n_cols)
        at = logits + rows[:, None] * n_cols + cols[None, :]
        values = tl.load(at, mask, -float("inf")).to(tl.float32)
        new_top = tl.maximum(top, tl.max(values, 1))
        total *= tl.exp(top - new_top)
        total += tl.sum(tl.exp(values - new_top[:, None]), 1)
        top = new_top
    level = top + tl.log(total)
    right = tl.load(logits + rows * n_cols + label, inside, 0.0).to(tl.float32)
    tl.store(loss + rows, level - right, inside)
    for start in range(0, n_cols, R0BLOCK):
        cols = start + tl.arange(0, R0BLOCK)
        mask = inside[:, None] & (cols[None, :] < n_cols)
        at = rows[:, None] * n_cols + cols[None, :]
        values = tl.load(logits + at, mask, -float("inf")).to(tl.float32)
        values = tl.exp(values - level[:, None])
        values = values - tl.where(cols[None, :] == label[:, None], 1.0, 0.0)
        tl.store(grad + at, values.to(grad.dtype.element_ty), mask)


def cross_entropy(rows, cols, dtype="bfloat16"):
    """Cross entropy of each row with the gradient of its logits."""
    make = Tensors()
    logits = make.normal(rows, cols, dtype=dtype, scale=3)
    labels = make.integers(0, cols, rows)
    wide = logits.double().requires_grad_()
    loss = torch.nn.functional.cross_entropy(wide, labels.long(), reduction="none")
    loss.sum().backward()
    return KernelSpec(
        kernel=cross_entropy_kernel,
        args=(logits, labels, make.zeros(rows), torch.empty_like(logits), rows, cols),
        grid=lambda meta: (triton.cdiv(rows, meta["X0BLOCK"]),),
        configs=space(ROWS | {"R0BLOCK": powers(128, 8192)}, *FIT),
        check=expect(loss=loss.detach(), grad=wide.grad),
        shape={"x0": rows, "r0": cols},
    )
