import numpy as np
import pytest
from numpy.testing import assert_allclose

from fasta_learn.heuristics import ChoiceRanker

NAMES = ["a", "b", "c", "d"]


def make_case(seed=0, n_inputs=300):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 4, (n_inputs, 2))
    centre = np.arange(4) + 0.5
    durations = 1 + np.abs(X[:, :1] - centre) + rng.exponential(0.01, (n_inputs, 4))
    return X, durations


def test_nearly_best_choices_are_learned_with_their_weight():
    X = np.zeros((1, 1))
    ranker = ChoiceRanker(["a", "b", "c"], min_samples_leaf=1)
    ranker.fit(X, [[1.0, 1.0 / 0.985, 1.1]])
    assert ranker.classes_.tolist() == ["a", "b"]
    assert_allclose(ranker.predict_proba(X), [[1 / 1.985, 0.985 / 1.985]])


@pytest.mark.parametrize("top_k", [1, 2, 3])
def test_every_side_of_a_split_keeps_enough_choices(top_k):
    X, durations = make_case()
    ranker = ChoiceRanker(NAMES, top_k=top_k, near_best=0.9, random_state=0)
    ranker.fit(X, durations)
    nearly = durations.min(axis=1, keepdims=True) / durations >= 0.9
    leaf = ranker.tree_.apply(X)
    for node in np.unique(leaf):
        if len(ranker.tree_.leaves) > 1:
            assert nearly[leaf == node].any(axis=0).sum() >= top_k


def test_more_choices_never_lose_more_time():
    X, durations = make_case()
    few = ChoiceRanker(NAMES, top_k=1, random_state=0).fit(X, durations)
    wide = ChoiceRanker(NAMES, top_k=4, random_state=0).fit(X, durations)
    assert few.score(X, durations) <= wide.score(X, durations) == 0.0


def test_always_included_choices_stand_behind():
    X, durations = make_case()
    ranker = ChoiceRanker(NAMES, top_k=1, always_included=["d"], random_state=0)
    ranked = ranker.fit(X, durations).rank([[0.2, 1.0], [3.8, 1.0]])
    assert ranked == [["a", "d"], ["d"]]


def test_choices_that_were_not_measured_are_not_ranked_first():
    X, durations = make_case()
    durations[:, 0] = np.nan
    ranker = ChoiceRanker(NAMES, random_state=0).fit(X, durations)
    assert "a" not in ranker.classes_


def test_rank_orders_by_share():
    X, durations = make_case()
    ranker = ChoiceRanker(NAMES, near_best=0.8, random_state=0).fit(X, durations)
    shares = dict(zip(ranker.classes_, ranker.predict_proba(X[:1])[0], strict=True))
    (ranked,) = ranker.rank(X[:1])
    assert [shares[name] for name in ranked] == sorted(
        (share for share in shares.values() if share > 0), reverse=True
    )
