import multiprocessing
import threading

import pytest

from fasta_learn.oracles import Measurement
from fasta_learn.oracles import _journal_file as module
from fasta_learn.oracles._journal_file import JournalFile

FINGERPRINT = {"oracle": {"device": "H200 é"}, "pool": None}
FIRST = Measurement(0.1)
LAST = Measurement.failed("compile_error", "é → 寄存器")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.jsonl"


def write_journal(path):
    file = JournalFile(path)
    file.open(FINGERPRINT)
    file.append("one", {"name": "é"}, FIRST)
    file.append("two", {"name": "寄存器"}, LAST)
    return path.read_bytes()


def reopened(path):
    file = JournalFile(path)
    assert file.open(FINGERPRINT) == FINGERPRINT
    return file


def test_records_are_read_back_in_order(path):
    write_journal(path)
    assert list(reopened(path).records.items()) == [
        ("one", ({"name": "é"}, FIRST)),
        ("two", ({"name": "寄存器"}, LAST)),
    ]


def test_last_record_may_be_cut_at_every_byte(path):
    whole = write_journal(path)
    last = whole.rindex(b"\n", 0, -1) + 1
    for end in range(last, len(whole)):
        path.write_bytes(whole[:end])
        file = reopened(path)
        assert list(file.records) == ["one"]
        file.append("two", {"name": "寄存器"}, LAST)
        assert path.read_bytes() == whole


def test_cut_record_longer_than_the_next_leaves_nothing_behind(path):
    write_journal(path)
    with path.open("ab") as stream:
        stream.write(b'{"key": "' + b"x" * 1000)
    reopened(path).append("three", {}, FIRST)
    assert path.read_bytes().endswith(b"}\n")
    assert list(reopened(path).records) == ["one", "two", "three"]


def test_header_may_be_cut_at_every_byte(path):
    whole = write_journal(path)
    header = whole[: whole.index(b"\n") + 1]
    for end in range(len(header)):
        path.write_bytes(header[:end])
        assert reopened(path).records == {}
        assert path.read_bytes() == header


def test_reading_a_cut_journal_leaves_it_as_it_is(path):
    cut = write_journal(path)[:-3]
    path.write_bytes(cut)
    reopened(path).update()
    assert path.read_bytes() == cut


def test_cut_header_is_read_as_no_records(path):
    path.write_bytes(write_journal(path)[:20])
    file = JournalFile(path)
    file.read()
    assert file.records == {}


@pytest.mark.parametrize(
    "line",
    [
        b'{"key": "one", "config": {}, "measu',
        b"",
        b"\xff\xfe",
        b"[1, 2]",
        b"7",
        b'{"key": "one", "config": {}}',
        b'{"key": "one", "config": {}, "measurement": {"duration": -1}}',
        b'{"key": "one", "config": {}, "measurement": {"duration": "fast"}}',
        b'{"key": "one", "config": {}, "measurement": {"length": 1}}',
        b'{"key": "one", "config": {}, "measurement": null}',
    ],
)
def test_corrupted_line_in_the_middle_is_an_error_with_its_number(path, line):
    header, _, last, end = write_journal(path).split(b"\n")
    damaged = b"\n".join([header, line, last, end])
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match=r"journal.jsonl, line 2 is corrupted"):
        JournalFile(path).open(FINGERPRINT)
    assert path.read_bytes() == damaged


def test_line_number_counts_lines_read_before(path):
    write_journal(path)
    file = reopened(path)
    file.append("three", {}, FIRST)
    with path.open("ab") as stream:
        stream.write(b"nonsense\n")
    with pytest.raises(ValueError, match="line 5 is corrupted"):
        file.update()


@pytest.mark.parametrize("method", ["open", "read"])
@pytest.mark.parametrize(
    "content", [b"BLOCK,duration_ms\n16,0.5\n", b"notes", b"[]\n", b"{}\n", b"\n"]
)
def test_other_files_are_refused_and_left_alone(path, content, method):
    path.write_bytes(content)
    arguments = [FINGERPRINT] if method == "open" else []
    with pytest.raises(ValueError, match="is not a journal"):
        getattr(JournalFile(path), method)(*arguments)
    assert path.read_bytes() == content


def test_other_format_version_is_refused(path):
    path.write_bytes(write_journal(path).replace(b'"version": 1', b'"version": 2', 1))
    with pytest.raises(ValueError, match="format version 2; this release reads ver"):
        JournalFile(path).open(FINGERPRINT)


def test_first_record_of_a_config_counts(path):
    write_journal(path)
    one, other = reopened(path), reopened(path)
    one.append("three", {}, FIRST)
    other.append("three", {}, LAST)
    assert other.records["three"] == ({}, FIRST)
    assert len(path.read_bytes().splitlines()) == 4


def test_first_of_two_lines_about_a_config_counts(path):
    line = write_journal(path).splitlines(keepends=True)[1]
    with path.open("ab") as stream:
        stream.write(line.replace(b"0.1", b"0.9"))
    assert reopened(path).records["one"] == ({"name": "é"}, FIRST)


def test_shortened_file_is_an_error(path):
    whole = write_journal(path)
    file = reopened(path)
    path.write_bytes(whole[:-40])
    with pytest.raises(ValueError, match="became shorter while it was in use"):
        file.update()


def test_removed_file_is_an_error(path):
    write_journal(path)
    file = reopened(path)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        file.append("three", {}, FIRST)


def test_lone_surrogates_survive(path):
    write_journal(path)
    reopened(path).append("three", {"name": "\udc80"}, FIRST)
    assert reopened(path).records["three"][0] == {"name": "\udc80"}


def test_full_disk_loses_only_the_record_that_did_not_fit(path, monkeypatch):
    whole = write_journal(path)
    file = reopened(path)
    written = []

    def write_little(descriptor, data, offset, original=module.os.pwrite):
        if written:
            raise OSError(28, "No space left on device")
        written.append(original(descriptor, data[:10], offset))
        return written[0]

    with monkeypatch.context() as patch:
        patch.setattr(module.os, "pwrite", write_little)
        with pytest.raises(OSError, match="No space left"):
            file.append("three", {}, FIRST)
    assert path.read_bytes()[: len(whole)] == whole
    file.append("three", {}, FIRST)
    assert list(reopened(path).records) == ["one", "two", "three"]


def test_system_without_locks_is_an_error(path, monkeypatch):
    monkeypatch.setattr(module, "fcntl", None)
    with pytest.raises(OSError, match=r"needs file locks \(fcntl\)"):
        JournalFile(path).open(FINGERPRINT)


def append_many(path, name):
    file = JournalFile(path)
    file.open(FINGERPRINT)
    for index in range(50):
        file.append(f"{name} {index}", {"i": index}, FIRST)


def test_threads_append_to_one_file(path):
    threads = [
        threading.Thread(target=append_many, args=(path, name)) for name in "abcd"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = {f"{name} {index}" for name in "abcd" for index in range(50)}
    assert set(reopened(path).records) == expected
    assert len(path.read_bytes().splitlines()) == 1 + 200


def test_processes_create_one_file(path):
    context = multiprocessing.get_context("fork")
    running = [context.Process(target=append_many, args=(path, n)) for n in "abcd"]
    for process in running:
        process.start()
    for process in running:
        process.join()
    assert len(reopened(path).records) == 200
    assert len(path.read_bytes().splitlines()) == 1 + 200
