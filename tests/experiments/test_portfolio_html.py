"""What a notebook shows of a portfolio."""

from fasta_learn.configs import Pool
from fasta_learn.experiments import portfolio


def test_configs_coverage_and_table_are_shown():
    pools = {"a": Pool([{"B": 1}, {"B": 2}], [1.0, 9.0]),
             "b": Pool([{"B": 1}, {"B": 2}], [9.0, 1.0])}  # fmt: skip
    html = portfolio(pools, 1)._repr_html_()
    assert "<li><code>{&#x27;B&#x27;: 1}</code></li>" in html
    assert "50% of 2 pools are covered; none covers more." in html
    assert html.count("<td>9.0") + html.count("<td>8.0") == 1


def test_hostile_names_are_text():
    pools = {"<i>": Pool([{"<b>": "<u>"}, {"<b>": 1}], [1.0, 2.0])}
    html = portfolio(pools, 1)._repr_html_()
    for tag in ("<i>", "<b>", "<u>"):
        assert tag not in html
