import re

import pytest

from fasta_learn.experiments import replay
from fasta_learn.inductor._statistics import SearchRecord, _append
from fasta_learn.oracles import Measurement
from fasta_learn.report import read_facts, to_html

SECTIONS = {
    "Config to copy",
    "Best so far",
    "Rounds",
    "Predicted against measured",
    "Parameter effects",
    "Failures by reason",
    "Time",
    "Fastest configs",
}


@pytest.fixture
def statistics_path(tmp_path):
    path = tmp_path / "statistics.csv"
    for name, best in (("faster", 1.0), ("slower", 3.0)):
        _append(
            path,
            SearchRecord(
                kind="mm", name=name, stock_ms=2.0, best_ms=best, seconds=3.0,
                compile_seconds=1.0, n_pool=9, n_measured=4, winner="<BLOCK=1>",
            ),
        )  # fmt: skip
    return path


@pytest.fixture
def runs_path(tmp_path, pool):
    path = tmp_path / "runs.csv"
    replay([pool], ["random"], budgets=[0.1], n_seeds=2).to_csv(path, index=False)
    return path


@pytest.fixture(
    params=[
        "small_journal",
        "large_journal",
        "results_path",
        "full_path",
        "statistics_path",
        "runs_path",
    ]
)
def html(request):
    return to_html(read_facts(request.getfixturevalue(request.param)))


def test_page_is_well_formed(html, parse):
    page = parse(html)
    assert len(page.all("h1")) == 1
    assert page.all("html") == [{"lang": "en"}]


def test_page_asks_for_nothing_from_elsewhere(html, parse):
    assert not re.search(r"https?:|//[a-z]|@import|url\(", html)
    page = parse(html)
    assert not page.all("script")
    assert not page.all("img")
    assert [link["href"] for link in page.all("link")] == ["data:,"]
    policy = page.all("meta")[1]
    assert "default-src 'none'" in policy["content"]


def test_every_drawing_is_described(html, parse):
    drawings = [a for a in parse(html).all("svg") if a.get("aria-hidden") != "true"]
    assert all(a["role"] == "img" and a["aria-label"] for a in drawings)


def test_every_link_of_the_page_leads_somewhere(html, parse):
    page = parse(html)
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {link["href"] for link in page.all("a")} <= {f"#{name}" for name in ids}


def test_tables_have_captions_and_headings_and_scroll_by_keyboard(html, parse):
    page = parse(html)
    tables = page.all("table")
    assert len(page.all("caption")) == len(tables)
    assert {heading["scope"] for heading in page.all("th")} <= {"col", "row"}
    regions = [attrs for attrs in page.all("div") if attrs.get("role") == "region"]
    assert len(regions) == len(tables)
    assert all(a["tabindex"] == "0" and a["aria-label"] for a in regions)


def test_page_follows_the_colours_of_the_system(html):
    assert "prefers-color-scheme:dark" in html
    assert "color-scheme:light dark" in html


def test_page_fits_narrow_screens(html, parse):
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in (
        parse(html).all("meta")
    )
    assert html.count('class="wide" viewBox') == html.count('class="narrow" viewBox')


def test_numbers_of_drawings_are_finite(html):
    assert not re.search(r'="[^"]*\b(nan|inf)\b', html)


def test_page_of_a_search_has_all_sections(full_path, parse):
    html = to_html(read_facts(full_path))
    headings = set(re.findall(r"<h2[^>]*>([^<]*)</h2>", html))
    assert headings == SECTIONS


def test_page_of_a_journal_has_all_facts(small_journal, parse):
    text = parse(to_html(read_facts(small_journal))).text
    for fact in (
        "Search: add<kernel>",
        "triton.Config({'BLOCK': 256}, num_warps=4)",
        "500.0 µs",
        "7 configs",
        "28.6 %",
        "8.00 × the speed of the first that ran",
        "shared memory: 9 of <4> bytes (there are 2 that differ in numbers only)",
        "3 s of compiling and 0.625 s of running",
        "0.5 s of it went to configs that failed",
        "A journal does not keep rounds",
        "versions.a 1",
    ):
        assert fact in text


def test_page_of_results_has_rounds_and_predictions(full_path, search, parse):
    text = parse(to_html(read_facts(full_path))).text
    assert f"{len(search.rounds_)} rounds" in text
    assert "These were predicted by the search before it measured." in text


def test_page_of_results_without_configs_names_the_index(results_path, search, parse):
    text = parse(to_html(read_facts(results_path))).text
    assert f"config {search.best_index_} of the pool" in text
    assert "join them" in text


def test_each_parameter_has_a_drawing(full_path, search, parse):
    page = parse(to_html(read_facts(full_path)))
    labels = [a.get("aria-label", "") for a in page.all("svg")]
    for name in search.best_config_:
        assert any(f"speed by {name}," in label for label in labels)


def test_page_without_a_config_that_ran(write_journal, parse):
    answers = [({"x": x}, Measurement.failed("timeout", "slow")) for x in range(3)]
    text = parse(to_html(read_facts(write_journal(answers)))).text
    assert "No config ran" in text
    assert "timeout" in text


@pytest.mark.parametrize("durations", [[0.0], [0.0] * 6, [1.0] * 6, [1e-9, 1e9] * 3])
def test_page_of_odd_durations(write_journal, parse, durations):
    answers = [({"x": x}, duration) for x, duration in enumerate(durations)]
    html = to_html(read_facts(write_journal(answers)))
    parse(html)
    assert "nan" not in html.split("<main")[1]


def test_large_page_is_small(large_journal):
    html = to_html(read_facts(large_journal))
    assert len(html) < 400_000
    assert "800 of the 3000 measurements are drawn" in html


def test_page_of_statistics_has_all_facts(statistics_path, parse):
    text = parse(to_html(read_facts(statistics_path))).text
    for fact in ("faster", "slower", "0.500", "1.500", "<BLOCK=1>", "8 configs"):
        assert fact in text


def test_page_of_a_replay_has_all_facts(runs_path, pool, parse):
    text = parse(to_html(read_facts(runs_path))).text
    for fact in ("random", "10 %", pool.name, "2 seeds"):
        assert fact in text
