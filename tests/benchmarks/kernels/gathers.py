"""Looking rows up in a table, adding rows to a table, and counting values."""

import torch
import triton
import triton.language as tl

from fasta_learn.oracles import KernelSpec

from ._common import Tensors, expect, powers, space

LOOKUP = {
    "X0BLOCK": powers(1, 64),
    "X0BLOCK_SUB": powers(1, 16),
    "Y0BLOCK": powers(32, 1024),
    "num_warps": powers(1, 8),
}
FIT = (
    "X0BLOCK_SUB <= X0BLOCK",
    "X0BLOCK_SUB * Y0BLOCK >= 32 * num_warps",
    "X0BLOCK_SUB * Y0BLOCK <= 1024 * num_warps",
)


@triton.jit
def embedding_kernel(
    tokens,
    table,
    positions,
    out,
    n_tokens,
    length,
    width,
    X0BLOCK: tl.constexpr,
    X0BLOCK_SUB: tl.constexpr,
    Y0BLOCK: tl.constexpr,
):
    cols = tl.program_id(1) * Y0BLOCK + tl.arange(0, Y0BLOCK)
    for sub in range(0, X0BLOCK, X0BLOCK_SUB):
        rows = tl.program_id(0) * X0BLOCK + sub + tl.arange(0, X0BLOCK_SUB)
        mask = (rows[:, None] < n_tokens) & (cols[None, :] < width)
        token = tl.load(tokens + rows, rows < n_tokens, 0)
        place = rows % length
        at = table + token[:, None] * width + cols[None, :]
        values = tl.load(at, mask, 0.0).to(tl.float32)
        at = positions + place[:, None] * width + cols[None, :]
        values += tl.load(at, mask, 0.0).to(tl.float32)
        at = out + rows[:, None] * width + cols[None, :]
        tl.store(at, values.to(out.dtype.element_ty), mask)


def embedding(n_tokens, length, vocabulary, width, dtype="bfloat16"):
    """Rows of a table, looked up by token, plus those of the position."""
    make = Tensors()
    tokens = make.integers(0, vocabulary, n_tokens)
    table = make.normal(vocabulary, width, dtype=dtype)
    positions = make.normal(length, width, dtype=dtype)
    place = torch.arange(n_tokens, device=make.device) % length
    out = make.empty(n_tokens, width, dtype=dtype)
    return KernelSpec(
        kernel=embedding_kernel,
        args=(tokens, table, positions, out, n_tokens, length, width),
        grid=lambda meta: (
            triton.cdiv(n_tokens, meta["X0BLOCK"]),
            triton.cdiv(width, meta["Y0BLOCK"]),
        ),
        configs=space(LOOKUP, *FIT),
        check=expect(out=table[tokens.long()].float() + positions[place].float()),
        shape={"x0": n_tokens, "y0": width},
    )


@triton.jit
def scatter_add_kernel(
    tokens,
    grad,
    table,
    n_tokens,
    width,
    X0BLOCK: tl.constexpr,
    X0BLOCK_SUB: tl.constexpr,
    Y0BLOCK: tl.constexpr,
):
    cols = tl.program_id(1) * Y0BLOCK + tl.arange(0, Y0BLOCK)
    for sub in range(0, X0BLOCK, X0BLOCK_SUB):
        rows = tl.program_id(0) * X0BLOCK + sub + tl.arange(0, X0BLOCK_SUB)
        mask = (rows[:, None] < n_tokens) & (cols[None, :] < width)
        token = tl.load(tokens + rows, rows < n_tokens, 0)
        values = tl.load(grad + rows[:, None] * width + cols[None, :], mask, 0.0)
        at = table + token[:, None] * width + cols[None, :]
        tl.atomic_add(at, values.to(tl.float32), mask, sem="relaxed")


def scatter_add(n_tokens, vocabulary, width, dtype="float16"):
    """Backward pass of a lookup: rows are added to the table by atomics."""
    make = Tensors()
    # The cube makes small tokens frequent, as words are.
    tokens = (make.uniform(n_tokens) ** 3 * vocabulary).int()
    grad = make.normal(n_tokens, width, dtype=dtype)
    wanted = make.zeros(vocabulary, width, dtype="float64")
    wanted.index_add_(0, tokens.long(), grad.double())
    return KernelSpec(
        kernel=scatter_add_kernel,
        args=(tokens, grad, make.zeros(vocabulary, width), n_tokens, width),
        grid=lambda meta: (
            triton.cdiv(n_tokens, meta["X0BLOCK"]),
            triton.cdiv(width, meta["Y0BLOCK"]),
        ),
        configs=space(LOOKUP, *FIT),
        reset_to_zero=("table",),
        check=expect(table=wanted),
        shape={"x0": n_tokens, "y0": width},
    )


