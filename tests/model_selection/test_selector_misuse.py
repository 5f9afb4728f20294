"""What ModelSelector refuses, and how it says so."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge

from fasta_learn.bases import LinearBasis
from fasta_learn.model_selection import ModelSelector


def test_predict_needs_fit():
    with pytest.raises(NotFittedError):
        ModelSelector().predict([[0.0]])


def test_no_features_is_the_usual_error():
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        ModelSelector().fit(np.empty((3, 0)), np.ones(3))


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"bases": []}, ValueError, "bases is empty"),
        ({"bases": "linear"}, ValueError, "'bases' parameter"),
        ({"bases": [LinearBasis]}, TypeError, r"bases\[0\] is the class LinearBasis"),
        ({"bases": [("a",)]}, ValueError, r"bases\[0\]"),
        ({"bases": [(1, LinearBasis())]}, ValueError, r"bases\[0\]"),
        ({"bases": [Ridge()]}, TypeError, r"bases\[0\] is Ridge\(\), which lacks"),
        ({"bases": [LinearBasis(), LinearBasis()]}, ValueError, "several of"),
        ({"alpha": -0.1}, ValueError, "'alpha' parameter"),
        ({"alpha": [0.1, -1]}, ValueError, r"alpha\[1\] is -1.0"),
        ({"alpha": [np.nan]}, ValueError, r"alpha\[0\] is nan"),
        ({"alpha": []}, ValueError, "alpha has the shape"),
        ({"alpha": [[0.1]]}, ValueError, "alpha has the shape"),
        ({"scoring": "r2"}, ValueError, "'scoring' parameter"),
        ({"cubic_gate": 0}, ValueError, "'cubic_gate' parameter"),
        ({"max_leverage": 1.01}, ValueError, "'max_leverage' parameter"),
    ],
)
def test_wrong_parameters_are_named(parameters, error, message):
    with pytest.raises(error, match=message):
        ModelSelector(**parameters).fit(np.eye(3), np.arange(3.0))


def test_negative_weights_are_refused():
    with pytest.raises(ValueError, match="sample_weight"):
        ModelSelector().fit([[0.0], [1.0]], [1.0, 2.0], sample_weight=[1, -1])
