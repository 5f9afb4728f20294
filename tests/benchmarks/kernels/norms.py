"""Layer, RMS and group norm, and the backward pass of layer norm."""

import torch
import triton
import triton.language as tl

from fasta_learn.oracles import KernelSpec

from ._common import Tensors, expect, powers, space


@triton.jit
def layer_norm_kernel(
    x,
    weight,
    bias,
    out,
    n_rows,
    n_cols,
    eps,
    X0BLOCK: tl.constexpr,
    R0BLOCK: tl.constexpr,
):
    rows = tl.program_id(0) * X0BLOCK + tl.arange(0, X0BLOCK)
    sums = tl.zeros((X0BLOCK, R0BLOCK), tl.float32)
    squares = tl.zeros((X0BLOCK, R0BLOCK), tl.float32)
    for start in range(0, n_cols, R0BLOCK):
        cols = start + tl.arange(0, R0BLOCK)
        mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
        values = tl.load(x + rows[:, None] * n_cols + cols[None, :], mask, 0.0)
        values = values.to(tl.float32)
        sums += values
        squares += values * values
    mean = tl.sum(sums, 1) / n_cols
    variance = tl.sum(squares, 1) / n_cols - mean * mean
    scale = tl.rsqrt(variance + eps)
    for start in range(0, n_cols, R0BLOCK):
        cols = start + tl.arange(0, R0BLOCK)
        mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
        at = rows[:, None] * n_cols + cols[None, :]
        values = tl.load(x + at, mask, 0.0).to(tl.float32)
        weights = tl.load(weight + cols, cols < n_cols, 0.0).to(tl.float32)
        shifts = tl.load(bias + cols, cols < n_cols, 0.0).to(tl.float32)
        values = (values - mean[:, None]) * scale[:, None]
        values = values * weights[None, :] + shifts[None, :]
        tl.store(out + at, values.to(out.dtype.element_ty), mask)


def layer_norm(rows, cols, dtype="float16"):
    """Layer norm with weights and shifts."""
    make = Tensors()
    x, weight, bias = (
        make.normal(*s, dtype=dtype) for s in ((rows, cols), (cols,), (cols,))
    )
    wanted = torch.nn.functional.layer_norm(
        x.float(), (cols,), weight.float(), bias.float()
    )
    return KernelSpec(
        kernel=layer_norm_kernel,
        args=(x, weight, bias, torch.empty_like(x), rows, cols, 1e-5),
        grid=lambda meta: (triton.cdiv(rows, meta["X0BLOCK"]),),
        configs=space(
            {
                "X0BLOCK": powers(1, 32),
                "R0BLOCK": powers(64, 4096),
                "num_warps": powers(1, 16),
                "num_stages": [1, 2, 3],
                "maxnreg": [64, 128],
            },
            "X0BLOCK * R0BLOCK >= 64 * num_warps",
            "X0BLOCK * R0BLOCK <= 1024 * num_warps",
            "num_warps * 32 * maxnreg <= 65536",
        ),
        check=expect(out=wanted),
        shape={"x0": rows, "r0": cols},
    )


@triton.jit
def add_rms_norm_kernel(
    x,
    residual,
    weight,
    total,
    out,
    n_rows,
    n_cols,
    eps,
    X0BLOCK: tl.constexpr,
    R0BLOCK: tl.constexpr,
):
    rows = tl.program_id(0) * X0BLOCK + tl.arange(0, X0BLOCK)
    squares = tl.zeros((X0BLOCK, R0BLOCK), tl.float32)
    for start in range(0, n_cols, R0BLOCK):
        cols = start + tl.arange(0, R0BLOCK)
        mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
        at = rows[:, None] * n_cols + cols[None, :]
        values = tl.load(x + at, mask, 0.0).to(tl.float32)
        values += tl.load(residual + at, mask, 0.0).to(tl.float32)
        tl.store(total + at, values.to(total.dtype.element_ty), mask)
        squares += values * values
    scale = tl.rsqrt(tl.sum(squares, 1) / n_cols + eps)
    for start in range(0, n_cols, R0BLOCK):
        cols = start + tl.arange(0, R0BLOCK)
        mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
        at = rows[:, None] * n_cols + cols[None, :]
        values = tl.load(x + at, mask, 0.0).to(tl.float32)
        values += tl.load(residual + at, mask, 0.0).to(tl.float32)
        weights = tl.load(weight + cols, cols < n_cols, 0.0).to(tl.float32)
        values = values * scale[:, None] * weights[None, :]
        tl.store(out + at, values.to(out.dtype.element_ty), mask)


