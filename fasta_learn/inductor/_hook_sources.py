"""Looks the hooks up in the sources of TorchInductor, without importing it."""

import ast
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path

from fasta_learn.inductor._hooks import HOOKS, Hook, torch_version

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def probe() -> dict[str, list[str]]:
    """Return what does not fit the installed torch.

    Returns
    -------
    dict of str to list of str
        One line for each hook that does not fit, by feature; an empty list where all
        fit.

    Raises
    ------
    ModuleNotFoundError
        torch is not installed.
    """
    return check(read_installed, torch_version())


def read_installed(module: str) -> str | None:
    """Return the source of an installed module, which is not imported.

    Parameters
    ----------
    module : str
        Its dotted name.

    Returns
    -------
    str or None
        None if there is no such module.
    """
    package, *parts = module.split(".")
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    base = Path(spec.origin).parent.joinpath(*parts)
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path.read_text(encoding="utf-8")
    return None


def check(
    read: Callable[[str], str | None], version: tuple[int, int]
) -> dict[str, list[str]]:
    """Return what does not fit a version of torch.

    Parameters
    ----------
    read : callable
        Function of the name of a module; returns its source, or None.
    version : tuple of (int, int)
        The version.

    Returns
    -------
    dict of str to list of str
        As `probe` returns it.
    """
    problems: dict[str, list[str]] = {}
    trees: dict[str, ast.Module | None] = {}
    for hook in HOOKS:
        found = problems.setdefault(hook.feature, [])
        if not hook.is_in(version):
            continue
        if hook.module not in trees:
            text = read(hook.module)
            trees[hook.module] = None if text is None else ast.parse(text)
        tree = trees[hook.module]
        reason = "has no module" if tree is None else misfit(hook, tree)
        if reason is not None:
            found.append(f"{hook.module}.{hook.name} {reason}")
    return problems


def misfit(hook: Hook, tree: ast.Module) -> str | None:
    """Return how a module differs from what a hook expects.

    Parameters
    ----------
    hook : Hook
        The hook.
    tree : ast.Module
        The module.

    Returns
    -------
    str or None
        The reason; None if it fits.
    """
    node = _find(tree, hook.name.split("."))
    if node is None:
        return "is missing"
    if not (hook.leading or hook.keywords or hook.mentions):
        return None
    if not isinstance(node, _Function):
        return "is no function"
    parameters = [p.arg for p in (*node.args.posonlyargs, *node.args.args)]
    if parameters[:1] in (["self"], ["cls"]):
        del parameters[0]
    parameters += [p.arg for p in node.args.kwonlyargs]
    reason = hook.misfit(parameters, node.args.kwarg is not None)
    return reason or _missing_mention(hook, node)


def _missing_mention(hook: Hook, node: _Function) -> str | None:
    names = _names(node)
    for wanted in hook.mentions:
        if wanted not in names:  # which takes all names up to it
            return f"does not use {', '.join(hook.mentions)} in this order"
    return None


def _names(node: ast.AST) -> Iterator[str]:
    """Give the names that are read, in the order of the source."""
    found = [
        ((n.end_lineno, n.end_col_offset), n.id if isinstance(n, ast.Name) else n.attr)
        for n in ast.walk(node)
        if isinstance(n, ast.Name | ast.Attribute)
    ]
    return iter([name for _, name in sorted(found)])


def _find(tree: ast.AST, parts: list[str]) -> ast.AST | None:
    first, *rest = parts
    for node in _statements(tree):
        if first not in _bound(node):
            continue
        if not rest:
            return node
        if (found := _find(node, rest)) is not None:
            return found
    if isinstance(tree, ast.ClassDef) and not rest:
        return _instance_attribute(tree, first)
    return None


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Give what a module or class runs, also under conditions."""
    for node in ast.iter_child_nodes(tree):
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With):
            yield from _statements(node)


def _bound(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ClassDef | _Function):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [name.asname or name.name for name in node.names]
    if isinstance(node, ast.AnnAssign):
        return [node.target.id] if isinstance(node.target, ast.Name) else []
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def _instance_attribute(tree: ast.ClassDef, name: str) -> ast.AST | None:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and (node.value.id, node.attr) == ("self", name)
        ):
            return node
    return None
