"""Convolutions: 2-D as a matrix product, 1-D of each channel by itself, pooling."""

import torch
import triton
import triton.language as tl

from fasta_learn.oracles import KernelSpec

from ._common import Tensors, expect, grouped_tile, powers, space, tiles


@triton.jit
def conv2d_kernel(
    x,
    weight,
    out,
    images,
    height,
    width,
    channels,
    out_height,
    out_width,
    filters,
    SIZE: tl.constexpr,
    STRIDE: tl.constexpr,
    PADDING: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    n_pixels = images * out_height * out_width
    tile_m, tile_n = grouped_tile(
        tl.program_id(0), tl.cdiv(n_pixels, BLOCK_M), tl.cdiv(filters, BLOCK_N), GROUP_M
    )
    pixels = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    image = pixels // (out_height * out_width)
    top = pixels // out_width % out_height * STRIDE - PADDING
    left = pixels % out_width * STRIDE - PADDING
    n_steps = tl.cdiv(channels, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(SIZE * SIZE * n_steps):
        tap = step // n_steps
        ks = step % n_steps * BLOCK_K + tl.arange(0, BLOCK_K)
        y, z = top + tap // SIZE, left + tap % SIZE
        inside = (pixels < n_pixels) & (y >= 0) & (y < height) & (z >= 0) & (z < width)
        at = ((image * height + y) * width + z) * channels
        mask = inside[:, None] & (ks[None, :] < channels)
        values = tl.load(x + at[:, None] + ks[None, :], mask, 0.0)
        mask = (ks[:, None] < channels) & (cols[None, :] < filters)
        at = weight + (tap * channels + ks)[:, None] * filters + cols[None, :]
        acc = tl.dot(values, tl.load(at, mask, 0.0), acc)
    mask = (pixels[:, None] < n_pixels) & (cols[None, :] < filters)
    at = out + pixels[:, None] * filters + cols[None, :]
    tl.store(at, acc.to(out.dtype.element_ty), mask)


def conv2d(images, side, channels, filters, size=3, stride=1, dtype="float16"):
    """Convolution of square images, channels last, padded to keep their size."""
    make = Tensors()
    depth = size * size * channels
    x = make.normal(images, side, side, channels, dtype=dtype, scale=depth**-0.25)
    weight = make.normal(size, size, channels, filters, dtype=dtype)
    weight = weight * depth**-0.25
    wanted = torch.nn.functional.conv2d(
        x.permute(0, 3, 1, 2).double(),
        weight.permute(3, 2, 0, 1).double(),
        stride=stride,
        padding=size // 2,
    ).permute(0, 2, 3, 1)
    out_side = wanted.shape[1]
    out = make.empty(images, out_side, out_side, filters, dtype=dtype)
    n_pixels = images * out_side**2
    sizes = (images, side, side, channels, out_side, out_side, filters)
    return KernelSpec(
        kernel=conv2d_kernel,
        args=(x, weight, out, *sizes),
        grid=lambda meta: (
            triton.cdiv(n_pixels, meta["BLOCK_M"])
            * triton.cdiv(filters, meta["BLOCK_N"]),
        ),
        configs=tiles(
            "BLOCK_M * BLOCK_K <= 2048 * num_warps",
            "BLOCK_N * BLOCK_K <= 2048 * num_warps",
        ),
        constants={"SIZE": size, "STRIDE": stride, "PADDING": size // 2},
        check=expect(out=wanted),
        shape={"m": n_pixels, "n": filters, "k": depth},
    )


@triton.jit
def causal_conv1d_kernel(
    x,
    weight,
    bias,
    out,
    channels,
    length,
    SIZE: tl.constexpr,
    X0BLOCK: tl.constexpr,
    Y0BLOCK: tl.constexpr,
):
    times = tl.program_id(0) * X0BLOCK + tl.arange(0, X0BLOCK)
    rows = tl.program_id(1) * Y0BLOCK + tl.arange(0, Y0BLOCK)
    inside = rows < channels
    at = (tl.program_id(2) * channels + rows)[:, None] * length + times[None, :]
    shift = tl.load(bias + rows, inside, 0.0).to(tl.float32)
    acc = tl.zeros((Y0BLOCK, X0BLOCK), tl.float32) + shift[:, None]
    for tap in tl.static_range(SIZE):
        back = SIZE - 1 - tap
        mask = inside[:, None] & (times >= back)[None, :] & (times < length)[None, :]
        factor = tl.load(weight + rows * SIZE + tap, inside, 0.0).to(tl.float32)
        values = tl.load(x + at - back, mask, 0.0).to(tl.float32)
        acc += values * factor[:, None]
    acc = acc * tl.sigmoid(acc)
    mask = inside[:, None] & (times < length)[None, :]
    tl.store(out + at, acc.to(out.dtype.element_ty), mask)


def causal_conv1d(batch, channels, length, size=4, dtype="bfloat16"):
    """Silu of a convolution of each channel by itself with what came before."""
    make = Tensors()
    x = make.normal(batch, channels, length, dtype=dtype)
    weight = make.normal(channels, size, dtype=dtype, scale=0.5)
    bias = make.normal(channels, dtype=dtype)
    padded = torch.nn.functional.pad(x.float(), (size - 1, 0))
    windows = padded.unfold(-1, size, 1)
    wanted = (windows * weight.float()[:, None]).sum(-1) + bias.float()[:, None]
    return KernelSpec(
        kernel=causal_conv1d_kernel,
        args=(x, weight, bias, torch.empty_like(x), channels, length),
        grid=lambda meta: (
            triton.cdiv(length, meta["X0BLOCK"]),
            triton.cdiv(channels, meta["Y0BLOCK"]),
            batch,
        ),
        configs=space(
            {
                "X0BLOCK": powers(8, 2048),
                "Y0BLOCK": powers(1, 128),
                "num_warps": powers(1, 16),
            },
            "X0BLOCK * Y0BLOCK >= 32 * num_warps",
            "X0BLOCK * Y0BLOCK <= 2048 * num_warps",
        ),
        constants={"SIZE": size},
        check=expect(out=torch.nn.functional.silu(wanted)),
        shape={"batch": batch, "y0": channels, "x0": length},
    )


@triton.jit
def max_pool_kernel(
    x,
    out,
    n_pixels,
    height,
    width,
    out_height,
    out_width,
    channels,
    X0BLOCK: tl.constexpr,
    Y0BLOCK: tl.constexpr,
):
    pixels = tl.program_id(0) * X0BLOCK + tl.arange(0, X0BLOCK)
    cols = tl.program_id(1) * Y0BLOCK + tl.arange(0, Y0BLOCK)
    image = pixels // (out_height * out_width)
    top = pixels // out_width % out_height * 2 - 1
    left = pixels % out_width * 2 - 1
    best = tl.full((X0BLOCK, Y0BLOCK), -float("inf"), tl.float32)
    for dy in tl.static_range(3):
        for dz in tl.static_range(3):
            y, z = top + dy, left + dz
            inside = (y >= 0) & (y < height) & (z >= 0) & (z < width)
            mask = (inside & (pixels < n_pixels))[:, None] & (cols < channels)[None, :]
            at = ((image * height + y) * width + z)[:, None] * channels + cols[None, :]
            values = tl.load(x + at, mask, -float("inf")).to(tl.float32)
            best = tl.maximum(best, values)
    mask = (pixels < n_pixels)[:, None] & (cols < channels)[None, :]
    at = out + pixels[:, None] * channels + cols[None, :]
    tl.store(at, best.to(out.dtype.element_ty), mask)


def max_pool(images, side, channels, dtype="float16"):
    """The largest value in windows of 3 x 3 every two pixels, channels last."""
    make = Tensors()
    x = make.normal(images, side, side, channels, dtype=dtype)
    wanted = torch.nn.functional.max_pool2d(
        x.permute(0, 3, 1, 2).float(), 3, stride=2, padding=1
    ).permute(0, 2, 3, 1)
    out_side = wanted.shape[1]
    out = make.empty(*wanted.shape, dtype=dtype)
    n_pixels = images * out_side**2
    sizes = (n_pixels, side, side, out_side, out_side, channels)
    return KernelSpec(
        kernel=max_pool_kernel,
        args=(x, out, *sizes),
        grid=lambda meta: (
            triton.cdiv(n_pixels, meta["X0BLOCK"]),
            triton.cdiv(channels, meta["Y0BLOCK"]),
        ),
        configs=space(
            {
                "X0BLOCK": powers(1, 256),
                "Y0BLOCK": powers(4, 512),
                "num_warps": powers(1, 16),
            },
            "X0BLOCK * Y0BLOCK >= 32 * num_warps",
            "X0BLOCK * Y0BLOCK <= 1024 * num_warps",
        ),
        check=expect(out=wanted),
        shape={"x0": n_pixels, "y0": channels},
    )
