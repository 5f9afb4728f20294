"""From facts to a web page."""

from typing import Any

from fasta_learn.report._html import page
from fasta_learn.report._page_replay import replay_parts
from fasta_learn.report._page_search import search_parts
from fasta_learn.report._page_statistics import statistics_parts


def to_html(facts: dict[str, Any]) -> str:
    """Show facts about a search as a web page.

    The page is one file without scripts that asks for nothing from elsewhere.

    Parameters
    ----------
    facts : dict
        What `read_facts` answered.

    Returns
    -------
    str
        The page, HTML in UTF-8.

    See Also
    --------
    read_facts : Reads the facts.

    Examples
    --------
    >>> import tempfile
    >>> from fasta_learn.oracles import CallableOracle, JournaledOracle
    >>> from fasta_learn.report import read_facts, to_html
    >>> measuring = CallableOracle(lambda config: 64 / config["BLOCK"])
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = f"{directory}/tiles.jsonl"
    ...     answers = JournaledOracle(measuring, path).measure(
    ...         [{"BLOCK": 32}, {"BLOCK": 64}])
    ...     html = to_html(read_facts(path))
    >>> html.startswith("<!DOCTYPE html>")
    True
    """
    parts = {"replay": replay_parts, "statistics": statistics_parts}
    return page(*parts.get(facts["kind"], search_parts)(facts))
