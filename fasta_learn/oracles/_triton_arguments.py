"""Arguments of a Triton kernel: named, described, and changed where they lie deep."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fasta_learn._compat import import_extra
from fasta_learn.oracles._triton_source import hash_kernel, is_kernel_function


def import_torch() -> Any:
    """Import torch, or say which extra installs it."""
    return import_extra("torch", "torch")


def name_arguments(
    parameters: Sequence[Any], args: Any, constants: Mapping[str, Any]
) -> dict[str, Any]:
    """Give the arguments of a kernel by name.

    Parameters
    ----------
    parameters : sequence
        The kernel's ``params``.
    args : mapping or sequence
        By name; or in the kernel's order without those in `constants`. A sequence
        that has no more values than there are ordinary parameters leaves out all
        constexprs, a longer one includes them.
    constants : mapping
        Further arguments by name.

    Returns
    -------
    dict
        Name to value.

    Raises
    ------
    ValueError
        There are too many values, a name is unknown or given twice.
    """
    names = [parameter.name for parameter in parameters]
    if not isinstance(args, Mapping):
        free = [p for p in parameters if p.name not in constants]
        ordinary = [p for p in free if not p.is_constexpr]
        chosen = ordinary if len(args) <= len(ordinary) else free
        if len(args) > len(chosen):
            raise ValueError(
                f"args has {len(args)} values, but the kernel has only {len(chosen)} "
                f"parameters besides constants: {', '.join(p.name for p in free)}."
            )
        args = {p.name: value for p, value in zip(chosen, args, strict=False)}
    if unknown := [name for name in args if name not in names]:
        raise ValueError(
            f"args has {unknown}, which the kernel does not have; its parameters are "
            f"{', '.join(names)}."
        )
    if twice := sorted(args.keys() & constants.keys()):
        raise ValueError(f"{twice} are in both args and constants; leave one out.")
    return dict(args)


def tensor_of(value: Any) -> Any:
    """Give the tensor of an argument: its own, or that below a descriptor.

    Parameters
    ----------
    value : object
        An argument.

    Returns
    -------
    torch.Tensor or None
        Detached; None if the argument is something else.
    """
    torch = import_torch()
    base = getattr(value, "base", None)  # descriptors, tensors seen as another dtype
    for candidate in (value, base):
        if isinstance(candidate, torch.Tensor):
            return candidate.detach()
    return None


def map_leaves(
    value: Any, is_leaf: Callable[[Any], bool], change: Callable[[Any], Any]
) -> Any:
    """Change what lies in tuples, lists, dicts and below descriptors.

    Parameters
    ----------
    value : object
        An argument, or a container of arguments.
    is_leaf : callable
        Whether a value is to be changed.
    change : callable
        Gives the new value.

    Returns
    -------
    object
        With new containers and descriptors; all other values are the same objects.
    """
    if is_leaf(value):
        return change(value)
    if isinstance(value, dict):
        return {k: map_leaves(v, is_leaf, change) for k, v in value.items()}
    if isinstance(value, list | tuple):
        items = [map_leaves(item, is_leaf, change) for item in value]
        named = hasattr(value, "_fields")
        return type(value)(*items) if named else type(value)(items)
    if is_descriptor(value) or type(value).__name__ == "TensorWrapper":
        changed = copy_descriptor(value)
        changed.base = map_leaves(value.base, is_leaf, change)
        return changed
    return value


def is_descriptor(value: Any) -> bool:
    """Tell whether an argument is a tensor descriptor."""
    return hasattr(value, "base") and hasattr(value, "block_shape")


def copy_descriptor(value: Any) -> Any:
    """Copy a descriptor, so that a hook can set the copy's block shape only."""
    copied = copy.copy(value)
    for name, item in vars(copied).items():
        if isinstance(item, list):
            setattr(copied, name, list(item))
    return copied


def describe_argument(value: Any) -> Any:
    """Describe an argument as far as it decides about a kernel's duration.

    Parameters
    ----------
    value : object
        An argument.

    Returns
    -------
    object
        JSON can hold it: type, shape and strides of a tensor, and whether its
        address is a multiple of 16 bytes; the value of a number.
    """
    torch = import_torch()
    if isinstance(value, torch.Tensor):
        return {
            "dtype": str(value.dtype),
            "shape": list(value.shape),
            "stride": list(value.stride()),
            "aligned": value.data_ptr() % 16 == 0,
        }
    if is_descriptor(value):
        fields = {k: v for k, v in vars(value).items() if k != "base"}
        base = describe_argument(value.base)
        return {"base": base, **{k: describe_argument(v) for k, v in fields.items()}}
    if isinstance(value, list | tuple):
        return [describe_argument(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return hash_kernel(value) if is_kernel_function(value) else str(value)


def innermost(kernel: Any) -> Any:
    """Give the kernel below decorators such as triton.heuristics."""
    # A JITFunction has a fn as well: the Python function.
    while hasattr(getattr(kernel, "fn", None), "fn"):
        kernel = kernel.fn
    return kernel
