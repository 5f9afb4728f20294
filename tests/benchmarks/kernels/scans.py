"""Running sums down columns, and linear recurrences along rows."""

import torch
import triton
import triton.language as tl

from fasta_learn.oracles import KernelSpec

from ._common import Tensors, expect, powers, space


@triton.jit
def column_cumsum_kernel(
    x,
    out,
    n_rows,
    n_cols,
    X0BLOCK: tl.constexpr,
    R0BLOCK: tl.constexpr,
):
    cols = tl.program_id(0) * X0BLOCK + tl.arange(0, X0BLOCK)
    before = tl.zeros((X0BLOCK,), tl.float32)
    for start in range(0, n_rows, R0BLOCK):
        rows = start + tl.arange(0, R0BLOCK)
        mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
        at = rows[:, None] * n_cols + cols[None, :]
        values = tl.load(x + at, mask, 0.0).to(tl.float32)
        sums = tl.cumsum(values, 0) + before[None, :]
        tl.store(out + at, sums.to(out.dtype.element_ty), mask)
        before += tl.sum(values, 0)


def column_cumsum(rows, cols, dtype="float32"):
    """Running sums down each column."""
    make = Tensors()
    x = make.normal(rows, cols, dtype=dtype, scale=rows**-0.25)
    return KernelSpec(
        kernel=column_cumsum_kernel,
        args=(x, torch.empty_like(x), rows, cols),
        grid=lambda meta: (triton.cdiv(cols, meta["X0BLOCK"]),),
        configs=space(
            {
                "X0BLOCK": powers(4, 256),
                "R0BLOCK": powers(4, 256),
                "num_warps": powers(1, 8),
                "num_stages": [1, 2, 3],
            },
            "X0BLOCK * R0BLOCK >= 32 * num_warps",
            "X0BLOCK * R0BLOCK <= 1024 * num_warps",
        ),
        check=expect(out=x.double().cumsum(0)),
        shape={"x0": cols, "r0": rows},
    )


@triton.jit
def chain(decay_a, value_a, decay_b, value_b):
    """Return the step that has the effect of step a and then step b."""
    return decay_a * decay_b, value_a * decay_b + value_b


@triton.jit
def linear_recurrence_kernel(
    decay,
    x,
    out,
    n_rows,
    n_cols,
    X0BLOCK: tl.constexpr,
    R0BLOCK: tl.constexpr,
):
    rows = tl.program_id(0) * X0BLOCK + tl.arange(0, X0BLOCK)
    state = tl.zeros((X0BLOCK,), tl.float32)
    is_last = tl.arange(0, R0BLOCK)[None, :] == R0BLOCK - 1
    for start in range(0, n_cols, R0BLOCK):
        cols = start + tl.arange(0, R0BLOCK)
        mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
        at = rows[:, None] * n_cols + cols[None, :]
        decays = tl.load(decay + at, mask, 1.0).to(tl.float32)
        values = tl.load(x + at, mask, 0.0).to(tl.float32)
        decays, values = tl.associative_scan((decays, values), 1, chain)
        states = values + decays * state[:, None]
        tl.store(out + at, states.to(out.dtype.element_ty), mask)
        state = tl.sum(tl.where(is_last, states, 0.0), 1)


def linear_recurrence(rows, cols, dtype="float16"):
    """h[t] = decay[t] h[t - 1] + x[t] along each row."""
    make = Tensors()
    decay = make.uniform(rows, cols, low=0.5, high=1.0, dtype=dtype)
    x = make.normal(rows, cols, dtype=dtype)
    wanted, state = torch.empty_like(x), torch.zeros_like(x[:, 0], dtype=torch.float32)
    for step in range(cols):
        state = decay[:, step] * state + x[:, step]
        wanted[:, step] = state
    return KernelSpec(
        kernel=linear_recurrence_kernel,
        args=(decay, x, torch.empty_like(x), rows, cols),
        grid=lambda meta: (triton.cdiv(rows, meta["X0BLOCK"]),),
        configs=space(
            {
                "X0BLOCK": powers(1, 32),
                "R0BLOCK": powers(32, 2048),
                "num_warps": powers(1, 8),
                "num_stages": [1, 2, 3],
            },
            "X0BLOCK * R0BLOCK >= 32 * num_warps",
            "X0BLOCK * R0BLOCK <= 512 * num_warps",
        ),
        check=expect(out=wanted),
        shape={"x0": rows, "r0": cols},
    )
