import json
import os
import pickle
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from fasta_learn.exceptions import JournalMismatchError
from fasta_learn.oracles import (
    BaseOracle,
    CallableOracle,
    JournaledOracle,
    Measurement,
    RecordedOracle,
)

CONFIGS = [{"BLOCK": block} for block in (16, 32, 64, 128)]


class CountingOracle(BaseOracle):
    """Take 1000 / BLOCK ms, and remember what was asked."""

    def __init__(self, identity="H200"):
        self.identity = identity
        self.asked = []
        self.pools = []

    def measure(self, configs):
        self.asked += list(configs)
        return [self._answer(config["BLOCK"]) for config in configs]

    def open_pool(self, configs):
        self.pools.append(configs)

    def fingerprint(self):
        return {"device": self.identity, "kernel": "tile"}

    @staticmethod
    def _answer(block):
        if block > 100:
            return Measurement.failed("out_of_resources", "shared memory: é → 寄存器")
        return Measurement(1000 / block / 3, info={"registers": block})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.jsonl"


def lines_of(path):
    return path.read_text(encoding="utf-8").splitlines()


def test_second_run_measures_nothing_and_answers_the_same(path):
    expected = CountingOracle().measure(CONFIGS)
    assert JournaledOracle(CountingOracle(), path).measure(CONFIGS) == expected
    again = JournaledOracle(CountingOracle(), path)
    assert again.measure(CONFIGS) == expected
    assert again.oracle.asked == []
    assert (again.n_measured, again.n_replayed) == (0, 4)


def test_only_missing_configs_are_measured_and_the_order_is_kept(path):
    JournaledOracle(CountingOracle(), path).measure(CONFIGS[1:3])
    journal = JournaledOracle(CountingOracle(), path)
    answers = journal.measure(CONFIGS[::-1])
    assert answers == CountingOracle().measure(CONFIGS[::-1])
    assert journal.oracle.asked == [CONFIGS[3], CONFIGS[0]]
    assert (journal.n_measured, journal.n_replayed) == (2, 2)


def test_config_twice_in_a_batch_is_measured_once(path):
    journal = JournaledOracle(CountingOracle(), path)
    answers = journal.measure([CONFIGS[0], CONFIGS[1], CONFIGS[0]])
    assert answers[0] == answers[2]
    assert journal.oracle.asked == CONFIGS[:2]


def test_measurement_is_on_disk_before_it_is_given(path):
    journal = JournaledOracle(CallableOracle(lambda config: config["BLOCK"]), path)
    for n_given, _ in enumerate(journal.measure_each(CONFIGS), start=1):
        assert len(JournaledOracle.read(path)) == n_given


def test_measured_ones_are_kept_when_the_oracle_raises(path):
    def measure(config):
        if config["BLOCK"] == 64:
            raise KeyboardInterrupt
        return 1.0

    with pytest.raises(KeyboardInterrupt):
        JournaledOracle(CallableOracle(measure), path).measure(CONFIGS)
    assert [config for config, _ in JournaledOracle.read(path)] == CONFIGS[:2]


def test_every_record_is_synced(path, monkeypatch):
    synced = Counter()
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: synced.update([os.fstat(descriptor).st_ino])
    )
    JournaledOracle(CountingOracle(), path).measure(CONFIGS)
    assert synced[path.stat().st_ino] == 1 + len(CONFIGS)  # header and records
    assert synced[path.parent.stat().st_ino] == 1


def test_failed_configs_are_not_measured_again(path):
    JournaledOracle(CountingOracle(), path).measure(CONFIGS[3:])
    journal = JournaledOracle(CountingOracle(), path)
    (answer,) = journal.measure(CONFIGS[3:])
    assert (answer.status, journal.oracle.asked) == ("out_of_resources", [])
    assert answer.reason == "shared memory: é → 寄存器"


@pytest.mark.parametrize(
    "config",
    [
        {"BLOCK": np.int64(16), "name": "é", "flag": True},
        SimpleNamespace(kwargs={"BLOCK": 16}, num_warps=4, num_stages=None),
        np.array([16.0, 2.0]),
    ],
)
def test_every_kind_of_config_is_known_again(path, config):
    JournaledOracle(CallableOracle(lambda c: 2.5), path).measure([config])
    again = JournaledOracle(CallableOracle(lambda c: 0.0), path)
    assert again.measure([config])[0].duration == 2.5


