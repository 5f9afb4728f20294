"""Extremely randomised trees as plain arrays, which are stored without pickle."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor

# Rows are predicted so many at a time, which bounds the memory.
_CHUNK = 4096

# Three to ten samples a leaf predict as well; the more, the smaller the files.
_LEAF_SAMPLES = 6


@dataclass(frozen=True)
class Forest:
    """Trees one behind the other; a node without children predicts.

    Attributes
    ----------
    roots : ndarray of shape (n_trees,), dtype int64
        Index of the first node of each tree.
    feature : ndarray of shape (n_nodes,), dtype int32
        Which feature is compared.
    threshold : ndarray of shape (n_nodes,), dtype float32
        Rows at or below it go left.
    left, right : ndarray of shape (n_nodes,), dtype int64
        Index of the children; a leaf is its own child.
    value : ndarray of shape (n_nodes,), dtype float32
        Mean target.
    """

    roots: NDArray[np.int64]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    value: NDArray[np.float64]

    @classmethod
    def grow(
        cls,
        X: NDArray[np.float64],
        y: NDArray[np.float64],
        weight: NDArray[np.float64],
        n_trees: int,
        seed: int,
    ) -> "Forest":
        """Return a forest that has learned.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Features of single precision.
        y : ndarray of shape (n_samples,)
            Target.
        weight : ndarray of shape (n_samples,)
            Sample weights.
        n_trees : int
            Number of trees.
        seed : int
            Seed of all chance.

        Returns
        -------
        Forest
            The trees.
        """
        model = ExtraTreesRegressor(
            n_trees,
            min_samples_leaf=_LEAF_SAMPLES,
            max_features=0.5,
            max_leaf_nodes=2000,
            random_state=seed,
        ).fit(X, y, sample_weight=weight)
        trees = [member.tree_ for member in model.estimators_]
        roots = np.cumsum([0] + [tree.node_count for tree in trees[:-1]])
        parts: dict[str, list[NDArray[Any]]] = {
            field.name: [] for field in fields(cls)[1:]
        }
        for root, tree in zip(roots, trees, strict=True):
            own = np.arange(tree.node_count)
            leaf = tree.children_left < 0
            parts["feature"].append(np.where(leaf, 0, tree.feature))
            parts["threshold"].append(np.where(leaf, 0.0, tree.threshold))
            parts["left"].append(root + np.where(leaf, own, tree.children_left))
            parts["right"].append(root + np.where(leaf, own, tree.children_right))
            parts["value"].append(tree.value[:, 0, 0])
        joined = {name: np.concatenate(arrays) for name, arrays in parts.items()}
        joined["feature"] = joined["feature"].astype(np.int32)
        for name in ("threshold", "value"):
            joined[name] = joined[name].astype(np.float32)
        return cls(roots=roots.astype(np.int64), **joined)

    def predict(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the mean prediction of the trees.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Features of single precision.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predictions.
        """
        total = np.zeros(len(X))
        for start in range(0, len(X), _CHUNK):
            rows = X[start : start + _CHUNK]
            for root in self.roots:
                total[start : start + _CHUNK] += self.value[self._leaves(rows, root)]
        return total / len(self.roots)

    def _leaves(self, X: NDArray[np.float32], root: int) -> NDArray[np.int64]:
        """Index of the leaf of each row."""
        node = np.full(len(X), root)
        every = np.arange(len(X))
        while True:
            goes_left = X[every, self.feature[node]] <= self.threshold[node]
            below = np.where(goes_left, self.left[node], self.right[node])
            if np.array_equal(below, node):
                return node
            node = below

    def check(self, n_features: int) -> None:
        """Refuse arrays that are no trees, so that predictions always end.

        Parameters
        ----------
        n_features : int
            Number of features.

        Raises
        ------
        ValueError
            Lengths differ, an index is outside, a child comes before its parent, or
            a number is not finite.
        """
        n_nodes = len(self.value)
        own = np.arange(n_nodes)
        nodes = (self.feature, self.threshold, self.left, self.right, self.value)
        sound = (
            n_nodes > 0
            and len(self.roots) > 0
            and all(array.shape == (n_nodes,) for array in nodes)
            and self.roots.ndim == 1
            and _within(self.roots, 0, n_nodes)
            and _within(self.feature, 0, n_features)
            and _within(self.left, own, n_nodes)
            and _within(self.right, own, n_nodes)
            and bool(np.isfinite(self.threshold).all())
            and _within(self.value, 0.0, np.nextafter(1.0, 2.0))
            and bool(np.array_equal(self.left == own, self.right == own))
        )
        if not sound:
            raise ValueError("the arrays are no trees")


def _within(array: NDArray[Any], low: NDArray[np.intp] | float, high: float) -> bool:
    return bool(((array >= low) & (array < high)).all())