def add_rms_norm(rows, cols, dtype="bfloat16"):
    """The sum of two tensors, stored, and its RMS norm."""
    make = Tensors()
    x, residual = (make.normal(rows, cols, dtype=dtype) for _ in range(2))
    weight = make.normal(cols, dtype=dtype)
    total = x.float() + residual.float()
    wanted = torch.nn.functional.rms_norm(total, (cols,), weight.float(), 1e-6)
    outputs = torch.empty_like(x), torch.empty_like(x)
    return KernelSpec(
        kernel=add_rms_norm_kernel,
        args=(x, residual, weight, *outputs, rows, cols, 1e-6),
        grid=lambda meta: (triton.cdiv(rows, meta["X0BLOCK"]),),
        configs=space(
            {
                "X0BLOCK": powers(1, 16),
                "R0BLOCK": powers(128, 8192),
                "num_warps": powers(1, 16),
                "num_stages": [1, 2, 3],
            },
            "X0BLOCK * R0BLOCK >= 64 * num_warps",
            "X0BLOCK * R0BLOCK <= 1024 * num_warps",
        ),
        check=expect(total=total, out=wanted),
        shape={"x0": rows, "r0": cols},
    )


@triton.jit
def group_norm_kernel(
    x,
    weight,
    bias,
    out,
    n_groups,
    per_image,
    channels,
    pixels,
    eps,
    X0BLOCK: tl.constexpr,
    R0BLOCK: tl.constexpr,
):
    groups = tl.program_id(0) * X0BLOCK + tl.arange(0, X0BLOCK)
    size = channels * pixels
    sums = tl.zeros((X0BLOCK, R0BLOCK), tl.float32)
    squares = tl.zeros((X0BLOCK, R0BLOCK), tl.float32)
    for start in range(0, size, R0BLOCK):
        inner = start + tl.arange(0, R0BLOCK)
        mask = (groups[:, None] < n_groups) & (inner[None, :] < size)
        values = tl.load(x + groups[:, None] * size + inner[None, :], mask, 0.0)
        values = values.to(tl.float32)
        sums += values
        squares += values * values
    mean = tl.sum(sums, 1) / size
    scale = tl.rsqrt(tl.sum(squares, 1) / size - mean * mean + eps)
    for start in range(0, size, R0BLOCK):
        inner = start + tl.arange(0, R0BLOCK)
        mask = (groups[:, None] < n_groups) & (inner[None, :] < size)
        at = groups[:, None] * size + inner[None, :]
        values = tl.load(x + at, mask, 0.0).to(tl.float32)
        channel = (groups % per_image)[:, None] * channels + (inner // pixels)[None, :]
        weights = tl.load(weight + channel, mask, 0.0).to(tl.float32)
        shifts = tl.load(bias + channel, mask, 0.0).to(tl.float32)
        values = (values - mean[:, None]) * scale[:, None] * weights + shifts
        tl.store(out + at, values.to(out.dtype.element_ty), mask)


def group_norm(images, channels, height, width, groups=32, dtype="float16"):
    """Group norm of images, channels first."""
    make = Tensors()
    x = make.normal(images, channels, height, width, dtype=dtype)
    weight, bias = (make.normal(channels, dtype=dtype) for _ in range(2))
    wanted = torch.nn.functional.group_norm(
        x.float(), groups, weight.float(), bias.float()
    )
    n_groups, each, pixels = images * groups, channels // groups, height * width
    sizes = (n_groups, groups, each, pixels)
    return KernelSpec(
        kernel=group_norm_kernel,
        args=(x, weight, bias, torch.empty_like(x), *sizes, 1e-5),
        grid=lambda meta: (triton.cdiv(n_groups, meta["X0BLOCK"]),),
        configs=space(
            {
                "X0BLOCK": [1, 2, 4],
                "R0BLOCK": powers(128, 16384),
                "num_warps": powers(1, 32),
                "num_stages": [1, 2, 3],
            },
            "X0BLOCK * R0BLOCK >= 64 * num_warps",
            "X0BLOCK * R0BLOCK <= 1024 * num_warps",
        ),
        check=expect(out=wanted),
        shape={"x0": n_groups, "r0": each * pixels},
    )


@triton.jit
def layer_norm_backward_kernel(
    x,
    grad,
    weight,
    mean,
    scale,
    dx,
    dweight,
    dbias,
    n_rows,
    n_cols,
    R0BLOCK: tl.constexpr,
    X0BLOCK: tl.constexpr,
    X0BLOCK_SUB: tl.constexpr,
):
    cols = tl.arange(0, R0BLOCK)
    weights = tl.load(weight + cols, cols < n_cols, 0.0).to(tl.float32)
    dweights = tl.zeros((R0BLOCK,), tl.float32)
    dbiases = tl.zeros((R0BLOCK,), tl.float32)
    first = tl.program_id(0) * X0BLOCK
    for start in range(first, first + X0BLOCK, X0BLOCK_SUB):
        rows = start + tl.arange(0, X0BLOCK_SUB)
        mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
        at = rows[:, None] * n_cols + cols[None, :]
        means = tl.load(mean + rows, rows < n_rows, 0.0)
        scales = tl.load(scale + rows, rows < n_rows, 0.0)
        normal = tl.load(x + at, mask, 0.0).to(tl.float32)
        normal = tl.where(mask, (normal - means[:, None]) * scales[:, None], 0.0)
        grads = tl.load(grad + at, mask, 0.0).to(tl.float32)
        dweights += tl.sum(grads * normal, 0)
        dbiases += tl.sum(grads, 0)
        grads = grads * weights[None, :]
        along = tl.sum(grads * normal, 1) / n_cols
        level = tl.sum(grads, 1) / n_cols
        grads = grads - normal * along[:, None] - level[:, None]
        grads = grads * scales[:, None]
        tl.store(dx + at, grads.to(dx.dtype.element_ty), mask)
    tl.atomic_add(dweight + cols, dweights, cols < n_cols, sem="relaxed")
    tl.atomic_add(dbias + cols, dbiases, cols < n_cols, sem="relaxed")


def layer_norm_backward(rows, cols, dtype="bfloat16"):
    """All gradients of layer norm; those of the weights are added up by atomics."""
    make = Tensors()
    x, grad = (make.normal(rows, cols, dtype=dtype) for _ in range(2))
    # So that sums over all rows are of the size that tolerances are made for.
    grad = grad * rows**-0.25
    weight = make.normal(cols, dtype=dtype)
    inputs = x.double().requires_grad_(), weight.double().requires_grad_()
    bias = torch.zeros_like(inputs[1]).requires_grad_()
    out = torch.nn.functional.layer_norm(inputs[0], (cols,), inputs[1], bias)
    out.backward(grad.double())
    variance, mean = torch.var_mean(x.float(), 1, correction=0)
    outputs = torch.empty_like(x), make.zeros(cols), make.zeros(cols)
    stats = mean, torch.rsqrt(variance + 1e-5)
    return KernelSpec(
        kernel=layer_norm_backward_kernel,
        args=(x, grad, weight, *stats, *outputs, rows, cols),
        grid=lambda meta: (triton.cdiv(rows, meta["X0BLOCK"]),),
        configs=space(
            {
                "X0BLOCK": powers(1, 256),
                "X0BLOCK_SUB": powers(1, 16),
                "num_warps": powers(1, 16),
                "num_stages": [1, 2, 3],
            },
            "X0BLOCK_SUB <= X0BLOCK",
            f"X0BLOCK_SUB * {cols} <= 1024 * num_warps",
        ),
        constants={"R0BLOCK": triton.next_power_of_2(cols)},
        reset_to_zero=("dweight", "dbias"),
        check=expect(dx=inputs[0].grad, dweight=inputs[1].grad, dbias=bias.grad),
        shape={"x0": rows, "r0": cols},
    )
