"""A fitted binary tree as arrays, evaluated in double precision."""

from dataclasses import dataclass
from typing import Any

import numpy as np

LEAF = -1


@dataclass(frozen=True, eq=False)
class FlatTree:
    """A binary tree: left if ``x[feature] <= threshold``.

    scikit-learn rounds what its trees are given to single precision; generated code
    compares Python numbers. Comparing in double precision here makes both agree on
    every row, also where a product of sizes needs more than 24 bits.

    Parameters
    ----------
    feature : ndarray of shape (n_nodes,), int
        Column that a node looks at, -1 for a leaf.
    threshold : ndarray of shape (n_nodes,)
        What it is compared with; NaN for a leaf.
    left, right : ndarray of shape (n_nodes,), int
        Children, -1 for a leaf. The root is node 0.
    value : ndarray of shape (n_nodes, n_outputs)
        What a leaf answers.
    """

    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray

    @classmethod
    def from_sklearn(cls, fitted: Any) -> "FlatTree":
        """Copy the tree of a fitted scikit-learn tree.

        Parameters
        ----------
        fitted : DecisionTreeClassifier or DecisionTreeRegressor
            A fitted tree with one output.

        Returns
        -------
        FlatTree
            The same nodes in the same order.
        """
        tree = fitted.tree_
        inner = tree.children_left >= 0
        return cls(
            feature=np.where(inner, tree.feature, LEAF),
            threshold=np.where(inner, tree.threshold, np.nan),
            left=np.where(inner, tree.children_left, LEAF),
            right=np.where(inner, tree.children_right, LEAF),
            value=np.array(tree.value[:, 0, :]),
        )

    def apply(self, X: np.ndarray) -> np.ndarray:
        """Return the leaf of each row.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Rows of finite numbers.

        Returns
        -------
        ndarray of shape (n_rows,), int
            Nodes.
        """
        node = np.zeros(len(X), np.int64)
        rows = np.flatnonzero(self.feature[node] != LEAF)
        while len(rows):
            at = node[rows]
            goes_left = X[rows, self.feature[at]] <= self.threshold[at]
            node[rows] = np.where(goes_left, self.left[at], self.right[at])
            rows = rows[self.feature[node[rows]] != LEAF]
        return node

    @property
    def leaves(self) -> np.ndarray:
        """Nodes that are leaves and can be reached, from left to right."""
        found, waiting = [], [0]
        while waiting:
            node = waiting.pop()
            if self.feature[node] == LEAF:
                found.append(node)
            else:
                waiting += [int(self.right[node]), int(self.left[node])]
        return np.array(found)

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.leaves)

    @property
    def depth(self) -> int:
        """Number of comparisons on the longest way to a leaf."""
        deepest, waiting = 0, [(0, 0)]
        while waiting:
            node, depth = waiting.pop()
            deepest = max(deepest, depth)
            if self.feature[node] != LEAF:
                waiting += [
                    (int(self.left[node]), depth + 1),
                    (int(self.right[node]), depth + 1),
                ]
        return deepest
