"""What a generated module says about itself, read without running it."""

import ast
import hashlib
from dataclasses import dataclass
from typing import Any

_AUTOHEURISTIC = "torch._inductor.autoheuristic"
_BASES = ("LearnedHeuristicDecision", "LearnedHeuristicRegression", "LearnedHeuristic")
# A generated tree compares and returns; whatever else it could import or call is none
# of its business in a process that compiles.
_MODULES = (
    "typing",
    "__future__",
    f"{_AUTOHEURISTIC}.autoheuristic_utils",
    f"{_AUTOHEURISTIC}.learnedheuristic_interface",
)
_FUNCTIONS = frozenset(
    ("str", "len", "int", "float", "bool", "abs", "min", "max", "isinstance", "super")
)


@dataclass(frozen=True)
class ArtifactCode:
    """A generated module in torch's form.

    Attributes
    ----------
    text : str
        The source.
    class_name : str
        Its heuristic.
    name : str
        What the heuristic decides, such as "pad_mm".
    shared_memory : int
        Of the device that it is for, in bytes.
    device_capa : (int, ...)
        Compute capability of the device that it is for.
    """

    text: str
    class_name: str
    name: str
    shared_memory: int
    device_capa: tuple[int, ...]

    @property
    def hash(self) -> str:
        """16 hexadecimal digits that tell sources apart."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]


def parse_artifact(text: str, origin: str = "the code") -> ArtifactCode:
    """Read a generated module.

    Parameters
    ----------
    text : str
        The source.
    origin : str, default="the code"
        What errors call it.

    Returns
    -------
    ArtifactCode
        What it says.

    Raises
    ------
    ValueError
        It is no Python, holds no heuristic or several, does not say which device it
        is for, or uses names that no generated tree needs.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"{origin} is no Python module: {error}.") from error
    classes = [
        node
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        and any(getattr(base, "id", None) in _BASES for base in node.bases)
    ]
    if len(classes) != 1:
        raise ValueError(
            f"{origin} must have one class that is derived from a LearnedHeuristic of "
            f"torch, found {len(classes)}; generate it with target='learned_heuristic'."
        )
    forbidden = find_forbidden(tree)
    if forbidden:
        raise ValueError(
            f"{origin} is refused: {'; '.join(forbidden)}. A generated tree needs "
            "nothing of that."
        )
    (found,) = classes
    name = _returned_constant(_method(found, "get_name", origin))
    memory, capability = _precondition(_method(found, "check_precondition", origin))
    if not isinstance(name, str) or memory is None or capability is None:
        raise ValueError(
            f"{origin}: get_name must return a text, and check_precondition compare "
            "metadata.shared_memory with a number and str(metadata.device_capa) with "
            "a text such as '(9, 0)'."
        )
    return ArtifactCode(text, found.name, name, memory, capability)


def find_forbidden(tree: ast.AST) -> list[str]:
    """List what no generated tree needs.

    Parameters
    ----------
    tree : ast.AST
        The parsed module.

    Returns
    -------
    list of str
        Each with its line; empty if there is nothing.
    """
    found = []
    for node in ast.walk(tree):
        what = _forbidden(node)
        if what is not None:
            found.append(f"line {getattr(node, 'lineno', 0)} {what}")
    return found


def _forbidden(node: ast.AST) -> str | None:
    if isinstance(node, ast.Import):
        return f"imports {', '.join(alias.name for alias in node.names)}"
    if isinstance(node, ast.ImportFrom):
        if node.level or node.module not in _MODULES:
            return f"imports from {'.' * node.level}{node.module or ''}"
        return None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return None if node.func.id in _FUNCTIONS else f"calls {node.func.id}"
    if isinstance(node, ast.Attribute) and node.attr.startswith("__"):
        return None if node.attr == "__init__" else f"uses {node.attr}"
    kinds = (ast.Global, ast.Nonlocal, ast.With, ast.AsyncFunctionDef, ast.Delete)
    return f"has a {type(node).__name__}" if isinstance(node, kinds) else None


def _method(found: ast.ClassDef, name: str, origin: str) -> ast.FunctionDef:
    for node in found.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
    raise ValueError(f"{origin}: {found.name} has no method {name}.")


def _returned_constant(function: ast.FunctionDef) -> Any:
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Constant):
            return node.value.value
    return None


def _precondition(
    function: ast.FunctionDef,
) -> tuple[int | None, tuple[int, ...] | None]:
    memory, capability = None, None
    for node in ast.walk(function):
        if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.Eq):
            continue
        left, right = ast.unparse(node.left), node.comparators[0]
        value = right.value if isinstance(right, ast.Constant) else None
        if left == "metadata.shared_memory" and isinstance(value, int):
            memory = value
        if left == "str(metadata.device_capa)" and isinstance(value, str):
            capability = _read_capability(value)
    return memory, capability


def _read_capability(text: str) -> tuple[int, ...] | None:
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return None
    return value if isinstance(value, tuple) else None
