"""A small chart of a search, which takes its colours from the page around it."""

from collections.abc import Sequence
from html import escape

from fasta_learn._text import format_duration
from fasta_learn.report._svg import (
    bottom_axis,
    count_scale,
    duration_scale,
    left_axis,
    spread,
    unit_of,
)

_WIDTH, _HEIGHT = 520, 200
_LEFT, _TOP, _RIGHT, _BOTTOM = 48, 28, 508, 158
_MOST_MARKS = 300


def small_best_so_far(durations: Sequence[float | None]) -> str:
    """Draw every measurement in order, and the best so far.

    Parameters
    ----------
    durations : sequence of float or None
        The durations in ms in the order of the measurements; None where one failed.

    Returns
    -------
    str
        An SVG element without colours, with the classes "grid", "dot", "bad", "line"
        and "best"; nothing if no config ran.
    """
    steps = _improvements(durations)
    if not steps:
        return ""
    known = [duration for duration in durations if duration is not None]
    y = duration_scale(known, _BOTTOM - 10, _TOP)
    x = count_scale(len(durations) + 0.5, _LEFT + 4, _RIGHT, low=0.5)
    unit, name = unit_of(y)
    parts = [
        left_axis(y, _LEFT, _RIGHT, f"duration ({name})", unit),
        bottom_axis(x, _BOTTOM, _BOTTOM - 4, "measurement"),
    ]
    for i in spread(len(durations), _MOST_MARKS):
        duration = durations[i]
        if duration is None:
            parts.append(f'<path class="bad" d="M{x(i + 1)} {_BOTTOM - 8}v8"/>')
        else:
            parts.append(_dot("dot", x(i + 1), y(duration), 2.5))
    path = f"M{x(steps[0][0])} {y(steps[0][1])}"
    path += "".join(f"H{x(position)}V{y(value)}" for position, value in steps[1:])
    parts.append(f'<path class="line" d="{path}H{_RIGHT}"/>')
    parts += [_dot("best", x(position), y(value), 3.5) for position, value in steps]
    label = (
        f"Best duration so far: from {format_duration(steps[0][1])} at measurement "
        f"{steps[0][0]} to {format_duration(steps[-1][1])} at measurement "
        f"{steps[-1][0]} of {len(durations)}."
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def _improvements(durations: Sequence[float | None]) -> list[tuple[int, float]]:
    """Return numbers and durations of those that were faster than all before."""
    found: list[tuple[int, float]] = []
    for number, duration in enumerate(durations, start=1):
        if duration is not None and (not found or duration < found[-1][1]):
            found.append((number, duration))
    return found


def _dot(name: str, x: float, y: float, radius: float) -> str:
    return f'<circle class="{name}" cx="{x}" cy="{y}" r="{radius}"/>'
