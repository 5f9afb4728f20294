"""Kernels of the tests; tuned by hand-written pools, and by torch.compile."""

import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, XBLOCK, XBLOCK_SUB: tl.constexpr):
    """Add two vectors, one block a program, in sub-blocks."""
    base = tl.program_id(0) * XBLOCK
    for i in range((XBLOCK + XBLOCK_SUB - 1) // XBLOCK_SUB):
        offsets = base + i * XBLOCK_SUB + tl.arange(0, XBLOCK_SUB)
        mask = (offsets < n) & (offsets < base + XBLOCK)
        x = tl.load(x_ptr + offsets, mask=mask)
        y = tl.load(y_ptr + offsets, mask=mask)
        tl.store(out_ptr + offsets, x + y, mask=mask)


@triton.jit
def refused_kernel(x_ptr, XBLOCK: tl.constexpr):
    """Hold what the compiler refuses."""
    tl.static_assert(XBLOCK == 0, "no block pleases this kernel")
    tl.store(x_ptr, 0.0)
