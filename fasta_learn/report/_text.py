"""From facts about a search to text for a terminal."""

from typing import Any

from fasta_learn._text import format_count, format_pairs, format_table
from fasta_learn.report import _words
from fasta_learn.report._charts import budget_words

_MOST_ROWS = 20


def to_text(facts: dict[str, Any]) -> str:
    """Return a summary of a journal, a table of results, or a replay.

    Parameters
    ----------
    facts : dict
        What `read_facts` answered.

    Returns
    -------
    str
        Lines.
    """
    return _replay(facts) if facts["kind"] == "replay" else _search(facts)


def _search(facts: dict[str, Any]) -> str:
    headline = (
        f"{facts['name']}: {facts['n_measured']} configs measured, "
        f"{facts['n_failed']} failed"
    )
    parts = [headline]
    if facts["improvements"]:
        parts.append(_improvements(facts))
    parts.append(format_pairs(_pairs(facts)))
    if facts["best"] is not None:
        parts.append(_words.to_copy(facts["best"]))
    return "\n\n".join(parts)


def _improvements(facts: dict[str, Any]) -> str:
    """Tell of the last configs that were faster than all before, in a table."""
    rows = [
        (
            _words.number(step["round"]),
            str(step["position"]),
            _words.duration(step["predicted_ms"]),
            _words.duration(step["duration_ms"]),
        )
        for step in facts["improvements"][-_MOST_ROWS:]
    ]
    header = ("round", "measured", "predicted", "best")
    # What the file does not know of any measurement has no column.
    kept = [i for i in range(4) if any(row[i] != "-" for row in rows)]
    return format_table([header[i] for i in kept], [[r[i] for i in kept] for r in rows])


def _pairs(facts: dict[str, Any]) -> list[tuple[str, str]]:
    best = facts["best"]
    pairs = []
    if best is not None:
        pairs = [
            ("best config", _words.config(best)),
            ("duration", _words.duration(best["duration_ms"])),
        ]
        if facts["n_repeats"]:
            pairs.append(("repeats", f"{facts['n_repeats']}, of the finalists"))
    pairs += [("predictions", _words.predicted(facts)), ("cost", _words.cost(facts))]
    effects = [e for e in facts["parameters"] if e["effect"] is not None]
    if effects:
        listed = ", ".join(f"{e['name']} {e['effect']:.0%}" for e in effects)
        pairs.append(("effects", f"on the mean speed, by the surrogate: {listed}"))
    for i, entry in enumerate(facts["failures"]):
        words = f"{entry['count']} × {entry['status']}"
        words += f": {_words.reason(entry)}" if entry["reason"] else ""
        pairs.append(("" if i else "failures", words))
    return pairs


def _replay(facts: dict[str, Any]) -> str:
    rows = [
        (
            row["search"],
            budget_words(row["budget"]),
            _words.share(row["catch"]),
            _words.share(row["mean_regret"]),
            _words.share(row["p95_regret"]),
            f"{row['worst_pool']} ({_words.share(row['worst_catch'])})",
            _words.share(row["savings"]),
        )
        for row in facts["searches"]
    ]
    header = ("search", "budget", "catch", "mean regret", "p95", "worst pool", "saved")
    headline = (
        f"{format_count(facts['n_runs'], 'run')} on "
        f"{format_count(facts['n_pools'], 'pool')} with "
        f"{format_count(facts['n_seeds'], 'seed')}, "
        f"{facts['n_missed']} of them without a catch"
    )
    return f"{headline}\n\n{format_table(header, rows, n_keys=2)}"