def test_file_can_be_read_by_people(path):
    config = SimpleNamespace(kwargs={"BLOCK": 16}, num_warps=4)
    inner = RecordedOracle([config], [0.25], name="tile")
    JournaledOracle(inner, path, fingerprint={"device": "H200"}).measure([config])
    header, record = map(json.loads, lines_of(path))
    assert header == {
        "journal": "fasta_learn",
        "version": 1,
        "fingerprint": {"oracle": {"device": "H200"}, "pool": None},
    }
    assert record["config"] == {"BLOCK": 16, "num_warps": 4}
    assert record["measurement"] == {"duration": 0.25, "status": "ok"}


def test_read_gives_configs_and_measurements_in_order(path):
    JournaledOracle(CountingOracle(), path).measure(CONFIGS)
    expected = list(zip(CONFIGS, CountingOracle().measure(CONFIGS), strict=True))
    assert JournaledOracle.read(str(path)) == expected


def test_read_changes_nothing(path):
    JournaledOracle(CountingOracle(), path).measure(CONFIGS)
    torn = path.read_bytes()[:-5]
    path.write_bytes(torn)
    assert len(JournaledOracle.read(path)) == len(CONFIGS) - 1
    assert path.read_bytes() == torn


def test_open_pool_reaches_the_inner_oracle(path):
    journal = JournaledOracle(CountingOracle(), path)
    journal.open_pool(CONFIGS)
    assert journal.oracle.pools == [CONFIGS]


def test_pool_is_known_again_in_any_order(path):
    JournaledOracle(CountingOracle(), path).open_pool(CONFIGS)
    JournaledOracle(CountingOracle(), path).open_pool(CONFIGS[::-1])
    assert len(lines_of(path)) == 1


def test_another_pool_is_a_mismatch_with_both_fingerprints(path):
    JournaledOracle(CountingOracle(), path).open_pool(CONFIGS)
    old = json.loads(lines_of(path)[0])["fingerprint"]["pool"]
    with pytest.raises(JournalMismatchError, match="pool differ") as caught:
        JournaledOracle(CountingOracle(), path).open_pool(CONFIGS[:2])
    assert old in str(caught.value)
    assert len(lines_of(path)) == 1


@pytest.mark.parametrize("method", ["open_pool", "measure"])
def test_another_device_is_a_mismatch_with_both_fingerprints(path, method):
    JournaledOracle(CountingOracle("H200"), path).open_pool(CONFIGS)
    other = JournaledOracle(CountingOracle("A100"), path)
    with pytest.raises(JournalMismatchError, match=r"(?s)device differ.*H200.*A100"):
        getattr(other, method)(CONFIGS)
    assert other.oracle.asked == []


def test_mismatched_journal_does_not_go_on(path):
    JournaledOracle(CountingOracle(), path).open_pool(CONFIGS)
    journal = JournaledOracle(CountingOracle(), path)
    journal.measure(CONFIGS[:1])
    with pytest.raises(JournalMismatchError):
        journal.open_pool(CONFIGS[:2])
    with pytest.raises(JournalMismatchError):
        journal.measure(CONFIGS[1:2])


def test_journal_without_a_pool_serves_any_pool(path):
    JournaledOracle(CountingOracle(), path).measure(CONFIGS[:2])
    journal = JournaledOracle(CountingOracle(), path)
    journal.open_pool(CONFIGS)
    journal.measure(CONFIGS)
    assert journal.n_replayed == 2


def test_fingerprint_of_the_user_replaces_that_of_the_oracle(path):
    same = {"device": "any"}
    JournaledOracle(CountingOracle("H200"), path, fingerprint=same).measure(CONFIGS)
    journal = JournaledOracle(CountingOracle("A100"), path, fingerprint=same)
    journal.measure(CONFIGS)
    assert journal.n_measured == 0
    assert journal.fingerprint() == same


def test_fingerprint_is_that_of_the_inner_oracle(path):
    expected = {"device": "H200", "kernel": "tile"}
    assert JournaledOracle(CountingOracle(), path).fingerprint() == expected


def test_tuples_in_a_fingerprint_compare_equal(path):
    fingerprint = {"shape": (16, 16)}
    for _ in range(2):
        JournaledOracle(CountingOracle(), path, fingerprint=fingerprint).measure([])
    assert len(lines_of(path)) == 1


