"""Print how much of the unified buffer (UB) a kernel uses, from its final HIVM IR.

Usage: ub_bits.py kernel.o

The test bed's "machine code" is the HIVM IR after the real memory planning. Each local
buffer appears there as::

    hivm.hir.pointer_cast(%c28672_i64) : memref<7x1xf32, #hivm.address_space<ub>>

with its byte address; several addresses are the copies of a multi-buffer. The largest
end address, rounded up to the UB's alignment, is the size in use; it is printed as the
option --enable-print-memory-allocated-size would print it.
"""

import re
import sys
from pathlib import Path

_WIDTHS = {"i1": 8, "bf16": 16, "index": 64}
_ALIGNED_BITS = 256
_CONSTANT = re.compile(r"(%[\w]+) = arith\.constant (\d+) : i64")
_CAST = re.compile(
    r"pointer_cast\(([^)]*)\)[^:\n]*: memref<((?:\d+x)*)(\w+)"
    r"[^>\n]*(?:<[^>\n]*>[^>\n]*)*?#hivm\.address_space<ub>"
)


def ub_bits(text):
    """Return the bits of the UB that the kernel of this IR uses."""
    constants = {name: int(value) for name, value in _CONSTANT.findall(text)}
    top = 0
    for addresses, dimensions, dtype in _CAST.findall(text):
        bits = _WIDTHS.get(dtype) or int(re.sub(r"\D", "", dtype) or 0)
        for length in dimensions.split("x")[:-1]:
            bits *= int(length)
        for name in re.findall(r"%[\w]+", addresses):
            if name in constants:
                top = max(top, constants[name] * 8 + bits)
    return -(-top // _ALIGNED_BITS) * _ALIGNED_BITS


if __name__ == "__main__":
    source = Path(sys.argv[1]).read_text(errors="replace")
    sys.stdout.write(f"UB size = {ub_bits(source)} bits\n")
