"""The page on a search, from a journal or a table of results."""

from html import escape
from typing import Any

from fasta_learn.report import _words
from fasta_learn.report._charts import (
    bars,
    best_so_far,
    legend,
    parameter_effect,
    predicted_against_measured,
)
from fasta_learn.report._html import details, paragraph, table

Parts = tuple[str, str, list[tuple[str, str, str]], list[tuple[str, str]]]

_MOST_ROWS = 300


def search_parts(facts: dict[str, Any]) -> Parts:
    """Return what the page of a search consists of.

    Parameters
    ----------
    facts : dict
        Of a search.

    Returns
    -------
    tuple
        Title, subtitle, tiles and sections.
    """
    about = [(name, value) for name, value in facts["about"].items()]
    return (
        f"Search: {facts['name']}",
        f"From the {_KINDS[facts['kind']]} {facts['file']}.",
        _tiles(facts),
        [
            ("Config to copy", _config(facts)),
            ("Best so far", best_so_far(facts) + _improvements(facts)),
            ("Rounds", _rounds(facts)),
            ("Predicted against measured", _predictions(facts)),
            ("Parameter effects", _parameters(facts)),
            ("Finalists measured again", _finalists(facts)),
            ("Failures by reason", _failures(facts)),
            ("Time", _time(facts)),
            ("Fastest configs", _fastest(facts)),
            ("What was measured", _about(about)),
        ],
    )


_KINDS = {"journal": "journal", "results": "table of results"}


def _tiles(facts: dict[str, Any]) -> list[tuple[str, str, str]]:
    best, time = facts["best"], facts["time"]
    known = time["n_known"] > 0
    spent = time["compile_seconds"] + time["run_seconds"] + time["repeat_seconds"]
    first = facts["improvements"][0]["duration_ms"] if best else None
    gain = ""
    if first and best["duration_ms"]:
        gain = f"{first / best['duration_ms']:.2f} × the speed of the first that ran"
    return [
        ("Best duration", _words.duration(best["duration_ms"]) if best else "-", gain),
        (
            "Measured",
            f"{facts['n_measured']} configs",
            f"and {facts['n_repeats']} repeats" if facts["n_repeats"] else "",
        ),
        (
            "Failed",
            str(facts["n_failed"]),
            _words.share(facts["n_failed"] / facts["n_measured"]),
        ),
        (
            "Compiling and running",
            _words.seconds(spent) if known else "-",
            "" if known else "not in the file",
        ),
    ]


def _config(facts: dict[str, Any]) -> str:
    best = facts["best"]
    if best is None:
        return paragraph("No config ran; see the failures below.")
    words = f"Measurement {best['position']}, {_words.duration(best['duration_ms'])}"
    if facts["n_repeats"]:
        words += ", the median of its repeats"
    elif best["p20_ms"] is not None and best["p80_ms"] is not None:
        low, high = _words.duration(best["p20_ms"]), _words.duration(best["p80_ms"])
        words += f"; the 20th and 80th percentiles are {low} and {high}"
    code = _words.to_copy(best)
    pre = f'<pre tabindex="0" aria-label="The config">{escape(code)}</pre>'
    hint = "A click selects all of it."
    if not best["config"]:
        hint = (
            "The table has no parameters; join them to it to see them here and what "
            "they do."
        )
    return paragraph(f"{words}.") + pre + paragraph(hint, "muted")


def _improvements(facts: dict[str, Any]) -> str:
    steps = facts["improvements"]
    if not steps:
        return paragraph("No config ran.")
    rows = [
        (
            step["position"],
            _words.duration(step["duration_ms"]),
            _words.duration(step["predicted_ms"]),
            _words.config(step),
        )
        for step in steps[-_MOST_ROWS:]
    ]
    header = ("#measurement", "#duration", "#predicted", "*config")
    content = table("Each config that was faster than all before", header, rows)
    return details(f"The {len(steps)} steps as a table", content)


def _rounds(facts: dict[str, Any]) -> str:
    rounds = facts["rounds"]
    if not rounds:
        return paragraph(
            "A journal does not keep rounds: the measurements above are in the order "
            "in which they were made. The table of results of a search has them."
        )
    better, best = [], None
    for entry in rounds:
        if best is None or (entry["best_ms"] or best) < best or entry is rounds[-1]:
            better.append(entry)
        best = entry["best_ms"] if entry["best_ms"] is not None else best
    rows = [
        (
            entry["round"],
            entry["n_new"],
            entry["n_measured"],
            entry["n_failed"],
            _words.duration(entry["best_ms"]),
        )
        for entry in better[-_MOST_ROWS:]
    ]
    header = ("#round", "#new", "#measured", "#failed", "#best so far")
    caption = "The first round, those that found something better, and the last"
    words = f"{len(rounds)} rounds, {rounds[0]['n_new']} configs in the first."
    return paragraph(words) + table(caption, header, rows)


