"""Grow, prune and refine a tree that decides at the least cost.

A greedy tree spends leaves where classes mix, not where time is lost. So a tree with
several times too many leaves is grown, cut back to the cheapest subtree of the wanted
size, and refined: each split in turn is replaced by the one that is best while the
rest of the tree stays (tree alternating optimization, Carreira-Perpinan and Tavallali,
NeurIPS 2018). Leaves that become free are spent where most is lost.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from fasta_learn.heuristics._trees_flat import LEAF, FlatTree
from fasta_learn.heuristics._trees_pruning import Node, cheapest, prune, relabel

# How many times too many leaves are grown before pruning.
_OVERGROWTH = 3
# Leaves that a single leaf may be split into while refining.
_REGROWTH = 4
# Sums of costs that differ by less than this are equal.
_TINY = 1e-9


@dataclass(frozen=True)
class Growth:
    """How trees grow.

    Parameters
    ----------
    max_leaf_nodes : int
        Most leaves of the result.
    max_depth : int or None
        Most comparisons on a way to a leaf.
    min_samples_leaf : int or float
        Least rows, or share of them, on each side of a greedy split.
    criterion : {"gini", "entropy"}
        What a greedy split reduces.
    n_refinements : int
        Passes that replace each split; 0 leaves the pruned greedy tree.
    seed : int
        Which of equally good greedy splits is taken.
    """

    max_leaf_nodes: int
    max_depth: int | None
    min_samples_leaf: float
    criterion: str
    n_refinements: int
    seed: int


def grow_tree(X: np.ndarray, costs: np.ndarray, growth: Growth) -> FlatTree:
    """Grow a tree whose leaves are choices.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Rows of finite numbers.
    costs : ndarray of shape (n_rows, n_choices)
        What each choice costs for a row, weights included.
    growth : Growth
        How to grow.

    Returns
    -------
    FlatTree
        Its values are what each choice saves over the dearest one, summed over the
        rows of a node and divided by the sum over choices: the largest is cheapest.
    """
    root = _greedy(X, costs, growth, growth.max_leaf_nodes * _OVERGROWTH)
    root = prune(root, X, costs, growth.max_leaf_nodes)
    for last in range(growth.n_refinements)[::-1]:
        root = _merged(_refine(root, X, costs, np.arange(len(X)), growth))
        if last:
            _regrow(root, X, costs, growth)
    return _flatten(root, X, costs)


def _greedy(X: np.ndarray, costs: np.ndarray, growth: Growth, n_leaves: int) -> Node:
    best = costs.argmin(axis=1)
    weight = costs.mean(axis=1) - costs.min(axis=1)
    useful = weight > 0
    if len(np.unique(best[useful])) < 2:
        return relabel(Node(), X, costs)
    grown = DecisionTreeClassifier(
        max_leaf_nodes=max(2, n_leaves),
        max_depth=growth.max_depth,
        min_samples_leaf=growth.min_samples_leaf,
        criterion=growth.criterion,
        random_state=growth.seed,
    )
    # Rows without weight still count for min_samples_leaf.
    grown.fit(X, best, sample_weight=weight + weight.mean() * 1e-9)
    return relabel(_as_nodes(FlatTree.from_sklearn(grown), 0), X, costs)


def _as_nodes(tree: FlatTree, at: int) -> Node:
    if tree.feature[at] == LEAF:
        return Node()
    return Node(
        int(tree.feature[at]),
        float(tree.threshold[at]),
        _as_nodes(tree, int(tree.left[at])),
        _as_nodes(tree, int(tree.right[at])),
    )


def _refine(
    node: Node, X: np.ndarray, costs: np.ndarray, rows: np.ndarray, growth: Growth
) -> Node:
    """Replace each split below a node, deepest first, by the cheapest one."""
    if node.left is None or node.right is None:
        node.choice = cheapest(costs[rows])
        return node
    goes_left = X[rows, node.feature] <= node.threshold
    node.left = _refine(node.left, X, costs, rows[goes_left], growth)
    node.right = _refine(node.right, X, costs, rows[~goes_left], growth)
    # What it costs more to go right than to go left, with the subtrees as they are.
    more = (
        costs[rows, node.right.predict(X[rows])]
        - costs[rows, node.left.predict(X[rows])]
    )
    matter = np.flatnonzero(more)
    if len(matter) == 0:
        return node.left
    current = more[~goes_left].sum()
    least = _least_rows(growth, len(matter), len(X))
    cost, feature, threshold = _best_split(X[rows[matter]], more[matter], least)
    if min(0.0, more.sum()) <= min(cost, current) + _TINY:
        return node.left if more.sum() >= 0 else node.right
    if cost < current - _TINY:
        node.feature, node.threshold = feature, threshold
    return node


def _least_rows(growth: Growth, n_rows: int, n_all: int) -> int:
    """Return how many of the rows at a split must go to either side."""
    least = growth.min_samples_leaf
    wanted = least if least >= 1 else int(np.ceil(least * n_all))
    # A split of few rows may stay, but not shave off single ones.
    return max(1, min(int(wanted), n_rows // 2))


def _best_split(
    X: np.ndarray, more: np.ndarray, least: int
) -> tuple[float, int, float]:
    """Return the least cost of going right, the column and the threshold."""
    best = (np.inf, 0, 0.0)
    allowed = np.zeros(max(len(X) - 1, 0), bool)
    allowed[least - 1 : len(X) - least] = True
    flags = ((X == 0) | (X == 1)).all(axis=0)
    of_flags = _split_flags(X[:, flags], more, least)
    for feature in range(X.shape[1]):
        if flags[feature]:
            found = (next(of_flags), feature, 0.5)
        else:
            cost, threshold = _split_numbers(X[:, feature], more, allowed)
            found = (cost, feature, threshold)
        if found[0] < best[0] - _TINY:
            best = found
    return best


def _split_flags(X: np.ndarray, more: np.ndarray, least: int) -> Iterator[float]:
    """Yield for columns of zeros and ones what it costs to send the ones right."""
    n_right = X.sum(axis=0)
    fits = (n_right >= least) & (len(X) - n_right >= least)
    yield from np.where(fits, more @ X, np.inf).tolist()


def _split_numbers(
    values: np.ndarray, more: np.ndarray, allowed: np.ndarray
) -> tuple[float, float]:
    """Return the least cost of sending the larger values right, and the threshold."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    sums = np.cumsum(more[order])
    splits = allowed & (ordered[:-1] < ordered[1:])
    if not splits.any():
        return np.inf, 0.0
    right = np.where(splits, sums[-1] - sums[:-1], np.inf)
    at = int(right.argmin())
    middle = float(ordered[at] + (ordered[at + 1] - ordered[at]) / 2)
    # Rounding may make the middle of two neighbours the upper one.
    threshold = middle if middle < ordered[at + 1] else float(ordered[at])
    return float(right[at]), threshold


