"""The page on the searches of live tuning under torch.compile."""

from typing import Any

from fasta_learn.report import _words
from fasta_learn.report._charts import bars, ratios
from fasta_learn.report._html import paragraph, table
from fasta_learn.report._page_search import Parts


def statistics_parts(facts: dict[str, Any]) -> Parts:
    """Return what the page of statistics consists of.

    Parameters
    ----------
    facts : dict
        Of statistics.

    Returns
    -------
    tuple
        Title, subtitle, tiles and sections.
    """
    totals, records = facts["totals"], facts["searches"]
    known = [value for record in records if (value := _ratio(record)) is not None]
    tiles = [
        (
            "Time of the kernels",
            _words.ratio(facts["mean_ratio"]),
            "of that of Inductor's own choice, geometric mean",
        ),
        ("Searches", str(facts["n_searches"]), f"of {len(records)} kernels"),
        (
            "Measured",
            f"{totals['n_measured']} configs",
            f"of {totals['n_pool']}; {totals['n_failed']} failed",
        ),
        (
            "Time spent",
            _words.seconds(totals["seconds"]),
            f"{_words.seconds(totals['compile_seconds'])} of it compiling",
        ),
    ]
    return (
        "Live tuning of torch.compile",
        f"From the statistics {facts['file']}.",
        tiles,
        [
            ("In short", paragraph(f"{facts['summary']}.")),
            ("Faster and slower", ratios(known)),
            ("Kinds of kernels", _kinds(facts)),
            ("Time", _time(facts)),
            ("Kernels", _kernels(records)),
        ],
    )


def _ratio(record: dict[str, Any]) -> float | None:
    """Return how long a kernel takes, compared with Inductor's own choice."""
    best, stock = record["best_ms"], record["stock_ms"]
    return best / stock if best and stock else None


def _kinds(facts: dict[str, Any]) -> str:
    rows = [
        (
            row["kind"],
            row["n_kernels"],
            _words.ratio(row["mean_ratio"]),
            row["n_slower"],
            _words.seconds(row["seconds"]),
        )
        for row in facts["kinds"]
    ]
    header = ("kind", "#kernels", "#mean ratio", "#slower", "#time")
    return table("By kind", header, rows) if rows else ""


def _time(facts: dict[str, Any]) -> str:
    totals = facts["totals"]
    other = max(totals["seconds"] - totals["compile_seconds"], 0.0)
    rows = [("compiling", totals["compile_seconds"]), ("all else", other)]
    known = [(name, value, _words.seconds(value)) for name, value in rows if value]
    words = ", ".join(f"{name}: {end}" for name, _, end in known)
    return bars(known, words) if known else ""


def _kernels(records: list[dict[str, Any]]) -> str:
    rows = [
        (
            record["name"] or "-",
            record["kind"],
            record["shape"] or "-",
            record["dtype"] or "-",
            record["source"],
            f"{record['n_measured']} of {record['n_pool']}",
            record["n_failed"],
            _words.duration(record["stock_ms"]),
            _words.duration(record["best_ms"]),
            _words.ratio(_ratio(record)),
            _words.seconds(record["seconds"]),
            record["winner"] or "-",
        )
        for record in records
    ]
    header = (
        "name", "kind", "shape", "dtype", "source", "#measured", "#failed", "#stock",
        "#best", "#ratio", "#time", "*winner",
    )  # fmt: skip
    if not rows:
        return paragraph("None yet.")
    return table("Every kernel in order", header, rows)
