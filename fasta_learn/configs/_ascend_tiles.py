"""Blocks and sub-blocks that fit an Ascend NPU, without torch_npu."""

import math
from collections.abc import Mapping
from numbers import Integral
from typing import Any

_ALIGNED_BYTES = 32  # what a vector core reads and writes at a time
_MOST_AXES = 3
# Below this many elements, starting more programs does not pay.
_FEW_ELEMENTS = 128 * 1024
# More than two waves of programs only start more often; fewer leave cores idle.
_MOST_WAVES = 2


def ascend_space(
    axes: Mapping[str, int],
    dtype: Any,
    ub_bytes: int,
    cores: int,
    *,
    n_tensors: int,
    persistent: bool,
    multibuffer: bool,
) -> tuple[dict[str, list[Any]], list[str]]:
    """Return parameters and constraints of a kernel's tiles.

    Parameters
    ----------
    axes, dtype, ub_bytes, cores, n_tensors, persistent, multibuffer
        As `TileSpace.ascend` takes them.

    Returns
    -------
    parameters : dict of str to list
        Values of each parameter.
    constraints : list of str
        What a config must satisfy.

    Raises
    ------
    ValueError
        A value is out of its range, or an axis can't be reduced persistently.
    """
    sizes = _checked_axes(axes)
    for name, value in (
        ("ub_bytes", ub_bytes),
        ("cores", cores),
        ("n_tensors", n_tensors),
    ):
        _check_count(name, value)
    unit = max(1, _ALIGNED_BYTES // item_bytes(dtype))
    split = {name: size for name, size in sizes.items() if not _is_reduction(name)}
    # Only the innermost axis is contiguous, so that short pieces of it are slow.
    least_of = dict.fromkeys(sizes, 1) | {list(sizes)[-1]: unit}
    parameters: dict[str, list[Any]] = {
        f"{name.upper()}BLOCK": _blocks(size, cores, least_of[name], unit)
        for name, size in split.items()
    }
    for name, size in sizes.items():
        whole = persistent and _is_reduction(name)
        least = least_of[name]
        parameters[f"{name.upper()}BLOCK_SUB"] = (
            [_aligned(size, unit)] if whole else _sub_blocks(size, least, unit)
        )
    if multibuffer:
        parameters["multibuffer"] = [False, True]
    constraints = [_budget(sizes, dtype, ub_bytes, n_tensors, multibuffer)]
    constraints += [f"{n.upper()}BLOCK_SUB <= {n.upper()}BLOCK" for n in split]
    return parameters, constraints + _program_limits(sizes, split, cores, parameters)


def item_bytes(dtype: Any) -> int:
    """Return how many bytes an element has.

    Parameters
    ----------
    dtype : str, numpy.dtype or torch.dtype
        The type, such as ``"float16"``, ``"bfloat16"``, ``"int8"``.

    Returns
    -------
    int
        At least 1.

    Raises
    ------
    ValueError
        The type is not known.
    """
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None)
    text = str(name or dtype).removeprefix("torch.")
    if text == "bool":
        return 1
    head = text.split("_")[0]  # float8_e4m3fn
    letters = head.rstrip("0123456789")
    bits = head[len(letters) :]
    known = letters in ("float", "bfloat", "int", "uint")
    if not known or bits not in ("8", "16", "32", "64"):
        raise ValueError(
            f"dtype must be a type of one size such as 'float16' or 'int8', got "
            f"{dtype!r}."
        )
    return int(bits) // 8


def _checked_axes(axes: Any) -> dict[str, int]:
    if not isinstance(axes, Mapping) or not 1 <= len(axes) <= _MOST_AXES:
        raise ValueError(
            f"axes must be a dict of one to {_MOST_AXES} names to sizes, the innermost "
            f"last, such as {{'x0': 4096, 'r1': 1024}}; got {axes!r}."
        )
    for name, size in axes.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"the name of an axis must be a word, got {name!r}.")
        _check_count(f"axes[{name!r}]", size)
    return {name: int(size) for name, size in axes.items()}


def _check_count(name: str, value: Any) -> None:
    is_int = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_int or int(value) < 1:
        raise ValueError(f"{name} must be a positive int, got {value!r}.")


def _is_reduction(name: str) -> bool:
    return name.lower().startswith("r")


def _aligned(size: int, unit: int) -> int:
    """Round up to whole units; what is smaller than one is left."""
    return size if size <= unit else -(-size // unit) * unit


def _blocks(size: int, cores: int, least: int, unit: int) -> list[int]:
    """Return blocks that give a fraction or a multiple of the cores something to do."""
    whole = _aligned(size, unit)
    counts = {max(1, cores // 2**k) for k in range(8)} | {cores * _MOST_WAVES}
    blocks = {_aligned(-(-size // count), unit) for count in counts}
    return sorted({min(max(block, least), whole) for block in blocks})


def _sub_blocks(size: int, least: int, unit: int) -> list[int]:
    """Return powers of two up to the size, and the size."""
    whole = _aligned(size, unit)
    powers = {2**k for k in range(whole.bit_length()) if least <= 2**k < whole}
    return sorted(powers | {whole})


def _budget(
    sizes: Mapping[str, int],
    dtype: Any,
    ub_bytes: int,
    n_tensors: int,
    multibuffer: bool,
) -> str:
    tile = " * ".join(f"{name.upper()}BLOCK_SUB" for name in sizes)
    copies = " * (2 if multibuffer else 1)" if multibuffer else ""
    return f"{item_bytes(dtype) * n_tensors} * {tile}{copies} <= {ub_bytes}"


def _program_limits(
    sizes: Mapping[str, int],
    split: Mapping[str, int],
    cores: int,
    parameters: Mapping[str, list[Any]],
) -> list[str]:
    if not split:
        return []
    programs = " * ".join(
        f"-(-{size} // {name.upper()}BLOCK)" for name, size in split.items()
    )
    most = math.prod(
        -(-size // parameters[f"{name.upper()}BLOCK"][0])
        for name, size in split.items()
    )
    is_small = math.prod(sizes.values()) < _FEW_ELEMENTS
    wanted = min(most, max(1, cores // (8 if is_small else 2)))
    return [f"{wanted} <= {programs}", f"{programs} <= {_MOST_WAVES * cores}"]