def _merged(node: Node) -> Node:
    """Replace splits whose leaves agree by one leaf."""
    if node.left is None or node.right is None:
        return node
    node.left, node.right = _merged(node.left), _merged(node.right)
    both_leaves = node.left.is_leaf and node.right.is_leaf
    if both_leaves and node.left.choice == node.right.choice:
        return node.left
    return node


def _regrow(root: Node, X: np.ndarray, costs: np.ndarray, growth: Growth) -> None:
    """Split the leaves at which most is lost, as long as leaves are free."""
    free = growth.max_leaf_nodes - root.n_leaves
    lost = [
        (costs[rows].sum(axis=0).min(), leaf, rows, depth)
        for leaf, rows, depth in root.leaves_with_rows(X, np.arange(len(X)))
        if len(rows) >= 2
    ]
    for cost, leaf, rows, depth in sorted(lost, key=lambda entry: -entry[0]):
        room = None if growth.max_depth is None else growth.max_depth - depth
        if free <= 0 or cost <= 0:
            return
        if room == 0:
            continue
        local = Growth(**{**vars(growth), "max_depth": room})
        n_leaves = min(_REGROWTH, free + 1)
        grown = _merged(_greedy(X[rows], costs[rows], local, n_leaves))
        if not grown.is_leaf:
            leaf.become(grown)
            free -= grown.n_leaves - 1


def _flatten(root: Node, X: np.ndarray, costs: np.ndarray) -> FlatTree:
    saved = costs.max(axis=1, keepdims=True) - costs
    feature: list[int] = []
    threshold: list[float] = []
    left: list[int] = []
    right: list[int] = []
    value: list[np.ndarray] = []

    def add(node: Node, rows: np.ndarray) -> int:
        at = len(feature)
        total = saved[rows].sum(axis=0)
        # Where nothing is at stake, or no row comes, the choice stands.
        certain = np.eye(costs.shape[1])[node.choice]
        value.append(total / total.sum() if total.sum() > 0 else certain)
        feature.append(node.feature)
        threshold.append(node.threshold)
        left.append(LEAF)
        right.append(LEAF)
        if node.left is not None and node.right is not None:
            goes_left = X[rows, node.feature] <= node.threshold
            left[at] = add(node.left, rows[goes_left])
            right[at] = add(node.right, rows[~goes_left])
        return at

    add(root, np.arange(len(X)))
    return FlatTree(
        np.array(feature),
        np.array(threshold, np.float64),
        np.array(left),
        np.array(right),
        np.array(value),
    )
