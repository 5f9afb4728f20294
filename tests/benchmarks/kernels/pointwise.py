"""Fused pointwise kernels, and permutations with some arithmetic."""

import math

import torch
import triton
import triton.language as tl

from fasta_learn.oracles import KernelSpec

from ._common import Tensors, expect, powers, space

PLANE = {
    "X0BLOCK": powers(8, 2048),
    "Y0BLOCK": powers(1, 128),
    "num_warps": powers(1, 16),
}
FIT = (
    "X0BLOCK * Y0BLOCK >= 32 * num_warps",
    "X0BLOCK * Y0BLOCK <= 2048 * num_warps",
)


def plane_grid(rows, cols):
    return lambda meta: (
        triton.cdiv(cols, meta["X0BLOCK"]),
        triton.cdiv(rows, meta["Y0BLOCK"]),
    )


@triton.jit
def gelu(x):
    return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))


@triton.jit
def bias_gelu_add_kernel(
    x,
    bias,
    residual,
    out,
    n_rows,
    n_cols,
    X0BLOCK: tl.constexpr,
    Y0BLOCK: tl.constexpr,
):
    cols = tl.program_id(0) * X0BLOCK + tl.arange(0, X0BLOCK)
    rows = tl.program_id(1) * Y0BLOCK + tl.arange(0, Y0BLOCK)
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    at = rows[:, None] * n_cols + cols[None, :]
    shifts = tl.load(bias + cols, cols < n_cols, 0.0).to(tl.float32)
    values = gelu(tl.load(x + at, mask, 0.0).to(tl.float32) + shifts[None, :])
    values += tl.load(residual + at, mask, 0.0).to(tl.float32)
    tl.store(out + at, values.to(out.dtype.element_ty), mask)


def bias_gelu_add(rows, cols, dtype="float16"):
    """gelu(x + bias) + residual."""
    make = Tensors()
    x, residual = (make.normal(rows, cols, dtype=dtype) for _ in range(2))
    bias = make.normal(cols, dtype=dtype)
    wanted = torch.nn.functional.gelu(x.float() + bias.float()) + residual.float()
    return KernelSpec(
        kernel=bias_gelu_add_kernel,
        args=(x, bias, residual, torch.empty_like(x), rows, cols),
        grid=plane_grid(rows, cols),
        configs=space(PLANE, *FIT),
        check=expect(out=wanted),
        shape={"x0": cols, "y0": rows},
    )


@triton.jit
def geglu_kernel(
    x,
    out,
    n_rows,
    n_cols,
    X0BLOCK: tl.constexpr,
    Y0BLOCK: tl.constexpr,
):
    cols = tl.program_id(0) * X0BLOCK + tl.arange(0, X0BLOCK)
    rows = tl.program_id(1) * Y0BLOCK + tl.arange(0, Y0BLOCK)
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    at = x + rows[:, None] * (2 * n_cols) + cols[None, :]
    values = gelu(tl.load(at, mask, 0.0).to(tl.float32))
    values *= tl.load(at + n_cols, mask, 0.0).to(tl.float32)
    at = out + rows[:, None] * n_cols + cols[None, :]
    tl.store(at, values.to(out.dtype.element_ty), mask)


def geglu(rows, cols, dtype="bfloat16"):
    """gelu of the left half of each row times its right half."""
    make = Tensors()
    x = make.normal(rows, 2 * cols, dtype=dtype)
    left, right = x.float().chunk(2, 1)
    return KernelSpec(
        kernel=geglu_kernel,
        args=(x, make.empty(rows, cols, dtype=dtype), rows, cols),
        grid=plane_grid(rows, cols),
        configs=space(PLANE, *FIT),
        check=expect(out=torch.nn.functional.gelu(left) * right),
        shape={"x0": cols, "y0": rows},
    )


@triton.jit
def adamw_kernel(
    weight,
    grad,
    mean,
    square,
    weight_out,
    mean_out,
    square_out,
    n,
    rate,
    decay,
    beta_1,
    beta_2,
    eps,
    X0BLOCK: tl.constexpr,
    X0BLOCK_SUB: tl.constexpr,
):
    first = tl.program_id(0) * X0BLOCK
    for start in range(first, first + X0BLOCK, X0BLOCK_SUB):
        at = start + tl.arange(0, X0BLOCK_SUB)
        mask = at < n
        grads = tl.load(grad + at, mask, 0.0).to(tl.float32)
        means = tl.load(mean + at, mask, 0.0)
        squares = tl.load(square + at, mask, 0.0)
        weights = tl.load(weight + at, mask, 0.0)
        means = beta_1 * means + (1 - beta_1) * grads
        squares = beta_2 * squares + (1 - beta_2) * grads * grads
        step = means / (1 - beta_1) / (tl.sqrt(squares / (1 - beta_2)) + eps)
        weights = weights * (1 - rate * decay) - rate * step
        tl.store(weight_out + at, weights, mask)
        tl.store(mean_out + at, means, mask)
        tl.store(square_out + at, squares, mask)


