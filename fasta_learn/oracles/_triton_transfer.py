"""Arguments of a Triton kernel on their way to another process or device."""

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fasta_learn.oracles._triton_arguments import import_torch, innermost, map_leaves

# What a GPU allocator aligns to at least; alignment decides how a kernel is compiled.
_ALIGNMENT = 256


class StoredTensor(NamedTuple):
    """Stands for a tensor: where it lies in which buffer."""

    buffer: int
    dtype: Any
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int


class Buffer(NamedTuple):
    """Bytes that one or more tensors lie in."""

    content: np.ndarray
    on_device: bool


@dataclass
class _Span:
    """The part of a storage that tensors use; addresses in bytes."""

    tensor: Any
    first: int
    last: int

    def start(self) -> int:
        return self.first - self.first % _ALIGNMENT

    def to_buffer(self) -> Buffer:
        torch = import_torch()
        storage = self.tensor.untyped_storage()
        content = np.zeros(self.last - self.start(), dtype=np.uint8)
        used = torch.empty(0, dtype=torch.uint8, device=self.tensor.device).set_(
            storage, self.first - storage.data_ptr(), (self.last - self.first,)
        )
        content[self.first - self.start() :] = used.cpu().numpy()
        return Buffer(content, self.tensor.device.type != "cpu")


def pack_tensors(value: Any) -> tuple[Any, list[Buffer]]:
    """Replace the tensors of arguments by what can be sent to another process.

    Parameters
    ----------
    value : object
        Arguments in dicts, tuples, lists and descriptors.

    Returns
    -------
    value : object
        With a `StoredTensor` for each tensor.
    buffers : list of Buffer
        Their content. Views of one memory lie in one buffer; addresses keep their
        remainder after division by 256, which decides how kernels are compiled.
    """
    torch = import_torch()
    spans: dict[int, _Span] = {}

    def is_tensor(item: Any) -> bool:
        return isinstance(item, torch.Tensor)

    def collect(tensor: Any) -> Any:
        first = tensor.data_ptr()
        last = first + _n_bytes(tensor)
        key = tensor.untyped_storage().data_ptr()
        span = spans.setdefault(key, _Span(tensor.detach(), first, last))
        span.first, span.last = min(span.first, first), max(span.last, last)
        return tensor

    map_leaves(value, is_tensor, collect)
    order = {key: i for i, key in enumerate(spans)}

    def store(tensor: Any) -> StoredTensor:
        key = tensor.untyped_storage().data_ptr()
        offset = (tensor.data_ptr() - spans[key].start()) // tensor.element_size()
        shape, stride = tuple(tensor.shape), tensor.stride()
        return StoredTensor(order[key], tensor.dtype, shape, stride, offset)

    packed = map_leaves(value, is_tensor, store)
    return packed, [span.to_buffer() for span in spans.values()]


def unpack_tensors(value: Any, buffers: Sequence[Buffer], device: Any) -> Any:
    """Make arguments from what `pack_tensors` gave.

    Parameters
    ----------
    value : object
        Arguments with `StoredTensor`s.
    buffers : sequence of Buffer
        Their content.
    device : torch.device, str or None
        Where tensors go that were on a device; None for the current CUDA device.
        Those that were in the host's memory stay there.

    Returns
    -------
    object
        With tensors.
    """
    torch = import_torch()
    device = device or "cuda"
    storages = [
        torch.from_numpy(buffer.content.copy())
        .to(device if buffer.on_device else "cpu")
        .untyped_storage()
        for buffer in buffers
    ]

    def restore(stored: StoredTensor) -> Any:
        storage = storages[stored.buffer]
        empty = torch.empty(0, dtype=stored.dtype, device=storage.device)
        return empty.set_(storage, stored.offset, stored.shape, stored.stride)

    return map_leaves(value, lambda item: isinstance(item, StoredTensor), restore)


def _n_bytes(tensor: Any) -> int:
    if tensor.numel() == 0:
        return 0
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((size - 1) * stride for size, stride in steps)
    return int((last + 1) * tensor.element_size())


class KernelReference(NamedTuple):
    """Names a kernel, so that another process finds its own."""

    module: str
    name: str

    @classmethod
    def of(cls, kernel: Any) -> "KernelReference":
        """Name a kernel.

        Parameters
        ----------
        kernel : triton.JITFunction
            The kernel.

        Returns
        -------
        KernelReference
            Its module and its name in there.

        Raises
        ------
        ValueError
            Another process could not import it.
        """
        reference = cls(kernel.fn.__module__, kernel.fn.__qualname__)
        if reference.module == "__main__" or reference.module not in sys.modules:
            raise ValueError(reference._advice("another process can't import it"))
        if innermost(reference.load()) is not kernel:
            raise ValueError(reference._advice("this name holds another object"))
        return reference

    def load(self) -> Any:
        """Give what stands under the name: the kernel, or a wrapper around it.

        Returns
        -------
        object
            The kernel or wrapper.

        Raises
        ------
        ValueError
            The module can't be imported or has no such name.
        """
        try:
            found = importlib.import_module(self.module)
            for name in self.name.split("."):
                found = getattr(found, name)
        except (ImportError, AttributeError) as error:
            raise ValueError(self._advice(str(error))) from error
        return found

    def _advice(self, why: str) -> str:
        return (
            f"kernel {self.name!r} of module {self.module!r} can't be used in a child "
            f"process: {why}. Define it at the top level of a module that can be "
            "imported, or measure in this process (isolate=False)."
        )


def name_kernels(value: Any, kind: type) -> Any:
    """Replace kernels among arguments by their names.

    Parameters
    ----------
    value : object
        Arguments in dicts, tuples and lists.
    kind : type
        The type of kernels.

    Returns
    -------
    object
        With a `KernelReference` for each kernel.

    Raises
    ------
    ValueError
        Another process could not import one of them.
    """
    return map_leaves(value, lambda item: isinstance(item, kind), KernelReference.of)


def find_kernels(value: Any) -> Any:
    """Replace names of kernels by the kernels of this process.

    Parameters
    ----------
    value : object
        With `KernelReference`s.

    Returns
    -------
    object
        With kernels.

    Raises
    ------
    ValueError
        One of them can't be imported.
    """
    return map_leaves(
        value,
        lambda item: isinstance(item, KernelReference),
        lambda reference: innermost(reference.load()),
    )