def _predictions(facts: dict[str, Any]) -> str:
    words = _words.predicted(facts)
    pairs = facts["predictions"]["pairs"]
    return paragraph(words) + predicted_against_measured(pairs, words)


def _parameters(facts: dict[str, Any]) -> str:
    entries, best = facts["parameters"], facts["best"]
    if not entries or best is None:
        return paragraph(
            "No parameter varies among the measured configs, or the file does not "
            "hold their parameters."
        )
    marks = legend(
        [
            ("bar", "best measured speed with this value, relative to the best"),
            ("meankey", "mean speed over the learned configs, by the surrogate"),
        ]
    )
    fastest = facts["improvements"][-1]["duration_ms"]
    charts = "".join(
        f"<div><h3>{escape(entry['name'])}</h3>{parameter_effect(entry, fastest)}</div>"
        for entry in entries
    )
    words = (
        "The parameter with the greatest effect comes first. A search measures good "
        "values more often, so compare the mean speeds rather than the medians."
    )
    return (
        f'{paragraph(words)}{marks}<div class="effects">{charts}</div>'
        f"{details('All values as a table', _values(entries))}"
    )


def _values(entries: list[dict[str, Any]]) -> str:
    rows = [
        (
            entry["name"],
            value["value"],
            value["n_measured"],
            value["n_failed"],
            _words.duration(value["best_ms"]),
            _words.duration(value["median_ms"]),
            _words.share(value["mean_speed"]),
        )
        for entry in entries
        for value in entry["values"]
    ]
    header = (
        "parameter", "value", "#measured", "#failed", "#best", "#median", "#mean speed"
    )  # fmt: skip
    caption = "What was measured with each value, and the mean speed by the surrogate"
    return table(caption, header, rows)


def _finalists(facts: dict[str, Any]) -> str:
    rows = [
        (
            row["position"],
            _words.duration(row["duration_ms"]),
            ", ".join(map(_words.duration, row["repeats_ms"])),
            _words.config(row),
        )
        for row in facts["finalists"]
    ]
    header = ("#measurement", "#first", "*repeats", "*config")
    caption = "The best is named by the median of its repeats"
    return table(caption, header, rows) if rows else ""


def _failures(facts: dict[str, Any]) -> str:
    failures = facts["failures"]
    if not failures:
        return paragraph("None.")
    counts: dict[str, int] = {}
    for entry in failures:
        counts[entry["status"]] = counts.get(entry["status"], 0) + entry["count"]
    chart = bars(
        [(status, count, str(count)) for status, count in counts.items()],
        ", ".join(f"{count} × {status}" for status, count in counts.items()),
        "bad",
    )
    rows = [
        (
            entry["count"],
            entry["status"],
            _words.reason(entry),
            _words.config(entry["example"]),
        )
        for entry in failures[:_MOST_ROWS]
    ]
    header = ("#count", "status", "*reason", "*first example")
    return chart + table("Failed configs by reason", header, rows)


def _time(facts: dict[str, Any]) -> str:
    time = facts["time"]
    words = paragraph(_words.cost(facts))
    rows = [
        ("compiling", time["compile_seconds"]),
        ("running", time["run_seconds"]),
        ("repeats", time["repeat_seconds"]),
    ]
    known = [(name, value, _words.seconds(value)) for name, value in rows if value]
    return words + (bars(known, _words.cost(facts)) if known else "")


def _fastest(facts: dict[str, Any]) -> str:
    rows = [
        (
            place,
            _words.duration(row["duration_ms"]),
            row["position"],
            _words.config(row),
        )
        for place, row in enumerate(facts["fastest"], start=1)
    ]
    header = ("#place", "#duration", "#measurement", "*config")
    return table("By their first measurement", header, rows) if rows else ""


def _about(about: list[tuple[str, Any]]) -> str:
    rows = [(name, "-" if value is None else value) for name, value in about]
    caption = "The fingerprint in the journal"
    return table(caption, ("name", "*value"), rows) if rows else ""
