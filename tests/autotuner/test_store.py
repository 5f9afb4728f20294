import json
import logging
import os
from pathlib import Path

import pytest

from fasta_learn.autotuner._store import (
    KernelStore,
    find_folder,
    pool_hash,
    short_hash,
)
from fasta_learn.oracles import BaseOracle, Measurement

CONFIGS = [{"BLOCK": 2**i} for i in range(4, 9)]
IDENTITY = {"kernel": "k", "key": [1024]}


class CountingOracle(BaseOracle):
    """Answers the block as duration, counts, and fails as it is told."""

    def __init__(self, status="ok"):
        self.asked = []
        self.status = status

    def measure(self, configs):
        return [self._measure(config) for config in configs]

    def measure_each(self, configs):
        return (self._measure(config) for config in configs)

    def _measure(self, config):
        self.asked.append(config["BLOCK"])
        if self.status != "ok":
            return Measurement.failed(self.status, "told so")
        return Measurement(float(config["BLOCK"]))


@pytest.fixture
def store(tmp_path):
    return KernelStore(tmp_path / "store", "kernel", "hash")


def journal_path(store):
    return store.folder / f"{short_hash(IDENTITY)}.jsonl"


def measure(store, configs, status="ok"):
    """Measure configs as a search does; answer the oracle and what it gave."""
    inner = CountingOracle(status)
    journal = store.journal(inner, IDENTITY)
    journal.open_pool(configs)
    return inner, list(journal.measure_each(configs))


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({"FASTA_LEARN_CACHE_DIR": "/a"}, "/a/autotune"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/fasta_learn/autotune"),
        ({"HOME": "/c"}, "/c/.cache/fasta_learn/autotune"),
    ],
)
def test_folder_of_the_user(variables, wanted, monkeypatch):
    for name in ("FASTA_LEARN_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert find_folder(True) == Path(wanted)


def test_folder_given_or_none():
    assert find_folder("/d/e") == Path("/d/e")
    assert find_folder(False) is None


def test_nothing_is_kept_without_a_folder():
    store = KernelStore(None, "kernel", "hash")
    inner = CountingOracle()
    assert store.journal(inner, IDENTITY) is inner
    store.save(IDENTITY, "choice", CONFIGS[0])
    assert store.load(IDENTITY, "choice") is None


def test_a_larger_pool_keeps_earlier_measurements(store):
    measure(store, CONFIGS[:3])
    inner, answers = measure(store, CONFIGS)
    assert inner.asked == [128, 256]
    assert [answer.duration for answer in answers] == [16, 32, 64, 128, 256]


def test_another_identity_shares_nothing(store):
    measure(store, CONFIGS)
    assert store.measurements({**IDENTITY, "key": [2048]}) == {}


@pytest.mark.parametrize("status", ["out_of_memory", "error"])
def test_passing_failures_are_tried_again(store, status):
    measure(store, CONFIGS[:2], status)
    inner, _ = measure(store, CONFIGS[:2])
    assert inner.asked == [16, 32]


@pytest.mark.parametrize("status", ["compile_error", "illegal_access", "wrong_result"])
def test_lasting_failures_are_kept(store, status):
    measure(store, CONFIGS[:2], status)
    inner, answers = measure(store, CONFIGS[:2])
    assert inner.asked == []
    assert [answer.status for answer in answers] == [status, status]


def test_two_writers_share_what_they_measure(store):
    first, second = CountingOracle(), CountingOracle()
    journals = [store.journal(inner, IDENTITY) for inner in (first, second)]
    for journal in journals:
        journal.open_pool(CONFIGS)
    answers = [journal.measure_each(CONFIGS) for journal in journals]
    for _ in CONFIGS:
        for answer in answers:
            next(answer)
    assert len(first.asked) + len(second.asked) == len(CONFIGS)
    assert len(store.measurements(IDENTITY)) == len(CONFIGS)


def test_damage_keeps_what_stands_before_it(store, caplog):
    measure(store, CONFIGS[:3])
    path = journal_path(store)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:2], "rubbish\n", *lines[3:]]))
    with caplog.at_level(logging.WARNING):
        inner, answers = measure(store, CONFIGS[:3])
    assert inner.asked == [32, 64]
    assert [answer.duration for answer in answers] == [16, 32, 64]
    assert len(caplog.records) == 1
    inner, _ = measure(store, CONFIGS[:3])
    assert inner.asked == []


