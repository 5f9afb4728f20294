"""Write a tree as the body of a Python function."""

import keyword
import re
from collections.abc import Callable, Sequence

import numpy as np

from fasta_learn.heuristics._trees_flat import LEAF, FlatTree

# A feature, and the category that the column is about; None for a number.
Column = tuple[str, str | None]
LINE_LENGTH = 88
INDENT = "    "


def local_names(features: Sequence[str]) -> dict[str, str]:
    """Return a Python variable for each feature.

    Parameters
    ----------
    features : sequence of str
        Names such as ``"k/(m*n)"``.

    Returns
    -------
    dict of str to str
        Names that are valid in Python, and differ.
    """
    names: dict[str, str] = {}
    for feature in dict.fromkeys(features):
        spoken = feature.replace("*", "_times_").replace("/", "_over_")
        name = re.sub(r"_+", "_", re.sub(r"\W", "_", spoken)).strip("_")
        if not name.isidentifier() or keyword.iskeyword(name):
            name = f"feature_{name}"
        while name in names.values():
            name += "_"
        names[feature] = name
    return names


def used_columns(tree: FlatTree, columns: Sequence[Column]) -> list[Column]:
    """Return which columns a tree looks at.

    Parameters
    ----------
    tree : FlatTree
        The tree.
    columns : sequence of (str, str or None)
        Its columns.

    Returns
    -------
    list of (str, str or None)
        Those that it compares, in the order of `columns`, without what can't be
        reached.
    """
    seen, waiting = set(), [0]
    while waiting:
        node = waiting.pop()
        if tree.feature[node] != LEAF:
            seen.add(int(tree.feature[node]))
            waiting += [int(tree.left[node]), int(tree.right[node])]
    return [columns[index] for index in sorted(seen)]


def write_tree(
    tree: FlatTree,
    columns: Sequence[Column],
    answer: Callable[[int], str],
    indent: str,
) -> list[str]:
    """Write comparisons and answers.

    The smaller side of a split stands inside its `if`, the other one behind it, so
    that the nesting stays below the logarithm of the number of leaves: Python allows
    only a hundred levels.

    Parameters
    ----------
    tree : FlatTree
        The tree.
    columns : sequence of (str, str or None)
        What its columns are. The values stand in variables named by `local_names`,
        categories as text.
    answer : callable
        Gives for a leaf the expression that is returned.
    indent : str
        What stands before each line.

    Returns
    -------
    list of str
        Lines of code; every way ends with a return.
    """
    names = local_names([name for name, _ in columns])
    sizes: dict[int, int] = {}

    def size(node: int) -> int:
        if node not in sizes:
            inner = tree.feature[node] != LEAF
            left, right = int(tree.left[node]), int(tree.right[node])
            sizes[node] = size(left) + size(right) if inner else 1
        return sizes[node]

    def emit(node: int, indent: str) -> list[str]:
        if tree.feature[node] == LEAF:
            return write_return(answer(node), indent)
        left, right = int(tree.left[node]), int(tree.right[node])
        name, category = columns[tree.feature[node]]
        inside_left = size(left) <= size(right)
        if category is None:
            operator = "<=" if inside_left else ">"
            other = repr(float(tree.threshold[node]))
        else:
            _check_one_hot(float(tree.threshold[node]), name)
            operator = "!=" if inside_left else "=="
            other = quote(category)
        inside, behind = (left, right) if inside_left else (right, left)
        return [
            f"{indent}if {names[name]} {operator} {other}:",
            *emit(inside, indent + INDENT),
            *emit(behind, indent),
        ]

    return emit(0, indent)


def _check_one_hot(threshold: float, name: str) -> None:
    if not 0 <= threshold < 1:
        raise ValueError(
            f"the tree compares the category {name} with {threshold}; columns of "
            "categories must be 0 or 1."
        )


def write_return(expression: str, indent: str) -> list[str]:
    """Write a return, a list on several lines if one is too long.

    Parameters
    ----------
    expression : str
        What is returned.
    indent : str
        What stands before each line.

    Returns
    -------
    list of str
        Lines.
    """
    line = f"{indent}return {expression}"
    if len(line) <= LINE_LENGTH or not expression.startswith("["):
        return [line]
    entries = re.findall(r"\([^()]*\)", expression)
    inner = [f"{indent}{INDENT}{entry}," for entry in entries]
    return [f"{indent}return [", *inner, f"{indent}]"]


def write_sequence(
    head: str, entries: Sequence[str], brackets: str, indent: str
) -> list[str]:
    """Write an assignment of a tuple, list or dict as ruff would format it.

    Parameters
    ----------
    head : str
        What stands before the opening bracket.
    entries : sequence of str
        Code of each entry.
    brackets : str
        Opening and closing bracket.
    indent : str
        What stands before each line.

    Returns
    -------
    list of str
        One line if it fits, else a line for each entry.
    """
    opening, closing = brackets[0], brackets[1]
    trailing = "," if opening == "(" and len(entries) == 1 else ""
    line = f"{indent}{head}{opening}{', '.join(entries)}{trailing}{closing}"
    if len(line) <= LINE_LENGTH or not entries:
        return [line]
    return [
        f"{indent}{head}{opening}",
        *(f"{indent}{INDENT}{entry}," for entry in entries),
        f"{indent}{closing}",
    ]


def quote(text: str) -> str:
    """Return a text as a literal with double quotes, as ruff writes it.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    str
        Python code.
    """
    literal = repr(text)
    if literal.startswith("'") and '"' not in literal:
        return f'"{literal[1:-1]}"'
    return literal


def write_shares(shares: np.ndarray) -> str:
    """Return shares and choices, the largest first, in full precision.

    Parameters
    ----------
    shares : ndarray of shape (n_choices,)
        Share of each choice.

    Returns
    -------
    str
        A list of (share, index of the choice), without shares of zero.
    """
    order = np.argsort(-shares, kind="stable")
    pairs = [f"({float(shares[code])!r}, {code})" for code in order if shares[code] > 0]
    return f"[{', '.join(pairs)}]"
