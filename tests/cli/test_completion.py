"""Completion in real shells, as far as they are installed."""

import contextlib
import os
import select
import shlex
import shutil
import subprocess
import time

import pytest

from fasta_learn._cli import main
from fasta_learn.datasets import list_pools

COMMANDS = [
    "tune", "record", "search", "replay", "report", "heuristic", "doctor", "completion"
]  # fmt: skip
PROFILES = ["default", "production", "reference"]

# What is on the line, the last word of which is completed, and what is offered.
CASES = [
    ([""], COMMANDS),
    (["se"], ["search"]),
    (["search", "--prof"], ["--profile"]),
    (["search", "--profile", ""], PROFILES),
    (["search", "--profile", "p"], ["production"]),
    (["tune", "spec.py:f", "--profile", "r"], ["reference"]),
    (["search", "--budget", ""], []),
    (["search", "mm_2"], ["mm_2048_2048_2048"]),
    (["search", "--json", "swi"], ["swiglu_8M"]),
    (["replay", "swiglu_8M", "--search", "ra"], ["racing", "random"]),
    (["replay", "swiglu_8M", "rope_4"], ["rope_4096_32_128"]),
    (["heuristic", "tra"], ["train"]),
    (["heuristic", "train", "log.txt", "--objective", "u"], ["upstream"]),
    (["heuristic", "collect", ""], ["pad_mm"]),
    (["search", "heuristic", "--profile", "d"], ["default"]),
    (["completion", ""], ["bash", "zsh", "fish"]),
    (["doctor", ""], []),
]
IDS = ["_".join(words) for words, _ in CASES]


def needs(shell):
    return pytest.mark.skipif(
        shutil.which(shell) is None, reason=f"{shell} is not installed"
    )


@pytest.fixture
def script(tmp_path, capsys, monkeypatch):
    """Write the script of a shell into an empty folder, and be in it."""

    def write(shell):
        assert main(["completion", shell]) == 0
        path = tmp_path / f"script.{shell}"
        path.write_text(capsys.readouterr().out, encoding="utf-8")
        (tmp_path / "empty").mkdir()
        monkeypatch.chdir(tmp_path / "empty")
        return path

    return write


def run(*command):
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout


@pytest.mark.parametrize(
    "shell", [pytest.param(shell, marks=needs(shell)) for shell in ("bash", "zsh")]
)
def test_syntax(script, shell):
    assert run(shell, "-n", str(script(shell))) == ""


def complete_in_bash(path, words):
    line = " ".join(shlex.quote(word) for word in ("fasta-learn", *words))
    code = (
        f"source {shlex.quote(str(path))}; COMP_WORDS=({line}); "
        f"COMP_CWORD={len(words)}; "
        "$(complete -p fasta-learn | sed 's/.*-F //; s/ .*//')"
        '; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    return run("bash", "--norc", "-c", code).split()


@needs("bash")
@pytest.mark.parametrize(("words", "offered"), CASES, ids=IDS)
def test_bash(script, words, offered):
    assert complete_in_bash(script("bash"), words) == offered


@needs("bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["search", "--profile", "=", "pro"], ["production"]),
        (["search", "--profile", "="], PROFILES),
        (["replay", "--search", "default", "ra"], ["racing", "random"]),
        (["replay", "--search", "default", "--see"], ["--seeds"]),
        (["replay", "--seeds", "3", "swi"], ["swiglu_8M"]),
        (["search", "-"], None),
    ],
)
def test_bash_knows_equals_signs_and_lists(script, words, offered):
    found = complete_in_bash(script("bash"), words)
    if offered is None:
        assert found[:2] == ["-h", "--help"]
        assert all(word.startswith("-") for word in found)
    else:
        assert found == offered


@needs("fish")
@pytest.mark.parametrize(("words", "offered"), CASES, ids=IDS)
def test_fish(script, words, offered):
    path = script("fish")
    line = shlex.quote(" ".join(["fasta-learn", *words]))
    out = run("fish", "--no-config", "-c", f"source {path}; complete -C {line}")
    assert sorted(text.split("\t")[0] for text in out.splitlines()) == sorted(offered)


@needs("fish")
def test_fish_offers_files_and_folders(script):
    path = script("fish")
    os.mkdir("some_folder")
    open("some_file", "w").close()

    def complete(line):
        out = run("fish", "--no-config", "-c", f"source {path}; complete -C '{line}'")
        return sorted(text.split("\t")[0] for text in out.splitlines())

    assert complete("fasta-learn report so") == ["some_file", "some_folder/"]
    assert complete("fasta-learn record -o so") == ["some_folder/"]


class Terminal:
    """An interactive shell, and what it shows."""

    def __init__(self, *command):
        import pty

        self.process, self.end = pty.fork()
        if self.process == 0:
            os.environ.update(TERM="dumb", COLUMNS="200", PS1="$ ", HISTFILE="")
            os.execvp(command[0], command)

    def type(self, keys, until):
        """Type, and read until something is shown."""
        os.write(self.end, keys.encode())
        shown, deadline = b"", time.monotonic() + 30
        while until.encode() not in shown and time.monotonic() < deadline:
            if select.select([self.end], [], [], 0.1)[0]:
                shown += os.read(self.end, 65536)
        return shown.decode(errors="replace")

    def close(self):
        with contextlib.suppress(OSError):
            os.write(self.end, b"\x03\nexit\n")
        os.close(self.end)
        os.waitpid(self.process, 0)


@pytest.fixture
def open_terminal():
    terminals = []

    def start(*command):
        terminals.append(Terminal(*command))
        return terminals[-1]

    yield start
    for terminal in terminals:
        terminal.close()


@needs("bash")
def test_bash_completes_files_on_a_terminal(script, open_terminal):
    path = script("bash")
    open("a_journal.jsonl", "w").close()
    os.mkdir("a_folder")
    terminal = open_terminal("bash", "--norc", "--noprofile", "-i")
    terminal.type(f"source {path}; echo lo''aded\n", "loaded")
    for keys, result in [
        ("fasta-learn report a_j\t", "a_journal.jsonl"),
        (" --output a_fo\t", "a_folder/"),
        ("\x15fasta-learn record k.py:f --output a_\t", "a_folder/"),
    ]:
        assert result in terminal.type(keys, result)


@needs("zsh")
def test_zsh_on_a_terminal(script, open_terminal):
    path = script("zsh")
    open("a_journal.jsonl", "w").close()
    terminal = open_terminal("zsh", "-f", "-i")
    load = "unsetopt zle_bracketed_paste; autoload -U compinit; compinit -u -D"
    terminal.type(f"{load}; source {path}; echo lo''aded\n", "loaded")
    for keys, result in [
        ("fasta-learn se\t", "search"),
        ("--prof\t", "--profile"),
        ("pro\t", "production"),
        ("swi\t", "swiglu_8M"),
        ("\x15fasta-learn report a_j\t", "a_journal.jsonl"),
        ("\x15fasta-learn heuristic tr\t", "train"),
        ("--obj\t", "--objective"),
        ("u\t", "upstream"),
        ("\x15fasta-learn replay --search rac\t", "racing"),
    ]:
        assert result in terminal.type(keys, result)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_pool_is_offered(capsys, shell):
    assert main(["completion", shell]) == 0
    words = capsys.readouterr().out.replace("(", " ").replace(")", " ").split()
    assert set(list_pools()) <= {word.strip("'") for word in words} | {
        word.rpartition("'")[2] for word in words
    }


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_says_where_to_put_it(capsys, shell):
    assert main(["completion", shell]) == 0
    head = capsys.readouterr().out[:400]
    assert f"fasta-learn completion {shell}" in head
