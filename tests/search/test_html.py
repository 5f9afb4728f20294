"""What a notebook shows of a search."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
import sklearn

from fasta_learn import ActiveConfigSearch
from fasta_learn.search._html import summary_html

CONFIGS = [{"BLOCK": 2**i, "mode": f"m{j}"} for i in range(8) for j in range(4)]
DURATIONS = [1.0 + abs(i - 5) + j / 8 for i in range(8) for j in range(4)]


class Elements(HTMLParser):
    """Reads elements, and refuses what is not well-formed."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.open, self.words = [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    @property
    def facts(self):
        """Names and texts of the list."""
        words = [word for word in self.words if word.strip()]
        names = ("best config", "duration", "measured", "stopped", "confidence")
        return {word: words[i + 1] for i, word in enumerate(words) if word in names}

    def count(self, tag, name):
        return sum(t == tag and attrs.get("class") == name for t, attrs in self.tags)


@pytest.fixture(scope="module")
def search():
    return ActiveConfigSearch(budget=12, random_state=0).fit(CONFIGS, DURATIONS)


def told(configs, durations, **settings):
    """A search that was told these, in this order."""
    search = ActiveConfigSearch(budget=1.0, random_state=0, **settings)
    search.propose(configs)
    return search.partial_fit(np.arange(len(durations)), durations)


def without_ids(html):
    return re.sub(r"-\d+", "", html)


def test_unfitted_is_as_scikit_learn_shows_it():
    search = ActiveConfigSearch(budget=12)
    expected = sklearn.utils.estimator_html_repr(search)
    assert without_ids(search._repr_html_()) == without_ids(expected)


def test_fitted_has_the_summary_above_the_diagram(search):
    html = search._repr_html_()
    assert html.startswith(summary_html(search))
    diagram = html.removeprefix(summary_html(search))
    expected = sklearn.utils.estimator_html_repr(search)
    assert without_ids(diagram) == without_ids(expected)


def test_bundle_has_text_and_html(search):
    bundle = search._repr_mimebundle_()
    assert bundle["text/plain"] == "ActiveConfigSearch(budget=12, random_state=0)"
    assert "fasta-learn-search" in bundle["text/html"]


def test_display_as_text_is_respected(search):
    with sklearn.config_context(display="text"):
        assert not hasattr(search, "_repr_html_")
        assert "text/html" not in search._repr_mimebundle_()


def test_summary_tells_what_was_found(search):
    facts = Elements(summary_html(search)).facts
    assert facts["best config"] == "{'BLOCK': 32, 'mode': 'm0'}"
    assert facts["duration"] == "1.000 ms"
    assert facts["measured"] == "12 of 32 configs (37.5 %), 0 failed"
    assert facts["stopped"] == "the budget is used up"
    assert facts["confidence"].endswith("to be within 5 % of the fastest of the pool")


def test_launch_config_can_be_copied():
    search = told([{"BLOCK": 8, "num_warps": 4}, {"BLOCK": 4, "num_warps": 2}], [1, 2])
    facts = Elements(summary_html(search)).facts
    assert facts["best config"] == "triton.Config({'BLOCK': 8}, num_warps=4)"


def test_chart_has_each_measurement_and_each_improvement():
    search = told(CONFIGS, [4.0, 2.0, np.inf, 3.0, 1.0, np.inf])
    elements = Elements(summary_html(search))
    assert elements.count("circle", "dot") == 4
    assert elements.count("circle", "best") == 3
    assert elements.count("path", "bad") == 2
    assert elements.facts["measured"] == "6 of 32 configs (18.8 %), 2 failed"


def test_chart_is_described_for_those_who_cannot_see_it():
    elements = Elements(summary_html(told(CONFIGS, [4.0, 2.0, 3.0])))
    (chart,) = [attrs for tag, attrs in elements.tags if tag == "svg"]
    assert chart["role"] == "img"
    assert chart["aria-label"] == (
        "Best duration so far: from 4.000 ms at measurement 1 to 2.000 ms at "
        "measurement 2 of 3."
    )


def test_long_search_draws_no_more_than_can_be_seen():
    configs = [{"x": x, "y": y} for x in range(40) for y in range(40)]
    search = told(configs, [5.0] + [6.0] * 1199, acquisition="greedy")
    assert Elements(summary_html(search)).count("circle", "dot") == 300


def test_open_pool_without_measurements():
    search = ActiveConfigSearch(budget=12, random_state=0)
    search.propose(CONFIGS)
    elements = Elements(summary_html(search))
    assert elements.facts == {
        "best config": "none yet",
        "measured": "0 of 32 configs (0.0 %), 0 failed",
        "stopped": "not yet",
    }
    assert "svg" not in dict(elements.tags)


def test_only_failures():
    elements = Elements(summary_html(told(CONFIGS, [np.inf, np.inf])))
    assert elements.facts["best config"] == "none ran yet"
    assert "svg" not in dict(elements.tags)


def test_hostile_configs_are_text():
    name = "</code><script>alert(1)</script>&\"'"
    search = told([{name: name}, {name: "b"}], [1.0, 2.0])
    elements = Elements(summary_html(search))
    assert elements.facts["best config"] == repr({name: name})
    assert "script" not in dict(elements.tags)


def test_hostile_reason_to_stop_is_text():
    search = ActiveConfigSearch(
        budget=20, random_state=0, stopping=lambda state, rounds: "<b>enough</b>"
    )
    search.fit(CONFIGS, DURATIONS)
    elements = Elements(summary_html(search))
    assert elements.facts["stopped"] == "<b>enough</b>"
    assert "b" not in dict(elements.tags)


def test_long_config_is_cut():
    search = told([{"x": "a" * 5000}, {"x": "b"}], [1.0, 2.0])
    words = Elements(summary_html(search)).facts["best config"]
    assert len(words) == 1501
    assert words.endswith("…")


def test_rows_of_a_matrix():
    search = told([[1.0, 2.0], [3.0, 4.0]], [2.0, 1.0])
    facts = Elements(summary_html(search)).facts
    assert facts["best config"] == "{'x0': 3.0, 'x1': 4.0}"


def test_nothing_comes_from_elsewhere(search):
    html = summary_html(search)
    for sign in ("http", "//", "url(", "@import", "src=", "href", "<script", "onload"):
        assert sign not in html


def test_styles_are_those_of_the_summary_only(search):
    (style,) = re.findall("<style>(.*?)</style>", summary_html(search), re.DOTALL)
    for rule in filter(str.strip, style.split("}")):
        assert rule.strip().startswith(".fasta-learn-search")
