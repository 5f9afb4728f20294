"""Kernels of the pools in validation_pools/ and confirmation_pools/."""

import triton
import triton.language as tl


@triton.jit
def softmax_kernel(
    x,
    out,
    M,
    N,
    X0BLOCK: tl.constexpr,
    X0BLOCK_SUB: tl.constexpr,
    R0BLOCK: tl.constexpr,
):
    for sub in range(X0BLOCK // X0BLOCK_SUB):
        rows = (
            tl.program_id(0) * X0BLOCK + sub * X0BLOCK_SUB + tl.arange(0, X0BLOCK_SUB)
        )
        top = tl.full((X0BLOCK_SUB,), -float("inf"), tl.float32)
        total = tl.zeros((X0BLOCK_SUB,), tl.float32)
        for start in range(0, N, R0BLOCK):
            cols = start + tl.arange(0, R0BLOCK)
            mask = (rows[:, None] < M) & (cols[None, :] < N)
            v = tl.load(x + rows[:, None] * N + cols[None, :], mask, -float("inf"))
            v = v.to(tl.float32)
            new = tl.maximum(top, tl.max(v, 1))
            total = total * tl.exp(top - new) + tl.sum(tl.exp(v - new[:, None]), 1)
            top = new
        for start in range(0, N, R0BLOCK):
            cols = start + tl.arange(0, R0BLOCK)
            mask = (rows[:, None] < M) & (cols[None, :] < N)
            v = tl.load(x + rows[:, None] * N + cols[None, :], mask, 0.0).to(tl.float32)
            v = tl.exp(v - top[:, None]) / total[:, None]
            tl.store(out + rows[:, None] * N + cols[None, :], v.to(tl.float16), mask)


@triton.jit
def layernorm_kernel(
    x,
    y,
    out,
    M,
    N,
    X0BLOCK: tl.constexpr,
    X0BLOCK_SUB: tl.constexpr,
    R0BLOCK: tl.constexpr,
):
    for sub in range(X0BLOCK // X0BLOCK_SUB):
        rows = (
            tl.program_id(0) * X0BLOCK + sub * X0BLOCK_SUB + tl.arange(0, X0BLOCK_SUB)
        )
        s1 = tl.zeros((X0BLOCK_SUB,), tl.float32)
        s2 = tl.zeros((X0BLOCK_SUB,), tl.float32)
        for start in range(0, N, R0BLOCK):
            cols = start + tl.arange(0, R0BLOCK)
            mask = (rows[:, None] < M) & (cols[None, :] < N)
            at = rows[:, None] * N + cols[None, :]
            v = tl.load(x + at, mask, 0.0).to(tl.float32)
            v += tl.load(y + at, mask, 0.0).to(tl.float32)
            s1 += tl.sum(v, 1)
            s2 += tl.sum(v * v, 1)
        mean = s1 / N
        scale = 1.0 / tl.sqrt(s2 / N - mean * mean + 1e-5)
        for start in range(0, N, R0BLOCK):
            cols = start + tl.arange(0, R0BLOCK)
            mask = (rows[:, None] < M) & (cols[None, :] < N)
            at = rows[:, None] * N + cols[None, :]
            v = tl.load(x + at, mask, 0.0).to(tl.float32)
            v += tl.load(y + at, mask, 0.0).to(tl.float32)
            v = (v - mean[:, None]) * scale[:, None]
            tl.store(out + at, v.to(tl.float16), mask)


@triton.jit
def gelu_transpose_kernel(x, out, M, N, X0BLOCK: tl.constexpr, Y0BLOCK: tl.constexpr):
    rows = tl.program_id(0) * X0BLOCK + tl.arange(0, X0BLOCK)
    cols = tl.program_id(1) * Y0BLOCK + tl.arange(0, Y0BLOCK)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    v = tl.load(x + rows[:, None] * N + cols[None, :], mask, 0.0).to(tl.float32)
    v = 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476))
    mask = (cols[:, None] < N) & (rows[None, :] < M)
    v = tl.trans(v).to(tl.float16)
    tl.store(out + cols[:, None] * M + rows[None, :], v, mask)


@triton.jit
def column_sum_kernel(
    x, out, M, N, X0BLOCK: tl.constexpr, R0BLOCK: tl.constexpr, SPLIT: tl.constexpr
):
    cols = tl.program_id(0) * X0BLOCK + tl.arange(0, X0BLOCK)
    acc = tl.zeros((X0BLOCK,), tl.float32)
    span = tl.cdiv(tl.cdiv(M, SPLIT), R0BLOCK) * R0BLOCK
    first = tl.program_id(1) * span
    for start in range(first, first + span, R0BLOCK):
        rows = start + tl.arange(0, R0BLOCK)
        mask = (rows[:, None] < M) & (cols[None, :] < N)
        v = tl.load(x + rows[:, None] * N + cols[None, :], mask, 0.0)
        acc += tl.sum(v.to(tl.float32), 0)
    tl.atomic_add(out + cols, acc, cols < N)


@triton.jit
def stencil_kernel(x, out, H, W, X0BLOCK: tl.constexpr, Y0BLOCK: tl.constexpr):
    ys = tl.program_id(0) * Y0BLOCK + tl.arange(0, Y0BLOCK)
    xs = tl.program_id(1) * X0BLOCK + tl.arange(0, X0BLOCK)
    acc = tl.zeros((Y0BLOCK, X0BLOCK), tl.float32)
    for dy in tl.static_range(-1, 2):
        for dx in tl.static_range(-1, 2):
            y, z = ys + dy, xs + dx
            rows = (y[:, None] >= 0) & (y[:, None] < H)
            mask = rows & (z[None, :] >= 0) & (z[None, :] < W)
            acc += tl.load(x + y[:, None] * W + z[None, :], mask, 0.0).to(tl.float32)
    mask = (ys[:, None] < H) & (xs[None, :] < W)
    tl.store(out + ys[:, None] * W + xs[None, :], (acc / 9).to(tl.float16), mask)


@triton.jit
def linear_kernel(
    a,
    b,
    bias,
    c,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    pid = tl.program_id(0)
    n_m, n_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    group = pid // (GROUP_M * n_n)
    size = min(n_m - group * GROUP_M, GROUP_M)
    pid_m = group * GROUP_M + (pid % (GROUP_M * n_n)) % size
    pid_n = (pid % (GROUP_M * n_n)) // size
    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        rk = start + tl.arange(0, BLOCK_K)
        mask_a = (rm[:, None] < M) & (rk[None, :] < K)
        mask_b = (rk[:, None] < K) & (rn[None, :] < N)
        va = tl.load(a + rm[:, None] * K + rk[None, :], mask_a, 0.0)
        vb = tl.load(b + rk[:, None] * N + rn[None, :], mask_b, 0.0)
        acc = tl.dot(va, vb, acc)
    acc += tl.load(bias + rn, rn < N, 0.0).to(tl.float32)[None, :]
    acc = tl.maximum(acc, 0.0)
    mask = (rm[:, None] < M) & (rn[None, :] < N)
    tl.store(c + rm[:, None] * N + rn[None, :], acc.to(tl.float16), mask)
