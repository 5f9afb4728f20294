"""Inputs of ``torch.mm`` whose padding is worth a decision, and how they are drawn."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from fasta_learn.heuristics._formulas import PAD_CATEGORICAL

# Bytes of an element, and the size of which a dimension has to be a multiple.
ITEM_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}
ALIGNMENT = {"float16": 8, "bfloat16": 8, "float32": 4}

_LARGEST = 65536
_MIN_POWER, _MAX_POWER = 1, 16
_HOPELESS = 100_000


@dataclass(frozen=True)
class GemmInput:
    """One input of ``torch.mm``: an (m, k) by a (k, n) matrix.

    Parameters
    ----------
    m, k, n : int
        The sizes.
    dtype : {"float16", "bfloat16", "float32"}
        Type of both matrices.
    transpose_left, transpose_right : bool, default=False
        Whether the matrix is the transpose of a contiguous one.
    prepadded_left, prepadded_right : bool, default=False
        Whether the matrix is computed in the same graph, so that it could be padded
        there for nothing. Torch takes that for granted of contiguous matrices only.
    tf32 : bool, default=False
        Whether float32 products may be computed in TensorFloat-32.

    Raises
    ------
    ValueError
        A size is below 1, or the dtype is another.

    Examples
    --------
    >>> from fasta_learn.heuristics import GemmInput
    >>> GemmInput(1000, 777, 3000, "float16").features()["k_padded_length"]
    7
    """

    m: int
    k: int
    n: int
    dtype: str
    transpose_left: bool = False
    transpose_right: bool = False
    prepadded_left: bool = False
    prepadded_right: bool = False
    tf32: bool = False

    def __post_init__(self) -> None:
        if self.dtype not in ALIGNMENT:
            raise ValueError(
                f"dtype must be one of {', '.join(ALIGNMENT)}, got {self.dtype!r}."
            )
        if min(self.m, self.k, self.n) < 1:
            raise ValueError(
                f"the sizes must be at least 1, got {self.m}, {self.k}, {self.n}."
            )

    @property
    def bytes(self) -> int:
        """The memory of both matrices and of their product, in bytes."""
        m, k, n = self.m, self.k, self.n
        return ITEM_BYTES[self.dtype] * (m * k + k * n + m * n)

    @property
    def operations(self) -> int:
        """The floating-point operations of the product."""
        return 2 * self.m * self.k * self.n

    @property
    def is_aligned(self) -> bool:
        """Whether there is nothing to pad."""
        size = ALIGNMENT[self.dtype]
        return all(dim % size == 0 for dim in (self.m, self.k, self.n))

    def features(self) -> dict[str, Any]:
        """Return the features that torch logs for this input, in the order of its log.

        Returns
        -------
        dict of str to int, bool or str
            Such that ``str`` of a value is what is in the log.
        """
        alignment, dtype = ALIGNMENT[self.dtype], f"torch.{self.dtype}"
        m, k, n = self.m, self.k, self.n
        left = (1, m) if self.transpose_left else (k, 1)
        right = (1, k) if self.transpose_right else (n, 1)
        return {
            **{"m": m, "k": k, "n": n},
            **{"mat1_stride_0": left[0], "mat1_stride_1": left[1]},
            **{"mat2_stride_0": right[0], "mat2_stride_1": right[1]},
            "m_padded_length": padded_length(m, alignment),
            "k_padded_length": padded_length(k, alignment),
            "n_padded_length": padded_length(n, alignment),
            **{"mat1_align_size": alignment, "mat2_align_size": alignment},
            **{"mat1_dtype": dtype, "mat2_dtype": dtype},
            "prepadded_mat1": self.prepadded_left
            and (not self.transpose_left or min(m, k) == 1),
            "prepadded_mat2": self.prepadded_right
            and (not self.transpose_right or min(k, n) == 1),
            "using_tf32": self.tf32 if self.dtype == "float32" else "not_float_32",
        }

    def key(self) -> tuple[str, ...]:
        """Return what tells inputs apart in a log.

        Returns
        -------
        tuple of str
            The values of the features, as text.
        """
        return tuple(map(str, self.features().values()))


def to_frame(items: Iterable[GemmInput]) -> pd.DataFrame:
    """Return the features of inputs as a log has them.

    Parameters
    ----------
    items : iterable of GemmInput
        The inputs.

    Returns
    -------
    DataFrame of shape (n_inputs, 17)
        Numbers as integers, categories as text.
    """
    frame = pd.DataFrame([item.features() for item in items])
    return frame.astype(dict.fromkeys(PAD_CATEGORICAL, str))


def padded_length(size: int, alignment: int) -> int:
    """Return by how much torch pads a dimension.

    Parameters
    ----------
    size : int
        The size of the dimension.
    alignment : int
        What its padded size is a multiple of.

    Returns
    -------
    int
        0 for a size of 1: such a dimension can be squeezed away.
    """
    return 0 if size == 1 else -size % alignment


class InputSampler:
    """Draws inputs at random, as the collector of PyTorch does.

    Half of the inputs have uniform sizes from 1 to 65536. In the others each size is,
    with probability 3/4, a power of two from 2 to 65536, and else between two of them.
    Inputs with nothing to pad are drawn again, and so are those that need a quarter of
    the memory. The dtype is uniform; of the float32 inputs a fifth may use TF32. Both
    matrices are transposed in 5 % of the cases, and else the left, the right or none.
    Each is prepadded with probability 0.2.

    Parameters
    ----------
    memory : int
        The memory of the device, in bytes.
    random_state : int, default=0
        Equal seeds draw equal inputs.
    max_operations : float, default=None
        Larger products, in floating-point operations, are drawn again; by default
        none are. This is not in PyTorch, whose collector spends most of its time on
        products that take seconds.

    Examples
    --------
    >>> from fasta_learn.heuristics import InputSampler
    >>> sampler = InputSampler(16 * 2**30, random_state=0)
    >>> sampler.draw() == InputSampler(16 * 2**30, random_state=0).draw()
    True
    """

    def __init__(
        self,
        memory: int,
        *,
        random_state: int = 0,
        max_operations: float | None = None,
    ) -> None:
        self.memory = memory
        self.max_operations = max_operations
        self._rng = np.random.default_rng(random_state)

    def draw(self) -> GemmInput:
        """Return the next input.

        Returns
        -------
        GemmInput
            The input.

        Raises
        ------
        ValueError
            The memory or the operations allow no input that can be found.
        """
        dtype = self._choice(tuple(ALIGNMENT))
        layout = self.draw_layout(dtype)
        uniform = self._happens(0.5)
        for _ in range(_HOPELESS):
            m, k, n = (self._draw_size(uniform) for _ in range(3))
            item = GemmInput(m, k, n, dtype, **layout)
            if not item.is_aligned and self._is_feasible(item):
                return item
        raise ValueError(
            f"no unaligned {dtype} input was found that needs less than a quarter of "
            f"{self.memory} bytes and at most {self.max_operations} operations; allow "
            "more of them."
        )

    def draw_layout(self, dtype: str) -> dict[str, Any]:
        """Return transposes, paddings and precision of an input.

        Parameters
        ----------
        dtype : str
            Its type.

        Returns
        -------
        dict of str to bool
            The arguments of `GemmInput` besides the sizes and the dtype.
        """
        both = self._happens(0.05)
        left, right = self._choice(((True, False), (False, True), (False, False)))
        return {
            "transpose_left": both or left,
            "transpose_right": both or right,
            "prepadded_left": self._happens(0.2),
            "prepadded_right": self._happens(0.2),
            "tf32": self._happens(0.2) and dtype == "float32",
        }

    def accepts(self, item: GemmInput) -> bool:
        """Return whether an input of other origin could have been drawn.

        Parameters
        ----------
        item : GemmInput
            The input.

        Returns
        -------
        bool
            Whether there is something to pad, and it is not too large.
        """
        return not item.is_aligned and self._is_feasible(item)

    def _is_feasible(self, item: GemmInput) -> bool:
        limit = self.max_operations
        return item.bytes < self.memory / 4 and (
            limit is None or item.operations <= limit
        )

    def _draw_size(self, uniform: bool) -> int:
        if uniform:
            return int(self._rng.integers(1, _LARGEST, endpoint=True))
        if self._happens(0.75):
            return 1 << int(self._rng.integers(_MIN_POWER, _MAX_POWER, endpoint=True))
        power = int(self._rng.integers(_MIN_POWER, _MAX_POWER))
        return int(self._rng.integers(2**power + 1, 2 ** (power + 1)))

    def _happens(self, probability: float) -> bool:
        return bool(self._rng.random() < probability)

    def _choice(self, options: tuple[Any, ...]) -> Any:
        return options[int(self._rng.integers(len(options)))]


def vary_layouts(
    items: Iterable[GemmInput], sampler: InputSampler
) -> Iterator[GemmInput]:
    """Give inputs a random layout and leave out those that `sampler` would not draw.

    Parameters
    ----------
    items : iterable of GemmInput
        The inputs.
    sampler : InputSampler
        Draws the layouts.

    Yields
    ------
    GemmInput
        The inputs, in order.
    """
    for item in items:
        varied = replace(item, **sampler.draw_layout(item.dtype))
        if sampler.accepts(varied):
            yield varied
