"""Scales, axes and marks of charts in SVG, without any library."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

# A range wider than this is drawn on a logarithmic scale.
_WIDE = 5.0
_UNITS = ((1e3, "s"), (1.0, "ms"), (1e-3, "µs"), (1e-6, "ns"))


@dataclass(frozen=True)
class Scale:
    """From values to pixels.

    Attributes
    ----------
    low, high : float
        The range of the values; low is below high.
    start, end : float
        The pixels of low and high.
    logarithmic : bool
        Whether equal ratios are equally far apart.
    """

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        """Return the pixel of a value; those out of range are put to its end."""
        value = min(max(value, self.low), self.high)
        low, high = self.low, self.high
        if self.logarithmic:
            value, low, high = math.log(value), math.log(low), math.log(high)
        share = (value - low) / (high - low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self, most: int = 6) -> list[float]:
        """Return round values within the range, at most so many."""
        if not self.logarithmic:
            return _even_ticks(self.low, self.high, most)
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for steps in ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
            found = [
                step * 10.0**power
                for power in range(first, last + 1)
                for step in steps
                if self.low <= step * 10.0**power <= self.high
            ]
            if len(found) <= most:
                return found
        return found[:: math.ceil(len(found) / most)]


def _even_ticks(low: float, high: float, most: int) -> list[float]:
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    for step in (1, 2, 2.5, 5, 10, 20):
        first = math.ceil(low / (step * power) - 1e-9)
        last = math.floor(high / (step * power) + 1e-9)
        if last - first < most:
            break
    return [i * step * power for i in range(first, last + 1)]


def count_scale(high: float, start: float, end: float, low: float = 0.0) -> Scale:
    """Return a linear scale for counts and shares.

    Parameters
    ----------
    high : float
        The greatest value.
    start, end : float
        The pixels.
    low : float, default=0.0
        The least value.

    Returns
    -------
    Scale
        From low to high.
    """
    return Scale(low, high if high > low else low + 1.0, start, end)


def duration_scale(values: Iterable[float], start: float, end: float) -> Scale:
    """Return a scale for durations.

    Parameters
    ----------
    values : iterable of float
        The durations in ms.
    start, end : float
        The pixels.

    Returns
    -------
    Scale
        Logarithmic if the durations differ much.
    """
    known = [value for value in values if math.isfinite(value)]
    low, high = (min(known), max(known)) if known else (1.0, 1.0)
    if low > 0 and high / low > _WIDE:
        return Scale(low / 1.08, high * 1.08, start, end, logarithmic=True)
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    return Scale(max(low - margin, 0.0), high + margin, start, end)


def unit_of(scale: Scale) -> tuple[float, str]:
    """Return the unit that fits the durations of a scale.

    Parameters
    ----------
    scale : Scale
        The scale.

    Returns
    -------
    (float, str)
        The unit in ms, and its name.
    """
    return next((unit for unit in _UNITS if scale.high >= unit[0]), _UNITS[-1])


def text(x: float, y: float, words: str, anchor: str = "middle", more: str = "") -> str:
    """Return a text.

    Parameters
    ----------
    x, y : float
        Where.
    words : str
        What.
    anchor : {"start", "middle", "end"}, default="middle"
        Which part of it stands there.
    more : str, default=""
        More attributes.

    Returns
    -------
    str
        The element.
    """
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{more}>{escape(words)}</text>'


def bottom_axis(
    scale: Scale, y: float, top: float, title: str, unit: float = 1.0
) -> str:
    """Return a horizontal axis with grid lines.

    Parameters
    ----------
    scale : Scale
        Its scale.
    y, top : float
        Where it is, and how far up the grid lines go.
    title : str
        What it shows.
    unit : float, default=1.0
        By which labels are divided.

    Returns
    -------
    str
        The elements.
    """
    most = max(3, int(abs(scale.end - scale.start) / 80))
    parts = []
    for tick in scale.ticks(most):
        x = scale(tick)
        parts.append(f'<path class="grid" d="M{x} {top}V{y}"/>')
        parts.append(text(x, y + 17, f"{tick / unit:g}"))
    middle = round((scale.start + scale.end) / 2, 1)
    parts.append(text(middle, y + 36, title))
    return "".join(parts)


def left_axis(
    scale: Scale, x: float, right: float, title: str, unit: float = 1.0
) -> str:
    """Return a vertical axis with grid lines; its title stands above it.

    Parameters
    ----------
    scale : Scale
        Its scale.
    x, right : float
        Where it is, and how far the grid lines go.
    title : str
        What it shows.
    unit : float, default=1.0
        By which labels are divided.

    Returns
    -------
    str
        The elements.
    """
    parts = [text(2, min(scale.start, scale.end) - 10, title, "start")]
    for tick in scale.ticks(6):
        y = scale(tick)
        parts.append(f'<path class="grid" d="M{x} {y}H{right}"/>')
        parts.append(text(x - 6, y + 4, f"{tick / unit:g}", "end"))
    return "".join(parts)


def figure(
    draw: Sequence[tuple[str, str]], label: str, caption: str, legend: str = ""
) -> str:
    """Return a figure with a drawing for wide screens and one for narrow ones.

    Parameters
    ----------
    draw : sequence of (str, str)
        Sizes as "width height", and elements: first wide, then narrow; or one that is
        for both.
    label : str
        What is to be seen, for those who can't see it.
    caption : str
        The caption, as HTML.
    legend : str, default=""
        What marks mean, as HTML.

    Returns
    -------
    str
        The figure.
    """
    names = ("wide", "narrow") if len(draw) > 1 else ("any",)
    drawings = "".join(
        f'<svg class="{name}" viewBox="0 0 {size}" role="img" '
        f'aria-label="{escape(label)}">{parts}</svg>'
        for name, (size, parts) in zip(names, draw, strict=True)
    )
    return f"<figure>{legend}{drawings}<figcaption>{caption}</figcaption></figure>"


def spread(n: int, most: int) -> list[int]:
    """Return positions that are spread evenly.

    Parameters
    ----------
    n : int
        How many there are.
    most : int
        How many are wanted at most.

    Returns
    -------
    list of int
        Ascending; all of them if there are few.
    """
    if n <= most:
        return list(range(n))
    spread: list[int] = np.unique(
        np.linspace(0, n - 1, most).round().astype(int)
    ).tolist()
    return spread
