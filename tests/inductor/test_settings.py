import dataclasses
import pickle
from pathlib import Path

import pytest

from fasta_learn.inductor import Settings

FIELDS = {field.name for field in dataclasses.fields(Settings)}


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch):
    for name in FIELDS:
        monkeypatch.delenv(f"FASTA_LEARN_{name.upper()}", raising=False)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("gemm", "0", False),
        ("gemm", "on", True),
        ("pointwise", "False", False),
        ("gemm_budget", "12", 12),
        ("gemm_budget", "0.25", 0.25),
        ("gemm_budget", "1.0", 1.0),
        ("pointwise_budget", " 8 ", 8),
        ("gemm_confidence", "0.9", 0.9),
        ("gemm_confidence", "none", None),
        ("npu", "off", False),
        ("npu_budget", "0.5", 0.5),
        ("time_budget", "2.5", 2.5),
        ("time_budget", "3", 3),
        ("margin", "0", 0),
        ("random_state", "7", 7),
        ("store", "0", False),
        ("store", "yes", True),
        ("store", "/tmp/winners", "/tmp/winners"),
        ("frozen", "1", True),
        ("frozen", "off", False),
        ("n_jobs", "2", 2),
        ("statistics", "/tmp/searches.csv", "/tmp/searches.csv"),
    ],
)
def test_environment_gives_what_is_not_given(monkeypatch, name, text, value):
    monkeypatch.setenv(f"FASTA_LEARN_{name.upper()}", text)
    found = getattr(Settings.from_environment(), name)
    assert (found, type(found)) == (value, type(value))


def test_each_setting_has_an_example_of_its_variable():
    tested = {
        row[0] for row in test_environment_gives_what_is_not_given.pytestmark[0].args[1]
    }
    assert tested == FIELDS


def test_empty_variable_means_the_default(monkeypatch):
    monkeypatch.setenv("FASTA_LEARN_MARGIN", "")
    assert Settings.from_environment() == Settings()


def test_given_setting_wins_over_the_environment(monkeypatch):
    monkeypatch.setenv("FASTA_LEARN_GEMM_BUDGET", "12")
    monkeypatch.setenv("FASTA_LEARN_MARGIN", "nonsense")
    settings = Settings.from_environment(gemm_budget=30, margin=0.01)
    assert (settings.gemm_budget, settings.margin) == (30, 0.01)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gemm", 1),
        ("pointwise", None),
        ("gemm_budget", 0),
        ("gemm_confidence", 1),
        ("gemm_budget", 1.5),
        ("gemm_budget", True),
        ("pointwise_budget", float("nan")),
        ("pointwise_budget", "16"),
        ("time_budget", 0),
        ("time_budget", float("inf")),
        ("margin", 1.0),
        ("margin", -0.1),
        ("random_state", None),
        ("random_state", 2**32),
        ("store", ""),
        ("store", 1),
        ("frozen", 0),
        ("n_jobs", 0),
        ("n_jobs", 2.0),
        ("statistics", True),
    ],
)
def test_invalid_setting_is_named(name, value):
    with pytest.raises(ValueError, match=f"^{name} must be .*, got {value!r}"):
        Settings(**{name: value})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gemm", "perhaps"),
        ("frozen", "2"),
        ("gemm_budget", "many"),
        ("gemm_budget", "2.0"),
        ("random_state", "1.0"),
        ("n_jobs", "-1"),
    ],
)
def test_invalid_variable_is_named(monkeypatch, name, text):
    variable = f"FASTA_LEARN_{name.upper()}"
    monkeypatch.setenv(variable, text)
    with pytest.raises(ValueError, match=f"^{variable} must be .*, got '{text}'"):
        Settings.from_environment()


def test_unknown_setting_is_refused_with_the_known_ones():
    with pytest.raises(TypeError, match=r"no setting 'budget'.*gemm_budget"):
        Settings.from_environment(budget=3)


def test_settings_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().gemm = False


@pytest.mark.parametrize("frozen", [None, False, True])
def test_only_true_is_frozen(frozen):
    assert Settings(frozen=frozen).is_frozen is (frozen is True)


def test_settings_survive_a_pickle():
    settings = Settings(store=Path("winners"), gemm_budget=0.5)
    assert pickle.loads(pickle.dumps(settings)) == settings


@pytest.mark.parametrize(
    "change",
    [
        {"gemm_budget": 61},
        {"pointwise_budget": 0.5},
        {"time_budget": 1.0},
        {"margin": 0.03},
        {"random_state": 1},
    ],
)
def test_cache_key_tells_settings_that_can_change_a_winner(change):
    assert Settings(**change).cache_key() != Settings().cache_key()


@pytest.mark.parametrize(
    "change",
    [
        {"store": False},
        {"frozen": True},
        {"n_jobs": 3},
        {"statistics": "searches.csv"},
        {"gemm": False},
        {"pointwise": False},
    ],
)
def test_cache_key_ignores_where_and_by_whom_it_is_found(change):
    assert Settings(**change).cache_key() == Settings().cache_key()


def test_all_of_a_pool_is_not_one_of_it():
    one, all_of_it = Settings(gemm_budget=1), Settings(gemm_budget=1.0)
    assert one.cache_key() != all_of_it.cache_key()
