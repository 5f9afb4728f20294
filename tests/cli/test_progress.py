import contextlib
import os
import subprocess
import sys

import pytest

from fasta_learn import ActiveConfigSearch
from fasta_learn._cli._progress import SearchProgress, make_progress

pty = pytest.importorskip("pty")

MAIN = "from fasta_learn._cli import main; sys.exit(main(['search', 'swiglu_8M']))"


def run_on_terminal(code, **variables):
    """What a Python process writes to a terminal, and its exit code."""
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", **variables}
    for name in ("TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        environment.pop(name, None)
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**environment, "PYTHONIOENCODING": "utf-8"},
    )
    os.close(slave)
    chunks = []
    with contextlib.suppress(OSError):  # Linux says so that the other end is closed
        while chunk := os.read(master, 65536):
            chunks.append(chunk)
    os.close(master)
    return b"".join(chunks).decode(), process.wait(timeout=120)


def test_each_measurement_is_shown(recorder):
    configs = [{"BLOCK": block} for block in range(20)]
    search = ActiveConfigSearch(budget=8, random_state=0)
    search.set_callbacks(SearchProgress(recorder))
    search.fit(configs, [1.0 + block for block in range(20)])
    assert recorder.calls[0] == ("start", 8)
    assert [call[0] for call in recorder.calls[1:-1]] == list(range(1, 9))
    assert recorder.calls[-1] == "stop"


def test_best_so_far_is_shown_after_the_first_round(recorder):
    search = ActiveConfigSearch(budget=3, n_initial=2, random_state=0)
    search.set_callbacks(SearchProgress(recorder))
    search.fit([{"BLOCK": block} for block in range(9)], [0.25] * 9)
    assert recorder.calls[1:-1] == [(1, ""), (2, ""), (3, "best 250.0 µs")]


def test_display_stops_when_the_search_fails(recorder):
    search = ActiveConfigSearch(budget=3, random_state=0)
    search.set_callbacks(SearchProgress(recorder))
    with pytest.raises(ValueError, match="failed"):
        search.fit([{"BLOCK": block} for block in range(9)], [float("inf")] * 9)
    assert recorder.calls[-1] == "stop"


@pytest.mark.parametrize("terminals", [(False, False), (True, False), (False, True)])
def test_nothing_is_shown_unless_both_outputs_are_terminals(monkeypatch, terminals):
    monkeypatch.setenv("TERM", "xterm")
    for stream, is_terminal in zip((sys.stdout, sys.stderr), terminals, strict=True):
        monkeypatch.setattr(stream, "isatty", lambda answer=is_terminal: answer)
    assert make_progress() is None


def test_bar_on_a_terminal():
    pytest.importorskip("rich")
    output, status = run_on_terminal(f"import sys; {MAIN}")
    assert status == 0
    assert "28/28" in output
    # Wiped before the result, which begins at the start of a line.
    assert "\x1b[2K" in output.partition("swiglu_8M: 140 configs")[0]
    assert output.rstrip().splitlines()[-1].startswith("confidence")


def test_plain_line_on_a_terminal_without_rich():
    output, status = run_on_terminal(
        f"import sys; sys.modules['rich'] = sys.modules['rich.console'] = None; {MAIN}",
        NO_COLOR="1",
    )
    assert status == 0
    assert "\r\x1b[Kmeasured 28/28  best 17." in output
    assert "\r\x1b[Kswiglu_8M: 140 configs" in output


def test_nothing_moves_on_a_dumb_terminal():
    output, status = run_on_terminal(f"import sys; {MAIN}", TERM="dumb")
    assert status == 0
    assert output.startswith("swiglu_8M: 140 configs")
    assert "\x1b" not in output


def test_headline_is_bold_on_a_terminal():
    output, _ = run_on_terminal(f"import sys; {MAIN}")
    assert "\x1b[1mswiglu_8M: 140 configs, 3 parameters, budget 28\x1b[0m" in output
