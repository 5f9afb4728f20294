"""What a notebook shows of the facts in a file."""

import json
import pickle

import pytest

from fasta_learn.inductor._statistics import SearchRecord, _append
from fasta_learn.report import read_facts, to_html


class Printer:
    """Stands in for the printer of IPython."""

    def __init__(self):
        self.out = ""

    def text(self, text):
        self.out += text


def printed(facts):
    printer = Printer()
    facts._repr_pretty_(printer, False)
    return printer.out


@pytest.fixture
def facts(small_journal):
    return read_facts(small_journal)


def test_notebook_shows_the_page_in_a_frame(parse, facts):
    (frame,) = parse(facts._repr_html_()).all("iframe")
    assert frame["srcdoc"] == to_html(facts)


def test_frame_runs_nothing_and_loads_nothing(parse, facts):
    (frame,) = parse(facts._repr_html_()).all("iframe")
    assert frame["sandbox"] is None
    assert "src" not in frame


def test_hostile_names_stay_in_the_frame(parse, write_journal):
    name = "\"></iframe><script>alert(1)</script>'"
    path = write_journal([({name: name}, 1.0)], name="a'b.jsonl")
    page = parse(read_facts(path)._repr_html_())
    assert page.tags == [("iframe", page.all("iframe")[0])]
    assert page.all("iframe")[0]["title"] == "Report on a'b.jsonl"


def test_ipython_prints_the_text(facts):
    assert "7 configs measured, 2 failed" in printed(facts)
    assert "'measurements'" not in printed(facts)


def test_ipython_prints_the_summary_of_statistics(tmp_path):
    path = tmp_path / "statistics.csv"
    _append(path, SearchRecord(kind="mm", name="matmul", stock_ms=2.0, best_ms=1.0))
    facts = read_facts(path)
    assert printed(facts) == facts["summary"]
    assert "matmul" in facts._repr_html_()


def test_facts_are_a_dict_for_all_else(facts):
    assert isinstance(facts, dict)
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    assert pickle.loads(pickle.dumps(facts)) == facts
