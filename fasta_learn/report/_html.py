"""Parts of a web page: tables, sections, the frame of the page."""

from collections.abc import Sequence
from html import escape
from typing import Any

import fasta_learn
from fasta_learn.report._style import STYLE

# No script, and nothing from elsewhere: the browser enforces it.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"
)
_KINDS = {"#": ' class="n"', "*": ' class="wide"'}


def table(caption: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table that can be scrolled sideways, also by keyboard.

    Parameters
    ----------
    caption : str
        What it holds.
    header : sequence of str
        Names of the columns; those that begin with "#" hold numbers, and those that
        begin with "*" long texts.
    rows : sequence of sequences
        The cells. The first of a row is its heading.

    Returns
    -------
    str
        The table.
    """
    kinds = [_KINDS.get(name[0], "") for name in header]
    head = "".join(
        f'<th scope="col"{kind}>{escape(name.lstrip("#*"))}</th>'
        for name, kind in zip(header, kinds, strict=True)
    )
    lines = []
    for row in rows:
        cells = [
            f"<td{kind}>{escape(str(cell))}</td>"
            for kind, cell in zip(kinds[1:], row[1:], strict=True)
        ]
        first = f'<th scope="row"{kinds[0]}>{escape(str(row[0]))}</th>'
        lines.append(f"<tr>{first}{''.join(cells)}</tr>")
    caption = escape(caption)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{caption}">'
        f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def details(summary: str, content: str) -> str:
    """Return what is shown on demand.

    Parameters
    ----------
    summary : str
        What it is.
    content : str
        The HTML.

    Returns
    -------
    str
        The element.
    """
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def paragraph(words: str, name: str = "") -> str:
    """Return a paragraph.

    Parameters
    ----------
    words : str
        The text.
    name : str, default=""
        Its class.

    Returns
    -------
    str
        The element; nothing if there are no words.
    """
    start = f'<p class="{name}">' if name else "<p>"
    return f"{start}{escape(words)}</p>" if words else ""


def page(
    title: str,
    subtitle: str,
    tiles: Sequence[tuple[str, str, str]],
    sections: Sequence[tuple[str, str]],
) -> str:
    """Return a whole page.

    Parameters
    ----------
    title, subtitle : str
        What it is about.
    tiles : sequence of (str, str, str)
        The most important facts: name, value and a remark.
    sections : sequence of (str, str)
        Headings and contents; those without content are left out.

    Returns
    -------
    str
        The page.
    """
    shown = [(heading, content) for heading, content in sections if content]
    links = "".join(
        f'<li><a href="#{_anchor(heading)}">{escape(heading)}</a></li>'
        for heading, _ in shown
    )
    body = "".join(
        f'<section aria-labelledby="{_anchor(heading)}">'
        f'<h2 id="{_anchor(heading)}">{escape(heading)}</h2>{content}</section>'
        for heading, content in shown
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>"
        '<a class="skip" href="#content">Skip to the content</a>'
        f"<header><h1>{escape(title)}</h1>{paragraph(subtitle, 'muted')}</header>"
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>'
        f'<main id="content" tabindex="-1">{_tiles(tiles)}{body}</main>'
        f"<footer>Written by fasta-learn {escape(fasta_learn.__version__)}.</footer>"
        "</body></html>\n"
    )


def _tiles(tiles: Sequence[tuple[str, str, str]]) -> str:
    items = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}"
        f"<small>{escape(remark)}</small></dd></div>"
        for name, value, remark in tiles
    )
    return f'<dl class="tiles">{items}</dl>'


def _anchor(heading: str) -> str:
    return heading.lower().replace(" ", "-")
