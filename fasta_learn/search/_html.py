"""What a notebook shows of a search."""

import math
from html import escape
from typing import Any

import numpy as np
from sklearn.utils import estimator_html_repr

from fasta_learn._text import format_duration, format_share
from fasta_learn.configs import config_to_dict
from fasta_learn.configs._formats import format_launch

_REASONS = {
    "budget": "the budget is used up",
    "all": "every config is measured",
    "time": "the time is used up",
    "converged": "nothing better is in sight",
    "confident": "nothing much better is probable",
    "callback": "a callback stopped it",
    None: "not yet",
}
_MOST_LETTERS = 1500
_NOTE = (
    "A dot is a measurement, a red mark one that failed; the line is the best so far."
)

# The colours of the notebook itself, and three that can be seen on white and on black:
# the theme of a notebook need not be that of the system. Jupyter has rules for lists of
# its own, which these have to undo.
_STYLE = """
.fasta-learn-search{font:14px/1.5 system-ui,sans-serif;max-width:46rem;margin:0 0 .6rem}
.fasta-learn-search dl{display:grid;grid-template-columns:max-content minmax(0,1fr);
gap:.15rem 1rem;margin:.3rem 0}
.fasta-learn-search dl dt{font-weight:400;opacity:.75;float:none;width:auto;margin:0;
white-space:nowrap}
.fasta-learn-search dl dd{margin:0;overflow-wrap:anywhere;float:none;width:auto}
.fasta-learn-search dl code{background:none;color:inherit;padding:0;user-select:all;
white-space:pre-wrap;font:13px/1.5 ui-monospace,monospace}
.fasta-learn-search svg{display:block;width:100%;max-width:34rem;height:auto}
.fasta-learn-search svg text{fill:currentColor;opacity:.75;
font:12px system-ui,sans-serif}
.fasta-learn-search p{margin:0;font-size:12px;opacity:.75}
.fasta-learn-search .grid{stroke:currentColor;opacity:.15;fill:none}
.fasta-learn-search .line{stroke:#d4660a;stroke-width:2.5;fill:none}
.fasta-learn-search .best{fill:#d4660a}
.fasta-learn-search .dot{fill:#4b8ac4}
.fasta-learn-search .bad{stroke:#d23f3f;stroke-width:2}
"""


class SearchHTMLMixin:
    """Shows a search in a notebook: its story, and the diagram of scikit-learn."""

    def _html_repr(self) -> str:
        """Return the HTML of the estimator, under a summary of what it found."""
        diagram = str(estimator_html_repr(self))
        if not hasattr(self, "_engine"):
            return diagram
        return f"{summary_html(self)}{diagram}"


def summary_html(search: Any) -> str:
    """Return what a search has found by now.

    Parameters
    ----------
    search : ActiveConfigSearch
        The search, with an open pool.

    Returns
    -------
    str
        An element with its own styles, which asks for nothing from elsewhere.
    """
    items = "".join(
        f"<dt>{escape(name)}</dt><dd>{content}</dd>" for name, content in _items(search)
    )
    chart = _chart(search)
    note = f"<p>{_NOTE}</p>" if chart else ""
    return (
        f'<div class="fasta-learn-search"><style>{_STYLE}</style>'
        f"<dl>{items}</dl>{chart}{note}</div>"
    )


def _items(search: Any) -> list[tuple[str, str]]:
    """Return names, and contents as HTML."""
    n_pool, n_measured = len(search._engine.space), search.n_measured_
    n_failed = sum(status != "ok" for status in search._engine.ledger.statuses)
    measured = f"{n_measured} of {n_pool} configs ({format_share(n_measured / n_pool)})"
    items = [
        ("measured", f"{measured}, {n_failed} failed"),
        ("stopped", _REASONS.get(search.stop_reason_, str(search.stop_reason_))),
    ]
    if search.confidence_ is not None:
        items.append(
            (
                "confidence",
                f"{search.confidence_:.0%} to be within 5 % of the fastest of the pool",
            )
        )
    items = [(name, escape(text)) for name, text in items]
    if search.best_config_ is None:
        return [("best config", "none ran yet" if n_measured else "none yet"), *items]
    return [
        ("best config", f"<code>{escape(_best_config(search))}</code>"),
        ("duration", escape(format_duration(search.best_duration_))),
        *items,
    ]


def _best_config(search: Any) -> str:
    """Return the config as code; a long one is cut."""
    config = config_to_dict(search.best_config_)
    is_launch = "num_warps" in config or "num_stages" in config
    text = format_launch(config) if is_launch else repr(config)
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}…"


def _chart(search: Any) -> str:
    """Draw every measurement, and the best so far."""
    from fasta_learn.report._small import small_best_so_far

    durations = np.array(search._engine.ledger.durations, dtype=np.float64)
    known = [None if math.isinf(value) else float(value) for value in durations]
    return small_best_so_far(known)
