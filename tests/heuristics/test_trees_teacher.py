import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.dummy import DummyRegressor

from fasta_learn.heuristics import decision_costs
from fasta_learn.heuristics._trees_teacher import teach


class Recalling(RegressorMixin, BaseEstimator):
    """Answers 1 for rows that it has learned from, and 0 for others."""

    def fit(self, X, y):
        self.known_ = set(X[:, 0].tolist())
        return self

    def predict(self, X):
        return np.array([float(value in self.known_) for value in X[:, 0]])


def lesson_of(teacher, advantage, **options):
    n_inputs = len(advantage)
    defaults = {
        "weight": np.ones(n_inputs),
        "trust": np.ones(n_inputs),
        "groups": None,
        "drawn": None,
        "margin": 1.1,
        "slow_penalty": 0.0,
    }
    X = np.arange(float(n_inputs))[:, None]
    return teach(teacher, X, np.asarray(advantage), **(defaults | options))


def advantage_of(lesson):
    return lesson.costs[:, 0] - lesson.costs[:, 1]


@pytest.mark.parametrize("grouped", [False, True])
def test_no_input_is_taught_by_itself_or_its_group(grouped):
    """What is not trusted is what the teacher says: 0 of rows that it does not know."""
    groups = np.arange(24) // 3 if grouped else None
    lesson = lesson_of(Recalling(), np.ones(24), trust=np.zeros(24), groups=groups)
    assert_allclose(advantage_of(lesson), 0.0)


def test_groups_are_held_out_whole():
    seen = []

    class Listening(DummyRegressor):
        def fit(self, X, y):
            seen.append(set((X[:, 0] // 3).tolist()))
            return super().fit(X, y)

        def predict(self, X):
            assert not seen[-1] & set((X[:, 0] // 3).tolist())
            return super().predict(X)

    lesson_of(Listening(), np.ones(24), groups=np.arange(24) // 3)
    assert len(seen) == 4


def test_trusted_measurements_count_three_quarters():
    lesson = lesson_of(DummyRegressor(strategy="constant", constant=0.4), np.zeros(8))
    assert_allclose(advantage_of(lesson), 0.25 * 0.4)


def test_noisy_measurements_count_less():
    teacher = DummyRegressor(strategy="constant", constant=0.4)
    lesson = lesson_of(teacher, np.zeros(8), trust=np.linspace(0, 1, 8))
    assert_allclose(advantage_of(lesson), 0.4 * (1 - 0.75 * np.linspace(0, 1, 8)))


def test_costs_are_those_of_a_decision():
    lesson = lesson_of(
        DummyRegressor(strategy="constant", constant=np.log(1.3)),
        np.full(8, np.log(1.3)),
        slow_penalty=0.2,
    )
    assert_allclose(lesson.costs, decision_costs([[1.3, 1.0]] * 8, slow_penalty=0.2))


def test_drawn_inputs_count_three_times_what_the_measured_ones_do():
    teacher = DummyRegressor(strategy="constant", constant=0.05)
    weight = np.linspace(1, 2, 8)
    lesson = lesson_of(
        teacher, np.full(8, 0.05), weight=weight, drawn=np.zeros((100, 1))
    )
    assert lesson.X.shape == (108, 1)
    costs = lesson.costs[:, 0]
    assert_allclose(costs[:8], 0.05 * weight)
    assert_allclose(costs[8:].sum(), 3 * costs[:8].sum())


def test_nothing_drawn_is_the_same_as_no_drawn_inputs():
    teacher = DummyRegressor()
    nothing = lesson_of(teacher, np.ones(8), drawn=np.zeros((0, 1)))
    assert_allclose(nothing.costs, lesson_of(teacher, np.ones(8)).costs)