def test_a_file_that_is_no_journal_is_set_aside(store, caplog):
    store.folder.mkdir(parents=True)
    journal_path(store).write_text("not a journal\n")
    _, answers = measure(store, CONFIGS)
    assert [answer.duration for answer in answers] == [16, 32, 64, 128, 256]
    assert len(caplog.records) == 1
    assert journal_path(store).with_suffix(".damaged").read_text() == "not a journal\n"


def test_a_torn_last_line_is_measured_again(store, caplog):
    measure(store, CONFIGS[:2])
    path = journal_path(store)
    path.write_bytes(path.read_bytes()[:-5])
    inner, _ = measure(store, CONFIGS[:2])
    assert inner.asked == [32]
    assert not caplog.records


def test_a_full_disk_is_told_once(store, monkeypatch, caplog):
    def refuse(*args):
        raise OSError(28, "No space left on device")

    journal = store.journal(CountingOracle(), IDENTITY)
    journal.open_pool(CONFIGS)
    monkeypatch.setattr(os, "pwrite", refuse)
    answers = journal.measure(CONFIGS)
    assert [answer.duration for answer in answers] == [16, 32, 64, 128, 256]
    assert len(caplog.records) == 1
    assert "No space left" in caplog.text


def test_a_folder_that_cannot_be_made(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    store = KernelStore(tmp_path / "file", "kernel", "hash")
    inner, answers = measure(store, CONFIGS)
    store.save(IDENTITY, "choice", CONFIGS[0])
    assert len(inner.asked) == len(answers) == len(CONFIGS)
    assert len(caplog.records) == 1


def test_a_store_that_cannot_be_written_is_read(store, monkeypatch, caplog):
    measure(store, CONFIGS[:3])
    opened = os.open

    def refuse(path, flags, *args, **kwargs):
        if flags & os.O_RDWR:
            raise PermissionError(13, "Permission denied")
        return opened(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", refuse)
    inner, _ = measure(store, CONFIGS)
    assert inner.asked == [128, 256]
    assert len(caplog.records) == 1


def test_decision_round_trip(store):
    store.save(IDENTITY, "choice", CONFIGS[2])
    decision = store.load(IDENTITY, "choice")
    assert json.loads(decision["winner"]) == CONFIGS[2]
    assert decision["identity"] == IDENTITY
    assert list(store.decisions()) == [decision]
    assert store.load(IDENTITY, "other") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version": 1, "winner": 3, "identity": {"key": []}}',
        '{"version": 1, "winner": "{}", "identity": []}',
        '{"version": 1, "winner": "{}", "identity": {"key": 7}}',
        "\udcff",
    ],
)
def test_a_damaged_decision_is_no_decision(store, text, caplog):
    store.save(IDENTITY, "choice", CONFIGS[2])
    (path,) = store.folder.glob("*.json")
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert store.load(IDENTITY, "choice") is None
    assert list(store.decisions()) == []
    assert len(caplog.records) == 1


def test_a_decision_of_a_later_format_is_left_alone(store, caplog):
    store.save(IDENTITY, "choice", CONFIGS[2])
    (path,) = store.folder.glob("*.json")
    path.write_text('{"version": 2}')
    assert store.load(IDENTITY, "choice") is None
    assert not caplog.records


def test_pool_hash_knows_content_not_order():
    assert pool_hash(CONFIGS) == pool_hash(CONFIGS[::-1])
    assert pool_hash(CONFIGS) != pool_hash(CONFIGS[1:])
    assert pool_hash([{"BLOCK": 1}]) != pool_hash([{"BLOCK": True}])
