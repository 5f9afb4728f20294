"""Searches where scikit-learn puts its estimators: files, clones, frames, pages."""

import io
import pickle

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import skops.io
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor

from fasta_learn import (
    ActiveConfigSearch,
    ConfigVectorizer,
    dynamic_filter_search,
)


def make_pool():
    configs = [
        {"M": 2**i, "N": 2**j, "warps": k}
        for i in range(5)
        for j in range(5)
        for k in (1, 2, 4)
    ]
    logs = np.log2([list(config.values()) for config in configs])
    durations = 1 + ((logs - [2, 3, 1]) ** 2).sum(axis=1) / 10
    durations *= 1 + 0.05 * np.random.default_rng(0).random(len(durations))
    durations[::11] = np.inf
    return configs, durations


def through_joblib(model):
    buffer = io.BytesIO()
    joblib.dump(model, buffer)
    buffer.seek(0)
    return joblib.load(buffer)


def through_skops(model):
    data = skops.io.dumps(model)
    unknown = skops.io.get_untrusted_types(data=data)
    assert {name.partition(".")[0] for name in unknown} <= {"fasta_learn", "sklearn"}
    return skops.io.loads(data, trusted=unknown)


ROUND_TRIPS = {
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "joblib": through_joblib,
    "skops": through_skops,
}
SEARCHES = {
    "default": lambda: ActiveConfigSearch(random_state=0),
    "production": lambda: dynamic_filter_search("production", random_state=0),
    "reference": lambda: dynamic_filter_search("reference", random_state=0),
    "forest": lambda: ActiveConfigSearch(
        RandomForestRegressor(5, random_state=0), batch_size=4, random_state=0
    ),
}


@pytest.fixture(params=SEARCHES)
def search(request):
    return SEARCHES[request.param]()


@pytest.fixture(params=ROUND_TRIPS)
def round_trip(request):
    return ROUND_TRIPS[request.param]


@pytest.mark.parametrize("as_frame", [False, True])
def test_fitted_search_survives_a_round_trip(search, round_trip, as_frame):
    configs, durations = make_pool()
    search.fit(pd.DataFrame(configs) if as_frame else configs, durations)
    copy = round_trip(search)
    pd.testing.assert_frame_equal(copy.results_, search.results_, check_exact=True)
    assert repr(copy.rounds_) == repr(search.rounds_)
    assert copy.best_config_ == search.best_config_
    assert copy.stop_reason_ == search.stop_reason_
    assert_array_equal(copy.predict(configs), search.predict(configs))
    assert len(copy.propose()) == 0


@pytest.mark.parametrize("n_batches", [0, 1, 3])
@pytest.mark.parametrize("with_open_proposals", [False, True])
def test_search_continues_after_a_round_trip(
    search, round_trip, n_batches, with_open_proposals
):
    configs, durations = make_pool()

    def step(search):
        batch = search.propose(configs)
        search.partial_fit(batch, durations[batch])
        return len(batch)

    for _ in range(n_batches):
        step(search)
    if with_open_proposals:
        search.propose(configs, n_configs=1)
    copy = round_trip(search)
    for each in (search, copy):
        while step(each):
            pass
    pd.testing.assert_frame_equal(copy.results_, search.results_, check_exact=True)
    assert repr(copy.rounds_) == repr(search.rounds_)
    assert copy.confidence_ == search.confidence_


def test_a_clone_of_a_search_is_new(search):
    configs, durations = make_pool()
    search.fit(configs, durations)
    copy = clone(search)
    assert not hasattr(copy, "best_index_")
    copy.fit(configs, durations)
    pd.testing.assert_frame_equal(copy.results_, search.results_, check_exact=True)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_are_pools(search, frame):
    configs, durations = make_pool()
    expected = clone(search).fit(configs, durations)
    search.fit(frame(configs), durations)
    pd.testing.assert_frame_equal(search.results_, expected.results_)
    assert search.best_config_ == expected.best_config_
    assert_array_equal(search.predict(frame(configs)), expected.predict(configs))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_are_told_by_rows(search, frame):
    configs, durations = make_pool()
    pool = frame(configs)
    batch = search.propose(pool)
    rows = pool.iloc[batch] if frame is pd.DataFrame else pool[batch.tolist()]
    search.partial_fit(rows, durations[batch])
    assert search.results_["index"].tolist() == batch.tolist()


@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_features_of_a_search_may_be_frames(output):
    configs, durations = make_pool()
    vectorizer = ConfigVectorizer(log2="auto").set_output(transform=output)
    search = ActiveConfigSearch(vectorizer=vectorizer, random_state=0)
    plain = ActiveConfigSearch(vectorizer=ConfigVectorizer(log2="auto"), random_state=0)
    for each in (search, plain):
        each.fit(configs, durations)
    pd.testing.assert_frame_equal(search.results_, plain.results_)
    assert_array_equal(search.predict(configs), plain.predict(configs))


def test_a_fitted_search_shows_itself_as_fitted():
    configs, durations = make_pool()
    search = ActiveConfigSearch(random_state=0)
    assert "Not fitted" in search._repr_html_()
    search.fit(configs, durations)
    assert "Not fitted" not in search._repr_html_()
    assert repr(search) == "ActiveConfigSearch(random_state=0)"
