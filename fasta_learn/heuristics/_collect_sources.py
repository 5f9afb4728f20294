"""Shapes that are worth measuring: from a file, and of well-known models."""

import csv
import os
from collections.abc import Iterator
from dataclasses import dataclass

from fasta_learn.heuristics._collect_shapes import ALIGNMENT, GemmInput

_COLUMNS = ("M", "K", "N", "dtype")


def read_shapes(path: str | os.PathLike[str]) -> list[GemmInput]:
    """Read shapes from a CSV file with the columns M, K, N and dtype.

    Parameters
    ----------
    path : path-like
        The file. Its first line names the columns, in any order and case; others are
        ignored. Types may have ``torch.`` in front.

    Returns
    -------
    list of GemmInput
        In the order of the file, not transposed, not prepadded.

    Raises
    ------
    ValueError
        A column is missing or a line can't be read; the message names it.

    Examples
    --------
    >>> from fasta_learn.heuristics import read_shapes
    >>> read_shapes("shapes.csv")  # doctest: +SKIP
    """
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file, skipinitialspace=True)
        names = {name.strip().lower(): name for name in reader.fieldnames or ()}
        missing = [name for name in _COLUMNS if name.lower() not in names]
        if missing:
            raise ValueError(
                f"{path} has no column {', '.join(missing)}; its first line must name "
                "M, K, N and dtype."
            )
        columns = [names[name.lower()] for name in _COLUMNS]
        return [
            _parse_row([row[column] for column in columns], path, reader.line_num)
            for row in reader
        ]


def _parse_row(
    values: list[str | None], path: str | os.PathLike[str], line: int
) -> GemmInput:
    try:
        m, k, n = (int(value or "") for value in values[:3])
        dtype = (values[3] or "").strip().removeprefix("torch.")
        return GemmInput(m, k, n, dtype)
    except ValueError as error:
        raise ValueError(f"{path}, line {line}: {error}") from None


@dataclass(frozen=True)
class _Model:
    """Sizes of a transformer: hidden, inner, vocabulary or classes, and tokens."""

    hidden: int
    inner: int
    vocabulary: int
    tokens: tuple[int, ...]


# The sizes by which these models are defined. Their unaligned dimensions are
# vocabularies, numbers of classes, and image patches with a class token, by the batch.
_MODELS = (
    _Model(768, 3072, 50257, (1024, 4096, 8192)),  # GPT-2
    _Model(1024, 4096, 50257, (1024, 4096)),  # GPT-2 medium
    _Model(1280, 5120, 50257, (1024, 4096)),  # GPT-2 large
    _Model(1600, 6400, 50257, (1024, 4096)),  # GPT-2 XL
    _Model(768, 3072, 30522, (512, 4096, 16384)),  # BERT base, uncased
    _Model(1024, 4096, 30522, (512, 4096)),  # BERT large, uncased
    _Model(768, 3072, 28996, (512, 4096)),  # BERT base, cased
    _Model(768, 3072, 119547, (512, 4096)),  # BERT multilingual
    _Model(768, 3072, 50265, (512, 4096)),  # RoBERTa and BART base
    _Model(1024, 4096, 50265, (1024, 4096)),  # RoBERTa and BART large
    _Model(1024, 4096, 250002, (512, 4096)),  # XLM-RoBERTa large
    _Model(1024, 4096, 128100, (512, 4096)),  # DeBERTa v3 large
    _Model(1024, 4096, 58101, (512, 4096)),  # Marian
    _Model(1280, 5120, 51865, (1500, 3000, 12000)),  # Whisper large
    _Model(768, 3072, 1000, (197 * 5, 197 * 16, 197 * 64, 197 * 255)),  # ViT-B/16
    _Model(1024, 4096, 1000, (257 * 4, 257 * 33, 577 * 9)),  # ViT-L
    _Model(1280, 5120, 1000, (257 * 7, 257 * 63)),  # ViT-H/14
    _Model(768, 2048, 49408, (77 * 13, 77 * 64)),  # CLIP text
    _Model(4096, 11008, 32001, (777, 1023, 4095)),  # LLaMA with a padding token
    _Model(4096, 14336, 128259, (1023, 4097)),  # LLaMA 3 with added tokens
)


def known_inputs() -> Iterator[GemmInput]:
    """Yield the unaligned matrix products of the layers of well-known models.

    Yields
    ------
    GemmInput
        Of the forward pass and of both gradients, once each, in all dtypes; not
        transposed, not prepadded.

    Examples
    --------
    >>> from fasta_learn.heuristics import GemmInput, known_inputs
    >>> GemmInput(1024, 768, 50257, "float16") in known_inputs()  # logits of GPT-2
    True
    """
    seen = set()
    for model in _MODELS:
        for shape in _shapes_of(model):
            for dtype in ALIGNMENT:
                item = GemmInput(*shape, dtype)
                if item not in seen and not item.is_aligned:
                    seen.add(item)
                    yield item


def _shapes_of(model: _Model) -> Iterator[tuple[int, int, int]]:
    hidden, inner = model.hidden, model.inner
    layers = ((hidden, 3 * hidden), (hidden, inner), (inner, hidden))
    for tokens in model.tokens:
        for n_in, n_out in (*layers, (hidden, model.vocabulary)):
            yield tokens, n_in, n_out  # forward
            yield tokens, n_out, n_in  # gradient of the input
            yield n_in, tokens, n_out  # gradient of the weight
