"""Kernels of the tests, in a module that a child process can import too."""

import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x, y, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK <= 4096, "BLOCK is too large")
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < n
    tl.store(y + places, 2 * tl.load(x + places, mask=inside), mask=inside)


def scale(args):
    """Write what `scale_kernel` computes."""
    args["y"].copy_(2 * args["x"])


@triton.jit
def accumulate_kernel(x, y, n, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < n
    total = tl.load(x + places, mask=inside) + tl.load(y + places, mask=inside)
    tl.store(y + places, total, mask=inside)


def accumulate(args):
    """Write what `accumulate_kernel` computes."""
    args["y"].add_(args["x"])


@triton.jit
def broken_kernel(x, y, n, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    wrong = tl.load(x + places) + tl.arange(0, 2 * BLOCK)
    tl.store(y + places, wrong)


@triton.jit
def options_kernel(
    x, y, n, bias=None, FACTOR: tl.constexpr = 3, BLOCK: tl.constexpr = 64
):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = FACTOR * tl.load(x + places, mask=places < n)
    if bias is not None:
        values += tl.load(bias + places, mask=places < n)
    tl.store(y + places, values, mask=places < n)


def options(args):
    """Write what `options_kernel` computes."""
    bias = 0 if args["bias"] is None else args["bias"]
    args["y"].copy_(args["FACTOR"] * args["x"] + bias)


@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def heuristic_kernel(x, y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(y + places, 2 * tl.load(x + places))
    else:
        inside = places < n
        tl.store(y + places, 2 * tl.load(x + places, mask=inside), mask=inside)


@triton.autotune(configs=[triton.Config({"BLOCK": 64})], key=["n"], restore_value=["y"])
@triton.jit
def tuned_kernel(x, y, n, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < n
    total = tl.load(x + places, mask=inside) + tl.load(y + places, mask=inside)
    tl.store(y + places, total, mask=inside)


@triton.jit
def descriptor_kernel(source, target, M: tl.constexpr, N: tl.constexpr):
    target.store([0, 0], source.load([0, 0]))


@triton.jit
def matmul_kernel(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    a_places = a + rows[:, None] * K + inner[None, :]
    b_places = b + inner[:, None] * N + columns[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        total = tl.dot(tl.load(a_places), tl.load(b_places), total)
        a_places += BK
        b_places += BK * N
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.float16))


def matmul(args):
    """Write what `matmul_kernel` computes."""
    args["c"].copy_(torch.matmul(args["a"].float(), args["b"].float()))


@triton.jit
def scratch_kernel(x, y, N: tl.constexpr, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [N, N], [N, 1], [BLOCK, BLOCK])
    target = tl.make_tensor_descriptor(y, [N, N], [N, 1], [BLOCK, BLOCK])
    target.store([0, 0], source.load([0, 0]))
