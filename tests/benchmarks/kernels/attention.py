"""Attention: forward, the two kernels of its backward pass, and decoding."""

import math

import torch
import triton
import triton.language as tl

from fasta_learn.oracles import KernelSpec

from ._common import Tensors, arrives_last, expect, load_tile, space

LOG2_E = math.log2(math.e)
QUERY_TILES = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [16, 32, 64, 128],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2, 3, 4, 5],
}


@triton.jit
def attention_kernel(
    q,
    k,
    v,
    out,
    log_total,
    length,
    scale,
    HEAD: tl.constexpr,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    head = tl.program_id(1)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, HEAD)
    base = head * length * HEAD
    queries = load_tile(q + base, rows, dims, length, HEAD, HEAD, 1)
    top = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD), tl.float32)
    stop = length
    if CAUSAL:
        stop = tl.minimum(length, (tl.program_id(0) + 1) * BLOCK_M)
    for start in range(0, stop, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        keys = load_tile(k + base, dims, cols, HEAD, length, 1, HEAD)
        scores = tl.dot(queries, keys) * scale
        seen = cols[None, :] < length
        if CAUSAL:
            seen = seen & (cols[None, :] <= rows[:, None])
        scores = tl.where(seen, scores, -float("inf"))
        # The first block has a key for every row, so the maximum is finite.
        new_top = tl.maximum(top, tl.max(scores, 1))
        weights = tl.exp2(scores - new_top[:, None])
        keep = tl.exp2(top - new_top)
        total = total * keep + tl.sum(weights, 1)
        values = load_tile(v + base, cols, dims, length, HEAD, HEAD, 1)
        acc = tl.dot(weights.to(values.dtype), values, acc * keep[:, None])
        top = new_top
    acc = acc / total[:, None]
    at = out + base + rows[:, None] * HEAD + dims[None, :]
    tl.store(at, acc.to(out.dtype.element_ty), rows[:, None] < length)
    tl.store(log_total + head * length + rows, top + tl.log2(total), rows < length)


@triton.jit
def attention_dq_kernel(
    q,
    k,
    v,
    grad,
    log_total,
    delta,
    dq,
    length,
    scale,
    HEAD: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    head = tl.program_id(1)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, HEAD)
    base = head * length * HEAD
    queries = load_tile(q + base, rows, dims, length, HEAD, HEAD, 1)
    grads = load_tile(grad + base, rows, dims, length, HEAD, HEAD, 1)
    log_totals = tl.load(log_total + head * length + rows, rows < length, 0.0)
    deltas = tl.load(delta + head * length + rows, rows < length, 0.0)
    acc = tl.zeros((BLOCK_M, HEAD), tl.float32)
    for start in range(0, length, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        keys = load_tile(k + base, dims, cols, HEAD, length, 1, HEAD)
        values = load_tile(v + base, dims, cols, HEAD, length, 1, HEAD)
        weights = tl.exp2(tl.dot(queries, keys) * scale - log_totals[:, None])
        steps = weights * (tl.dot(grads, values) - deltas[:, None])
        # Keys beyond the end are zeros, and so add nothing.
        acc = tl.dot(steps.to(keys.dtype), tl.trans(keys), acc)
    acc = acc * (scale / 1.4426950408889634)
    at = dq + base + rows[:, None] * HEAD + dims[None, :]
    tl.store(at, acc.to(dq.dtype.element_ty), rows[:, None] < length)


@triton.jit
def attention_dkv_kernel(
    q,
    k,
    v,
    grad,
    log_total,
    delta,
    dk,
    dv,
    length,
    scale,
    HEAD: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    head = tl.program_id(1)
    first = tl.program_id(0) * BLOCK_N
    cols = first + tl.arange(0, BLOCK_N)
    dims = tl.arange(0, HEAD)
    base = head * length * HEAD
    keys = load_tile(k + base, cols, dims, length, HEAD, HEAD, 1)
    values = load_tile(v + base, cols, dims, length, HEAD, HEAD, 1)
    dk_acc = tl.zeros((BLOCK_N, HEAD), tl.float32)
    dv_acc = tl.zeros((BLOCK_N, HEAD), tl.float32)
    # Earlier queries don't see these keys.
    for start in range(first // BLOCK_M * BLOCK_M, length, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        queries = load_tile(q + base, rows, dims, length, HEAD, HEAD, 1)
        grads = load_tile(grad + base, rows, dims, length, HEAD, HEAD, 1)
        log_totals = tl.load(log_total + head * length + rows, rows < length, 0.0)
        deltas = tl.load(delta + head * length + rows, rows < length, 0.0)
        scores = tl.dot(keys, tl.trans(queries)) * scale - log_totals[None, :]
        seen = (cols[:, None] <= rows[None, :]) & (rows[None, :] < length)
        weights = tl.where(seen, tl.exp2(scores), 0.0)
        dv_acc = tl.dot(weights.to(grads.dtype), grads, dv_acc)
        steps = weights * (tl.dot(values, tl.trans(grads)) - deltas[None, :])
        dk_acc = tl.dot(steps.to(queries.dtype), queries, dk_acc)
    dk_acc = dk_acc * (scale / 1.4426950408889634)
    at = base + cols[:, None] * HEAD + dims[None, :]
    mask = cols[:, None] < length
    tl.store(dk + at, dk_acc.to(dk.dtype.element_ty), mask)
    tl.store(dv + at, dv_acc.to(dv.dtype.element_ty), mask)


class Attention:
    """Inputs of attention, and what its forward and backward pass must give."""

    def __init__(self, heads, length, head_size, causal, dtype):
        make = Tensors()
        self.scale = head_size**-0.5
        inputs = [make.normal(heads, length, head_size, dtype=dtype) for _ in range(4)]
        self.q, self.k, self.v, self.grad = inputs
        q, k, v = (x.double().requires_grad_() for x in inputs[:3])
        scores = q @ k.mT * self.scale
        if causal:
            later = torch.ones(length, length, device=make.device).triu(1).bool()
            scores = scores.masked_fill(later, -math.inf)
        self.out = scores.softmax(-1) @ v
        self.out.backward(self.grad.double())
        self.out = self.out.detach()
        self.dq, self.dk, self.dv = q.grad, k.grad, v.grad
        self.log_total = scores.detach().logsumexp(-1).mul(LOG2_E).float()
        self.delta = (self.out * self.grad.double()).sum(-1).float()

    def empty(self):
        return torch.empty_like(self.q)


def attention(heads, length, head_size, causal=False, dtype="float16"):
    """Attention, forward, with the sums that a backward pass needs."""
    data = Attention(heads, length, head_size, causal, dtype)
    return KernelSpec(
        kernel=attention_kernel,
        args=(
            data.q,
            data.k,
            data.v,
            data.empty(),
            torch.empty_like(data.log_total),
            length,
            data.scale * LOG2_E,
        ),
        grid=lambda meta: (triton.cdiv(length, meta["BLOCK_M"]), heads),
        configs=space(
            QUERY_TILES,
            "BLOCK_M * BLOCK_N <= 4096 * num_warps",
            f"BLOCK_M * {head_size} <= 4096 * num_warps",
            "BLOCK_M >= 4 * num_warps",
        ),
        constants={"HEAD": head_size, "CAUSAL": causal},
        check=expect(out=data.out, log_total=data.log_total),
        shape={"heads": heads, "m": length, "n": length, "k": head_size},
    )


def attention_dq(heads, length, head_size, dtype="bfloat16"):
    """Backward pass of attention: the gradient of the queries."""
    data = Attention(heads, length, head_size, False, dtype)
    inputs = (data.q, data.k, data.v, data.grad, data.log_total, data.delta)
    return KernelSpec(
        kernel=attention_dq_kernel,
        args=(*inputs, data.empty(), length, data.scale * LOG2_E),
        grid=lambda meta: (triton.cdiv(length, meta["BLOCK_M"]), heads),
        configs=space(
            QUERY_TILES,
            "BLOCK_M * BLOCK_N <= 2048 * num_warps",
            f"BLOCK_M * {head_size} <= 4096 * num_warps",
            "BLOCK_M >= 4 * num_warps",
        ),
        constants={"HEAD": head_size},
        check=expect(dq=data.dq),
        shape={"heads": heads, "m": length, "n": length, "k": head_size},
    )


def attention_dkv(heads, length, head_size, dtype="float16"):
    """Backward pass of causal attention: the gradients of keys and values."""
    data = Attention(heads, length, head_size, True, dtype)
    inputs = (data.q, data.k, data.v, data.grad, data.log_total, data.delta)
    return KernelSpec(
        kernel=attention_dkv_kernel,
        args=(*inputs, data.empty(), data.empty(), length, data.scale * LOG2_E),
        grid=lambda meta: (triton.cdiv(length, meta["BLOCK_N"]), heads),
        configs=space(
            QUERY_TILES,
            "BLOCK_M * BLOCK_N <= 2048 * num_warps",
            f"BLOCK_N * {head_size} <= 2048 * num_warps",
            "BLOCK_N >= 4 * num_warps",
        ),
        constants={"HEAD": head_size},
        check=expect(dk=data.dk, dv=data.dv),
        shape={"heads": heads, "m": length, "n": length, "k": head_size},
    )


@triton.jit
def decode_attention_kernel(
    q,
    k,
    v,
    out,
    partial,
    partial_top,
    partial_total,
    counters,
    length,
    scale,
    QUERIES: tl.constexpr,
    HEAD: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    SPLIT_K: tl.constexpr,
):
    head, split = tl.program_id(0), tl.program_id(1)
    rows, dims = tl.arange(0, BLOCK_M), tl.arange(0, HEAD)
    k += head * length * HEAD
    v += head * length * HEAD
    queries = load_tile(q + head * QUERIES * HEAD, rows, dims, QUERIES, HEAD, HEAD, 1)
    # No score is below this, so a part without keys has the weight zero.
    top = tl.full((BLOCK_M,), -1e30, tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD), tl.float32)
    for start in range(split * BLOCK_N, length, SPLIT_K * BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        keys = load_tile(k, dims, cols, HEAD, length, 1, HEAD)
        scores = tl.dot(queries, keys) * scale
        scores = tl.where(cols[None, :] < length, scores, -float("inf"))
        new_top = tl.maximum(top, tl.max(scores, 1))
        weights = tl.exp2(scores - new_top[:, None])
        keep = tl.exp2(top - new_top)
        total = total * keep + tl.sum(weights, 1)
        values = load_tile(v, cols, dims, length, HEAD, HEAD, 1)
        acc = tl.dot(weights.to(values.dtype), values, acc * keep[:, None])
        top = new_top
    at = rows[:, None] * HEAD + dims[None, :]
    mask = rows[:, None] < QUERIES
    part = (head * SPLIT_K + split) * BLOCK_M
    tl.store(partial + part * HEAD + at, acc)
    tl.store(partial_top + part + rows, top)
    tl.store(partial_total + part + rows, total)
    if arrives_last(counters + head, SPLIT_K):
        all_top = tl.full((BLOCK_M,), -1e30, tl.float32)
        all_total = tl.zeros((BLOCK_M,), tl.float32)
        all_acc = tl.zeros((BLOCK_M, HEAD), tl.float32)
        for other in range(SPLIT_K):
            part = (head * SPLIT_K + other) * BLOCK_M
            part_top = tl.load(partial_top + part + rows, cache_modifier=".cg")
            part_total = tl.load(partial_total + part + rows, cache_modifier=".cg")
            part_acc = tl.load(partial + part * HEAD + at, cache_modifier=".cg")
            new_top = tl.maximum(all_top, part_top)
            keep, weight = tl.exp2(all_top - new_top), tl.exp2(part_top - new_top)
            all_total = all_total * keep + part_total * weight
            all_acc = all_acc * keep[:, None] + part_acc * weight[:, None]
            all_top = new_top
        result = (all_acc / all_total[:, None]).to(out.dtype.element_ty)
        tl.store(out + head * QUERIES * HEAD + at, result, mask)


def decode_attention(heads, queries, length, head_size, dtype="float16"):
    """A few queries that share each head's keys, which several programs split."""
    make = Tensors()
    q = make.normal(heads, queries, head_size, dtype=dtype)
    k = make.normal(heads, length, head_size, dtype=dtype)
    v = make.normal(heads, length, head_size, dtype=dtype, scale=4)
    scale = head_size**-0.5
    wanted = (q.float() @ k.float().mT * scale).softmax(-1) @ v.float()
    most = 64 * 32 * heads
    return KernelSpec(
        kernel=decode_attention_kernel,
        args=(
            q,
            k,
            v,
            torch.empty_like(q),
            make.zeros(most, head_size),
            make.zeros(most),
            make.zeros(most),
            make.zeros(heads, dtype="int32"),
            length,
            scale * LOG2_E,
        ),
        grid=lambda meta: (heads, meta["SPLIT_K"]),
        configs=space(
            {
                "BLOCK_M": [16, 32],
                "BLOCK_N": [16, 32, 64, 128],
                "SPLIT_K": [1, 2, 4, 8, 16, 32, 64],
                "num_warps": [1, 2, 4, 8],
                "num_stages": [1, 2, 3, 4],
            },
            f"BLOCK_M >= {queries}",
            "BLOCK_M * BLOCK_N >= 128 * num_warps",
            f"BLOCK_N * {head_size} <= 4096 * num_warps",
        ),
        constants={"QUERIES": queries, "HEAD": head_size},
        check=expect(out=wanted),
        shape={"heads": heads, "m": queries, "n": length, "k": head_size},
    )
