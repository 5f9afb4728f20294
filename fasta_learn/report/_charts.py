"""The charts of a report."""

import math
from collections.abc import Sequence
from typing import Any

from fasta_learn._text import format_duration
from fasta_learn.report._svg import (
    Scale,
    bottom_axis,
    count_scale,
    duration_scale,
    figure,
    left_axis,
    spread,
    text,
    unit_of,
)

_WIDTHS = (720, 340)
_MOST_MARKS = 800
_LEFT, _TOP, _BOTTOM = 52, 34, 46


def legend(marks: Sequence[tuple[str, str]]) -> str:
    """Return what marks mean.

    Parameters
    ----------
    marks : sequence of (str, str)
        The class of each mark, and its meaning.

    Returns
    -------
    str
        A list.
    """
    items = "".join(
        f'<li><svg class="key" viewBox="0 0 14 14" aria-hidden="true">'
        f'<circle class="{name}" cx="7" cy="7" r="5"/></svg>{words}</li>'
        for name, words in marks
    )
    return f'<ul class="legend">{items}</ul>'


def best_so_far(facts: dict[str, Any]) -> str:
    """Draw every measurement in order, and the best so far.

    Parameters
    ----------
    facts : dict
        Of a search.

    Returns
    -------
    str
        The figure; nothing if no config ran.
    """
    steps = facts["improvements"]
    if not steps:
        return ""
    first, last = steps[0], steps[-1]
    label = (
        f"Best duration so far: from {format_duration(first['duration_ms'])} at "
        f"measurement {first['position']} to "
        f"{format_duration(last['duration_ms'])} at measurement {last['position']} of "
        f"{facts['n_measured']}; {facts['n_failed']} failed."
    )
    marks = [("dot", "a measurement"), ("best", "best so far")]
    if facts["n_failed"]:
        marks.append(("bad", "failed"))
    shown = spread(facts["n_measured"], _MOST_MARKS)
    caption = "Lower is faster."
    if len(shown) < facts["n_measured"]:
        caption += f" {len(shown)} of the {facts['n_measured']} measurements are drawn."
    drawn = [_draw_best(facts, shown, width) for width in _WIDTHS]
    return figure(drawn, label, caption, legend(marks))


def _draw_best(facts: dict[str, Any], shown: list[int], width: int) -> tuple[str, str]:
    rows, steps = facts["measurements"], facts["improvements"]
    height, right = 300, width - 12
    bottom = height - _BOTTOM
    known = [row["duration_ms"] for row in rows if row["duration_ms"] is not None]
    y = duration_scale(known, bottom - 14, _TOP)
    x = count_scale(len(rows) + 0.5, _LEFT + 4, right, low=0.5)
    unit, name = unit_of(y)
    parts = [
        left_axis(y, _LEFT, right, f"duration ({name})", unit),
        bottom_axis(x, bottom, bottom - 4, "measurement"),
    ]
    for i in shown:
        row = rows[i]
        if row["duration_ms"] is None:
            at = x(i + 1)
            parts.append(f'<path class="bad" d="M{at} {bottom - 9}v9"/>')
        else:
            point = x(i + 1), y(row["duration_ms"])
            parts.append(_dot("dot", point, 2.5))
    path = f"M{x(steps[0]['position'])} {y(steps[0]['duration_ms'])}"
    path += "".join(f"H{x(s['position'])}V{y(s['duration_ms'])}" for s in steps[1:])
    parts.append(f'<path class="line" d="{path}H{right}"/>')
    for step in steps[-60:]:
        about = f"{step['position']}: {format_duration(step['duration_ms'])}"
        parts.append(
            _dot("best", (x(step["position"]), y(step["duration_ms"])), 4, about)
        )
    return f"{width} {height}", "".join(parts)


def _dot(name: str, point: tuple[float, float], radius: float, about: str = "") -> str:
    start = f'<circle class="{name}" cx="{point[0]}" cy="{point[1]}" r="{radius}"'
    return f"{start}><title>{about}</title></circle>" if about else f"{start}/>"


