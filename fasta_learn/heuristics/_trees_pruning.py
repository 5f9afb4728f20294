"""Nodes of a tree that decides, and its cheapest subtree of a given size."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fasta_learn.heuristics._trees_flat import LEAF

# Costs that differ by less than this are equal: the smaller subtree is taken.
_TINY = 1e-12


@dataclass(eq=False)
class Node:
    """A node that can be changed; left if ``x[feature] <= threshold``.

    Parameters
    ----------
    feature : int, default=-1
        Column, -1 for a leaf.
    threshold : float, default=nan
        What the column is compared with.
    left, right : Node, default=None
        Children, None for a leaf.
    choice : int, default=0
        What a leaf decides.
    """

    feature: int = LEAF
    threshold: float = float("nan")
    left: "Node | None" = None
    right: "Node | None" = None
    choice: int = 0

    @property
    def is_leaf(self) -> bool:
        """Whether the node has no children."""
        return self.left is None or self.right is None

    @property
    def n_leaves(self) -> int:
        """Number of leaves below, the node itself if it is one."""
        if self.left is None or self.right is None:
            return 1
        return self.left.n_leaves + self.right.n_leaves

    def become(self, other: "Node") -> None:
        """Take over everything that another node is."""
        self.feature, self.threshold = other.feature, other.threshold
        self.left, self.right, self.choice = other.left, other.right, other.choice

    def leaves_with_rows(
        self, X: np.ndarray, rows: np.ndarray, depth: int = 0
    ) -> Iterator[tuple["Node", np.ndarray, int]]:
        """Yield each leaf, the rows of X that come to it, and its depth.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Rows.
        rows : ndarray of int
            Which of them come to this node.
        depth : int, default=0
            Depth of this node.

        Yields
        ------
        tuple of Node, ndarray of int, int
            From left to right.
        """
        if self.left is None or self.right is None:
            yield self, rows, depth
            return
        goes_left = X[rows, self.feature] <= self.threshold
        yield from self.left.leaves_with_rows(X, rows[goes_left], depth + 1)
        yield from self.right.leaves_with_rows(X, rows[~goes_left], depth + 1)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return what is decided for each row.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_rows,), int
            Choices.
        """
        decided = np.empty(len(X), np.int64)
        for leaf, rows, _ in self.leaves_with_rows(X, np.arange(len(X))):
            decided[rows] = leaf.choice
        return decided


def cheapest(costs: np.ndarray) -> int:
    """Return the choice whose costs have the smallest sum.

    Parameters
    ----------
    costs : ndarray of shape (n_rows, n_choices)
        May have no rows.

    Returns
    -------
    int
        The first of the cheapest.
    """
    return int(costs.sum(axis=0).argmin())


def relabel(root: Node, X: np.ndarray, costs: np.ndarray) -> Node:
    """Let each leaf decide what is cheapest for the rows that come to it.

    Parameters
    ----------
    root : Node
        Changed in place.
    X : ndarray of shape (n_rows, n_features)
        Rows.
    costs : ndarray of shape (n_rows, n_choices)
        What each choice costs.

    Returns
    -------
    Node
        The root.
    """
    for leaf, rows, _ in root.leaves_with_rows(X, np.arange(len(X))):
        leaf.choice = cheapest(costs[rows])
    return root


@dataclass
class _Pruned:
    """The least cost of a subtree by number of leaves, from one on.

    ``n_left`` says how many of the leaves are left of the root, 0 for a root that is
    a leaf.
    """

    node: Node
    costs: np.ndarray
    n_left: np.ndarray
    choice: int
    left: "_Pruned | None" = None
    right: "_Pruned | None" = None


def prune(root: Node, X: np.ndarray, costs: np.ndarray, max_leaf_nodes: int) -> Node:
    """Return the cheapest subtree with so many leaves.

    Parameters
    ----------
    root : Node
        Tree that is pruned; not changed.
    X : ndarray of shape (n_rows, n_features)
        Rows.
    costs : ndarray of shape (n_rows, n_choices)
        What each choice costs.
    max_leaf_nodes : int
        Most leaves of the result.

    Returns
    -------
    Node
        A new tree with the same root, and as few leaves as the least cost needs. By
        dynamic programming over the number of leaves, from the leaves up.
    """
    table = _tabulate(root, X, costs, np.arange(len(X)), max_leaf_nodes)
    return _cut(table, int((table.costs <= table.costs.min() + _TINY).argmax()) + 1)


def _tabulate(
    node: Node, X: np.ndarray, costs: np.ndarray, rows: np.ndarray, most: int
) -> _Pruned:
    choice = cheapest(costs[rows])
    alone = costs[rows, choice].sum()
    if node.left is None or node.right is None:
        return _Pruned(node, np.array([alone]), np.zeros(1, np.int64), choice)
    goes_left = X[rows, node.feature] <= node.threshold
    left = _tabulate(node.left, X, costs, rows[goes_left], most)
    right = _tabulate(node.right, X, costs, rows[~goes_left], most)
    size = min(most, len(left.costs) + len(right.costs))
    best, n_left = np.full(size, np.inf), np.zeros(size, np.int64)
    best[0] = alone
    for on_left, cost in enumerate(left.costs, start=1):
        on_right = np.arange(1, min(len(right.costs), size - on_left) + 1)
        places = on_left + on_right - 1
        total = cost + right.costs[: len(on_right)]
        better = total < best[places] - _TINY
        best[places[better]], n_left[places[better]] = total[better], on_left
    return _Pruned(node, best, n_left, choice, left, right)


def _cut(table: _Pruned, n_leaves: int) -> Node:
    on_left = int(table.n_left[n_leaves - 1])
    if on_left == 0 or table.left is None or table.right is None:
        return Node(choice=table.choice)
    return Node(
        table.node.feature,
        table.node.threshold,
        _cut(table.left, on_left),
        _cut(table.right, n_leaves - on_left),
        table.choice,
    )
