"""Each message that troubleshooting.rst explains is still one of the package."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "troubleshooting.rst"
GAP = "…"


def headings(text):
    """Messages: titles that are literals, underlined by dashes."""
    return re.findall(r"^``(.+)``\n-{4,}$", text, flags=re.MULTILINE)


@cache
def templates():
    """Every text of the package, with a NUL in the place of what is filled in."""
    found = set()
    for path in (ROOT / "fasta_learn").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                found.add("".join(map(literal, node.values)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(re.sub(r"%[sd]", "\0", node.value))
    return found


def literal(part):
    return part.value if isinstance(part, ast.Constant) else "\0"


def matches(heading, template):
    """Whether a heading is a part of a message, gaps being filled in."""
    fixed = [re.escape(part) for part in heading.split(GAP)]
    # A gap covers what is filled in, and what the page leaves out between such.
    return re.search(r"[^\0]*\0.*?".join(fixed), template, re.DOTALL) is not None


def occurs(heading):
    return any(matches(heading, template) for template in templates())


HEADINGS = headings(PAGE.read_text(encoding="utf-8"))


def test_the_page_has_the_messages_that_are_met_most():
    assert len(HEADINGS) >= 25
    assert len(set(HEADINGS)) == len(HEADINGS)


@pytest.mark.parametrize("heading", HEADINGS)
def test_the_message_is_still_one_of_the_package(heading):
    assert occurs(heading), f"no message of the package reads {heading!r} any more"


@pytest.mark.parametrize("heading", HEADINGS)
def test_enough_of_the_message_is_fixed_to_find_it(heading):
    assert max(len(part.strip()) for part in heading.split(GAP)) >= 12


@pytest.mark.parametrize(
    "stale",
    [
        "durations[…] is …; use NaN for a config that failed to compile or run",
        "use inf for a config that … to compile or run",
        "config … was measured already … give each config once",
    ],
)
def test_a_message_that_was_changed_is_found_out(stale):
    assert not occurs(stale)


def test_headings_of_sections_are_no_messages():
    text = "Data\n====\n\n``a …``\n-------\n\n``code`` in text\n"
    assert headings(text) == ["a …"]