def predicted_against_measured(pairs: Sequence[dict[str, Any]], label: str) -> str:
    """Draw what was predicted against what was measured.

    Parameters
    ----------
    pairs : sequence of dict
        With predicted_ms and measured_ms.
    label : str
        What is to be seen, for those who can't see it.

    Returns
    -------
    str
        The figure.
    """
    positive = [p for p in pairs if p["measured_ms"] > 0 and p["predicted_ms"] > 0]
    shown = [positive[i] for i in spread(len(positive), _MOST_MARKS)]
    if not shown:
        return ""
    drawn = [_draw_pairs(shown, width) for width in (460, 340)]
    caption = (
        "On the line the prediction is right; above it the config is faster than "
        "predicted."
    )
    if len(shown) < len(pairs):
        caption += f" {len(shown)} of {len(pairs)} are drawn."
    return figure(drawn, label, caption).replace("<figure>", '<figure class="square">')


def _draw_pairs(shown: Sequence[dict[str, Any]], width: int) -> tuple[str, str]:
    height, right = width - 20, width - 12
    bottom = height - _BOTTOM
    values = [p["measured_ms"] for p in shown]
    # A wild prediction should not squeeze all others into a corner.
    low, high = min(values), max(values)
    values += [min(max(p["predicted_ms"], low / 2), high * 2) for p in shown]
    x = duration_scale(values, _LEFT + 4, right)
    y = Scale(x.low, x.high, bottom, _TOP, x.logarithmic)
    unit, name = unit_of(x)
    ends = x(x.low), y(x.low), x(x.high), y(x.high)
    parts = [
        left_axis(y, _LEFT, right, f"predicted ({name})", unit),
        bottom_axis(x, bottom, _TOP, f"measured ({name})", unit),
        f'<path class="line thin" d="M{ends[0]} {ends[1]}L{ends[2]} {ends[3]}"/>',
    ]
    for pair in shown:
        measured, predicted = pair["measured_ms"], pair["predicted_ms"]
        about = (
            f"measured {format_duration(measured)}, predicted "
            f"{format_duration(predicted)}"
            if len(shown) <= 200
            else ""
        )
        parts.append(_dot("dot", (x(measured), y(predicted)), 3.5, about))
    return f"{width} {height}", "".join(parts)


def parameter_effect(entry: dict[str, Any], best: float) -> str:
    """Draw how fast a kernel is by the value of a parameter.

    Parameters
    ----------
    entry : dict
        Of the parameter.
    best : float
        The best measured duration in ms.

    Returns
    -------
    str
        The figure.
    """
    speeds = [best / v["best_ms"] if v["best_ms"] else 0.0 for v in entry["values"]]
    listed = ", ".join(
        f"{v['value']}: {100 * speed:.0f} %" if speed else f"{v['value']}: none ran"
        for v, speed in zip(entry["values"], speeds, strict=True)
    )
    label = f"Best measured speed by {entry['name']}, relative to the best. {listed}."
    effect = entry["effect"]
    caption = ""
    if effect is not None:
        caption = f"The mean speed varies by {100 * effect:.0f} points."
    return figure([_draw_effect(entry, speeds, 280)], label, caption)


def _draw_effect(
    entry: dict[str, Any], speeds: list[float], width: int
) -> tuple[str, str]:
    labels = [str(v["value"]) for v in entry["values"]]
    labels = [words if len(words) < 15 else f"{words[:13]}…" for words in labels]
    left = 14 + 8 * max(map(len, labels))
    scale = count_scale(1.0, left, width - 54)
    height = 8 + 24 * len(labels)
    parts = []
    for i, (value, speed) in enumerate(zip(entry["values"], speeds, strict=True)):
        top = 6 + 24 * i
        parts.append(text(left - 6, top + 13, labels[i], "end"))
        length = max(round(scale(speed) - left, 1), 1)
        parts.append(
            f'<rect class="bar" x="{left}" y="{top}" width="{length}" height="16"/>'
        )
        if value["mean_speed"] is not None:
            at = scale(value["mean_speed"])
            parts.append(f'<path class="mean" d="M{at} {top - 2}v20"/>')
        words = f"{100 * speed:.0f} %" if speed else "failed"
        parts.append(text(width - 2, top + 13, words, "end"))
    return f"{width} {height}", "".join(parts)


