import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from fasta_learn.heuristics import GemmInput, PadFeatures
from fasta_learn.heuristics._selection import regret_of_leaves
from fasta_learn.heuristics._trees_upstream import order_columns


@pytest.fixture
def inputs_of_dtypes():
    """Make an input of each dtype, with growing sizes."""

    def make(dtypes):
        items = [GemmInput(1001 + i, 999, 77, dtype) for i, dtype in enumerate(dtypes)]
        return pd.DataFrame([item.features() for item in items])

    return make


def test_expected_regret_is_drawn_towards_the_mean_of_all():
    """Leaf 1 has two inputs that lose .3; leaf 2 one, weighted twice, that loses 0."""
    leaf, lost, weight = np.array([1, 1, 2]), np.array([0.3, 0.3, 0.0]), [1, 1, 2]
    expected = regret_of_leaves(leaf, lost, np.array(weight, float), n_nodes=4)
    mean = 0.6 / 4
    assert_allclose(expected[1], (0.6 + 5 * mean) / (2 + 5))
    assert_allclose(expected[2], (0.0 + 5 * mean) / (2 + 5))
    assert_allclose(expected[[0, 3]], mean)  # no input comes there


def test_columns_are_ordered_by_the_sorted_inputs(inputs_of_dtypes):
    """PyTorch's trainer takes the values of a category as it finds them."""
    inputs = inputs_of_dtypes(["float32", "bfloat16", "float16"])
    features = PadFeatures().fit(inputs)
    order = order_columns(features, inputs)
    columns = [features.columns_[index] for index in order]
    values = [value for name, value in columns if name == "mat1_dtype"]
    assert values == ["torch.float32", "torch.bfloat16", "torch.float16"]
    assert sorted(order) == list(range(len(features.columns_)))


def test_order_of_the_columns_does_not_depend_on_that_of_the_inputs(inputs_of_dtypes):
    inputs = inputs_of_dtypes(["float32", "bfloat16", "float16"])
    features = PadFeatures().fit(inputs)
    backwards = inputs.iloc[::-1].reset_index(drop=True)
    assert_allclose(order_columns(features, backwards), order_columns(features, inputs))
