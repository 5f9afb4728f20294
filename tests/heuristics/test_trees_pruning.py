from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.tree import DecisionTreeClassifier

from fasta_learn.heuristics._trees_flat import FlatTree
from fasta_learn.heuristics._trees_growing import (
    Growth,
    _as_nodes,
    _best_split,
    grow_tree,
)
from fasta_learn.heuristics._trees_pruning import Node, prune, relabel


def make_case(seed=0, n_rows=60, n_choices=2):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 12, (n_rows, 3)).astype(float)
    costs = rng.exponential(size=(n_rows, n_choices)) * (rng.random((n_rows, 1)) < 0.8)
    return X, costs - costs.min(axis=1, keepdims=True)


def make_tree(X, costs, n_leaves):
    fitted = DecisionTreeClassifier(max_leaf_nodes=n_leaves, random_state=0)
    fitted.fit(X, costs.argmin(axis=1))
    return relabel(_as_nodes(FlatTree.from_sklearn(fitted), 0), X, costs)


def cost_of(root, X, costs):
    return costs[np.arange(len(X)), root.predict(X)].sum()


def all_prunings(node, X, costs):
    """Yield (number of leaves, cost) of each subtree with the same root."""
    yield 1, costs.sum(axis=0).min() if len(costs) else 0.0
    if node.is_leaf:
        return
    left = X[:, node.feature] <= node.threshold
    sides = (node.left, left), (node.right, ~left)
    options = [list(all_prunings(child, X[rows], costs[rows])) for child, rows in sides]
    for (n_left, cost_left), (n_right, cost_right) in product(*options):
        yield n_left + n_right, cost_left + cost_right


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_leaves", [1, 2, 3, 5, 8])
def test_pruning_finds_the_cheapest_subtree(seed, n_leaves):
    X, costs = make_case(seed)
    root = make_tree(X, costs, 9)
    pruned = prune(root, X, costs, n_leaves)
    best = min(cost for size, cost in all_prunings(root, X, costs) if size <= n_leaves)
    assert_allclose(cost_of(pruned, X, costs), best)
    assert pruned.n_leaves <= n_leaves


def test_pruning_leaves_the_given_tree_as_it_is():
    X, costs = make_case()
    root = make_tree(X, costs, 9)
    prune(root, X, costs, 2)
    assert root.n_leaves == 9


def test_pruning_takes_no_leaf_that_saves_nothing():
    X = np.arange(4.0)[:, None]
    costs = np.tile([0.0, 1.0], (4, 1))
    root = Node(0, 1.5, Node(choice=0), Node(choice=0))
    assert prune(root, X, costs, 5).is_leaf


def growth(**options):
    defaults = {
        "max_leaf_nodes": 6,
        "max_depth": None,
        "min_samples_leaf": 1,
        "criterion": "gini",
        "n_refinements": 4,
        "seed": 0,
    }
    return Growth(**(defaults | options))


def tree_cost(tree, X, costs):
    decided = tree.value[tree.apply(X)].argmax(axis=1)
    return costs[np.arange(len(X)), decided].sum()


@pytest.mark.parametrize("seed", range(6))
def test_refining_never_costs_more(seed):
    X, costs = make_case(seed, 200)
    plain = tree_cost(grow_tree(X, costs, growth(n_refinements=0)), X, costs)
    refined = tree_cost(grow_tree(X, costs, growth(n_refinements=1)), X, costs)
    assert refined <= plain + 1e-9


def splits_by_brute_force(X, more, least):
    """Yield the cost of going right of each split of each column."""
    for column in range(X.shape[1]):
        values = np.unique(X[:, column])
        for threshold in (values[:-1] + values[1:]) / 2:
            right = X[:, column] > threshold
            if least <= right.sum() <= len(X) - least:
                yield more[right].sum(), column, threshold


@pytest.mark.parametrize("least", [1, 7, 25])
@pytest.mark.parametrize("seed", range(4))
def test_best_split_is_the_best_of_all(seed, least):
    rng = np.random.default_rng(seed)
    flags = (rng.random((50, 3)) < [0.5, 0.1, 0.9]).astype(float)
    numbers = np.column_stack([rng.integers(0, 9, 50), rng.random(50) * 1e6])
    X, more = np.column_stack([flags, numbers]), rng.normal(size=50)
    found = _best_split(X, more, least)
    assert_allclose(found, min(splits_by_brute_force(X, more, least)))