def bars(rows: Sequence[tuple[str, float, str]], label: str, name: str = "bar") -> str:
    """Draw horizontal bars.

    Parameters
    ----------
    rows : sequence of (str, float, str)
        Label, length and words at the end of each bar.
    label : str
        What is to be seen, for those who can't see it.
    name : str, default="bar"
        Class of the bars.

    Returns
    -------
    str
        The figure.
    """
    drawn = [_draw_bars(rows, width, name) for width in _WIDTHS]
    return figure(drawn, label, "")


def _draw_bars(
    rows: Sequence[tuple[str, float, str]], width: int, name: str
) -> tuple[str, str]:
    left = 10 + 8 * max(len(row[0]) for row in rows)
    room = 12 + 8 * max(len(row[2]) for row in rows)
    scale = count_scale(max(row[1] for row in rows), left, width - room)
    parts = []
    for i, (words, value, end) in enumerate(rows):
        top = 4 + 28 * i
        reach = scale(value)
        parts.append(text(left - 8, top + 15, words, "end"))
        length = max(round(reach - left, 1), 1)
        parts.append(
            f'<rect class="{name}" x="{left}" y="{top}" width="{length}" height="20"/>'
        )
        parts.append(text(round(reach + 8, 1), top + 15, end, "start"))
    return f"{width} {8 + 28 * len(rows)}", "".join(parts)


def ratios(known: Sequence[float]) -> str:
    """Draw how the kernels compare with the choice of Inductor, the best first.

    Parameters
    ----------
    known : sequence of float
        Time of each kernel over that of Inductor's choice.

    Returns
    -------
    str
        The figure; nothing if no ratio is known.
    """
    values = sorted(known)
    if not values:
        return ""
    n_faster = sum(value < 1 for value in values)
    label = (
        f"Time of each kernel relative to Inductor's own choice, sorted, from "
        f"{values[0]:.3f} to {values[-1]:.3f}; {n_faster} of {len(values)} are faster."
    )
    drawn = [_draw_ratios(values, width) for width in _WIDTHS]
    return figure(drawn, label, "Below 1 a kernel is faster than Inductor's choice.")


def _draw_ratios(values: list[float], width: int) -> tuple[str, str]:
    height, right = 260, width - 12
    bottom = height - _BOTTOM
    wide = values[0] > 0 and max(values[-1], 1.0) / values[0] > 20
    low = values[0] / 1.1 if wide else 0.0
    y = Scale(low, max(1.1, values[-1] * 1.05), bottom, _TOP, wide)
    x = count_scale(len(values) + 0.5, _LEFT + 4, right, low=0.5)
    parts = [
        left_axis(y, _LEFT, right, "time / time of Inductor's choice"),
        bottom_axis(x, bottom, bottom - 4, "kernels, sorted"),
        f'<path class="line thin" d="M{_LEFT} {y(1.0)}H{right}"/>',
    ]
    for i in spread(len(values), _MOST_MARKS):
        name = "dot" if values[i] <= 1 else "bad"
        parts.append(_dot(name, (x(i + 1), y(values[i])), 4, f"{values[i]:.3f}"))
    return f"{width} {height}", "".join(parts)


def catch_by_search(searches: Sequence[dict[str, Any]]) -> str:
    """Draw the share of caught runs of each search and budget.

    Parameters
    ----------
    searches : sequence of dict
        A summary of a replay.

    Returns
    -------
    str
        The figure.
    """
    rows = [
        (f"{row['search']}, {budget_words(row['budget'])}", row["catch"])
        for row in searches
    ]
    listed = "; ".join(f"{words}: {100 * share:.0f} %" for words, share in rows)
    label = f"Share of runs within 5 % of the fastest config. {listed}."
    return bars([(w, share, f"{100 * share:.1f} %") for w, share in rows], label)


def budget_words(budget: float) -> str:
    """Return a budget in words.

    Parameters
    ----------
    budget : float
        A share, or from 1 upwards a number of configs if it is whole.

    Returns
    -------
    str
        Such as "20 %" or "40".
    """
    if isinstance(budget, int) or budget > 1:
        return f"{budget:g}"
    return f"{100 * budget:g} %" if math.isfinite(budget) else "-"
