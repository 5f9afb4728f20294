"""Figures of evaluations and decisions."""

from typing import Any

import numpy as np
import pandas as pd

from fasta_learn._compat import import_extra
from fasta_learn.heuristics._evaluate_policies import as_policy
from fasta_learn.heuristics._formulas import PAD_CATEGORICAL, PAD_NUMERICAL
from fasta_learn.heuristics._objectives import PRODUCTION_MARGIN

_COLOURS = ("#d9d9d9", "#4c72b0", "#dd8452")
_LABELS = ("unsure", "orig", "pad")


def plot_evaluation(table: pd.DataFrame, *, ax: Any = None) -> Any:
    """Draw the regret of policies with its interval.

    Parameters
    ----------
    table : DataFrame
        What `evaluate` returned.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes: a bar for each row, in per cent over the best choice, with its
        value beside it.

    Raises
    ------
    MissingExtraError
        matplotlib is not installed.

    Examples
    --------
    >>> import pandas as pd
    >>> from fasta_learn.heuristics import evaluate, plot_evaluation
    >>> inputs = pd.DataFrame({"median_orig": [2.0, 1.1], "median_pad": [1.0, 1.0]})
    >>> axes = plot_evaluation(evaluate(inputs, {"never": "orig", "always": "pad"}))
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['never', 'always']
    """
    pyplot = import_extra("matplotlib.pyplot", "plot")
    if ax is None:
        _, ax = pyplot.subplots(figsize=(6, 1 + 0.35 * len(table)), layout="tight")
    labels = [
        " ".join(map(str, name)) if isinstance(name, tuple) else str(name)
        for name in table.index
    ]
    percent = 100 * (table["regret"].to_numpy() - 1)
    low = percent - 100 * (table["regret_low"].to_numpy() - 1)
    high = 100 * (table["regret_high"].to_numpy() - 1) - percent
    spread = np.clip(np.nan_to_num([low, high]), 0, None)
    widths = np.nan_to_num(percent)
    ax.barh(labels, widths, xerr=spread, color=_COLOURS[1], capsize=3)
    # Good policies lose so little that their bars can't be read beside bad ones.
    for row, value in enumerate(percent):
        text = "nothing decided" if np.isnan(value) else f"{value:.2f}"
        end = (widths[row] + spread[1, row], row)
        ax.annotate(text, end, (4, 0), textcoords="offset points", va="center")
    ax.margins(x=0.15)
    ax.set_xlim(left=0)
    ax.invert_yaxis()
    ax.set_xlabel("mean slowdown of decided inputs (%)")
    return ax


def plot_decisions(
    policy: Any,
    product: dict[str, Any],
    *,
    sizes: Any = None,
    ax: Any = None,
) -> Any:
    """Draw what a policy decides about products of two varying sizes.

    Parameters
    ----------
    policy : object
        As for `evaluate`, but for ``"benchmark"``.
    product : dict of str to object
        Raw features of a product of pad_mm; k stays, m and n vary. Strides of
        contiguous or transposed matrices and padded lengths follow.
    sizes : array-like of int, default=None
        Values of m and n; None takes 60 odd ones from 512 to 16384.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes: n to the right, m upwards.

    Raises
    ------
    MissingExtraError
        matplotlib is not installed.

    Examples
    --------
    >>> from fasta_learn.heuristics import GemmInput, plot_decisions
    >>> product = GemmInput(4096, 4095, 4096, "float16").features()
    >>> plot_decisions("pad", product).get_title()
    'k = 4095, torch.float16'
    """
    pyplot = import_extra("matplotlib.pyplot", "plot")
    colors = import_extra("matplotlib.colors", "plot")
    if sizes is None:
        sizes = np.geomspace(512, 16384, 60).astype(int) | 1
    sizes = np.asarray(sizes, np.int64)
    frame = _vary(product, sizes)
    decided = as_policy(policy, frame, PRODUCTION_MARGIN)
    code = {None: 0, "orig": 1, "pad": 2}
    image = np.array([code[choice] for choice in decided]).reshape(len(sizes), -1)
    if ax is None:
        _, ax = pyplot.subplots(figsize=(5, 4), layout="tight")
    palette = colors.ListedColormap(_COLOURS)
    ax.pcolormesh(sizes, sizes, image, cmap=palette, vmin=0, vmax=2, shading="nearest")
    ax.set(xscale="log", yscale="log", xlabel="n", ylabel="m")
    ax.set_title(f"k = {product['k']}, {product['mat1_dtype']}")
    patches = [
        pyplot.Rectangle((0, 0), 1, 1, color=_COLOURS[number], label=_LABELS[number])
        for number in np.unique(image)
    ]
    # Beside the map, whose corners all say something.
    ax.legend(handles=patches, loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    return ax


def _vary(product: dict[str, Any], sizes: np.ndarray) -> pd.DataFrame:
    n, m = (grid.ravel() for grid in np.meshgrid(sizes, sizes))
    frame = pd.DataFrame({name: [product[name]] * len(m) for name in product})
    frame = frame[[*PAD_NUMERICAL, *PAD_CATEGORICAL]]
    k = np.full(len(m), int(product["k"]))
    transposed = product["mat1_stride_0"] == 1, product["mat2_stride_0"] == 1
    frame["m"], frame["n"] = m, n
    frame["mat1_stride_0"], frame["mat1_stride_1"] = (1, m) if transposed[0] else (k, 1)
    frame["mat2_stride_0"], frame["mat2_stride_1"] = (1, k) if transposed[1] else (n, 1)
    for name, size, align in (("m", m, "mat1"), ("k", k, "mat1"), ("n", n, "mat2")):
        frame[f"{name}_padded_length"] = np.where(
            size == 1, 0, -size % int(product[f"{align}_align_size"])
        )
    # Columns that policies and evaluations expect of inputs.
    frame["median_orig"] = frame["median_pad"] = np.nan
    return frame
