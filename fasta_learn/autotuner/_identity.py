"""Who is who: kernels, calls, devices, functions and searches as JSON values."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from numbers import Real
from typing import Any

from fasta_learn._compat import import_extra
from fasta_learn.oracles._triton_device import describe_device

# Names that `JITFunction.run` takes and that are no arguments of the kernel.
NOT_ARGUMENTS = ("grid", "warmup")


def find_jit_function(fn: Any) -> Any:
    """Return the kernel itself, below heuristics and whatever else is around it.

    Parameters
    ----------
    fn : KernelInterface
        What was decorated.

    Returns
    -------
    JITFunction
        The innermost object that has parameters; an interpreted one under
        ``TRITON_INTERPRET``.
    """
    while not inspect.isfunction(getattr(fn, "fn", None)):
        fn = fn.fn
    return fn


def identify_kernel(fn: Any) -> dict[str, Any]:
    """Say which kernel it is, by its source and that of all it calls.

    Parameters
    ----------
    fn : KernelInterface
        What was decorated: a kernel, or heuristics around one.

    Returns
    -------
    dict
        JSON can hold it.
    """
    heuristics = []
    while not inspect.isfunction(getattr(fn, "fn", None)):
        values = getattr(fn, "values", {})
        heuristics.append({name: describe(value) for name, value in values.items()})
        fn = fn.fn
    return {"source": fn.cache_key, "heuristics": heuristics}


def identify_device() -> dict[str, Any]:
    """Say what the current device is, and what compiles for it.

    Returns
    -------
    dict
        JSON can hold it.
    """
    compiler = import_extra("triton.compiler.compiler", "torch")
    library = import_extra("triton._C.libtriton", "torch")
    target = import_extra("triton.runtime", "torch").driver.active.get_current_target()
    return {
        **describe_device(),
        "compiler": compiler.make_backend(target).hash(),
        "environment": dict(library.get_cache_invalidating_env_vars()),
    }


def identify_arguments(
    arguments: Mapping[str, Any], constants: Mapping[str, Any]
) -> dict[str, Any]:
    """Say what a kernel was called with, as far as its speed may depend on it.

    Parameters
    ----------
    arguments : mapping of str to object
        Arguments of the call. Numbers and shapes count by their order of magnitude
        and by whether they are multiples of 16: what must be told apart exactly is
        named in the key of the tuner.
    constants : mapping of str to object
        Values that are compiled into the kernel; they count as they are.

    Returns
    -------
    dict
        JSON can hold it.
    """
    return {
        "arguments": {name: _outline(value) for name, value in arguments.items()},
        "constants": {name: describe(value) for name, value in constants.items()},
    }


def _outline(value: Any) -> Any:
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        strides = value.stride() if callable(getattr(value, "stride", None)) else ()
        aligned = hasattr(value, "data_ptr") and value.data_ptr() % 16 == 0
        shape = [_outline(int(size)) for size in value.shape]
        return [str(value.dtype), shape, [_outline(int(s)) for s in strides], aligned]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return [value.bit_length(), value == 1, value % 16 == 0]
    if isinstance(value, list | tuple):
        return [_outline(item) for item in value]
    if hasattr(value, "base"):  # a tensor descriptor
        blocks = [int(size) for size in getattr(value, "block_shape", ())]
        return [type(value).__name__, _outline(value.base), blocks]
    return type(value).__name__


def describe(value: Any) -> Any:
    """Return a JSON value that is the same in every process.

    Parameters
    ----------
    value : object
        A number, text, function, dataclass, or object with a short text.

    Returns
    -------
    object
        A function is its source, where that is known.
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(name): describe(item) for name, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return [type(value).__qualname__, describe(asdict(value))]
    if isinstance(value, Sequence):
        return [describe(item) for item in value]
    if inspect.isroutine(value):
        return _describe_function(value)
    if hasattr(value, "get_params"):
        parameters = value.get_params(deep=False)
        return [type(value).__qualname__, describe(parameters)]
    if hasattr(value, "cache_key"):  # a kernel that is passed to another
        return value.cache_key
    text = str(value)
    return type(value).__qualname__ if " at 0x" in text else text


def _describe_function(function: Callable[..., Any]) -> list[str]:
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        source = ""
    return [getattr(function, "__qualname__", type(function).__qualname__), source]


def key_distance(left: Sequence[Any], right: Sequence[Any]) -> float:
    """Say how far two keys of a tuner are from each other.

    Parameters
    ----------
    left, right : sequence of length n
        The keys.

    Returns
    -------
    float
        Sum over the positions: how many doublings lie between two numbers, and a
        hundred for other values that differ. inf if the lengths differ.
    """
    if len(left) != len(right):
        return math.inf

    def distance(a: Any, b: Any) -> float:
        if a == b:
            return 0.0
        numbers = all(isinstance(v, Real) and not isinstance(v, bool) for v in (a, b))
        if numbers and a > 0 and b > 0:
            return abs(math.log2(a) - math.log2(b))
        return 100.0

    return sum(distance(a, b) for a, b in zip(left, right, strict=True))