def test_fingerprint_that_json_can_not_hold_is_refused(path):
    journal = JournaledOracle(CountingOracle(), path, fingerprint={"device": object()})
    with pytest.raises(ValueError, match="fingerprint can't be written as JSON"):
        journal.measure(CONFIGS)


def test_missing_directory_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="none of the journal does not exist"):
        JournaledOracle(CountingOracle(), tmp_path / "none" / "journal.jsonl")


def test_relative_path_survives_a_change_of_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    journal = JournaledOracle(CountingOracle(), "journal.jsonl")
    journal.measure(CONFIGS[:1])
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    journal.measure(CONFIGS)
    assert len(JournaledOracle.read(tmp_path / "journal.jsonl")) == 4


class WrongNumber(BaseOracle):
    def __init__(self, surplus):
        self.surplus = surplus

    def measure(self, configs):
        return [Measurement(1.0)] * (len(configs) + self.surplus)


@pytest.mark.parametrize(("surplus", "what"), [(-1, "fewer"), (-4, "fewer"), (1, "mo")])
def test_wrong_number_of_answers_is_an_error(path, surplus, what):
    journal = JournaledOracle(WrongNumber(surplus), path)
    with pytest.raises(ValueError, match=f"WrongNumber answered with {what}"):
        journal.measure(CONFIGS)


def test_pickled_journal_goes_on(path):
    journal = JournaledOracle(CountingOracle(), path)
    journal.measure(CONFIGS[:2])
    copy = pickle.loads(pickle.dumps(journal))
    copy.measure(CONFIGS)
    assert copy.oracle.asked == CONFIGS


class RepeatingOracle(CountingOracle):
    """Answer 1, 2, 3... ms when asked to measure anew."""

    def __init__(self):
        super().__init__()
        self.n_repeats = 0

    def remeasure_each(self, configs):
        for _ in configs:
            self.n_repeats += 1
            yield Measurement(float(self.n_repeats))


def test_repeats_are_measured_anew(tmp_path):
    journal = JournaledOracle(RepeatingOracle(), tmp_path / "journal")
    journal.measure(CONFIGS)
    first = [m.duration for m in journal.remeasure_each(CONFIGS[:2])]
    second = [m.duration for m in journal.remeasure_each([CONFIGS[1], CONFIGS[1]])]
    assert (first, second) == ([1.0, 2.0], [3.0, 4.0])
    assert journal.n_measured == 8


def test_repeats_are_replayed_in_their_order(tmp_path):
    before = JournaledOracle(RepeatingOracle(), tmp_path / "journal")
    for config in (CONFIGS[1], CONFIGS[0], CONFIGS[1]):
        list(before.remeasure_each([config]))
    after = JournaledOracle(RepeatingOracle(), tmp_path / "journal")
    repeats = after.remeasure_each([CONFIGS[0], CONFIGS[1], CONFIGS[1], CONFIGS[1]])
    assert [m.duration for m in repeats] == [2.0, 1.0, 3.0, 1.0]
    assert (after.n_replayed, after.n_measured) == (3, 1)


def test_repeats_of_another_search_start_with_the_first(tmp_path):
    journal = JournaledOracle(RepeatingOracle(), tmp_path / "journal")
    for _ in range(2):
        journal.open_pool(CONFIGS)
        repeats = [m.duration for m in journal.remeasure_each(CONFIGS[:2])]
        assert repeats == [1.0, 2.0]


def test_repeats_are_no_measurements_of_the_pool(tmp_path):
    journal = JournaledOracle(RepeatingOracle(), tmp_path / "journal")
    list(journal.remeasure_each(CONFIGS[:1]))
    expected = CountingOracle().measure(CONFIGS[:1])
    assert journal.measure(CONFIGS[:1]) == expected
    read = JournaledOracle.read(tmp_path / "journal")
    assert [config for config, _ in read] == CONFIGS[:1]


def test_repeats_tell_their_config_to_people(tmp_path):
    journal = JournaledOracle(RepeatingOracle(), tmp_path / "journal")
    list(journal.remeasure_each(CONFIGS[:1]))
    record = json.loads((tmp_path / "journal").read_text().splitlines()[-1])
    assert record["config"] == CONFIGS[0]
