"""Colours and narrow lines."""

import io
import sys

import pytest

from fasta_learn._cli import main
from fasta_learn._cli._terminal import has_colours, is_dumb, paint
from fasta_learn._text import format_pairs, format_table, line_width


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def environment(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch.setenv


@pytest.mark.parametrize(
    ("variables", "on_terminal", "in_pipe"),
    [
        ({}, True, False),
        ({"TERM": "xterm-256color"}, True, False),
        ({"TERM": "dumb"}, False, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, True, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"FORCE_COLOR": "0"}, True, False),
        ({"FORCE_COLOR": ""}, True, False),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, True, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
    ],
)
def test_who_gets_colours(environment, variables, on_terminal, in_pipe):
    for name, value in variables.items():
        environment(name, value)
    assert has_colours(Terminal()) is on_terminal
    assert has_colours(io.StringIO()) is in_pipe


@pytest.mark.parametrize(("term", "answer"), [("dumb", True), ("xterm", False)])
def test_dumb_terminal(environment, term, answer):
    environment("TERM", term)
    assert is_dumb() is answer


def test_paint(environment):
    assert paint("text", "bold", Terminal()) == "\x1b[1mtext\x1b[0m"
    assert paint("text", "bold", io.StringIO()) == "text"


def test_error_is_red_on_a_terminal(environment, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(["search", "--seed", "x"]) == 2
    assert terminal.getvalue().startswith("\x1b[1;31mfasta-learn: error:\x1b[0m ")


def test_json_is_never_coloured(environment, run_search):
    environment("FORCE_COLOR", "1")
    assert run_search.json("swiglu_8M", "--budget", 4)["pool"] == "swiglu_8M"


def test_forced_colours_in_a_pipe(environment, run_search):
    environment("FORCE_COLOR", "1")
    assert run_search.text("swiglu_8M", "--budget", 4).startswith("\x1b[1mswiglu_8M: ")


@pytest.fixture
def narrow(monkeypatch, environment):
    """Have a terminal of so many columns."""

    def arrange(columns):
        environment("COLUMNS", str(columns))
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    return arrange


def test_width_is_that_of_the_terminal(narrow):
    narrow(60)
    assert line_width() == 60


def test_pipe_has_no_width(environment):
    environment("COLUMNS", "60")
    assert line_width() is None


HEADER = ("search", "budget", "catch", "mean regret")
ROWS = [("default", "10 %", "0.93", "2.1 %"), ("random", "10 %", "0.30", "20 %")]


def test_table_that_fits_is_whole(narrow):
    narrow(36)
    lines = format_table(HEADER, ROWS).splitlines()
    assert max(map(len, lines)) == 36 - 1
    assert len(lines) == 3


def test_wide_table_is_split_and_repeats_its_keys(narrow):
    narrow(22)
    expected = (
        " search  budget  catch\n"
        "default    10 %   0.93\n"
        " random    10 %   0.30\n"
        "\n"
        " search  budget  mean regret\n"
        "default    10 %        2.1 %\n"
        " random    10 %         20 %"
    )
    # A part with one column beside the keys can't be split any further.
    assert format_table(HEADER, ROWS, n_keys=2) == expected


def test_table_in_a_pipe_is_whole(environment):
    environment("COLUMNS", "22")
    assert len(format_table(HEADER, ROWS, n_keys=2).splitlines()) == 3


def test_pairs_are_wrapped_to_the_terminal(narrow):
    narrow(14)
    assert format_pairs([("a", "one two three four")]) == ("a  one two\n   three four")


def test_pairs_never_exceed_88_columns(narrow):
    narrow(200)
    lines = format_pairs([("a", "word " * 60)]).splitlines()
    assert max(map(len, lines)) <= 88


@pytest.mark.parametrize("arguments", [["search", "swiglu_8M"], ["doctor"]])
def test_output_fits_60_columns(narrow, environment, capsys, arguments):
    environment("NO_COLOR", "1")
    environment("TERM", "dumb")
    narrow(60)
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    # A path is one word, which can't be wrapped.
    assert [line for line in lines if len(line) > 60 and "/" not in line] == []
