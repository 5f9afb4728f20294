"""Figures of replays."""

from typing import Any

import numpy as np
import pandas as pd

from fasta_learn._compat import import_extra
from fasta_learn.experiments._curves import regret_curves
from fasta_learn.experiments._summary import summarize

_LABELS = {
    "share": "measured share of the pool (%)",
    "n_measured": "measured configs",
}


def plot_regret(results: pd.DataFrame, ax: Any = None) -> Any:
    """Plot the mean regret of searches against what they measured.

    Parameters
    ----------
    results : pandas.DataFrame
        What `regret_curves` answered, or what `replay` answered: with traces its
        curves are drawn, without them a point for each budget. Intervals are drawn as
        bands.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes, with a line for each search.

    Raises
    ------
    MissingExtraError
        Matplotlib is not installed.
    ValueError
        The frame is neither of the two.

    Examples
    --------
    >>> import pandas as pd
    >>> from fasta_learn.experiments import plot_regret
    >>> curves = pd.DataFrame({"search": "mine", "share": [0.1, 0.2],
    ...                        "mean_regret": [0.05, 0.01], "catch": [0.5, 1.0]})
    >>> ax = plot_regret(curves)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('measured share of the pool (%)', 'mean regret (%)')
    """
    if ax is None:
        _, ax = import_extra("matplotlib.pyplot", "plot").subplots()
    points = _points(results)
    column = "share" if "share" in points.columns else "n_measured"
    scale = 100.0 if column == "share" else 1.0
    marker = "" if "mean_regret" in results.columns or "trace" in results else "o"
    for name, line in points.groupby("search", sort=False):
        # A mean that is not finite yet leaves a gap.
        regret = line["mean_regret"].where(np.isfinite(line["mean_regret"]))
        x = scale * line[column]
        (drawn,) = ax.plot(x, 100.0 * regret, marker=marker, label=name)
        if "mean_regret_low" in points.columns:
            _draw_band(ax, x, line, _floor(points), drawn.get_color())
    ax.set_yscale("log")
    ax.set_xlabel(_LABELS[column])
    ax.set_ylabel("mean regret (%)")
    ax.legend()
    return ax


def _floor(points: pd.DataFrame) -> float:
    """Return how far down bands are drawn, since a logarithmic axis has no zero."""
    regrets = points["mean_regret"]
    return float(regrets[(regrets > 0) & np.isfinite(regrets)].min()) / 2.0


def _draw_band(
    ax: Any, x: pd.Series, line: pd.DataFrame, floor: float, colour: Any
) -> None:
    ends = line[["mean_regret_low", "mean_regret_high"]].to_numpy(dtype=np.float64)
    low, high = 100.0 * np.fmax(ends, floor).T
    known = np.isfinite(high)
    ax.fill_between(x, low, high, where=known, color=colour, alpha=0.15, linewidth=0)


def _points(results: pd.DataFrame) -> pd.DataFrame:
    if "mean_regret" in results.columns:
        return results
    if "trace" in results.columns:
        return regret_curves(results)
    points = summarize(results)
    points["share"] = 1.0 - points["savings"]
    return points.sort_values("share", kind="stable")
