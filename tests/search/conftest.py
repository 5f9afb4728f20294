import numpy as np
import pandas as pd
import pytest

from fasta_learn import ActiveConfigSearch, dynamic_filter_search
from fasta_learn.search import SearchState


class Pools:
    """Synthetic pools, and the loop that a caller with own measurements writes."""

    @staticmethod
    def tiles(noise=0.05, failed=0.0, shape=(6, 5, 3), seed=0):
        """Configs of tile sizes and their durations in ms, some of them failed."""
        rng = np.random.default_rng(seed)
        configs = [
            {"BLOCK_M": 2 ** (4 + i), "BLOCK_N": 2 ** (4 + j), "num_warps": 2**k}
            for i in range(shape[0])
            for j in range(shape[1])
            for k in range(shape[2])
        ]
        logs = np.log2([list(config.values()) for config in configs])
        durations = 1 + 0.2 * (logs[:, 0] - 6) ** 2 + 0.1 * (logs[:, 1] - 7) ** 2
        durations += 0.1 * np.abs(logs[:, 2] - 1)
        durations *= 1 + noise * rng.random(len(durations))
        durations[rng.random(len(durations)) < failed] = np.inf
        return configs, durations

    @staticmethod
    def bowl(n_features, noise=0.0, seed=0):
        """A matrix of 150 configs and a smooth bowl over it."""
        rng = np.random.default_rng(seed)
        shape = {2: (15, 10), 3: (6, 5, 5)}[n_features]
        axes = [np.linspace(0, 1, n_levels) for n_levels in shape]
        X = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(150, -1)
        centre = 0.25 + 0.5 * rng.random(n_features)
        weight = 1 + rng.random(n_features)
        durations = 1 + ((X - centre) ** 2 * weight).sum(axis=1)
        return X, durations * (1 + noise * rng.standard_normal(150))

    @staticmethod
    def run(search, X, durations, n_configs=None):
        """Search by propose and partial_fit until nothing is proposed."""
        durations = np.asarray(durations)
        while len(batch := search.propose(X, n_configs=n_configs)):
            search.partial_fit(batch, durations[batch])
        return search


@pytest.fixture(scope="session")
def pools():
    return Pools


def _assert_same_search(one, other):
    pd.testing.assert_frame_equal(one.results_, other.results_, check_exact=True)
    assert str(one.rounds_) == str(other.rounds_)
    assert one.best_index_ == other.best_index_
    assert one.best_duration_ == other.best_duration_
    assert one.stop_reason_ == other.stop_reason_
    assert one.confidence_ == other.confidence_
    assert one.confidence_label_ == other.confidence_label_
    assert one.n_budget_ == other.n_budget_


@pytest.fixture(scope="session")
def assert_same_search():
    """Assert that two searches did the same to the bit."""
    return _assert_same_search


MAKERS = {
    "default": ActiveConfigSearch,
    "production": lambda **settings: dynamic_filter_search("production", **settings),
    "reference": lambda **settings: dynamic_filter_search("reference", **settings),
}


@pytest.fixture(params=list(MAKERS))
def make_search(request):
    """Each kind of search in turn, as a function of parameters to override."""
    return MAKERS[request.param]


class StubSurrogate:
    """Predictions that a test chooses; imagining a row halves its deviation."""

    basis = "stub"
    candidates = None

    def __init__(self, mean, std=None, r2=0.0, incumbent=0.0):
        self.mean, self.r2, self.incumbent = np.asarray(mean, float), r2, incumbent
        self._std = self.std = None if std is None else np.asarray(std, float)

    def imagine(self, row):
        if self.std is None:
            raise ValueError("stub has no standard deviations.")
        self._std = self._std.copy()
        self._std[row] /= 2
        return self._std

    def forget(self):
        self._std = self.std


def _make_state(
    features,
    *,
    measured=(),
    durations=(),
    pending=(),
    gone=(),
    n_budget=None,
    path="model",
    surrogate=None,
    seed=0,
    predicted=None,
    target_transform="speed",
    seconds=None,
    feasibility=None,
):
    features = np.asarray(features, dtype=float)
    measured, pending = (np.array(each, dtype=np.intp) for each in (measured, pending))
    taken = [*measured, *pending, *gone]
    return SearchState(
        features=features,
        measured=measured,
        durations=np.array(durations, dtype=float),
        pending=pending,
        available=np.setdiff1d(np.arange(len(features)), taken),
        n_budget=len(features) if n_budget is None else n_budget,
        round=2,
        path=path,
        surrogate=surrogate,
        rng=np.random.RandomState(seed),
        predicted=np.full(len(measured), np.nan) if predicted is None else predicted,
        target_transform=target_transform,
        seconds=np.full(len(measured), np.nan) if seconds is None else seconds,
        feasibility=feasibility,
    )


@pytest.fixture(scope="session")
def make_state():
    """Build the state that a policy is shown."""
    return _make_state


@pytest.fixture(scope="session")
def stub():
    return StubSurrogate
