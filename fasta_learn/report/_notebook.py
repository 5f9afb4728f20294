"""What a notebook shows of a report."""

from html import escape
from typing import Any

from fasta_learn.report._page import to_html
from fasta_learn.report._text import to_text

_FRAME = (
    '<iframe srcdoc="{page}" title="{title}" sandbox style="box-sizing:border-box;'
    "width:100%;height:38rem;border:1px solid #8888;border-radius:.4rem;"
    'resize:vertical"></iframe>'
)


class Facts(dict[str, Any]):
    """The facts in a file; a dict that a notebook shows as the page of the report."""

    def _repr_html_(self) -> str:
        """Return the page in a frame, in which its styles and links stay."""
        title = escape(f"Report on {self['file']}")
        return _FRAME.format(page=escape(to_html(self)), title=title)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the text of the report where IPython would print every measurement."""
        is_text = self["kind"] == "statistics"
        printer.text(str(self["summary"]) if is_text else to_text(self))
