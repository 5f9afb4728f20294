import pytest

from fasta_learn.inductor import Settings
from fasta_learn.inductor._npu_settings import (
    NAMES,
    NPUSettings,
    count_budget,
    make_search,
)

SHARES = (0.30, 0.35, 0.40, 0.25)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def read(monkeypatch):
    def read(**variables):
        for name, text in variables.items():
            monkeypatch.setenv(name, text)
        return NPUSettings.from_environment()

    return read


def test_empty_environment_means_the_default_search(read):
    assert read() == NPUSettings()
    assert read().shares is None


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("FASTA_DYNAMIC_FILTER", "1", {"shares": SHARES}),
        ("FASTA_DYNAMIC_FILTER", "0", {"enabled": False}),
        ("FASTA_R1_PCT", "0.2", {"shares": (0.2, *SHARES[1:])}),
        ("FASTA_BASE_BUDGET", "0.5", {"shares": (0.3, 0.5, 0.4, 0.25)}),
        ("FASTA_HIGH_BUDGET", "1", {"shares": (0.3, 0.35, 1.0, 0.25)}),
        ("FASTA_LOW_BUDGET", ".1", {"shares": (0.3, 0.35, 0.4, 0.1)}),
        ("FASTA_MAX_ROUNDS", "5", {"shares": SHARES, "max_rounds": 5}),
        ("FASTA_CONFIG_OPTIMIZER", "1", {"optimizes": True}),
        ("FASTA_CONFIG_OPTIMIZER", "0", {}),
        ("FASTA_AUTOTUNE_STATS", "1", {"stages": "1"}),
        ("FASTA_AUTOTUNE_STATS", "0", {}),
        ("FASTA_AUTOTUNE_STATS", "/data/stages", {"stages": "/data/stages"}),
        ("FASTA_MSPTI_EN", "1", {"timer": "mspti"}),
        ("FASTA_EVENT_BENCHMARK", "1", {"timer": "events"}),
    ],
)
def test_name_is_honoured(read, name, text, expected):
    assert read(**{name: text}) == NPUSettings(**expected)


def test_each_name_is_tested():
    (mark,) = test_name_is_honoured.pytestmark
    assert {row[0] for row in mark.args[1]} == set(NAMES)


def test_events_win_over_mspti(read):
    assert read(FASTA_MSPTI_EN="1", FASTA_EVENT_BENCHMARK="1").timer == "events"


@pytest.mark.parametrize("text", ["0", "1.5", "nan", "a third"])
def test_share_that_is_none_is_named(read, text):
    with pytest.raises(
        ValueError, match=r"FASTA_BASE_BUDGET must be a share in \(0, 1"
    ):
        read(FASTA_BASE_BUDGET=text)


@pytest.mark.parametrize("text", ["0", "-1", "2.5", "many"])
def test_rounds_that_are_no_count_are_named(read, text):
    with pytest.raises(ValueError, match="FASTA_MAX_ROUNDS must be an integer"):
        read(FASTA_MAX_ROUNDS=text)


def test_tag_tells_what_changes_the_winner(read):
    tags = [
        NPUSettings().cache_tag(),
        NPUSettings(shares=SHARES).cache_tag(),
        NPUSettings(shares=SHARES, max_rounds=3).cache_tag(),
        NPUSettings(shares=(0.1, *SHARES[1:])).cache_tag(),
    ]
    assert tags[0] == ""
    assert len(set(tags)) == 4
    assert NPUSettings(stages="1", timer="events").cache_tag() == ""


@pytest.mark.parametrize(
    ("budget", "n_pool", "expected"),
    [
        (None, 8, 8),
        (None, 26, 12),
        (None, 36, 15),
        (None, 108, 44),
        (5, 36, 5),
        (50, 36, 36),
        (0.25, 36, 9),
        (0.001, 36, 1),
    ],
)
def test_budget(budget, n_pool, expected):
    assert count_budget(budget, n_pool) == expected


POOL = [
    {"X0BLOCK": block, "X0BLOCK_SUB": sub, "multibuffer": flag}
    for block in (16, 32, 64)
    for sub in (2, 4, 8, 16)
    for flag in (False, True)
]


def test_default_search_learns_from_buffers():
    search = make_search(Settings(random_state=4), NPUSettings(), len(POOL))
    search.fit(POOL, [2.0 - config["multibuffer"] for config in POOL])
    assert search.summary_["n_features"] == 3
    assert search.n_measured_ == 12


def test_dynamic_filter_takes_the_constants():
    npu = NPUSettings(shares=(0.25, 0.35, 0.5, 0.25), max_rounds=1)
    search = make_search(Settings(), npu, len(POOL))
    search.fit(POOL, [config["X0BLOCK"] for config in POOL])
    # D = 2 and N = 24: the class of a high budget, and one round, the blind one.
    assert search.summary_["budget_class"] == "high"
    assert search.summary_["n_features"] == 2
    assert search.n_budget_ == 12
    assert search.n_measured_ == 6
