"""Whatever is wrong with a command, it ends with one line on what to do."""

import errno
import os
import subprocess
import sys

import pytest

from fasta_learn._cli import main

BAD = [
    ("serach", "did you mean search?"),
    ("search --budgt 10%", "did you mean --budget?"),
    ("search --budgt=10%", "did you mean --budget?"),
    ("search --colour", "'fasta-learn search --help'"),
    ("search --profile prodution", "did you mean production?"),
    ("search mm_2048", "close to it: mm_2048_2048_2048"),
    ("search none.csv", "none.csv: No such file or directory; check the path"),
    ("search folder", "folder: Is a directory; name a file"),
    ("search file/pool.csv", "a part of the path is a file"),
    ("search empty.csv", "the file is empty; a pool has a line of column names"),
    ("search columns.csv", "there is no column 'duration_ms'"),
    ("search binary.csv", "binary.csv, line 1: no text in UTF-8"),
    ("search words.csv", "line 2, column 'duration_ms': 'x' is not a number"),
    ("search cut.json", "of JSON files only caches of Kernel Tuner are known"),
    ("search --budget 0", "neither a share of the configs"),
    ("search --budget much", "nor a whole number of them"),
    ("search --stop-at 1.5", "no probability above 0 and below 1"),
    ("search --seed -1", "is no whole number from 0"),
    ("search --journal no/a.jsonl", "does not exist; create it first"),
    ("search --journal folder", "Is a directory; name a file"),
    ("search --journal file", "is not a journal"),
    ("search --csv no/a.csv", "its folder does not exist; make it first"),
    ("search --csv folder", "it is a folder; name a file in it"),
    ("search --csv file/a.csv", "is a file and not a folder"),
    ("search --journal a.x --csv a.x", "name another for the output"),
    ("replay none", "no pool named 'none'"),
    ("replay swiglu_8M --jobs 0", "nor -1 (all processors)"),
    ("replay swiglu_8M --search defalt", "did you mean default?"),
    ("replay swiglu_8M --csv folder", "it is a folder"),
    ("replay swiglu_8M --plot a.docx", "can't draw a docx"),
    ("report", "required: FILE"),
    ("report none.jsonl", "No such file or directory"),
    ("report folder", "Is a directory"),
    ("report empty.csv", "empty.csv is empty; give a journal"),
    ("report file -o file", "name another for the output"),
    ("tune none.py:f", "none.py: No such file or directory"),
    ("tune file", "write module:function or path/to/file.py:function"),
    ("tune file:f --set rows", "is not of the form name=value"),
    ("tune file:f --devices 0,0", "no list of different device indices"),
    ("tune file:f --csv folder", "it is a folder"),
    ("record file:f", "required: -o/--output"),
    ("doctor --report folder", "it is a folder"),
    ("doctor --jsn", "did you mean --json?"),
    ("completion basch", "did you mean bash?"),
    ("heuristic trian", "did you mean train?"),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Be in a folder with files that can't be used."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    files = {
        "file": b"text\n",
        "empty.csv": b"",
        "columns.csv": b"a,b\n1,2\n",
        "words.csv": b"BLOCK,duration_ms\n1,x\n",
        "binary.csv": bytes(range(128, 256)),
        "cut.json": b'{"a": 1',
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


@pytest.mark.parametrize(("command", "message"), BAD, ids=[c for c, _ in BAD])
def test_one_line_says_what_to_do(capsys, folder, command, message):
    before = sorted(os.listdir(folder))
    assert main(command.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("fasta-learn: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert sorted(os.listdir(folder)) == before


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_no_space_for_a_file_names_it(capsys):
    assert main(["search", "swiglu_8M", "--csv", "/dev/full"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("/dev/full: No space left on device; make room, or choose "
                         "another place")  # fmt: skip


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_no_space_for_the_output():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "fasta_learn", "completion", "bash"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "the output: No space left on device; make room" in line


def test_place_without_permission(capsys, folder, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert main(["search", "--csv", "a.csv"]) == 2
    assert "it can't be written; change its permissions" in capsys.readouterr().err


def test_error_without_a_hint_stands_alone(capsys, monkeypatch):
    def fail(path):
        raise OSError(errno.EIO, "Input/output error", path)

    monkeypatch.setattr("fasta_learn.report.read_facts", fail)
    assert main(["report", "a.jsonl"]) == 2
    line = "fasta-learn: error: a.jsonl: Input/output error\n"
    assert capsys.readouterr().err == line
