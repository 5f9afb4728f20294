"""The lines of a log file, out of whatever way the file is stored."""

import lzma
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

# Bytes. They bound the memory that reading needs.
_BLOCK = 1 << 20
_PACKED = 1 << 13
_LONGEST = 1 << 24
XZ = b"\xfd7zXZ\x00"
GZIP = b"\x1f\x8b"


@contextmanager
def open_source(source: Any) -> Iterator[Any]:
    """Open a path for reading bytes; leave an open file to its owner.

    Parameters
    ----------
    source : str, path or file object
        The file.

    Yields
    ------
    file object
        Something with ``read(size)``.

    Raises
    ------
    TypeError
        It is neither a path nor a file.
    """
    if hasattr(source, "read"):
        yield source
        return
    if not isinstance(source, str | os.PathLike):
        raise TypeError(
            f"a log is read from a path or an open file, not {type(source).__name__}."
        )
    with Path(source).open("rb") as file:
        yield file


def read_line_batches(
    file: Any, on_problem: Callable[[str], None]
) -> Iterator[list[str]]:
    """Read a plain, gzip or xz file piece by piece.

    Parameters
    ----------
    file : file object
        Read from where it stands, to its end; bytes or text.
    on_problem : callable
        Called with a phrase if the file ends within a line or within its
        compressed data. What came before is used.

    Yields
    ------
    list of str
        Whole lines without their ends. A last line without an end is left out: it
        may have been cut within a number.

    Raises
    ------
    ValueError
        A line is so long that the file can't be a log.
    """
    rest: list[bytes] = []  # joined at a line end: a long line must not cost its square
    for block in _plain_blocks(_raw_blocks(file), on_problem):
        rest.append(block)
        if b"\n" in block:
            *lines, last = b"".join(rest).split(b"\n")
            rest = [last]
            yield [_as_text(line) for line in lines]
        elif sum(map(len, rest)) > _LONGEST:
            raise ValueError(f"no log has a line of more than {_LONGEST >> 20} MB.")
    if b"".join(rest).strip():
        on_problem("the last line has no end, so it may be cut")


def _as_text(line: bytes) -> str:
    return line.decode("utf-8", "replace").removesuffix("\r")


def _raw_blocks(file: Any) -> Iterator[bytes]:
    while block := file.read(_BLOCK):
        yield block.encode("utf-8", "replace") if isinstance(block, str) else block


def _plain_blocks(
    blocks: Iterator[bytes], on_problem: Callable[[str], None]
) -> Iterator[bytes]:
    first = b""
    while len(first) < len(XZ) and (block := next(blocks, b"")):
        first += block
    packed = _cut(chain([first], blocks))
    if first.startswith(XZ):
        yield from _decompressed(packed, lzma.LZMADecompressor, on_problem)
    elif first.startswith(GZIP):
        yield from _decompressed(packed, lambda: zlib.decompressobj(31), on_problem)
    else:
        yield first.removeprefix(b"\xef\xbb\xbf")  # byte order mark
        yield from blocks


def _cut(blocks: Iterable[bytes]) -> Iterator[bytes]:
    # A packed block can hold a thousand times as much.
    for block in blocks:
        for start in range(0, len(block), _PACKED):
            yield block[start : start + _PACKED]


def _decompressed(
    blocks: Iterator[bytes],
    make: Callable[[], Any],
    on_problem: Callable[[str], None],
) -> Iterator[bytes]:
    decompressor = make()
    block = next(blocks, b"")
    while block:
        try:
            # A file can be several compressed ones behind each other.
            if decompressor.eof:
                decompressor = make()
            yield decompressor.decompress(block)
        except (zlib.error, lzma.LZMAError, EOFError) as error:
            on_problem(f"the compressed data are damaged ({error})")
            return
        rest = decompressor.unused_data if decompressor.eof else b""
        block = rest or next(blocks, b"")
    if not decompressor.eof:
        on_problem("the compressed data end early")
