"""Progress of a search with verbose, in a terminal and in a notebook."""

import sys
from types import SimpleNamespace

import pytest

from fasta_learn import ActiveConfigSearch

CONFIGS = [{"BLOCK": block} for block in range(20)]
DURATIONS = [1.0 + abs(block - 7) for block in range(20)]


def fit(verbose=1):
    search = ActiveConfigSearch(budget=8, random_state=0, verbose=verbose)
    return search.fit(CONFIGS, DURATIONS)


@pytest.fixture
def notebook(monkeypatch):
    """Stand in for a kernel of Jupyter; holds what it was to display."""
    calls = []

    class Handle:
        def update(self, content, raw):
            calls.append(("update", content, raw))

    def display(content, raw, display_id):
        calls.append(("display", content, raw))
        return Handle()

    shell = SimpleNamespace(kernel=object())
    ipython = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(
        sys.modules, "IPython.display", SimpleNamespace(display=display)
    )
    return SimpleNamespace(calls=calls, shell=shell)


def lines_of(search):
    return [
        f"round {record['round']}: {record['n_measured']} of 8 measured, "
        f"best {record['best_duration']:.6g} ms"
        for record in search.rounds_
    ]


def test_terminal_gets_a_line_for_each_round(capsys):
    search = fit()
    assert capsys.readouterr().err.splitlines() == lines_of(search)


def test_nothing_is_told_by_default(capsys, notebook):
    fit(verbose=0)
    assert (capsys.readouterr().err, notebook.calls) == ("", [])


def test_notebook_has_one_line_that_is_updated(capsys, notebook):
    search = fit()
    assert capsys.readouterr().err == ""
    kinds = [kind for kind, _, _ in notebook.calls]
    assert kinds == ["display"] + ["update"] * (len(search.rounds_) - 1)
    shown = [content["text/plain"] for _, content, _ in notebook.calls]
    assert shown == lines_of(search)
    assert all(raw for _, _, raw in notebook.calls)


def test_notebook_has_a_bar(notebook):
    search = fit()
    html = notebook.calls[-1][1]["text/html"]
    assert '<progress max="8" value="8"></progress>' in html
    assert lines_of(search)[-1] in html


def test_each_fit_has_a_line_of_its_own(notebook):
    fit()
    fit()
    assert [kind for kind, _, _ in notebook.calls].count("display") == 2


def test_ipython_in_a_terminal_gets_lines(capsys, notebook):
    notebook.shell.kernel = None
    search = fit()
    assert capsys.readouterr().err.splitlines() == lines_of(search)
    assert notebook.calls == []


def test_kernel_of_jupyter():
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    code = (
        "from fasta_learn import ActiveConfigSearch\n"
        "configs = [{'BLOCK': block} for block in range(20)]\n"
        "search = ActiveConfigSearch(budget=8, random_state=0, verbose=1)\n"
        "search.fit(configs, [1.0 + abs(block - 7) for block in range(20)])\n"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    outputs = [out for out in notebook.cells[0].outputs if "data" in out]
    progress, result = [out["data"] for out in outputs]
    assert "8 of 8 measured" in progress["text/plain"]
    assert "fasta-learn-search" in result["text/html"]