@triton.jit
def histogram_kernel(
    x,
    counts,
    n,
    BINS: tl.constexpr,
    X0BLOCK: tl.constexpr,
    N_BLOCKS: tl.constexpr,
):
    bins = tl.arange(0, BINS)
    acc = tl.zeros((BINS,), tl.int32)
    first = tl.program_id(0) * N_BLOCKS * X0BLOCK
    for start in range(first, first + N_BLOCKS * X0BLOCK, X0BLOCK):
        at = start + tl.arange(0, X0BLOCK)
        values = tl.load(x + at, at < n, 0).to(tl.int32)
        acc += tl.histogram(values, BINS)
    # Elements beyond the end were counted as zeros.
    beyond = first + N_BLOCKS * X0BLOCK - n
    acc -= tl.where(bins == 0, tl.maximum(beyond, 0), 0)
    tl.atomic_add(counts + bins, acc, sem="relaxed")


def histogram(n, bins=256):
    """Counts of the values of bytes; each program adds its own by atomics."""
    make = Tensors()
    x = make.integers(0, bins, n, dtype="uint8")
    counts = make.zeros(bins, dtype="int32")
    return KernelSpec(
        kernel=histogram_kernel,
        args=(x, counts, n),
        grid=lambda meta: (triton.cdiv(n, meta["X0BLOCK"] * meta["N_BLOCKS"]),),
        configs=space(
            {
                "X0BLOCK": powers(128, 8192),
                "N_BLOCKS": powers(1, 64),
                "num_warps": powers(1, 8),
                "num_stages": [1, 2, 3],
            },
            "X0BLOCK >= 32 * num_warps",
            "X0BLOCK <= 2048 * num_warps",
            # Less makes too many programs that each add all bins.
            "X0BLOCK * N_BLOCKS >= 4096",
        ),
        constants={"BINS": bins},
        reset_to_zero=("counts",),
        check=expect(counts=torch.bincount(x.long(), minlength=bins)),
        shape={"x0": n},
    )


@triton.jit
def expert_choice_kernel(
    logits,
    weights_out,
    experts_out,
    n_tokens,
    n_experts,
    TOP: tl.constexpr,
    WIDTH: tl.constexpr,
    X0BLOCK: tl.constexpr,
    X0BLOCK_SUB: tl.constexpr,
):
    cols = tl.arange(0, WIDTH)
    for sub in range(0, X0BLOCK, X0BLOCK_SUB):
        rows = tl.program_id(0) * X0BLOCK + sub + tl.arange(0, X0BLOCK_SUB)
        inside = rows < n_tokens
        mask = inside[:, None] & (cols[None, :] < n_experts)
        at = logits + rows[:, None] * n_experts + cols[None, :]
        values = tl.load(at, mask, -1e30).to(tl.float32)
        top = tl.max(values, 1)
        total = tl.sum(tl.exp(values - top[:, None]), 1)
        for rank in tl.static_range(TOP):
            best = tl.max(values, 1)
            place = tl.argmax(values, 1)
            weight = tl.exp(best - top) / total
            tl.store(weights_out + rows * TOP + rank, weight, inside)
            tl.store(experts_out + rows * TOP + rank, place, inside)
            values = tl.where(cols[None, :] == place[:, None], -1e30, values)


def expert_choice(tokens, experts, top):
    """The most likely experts of each token and their probabilities."""
    make = Tensors()
    # No two are equal, so there is one right choice.
    logits = make.uniform(tokens, experts).argsort(1).float() * (6 / experts)
    best = logits.softmax(1).topk(top, 1)
    outputs = make.zeros(tokens, top), make.zeros(tokens, top, dtype="int32")
    return KernelSpec(
        kernel=expert_choice_kernel,
        args=(logits, *outputs, tokens, experts),
        grid=lambda meta: (triton.cdiv(tokens, meta["X0BLOCK"]),),
        configs=space(
            {
                "X0BLOCK": powers(1, 128),
                "X0BLOCK_SUB": powers(1, 128),
                "num_warps": powers(1, 8),
                "num_stages": [1, 2, 3],
            },
            "X0BLOCK_SUB <= X0BLOCK",
            f"X0BLOCK_SUB * {experts} >= 32 * num_warps",
            f"X0BLOCK_SUB * {experts} <= 1024 * num_warps",
        ),
        constants={"TOP": top, "WIDTH": triton.next_power_of_2(experts)},
        check=expect(weights_out=best.values, experts_out=best.indices),
        shape={"x0": tokens, "r0": experts},
    )
