"""Identity of a Triton kernel's source, wherever in a file it stands."""

import ast
import hashlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any


def hash_kernel(kernel: Any) -> str:
    """Give a hash of all source that a kernel is compiled from.

    Triton's own hash changes when the kernel moves to another line. This one does not,
    so that results stay valid when, say, the list of configs above the kernel grows.

    Parameters
    ----------
    kernel : triton.JITFunction
        The kernel.

    Returns
    -------
    str
        Depends on the source of the kernel and of the functions that it calls, save
        Triton's own, and on the values of the constants that they use.
    """
    pieces: list[str] = []
    seen: set[int] = set()
    waiting = [kernel]
    while waiting:
        function = waiting.pop()
        if id(function) in seen:
            continue
        seen.add(id(function))
        pieces.append(function.src)
        for name, value in _used_values(function):
            if _is_constant(value):
                pieces.append(f"{name}={value!r}")
            elif is_kernel_function(value) and not _is_of_triton(value):
                waiting.append(value)
    return hashlib.sha256("\0".join(pieces).encode()).hexdigest()


def hash_source(function: Callable[..., Any]) -> str:
    """Give a hash of a Python function's source.

    Parameters
    ----------
    function : callable
        The function.

    Returns
    -------
    str
        Of its name, if there is no source.
    """
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):  # typed in, or no Python function
        text = getattr(function, "__qualname__", type(function).__name__)
    return hashlib.sha256(text.encode()).hexdigest()


def is_kernel_function(value: Any) -> bool:
    """Tell whether a value is a function that Triton compiles."""
    return hasattr(value, "cache_key") and hasattr(value, "src")


def _is_of_triton(function: Any) -> bool:
    return str(function.__module__).split(".")[0] == "triton"


def _used_values(function: Any) -> Iterator[tuple[str, Any]]:
    """Give names in the source of a function, and what they stand for outside it."""
    scope = {**function.fn.__globals__, **inspect.getclosurevars(function.fn).nonlocals}
    for node in ast.walk(ast.parse(function.src)):
        if isinstance(node, ast.Name | ast.Attribute):
            yield ast.unparse(node), _look_up(node, scope)


def _look_up(node: ast.AST, scope: dict[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return scope.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _look_up(node.value, scope)
        # Only of modules and classes: what else has attributes belongs to the kernel.
        if inspect.ismodule(owner) or inspect.isclass(owner):
            return getattr(owner, node.attr, None)
    return None


def _is_constant(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(_is_constant(item) for item in value)
    plain = isinstance(value, bool | int | float | str)
    return plain or type(value).__name__ in ("constexpr", "dtype")