def adamw(n, dtype="bfloat16"):
    """The first step of AdamW on n weights."""
    make = Tensors()
    weight, mean = make.normal(n, dtype="float32"), make.normal(n, dtype="float32")
    square = make.uniform(n)
    grad = make.normal(n, dtype=dtype)
    rate, decay, beta_1, beta_2, eps = 0.1, 0.1, 0.9, 0.99, 1e-8
    new_mean = torch.lerp(grad.float(), mean, beta_1)
    new_square = torch.lerp(grad.float() ** 2, square, beta_2)
    step = new_mean / (1 - beta_1) / ((new_square / (1 - beta_2)).sqrt() + eps)
    outputs = (torch.empty_like(weight) for _ in range(3))
    return KernelSpec(
        kernel=adamw_kernel,
        args=(
            *(weight, grad, mean, square, *outputs, n),
            *(rate, decay, beta_1, beta_2, eps),
        ),
        grid=lambda meta: (triton.cdiv(n, meta["X0BLOCK"]),),
        configs=space(
            {
                "X0BLOCK": powers(128, 32768),
                "X0BLOCK_SUB": powers(128, 4096),
                "num_warps": powers(1, 16),
                "num_stages": [1, 2, 3],
            },
            "X0BLOCK_SUB <= X0BLOCK",
            "X0BLOCK <= 32 * X0BLOCK_SUB",
            "X0BLOCK_SUB >= 32 * num_warps",
            "X0BLOCK_SUB <= 512 * num_warps",
        ),
        check=expect(
            weight_out=weight * (1 - rate * decay) - rate * step,
            mean_out=new_mean,
            square_out=new_square,
        ),
        shape={"x0": n},
    )