@pytest.mark.parametrize("column", [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [7.0, 7.0, 7.0]])
def test_a_constant_column_has_no_split(column):
    cost, _, _ = _best_split(np.array([column]).T, np.array([-1.0, 2.0, -3.0]), 1)
    assert cost == np.inf


def test_refining_finds_a_split_that_greedy_growth_misses():
    # Gini prefers the column that separates many cheap rows; one row costs most.
    rng = np.random.default_rng(0)
    cheap = rng.integers(0, 2, 100).astype(float)
    X = np.column_stack([cheap, np.zeros(100)])
    X[:3, 1] = 1.0
    costs = np.where(cheap[:, None] == [[1.0, 0.0]], 1.0, 0.0) * 0.9
    costs[:3] = np.where(cheap[:3, None] == [[1.0, 0.0]], 0.0, 40.0)
    grown = grow_tree(X, costs, growth(max_leaf_nodes=2))
    best_split = min(
        sum(costs[rows].sum(axis=0).min() for rows in (X[:, f] <= 0.5, X[:, f] > 0.5))
        for f in (0, 1)
    )
    assert_allclose(tree_cost(grown, X, costs), best_split)


@pytest.mark.parametrize("max_leaf_nodes", [2, 3, 7, 20])
def test_growth_keeps_the_number_of_leaves(max_leaf_nodes):
    X, costs = make_case(1, 300, n_choices=3)
    assert grow_tree(X, costs, growth(max_leaf_nodes=max_leaf_nodes)).n_leaves <= (
        max_leaf_nodes
    )


@pytest.mark.parametrize("max_depth", [1, 2, 4])
def test_growth_keeps_the_depth(max_depth):
    X, costs = make_case(2, 300)
    tree = grow_tree(X, costs, growth(max_leaf_nodes=40, max_depth=max_depth))
    assert tree.depth <= max_depth


def test_no_two_neighbouring_leaves_decide_the_same():
    X, costs = make_case(3, 300)
    tree = grow_tree(X, costs, growth(max_leaf_nodes=12))
    decided = tree.value.argmax(axis=1)
    for left, right in zip(tree.left, tree.right, strict=True):
        if left >= 0 and tree.feature[left] < 0 and tree.feature[right] < 0:
            assert decided[left] != decided[right]


def test_a_leaf_takes_the_choice_that_costs_least():
    X, costs = make_case(4, 200)
    tree = grow_tree(X, costs, growth())
    leaf = tree.apply(X)
    for node in tree.leaves:
        total = costs[leaf == node].sum(axis=0)
        assert total[tree.value[node].argmax()] == pytest.approx(total.min())


def test_values_are_what_choices_save_as_shares():
    X = np.zeros((3, 1))
    costs = np.array([[0.0, 3.0], [1.0, 0.0], [0.0, 0.0]])
    tree = grow_tree(X, costs, growth())
    assert_allclose(tree.value, [[0.75, 0.25]])


def test_flat_tree_compares_in_double_precision():
    # 2**24 + 1 is no single precision number.
    tree = FlatTree(
        np.array([0, -1, -1]),
        np.array([2.0**24, np.nan, np.nan]),
        np.array([1, -1, -1]),
        np.array([2, -1, -1]),
        np.eye(3)[:, :2],
    )
    assert tree.apply(np.array([[2.0**24], [2.0**24 + 1]])).tolist() == [1, 2]


def test_flat_tree_applies_like_scikit_learn():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 100, (300, 4)).astype(float)
    fitted = DecisionTreeClassifier(random_state=0).fit(X, rng.integers(0, 3, 300))
    assert (FlatTree.from_sklearn(fitted).apply(X) == fitted.apply(X)).all()


def test_flat_tree_counts_leaves_and_depth_like_scikit_learn():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(100, 2))
    fitted = DecisionTreeClassifier(random_state=0).fit(X, rng.integers(0, 2, 100))
    tree = FlatTree.from_sklearn(fitted)
    assert (tree.n_leaves, tree.depth) == (fitted.get_n_leaves(), fitted.get_depth())
