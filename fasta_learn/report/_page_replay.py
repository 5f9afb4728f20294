"""The page on the runs of a replay."""

from typing import Any

from fasta_learn.report import _words
from fasta_learn.report._charts import budget_words, catch_by_search
from fasta_learn.report._html import details, paragraph, table
from fasta_learn.report._page_search import Parts


def replay_parts(facts: dict[str, Any]) -> Parts:
    """Return what the page of a replay consists of.

    Parameters
    ----------
    facts : dict
        Of a replay.

    Returns
    -------
    tuple
        Title, subtitle, tiles and sections.
    """
    best = max(facts["searches"], key=lambda row: row["catch"])
    tiles = [
        ("Runs", str(facts["n_runs"]), f"{facts['n_seeds']} seeds"),
        ("Pools", str(facts["n_pools"]), ""),
        (
            "Highest catch",
            _words.share(best["catch"]),
            f"{best['search']}, {budget_words(best['budget'])}",
        ),
        ("Runs without a catch", str(facts["n_missed"]), ""),
    ]
    words = "A run is a catch if its result is within 5 % of the fastest config."
    return (
        "Replay of searches",
        f"From the runs in {facts['file']}.",
        tiles,
        [
            ("Catch", paragraph(words) + catch_by_search(facts["searches"])),
            ("Searches and budgets", _searches(facts)),
            ("Pools", _pools(facts)),
            ("Worst runs", _worst(facts)),
        ],
    )


def _searches(facts: dict[str, Any]) -> str:
    rows = [
        (
            row["search"],
            budget_words(row["budget"]),
            _words.share(row["catch"]),
            f"{_words.share(row['catch_low'])} to {_words.share(row['catch_high'])}",
            _words.share(row["mean_regret"]),
            _words.share(row["p95_regret"]),
            f"{row['worst_pool']} ({_words.share(row['worst_catch'])})",
            _words.share(row["savings"]),
        )
        for row in facts["searches"]
    ]
    header = (
        "search", "#budget", "#catch", "#95 % interval", "#mean regret", "#p95",
        "worst pool", "#saved",
    )  # fmt: skip
    return table("Means over pools, each weighing the same", header, rows)


def _pools(facts: dict[str, Any]) -> str:
    rows = [
        (
            row["pool"],
            row["search"],
            budget_words(row["budget"]),
            _words.share(row["catch"]),
            _words.share(row["mean_regret"]),
        )
        for row in facts["pools"]
    ]
    header = ("pool", "search", "#budget", "#catch", "#mean regret")
    content = table("Each pool by itself", header, rows)
    return details(f"{len(rows)} rows", content)


def _worst(facts: dict[str, Any]) -> str:
    rows = [
        (
            row["pool"],
            row["search"],
            budget_words(row["budget"]),
            row["seed"],
            row["n_measured"],
            _words.share(row["regret"]),
        )
        for row in facts["worst_runs"]
    ]
    header = ("pool", "search", "#budget", "#seed", "#measured", "#regret")
    if not rows:
        return paragraph("Every run is a catch.")
    return table("Those without a catch, the greatest regret first", header, rows)