@triton.jit
def rope_pairs_kernel(
    x,
    out,
    n_rows,
    heads,
    length,
    HALF: tl.constexpr,
    X0BLOCK: tl.constexpr,
    X0BLOCK_SUB: tl.constexpr,
):
    pairs = tl.arange(0, HALF)
    speed = tl.exp2(pairs.to(tl.float32) * (-13.287712379549449 / HALF))
    first = tl.program_id(0) * X0BLOCK
    for start in range(first, first + X0BLOCK, X0BLOCK_SUB):
        rows = start + tl.arange(0, X0BLOCK_SUB)
        position = (rows // heads % length).to(tl.float32)
        angle = position[:, None] * speed[None, :]
        mask = (rows[:, None] < n_rows) & (pairs[None, :] < HALF)
        at = rows[:, None] * (2 * HALF) + 2 * pairs[None, :]
        left = tl.load(x + at, mask, 0.0).to(tl.float32)
        right = tl.load(x + at + 1, mask, 0.0).to(tl.float32)
        cos, sin = tl.cos(angle), tl.sin(angle)
        new_left = left * cos - right * sin
        new_right = left * sin + right * cos
        tl.store(out + at, new_left.to(out.dtype.element_ty), mask)
        tl.store(out + at + 1, new_right.to(out.dtype.element_ty), mask)


def rope_pairs(batch, length, heads, head_size, dtype="bfloat16"):
    """Rotary embedding that turns neighbours and computes its angles itself."""
    make = Tensors()
    x = make.normal(batch, length, heads, head_size, dtype=dtype)
    half, n_rows = head_size // 2, batch * length * heads
    index = torch.arange(half, device=make.device)
    speed = torch.exp2(index.float() * (-math.log2(10000) / half))
    angle = torch.arange(length, device=make.device).float()[:, None, None] * speed
    left, right = x[..., ::2].float(), x[..., 1::2].float()
    cos, sin = angle.cos(), angle.sin()
    turned = [left * cos - right * sin, left * sin + right * cos]
    return KernelSpec(
        kernel=rope_pairs_kernel,
        args=(x, torch.empty_like(x), n_rows, heads, length),
        grid=lambda meta: (triton.cdiv(n_rows, meta["X0BLOCK"]),),
        configs=space(
            {
                "X0BLOCK": powers(1, 512),
                "X0BLOCK_SUB": powers(1, 128),
                "num_warps": powers(1, 16),
                "num_stages": [1, 2],
            },
            "X0BLOCK_SUB <= X0BLOCK",
            "X0BLOCK <= 32 * X0BLOCK_SUB",
            f"X0BLOCK_SUB * {half} >= 32 * num_warps",
            f"X0BLOCK_SUB * {half} <= 512 * num_warps",
        ),
        constants={"HALF": half},
        check=expect(out=torch.stack(turned, -1).flatten(-2)),
        shape={"x0": n_rows, "y0": head_size},
    )


@triton.jit
def split_heads_kernel(
    x,
    bias,
    out,
    length,
    width,
    scale,
    X0BLOCK: tl.constexpr,
    Y0BLOCK: tl.constexpr,
):
    cols = tl.program_id(0) * X0BLOCK + tl.arange(0, X0BLOCK)
    rows = tl.program_id(1) * Y0BLOCK + tl.arange(0, Y0BLOCK)
    base = tl.program_id(2) * length * width
    mask = (rows[:, None] < length) & (cols[None, :] < width)
    values = tl.load(x + base + rows[:, None] * width + cols[None, :], mask, 0.0)
    shifts = tl.load(bias + cols, cols < width, 0.0).to(tl.float32)
    values = (values.to(tl.float32) + shifts[None, :]) * scale
    values = tl.trans(values).to(out.dtype.element_ty)
    mask = (cols[:, None] < width) & (rows[None, :] < length)
    tl.store(out + base + cols[:, None] * length + rows[None, :], values, mask)


def split_heads(batch, length, heads, head_size, dtype="float16"):
    """Keys as decoding wants them: a row for each channel of each head."""
    make = Tensors()
    width = heads * head_size
    x = make.normal(batch, length, width, dtype=dtype)
    bias = make.normal(width, dtype=dtype)
    out = make.empty(batch, heads, head_size, length, dtype=dtype)
    wanted = ((x.float() + bias.float()) * 0.125).mT.reshape(out.shape)
    return KernelSpec(
        kernel=split_heads_kernel,
        args=(x, bias, out, length, width, 0.125),
        grid=lambda meta: (*plane_grid(length, width)(meta), batch),
        configs=space(
            {
                "X0BLOCK": powers(4, 1024),
                "Y0BLOCK": powers(4, 1024),
                "num_warps": powers(1, 16),
            },
            *FIT,
        ),
        check=expect(out=wanted),
        shape={"batch": batch, "x0": width, "y0": length},
    )


@triton.jit
def transpose_quantise_kernel(
    x,
    scales,
    out,
    n_rows,
    n_cols,
    X0BLOCK: tl.constexpr,
    Y0BLOCK: tl.constexpr,
):
    cols = tl.program_id(0) * X0BLOCK + tl.arange(0, X0BLOCK)
    rows = tl.program_id(1) * Y0BLOCK + tl.arange(0, Y0BLOCK)
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    values = tl.load(x + rows[:, None] * n_cols + cols[None, :], mask, 0.0)
    scale = tl.load(scales + cols, cols < n_cols, 1.0)
    values = tl.floor(values.to(tl.float32) / scale[None, :] + 0.5)
    values = tl.minimum(tl.maximum(values, -127.0), 127.0)
    values = tl.trans(values.to(tl.int8))
    mask = (cols[:, None] < n_cols) & (rows[None, :] < n_rows)
    tl.store(out + cols[:, None] * n_rows + rows[None, :], values, mask)


def transpose_quantise(rows, cols, dtype="bfloat16"):
    """The transpose of a matrix in 8 bits, with a given scale for each column."""
    make = Tensors()
    x = make.normal(rows, cols, dtype=dtype)
    scales = make.uniform(cols, low=0.02, high=0.04)
    wanted = (x.float() / scales).round().clamp(-127, 127).T
    return KernelSpec(
        kernel=transpose_quantise_kernel,
        args=(x, scales, make.empty(cols, rows, dtype="int8"), rows, cols),
        grid=plane_grid(rows, cols),
        configs=space(
            {
                "X0BLOCK": powers(4, 1024),
                "Y0BLOCK": powers(4, 1024),
                "num_warps": powers(1, 16),
            },
            *FIT,
        ),
        check=expect(out=wanted),
        shape={"x0": cols, "y0": rows},
    )
