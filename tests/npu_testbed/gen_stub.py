#!/usr/bin/env python3
"""Write the C source of the fake CANN runtime.

Usage: gen_stub.py symbols.txt fake_cann.c stub.c

Every name in symbols.txt becomes an exported function. Those whose results torch_npu
reads are in fake_cann.c; all others return 0, which is ACL_SUCCESS. Set
FAKECANN_TRACE=1 to print the name of each call of a generated function to stderr.
"""

import re
import sys
from pathlib import Path


def main(symbols, written, target):
    """Write `target` from the names in `symbols` and the functions in `written`."""
    lines = (line.strip() for line in Path(symbols).read_text().splitlines())
    names = sorted({line for line in lines if line and not line.startswith("#")})
    wrong = [name for name in names if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name)]
    if wrong:
        sys.exit(f"gen_stub.py: not C names in {symbols}: {wrong[:5]}")
    text = Path(written).read_text()
    own = set(re.findall(r"^API [^(]*?(\w+)\(", text, re.MULTILINE))
    stubs = [
        f'API int {name}(void) {{ TRACE("{name}"); return 0; }}\n'
        for name in names
        if name not in own
    ]
    Path(target).write_text(text + "".join(stubs))
    sys.stdout.write(
        f"{target}: {len(own)} functions written by hand, {len(stubs)} generated\n"
    )


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
