import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from fasta_learn.exceptions import MissingExtraError
from fasta_learn.experiments import plot_regret, regret_curves, replay, summarize

CURVES = pd.DataFrame(
    {
        "search": ["b", "b", "a"],
        "share": [0.1, 0.2, 0.1],
        "mean_regret": [np.inf, 0.01, 0.5],
        "catch": [0.0, 1.0, 0.5],
    }
)


@pytest.fixture
def ax():
    return pytest.importorskip("matplotlib.figure").Figure().subplots()


def lines(ax):
    return {line.get_label(): line.get_xydata() for line in ax.get_lines()}


def test_curves_in_percent(ax):
    plot_regret(CURVES, ax)
    assert_allclose(lines(ax)["a"], [[10, 50]])


def test_infinite_means_are_a_gap(ax):
    plot_regret(CURVES, ax)
    assert_allclose(lines(ax)["b"], [[10, np.nan], [20, 1]])


def test_legend_is_in_order_of_appearance(ax):
    plot_regret(CURVES, ax)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["b", "a"]


def test_number_of_measurements(ax):
    plot_regret(CURVES.rename(columns={"share": "n_measured"}), ax)
    assert_allclose(lines(ax)["a"], [[0.1, 50]])
    assert ax.get_xlabel() == "measured configs"


def test_results_with_traces_become_curves(ax, pool):
    results = replay(pool, ["random"], [6], 3, traces=True)
    plot_regret(results, ax)
    expected = 100 * regret_curves(results)[["share", "mean_regret"]]
    drawn = np.where(np.isinf(expected), np.nan, expected)
    assert_allclose(lines(ax)["random"], drawn)


def test_results_without_traces_become_points(ax, pool):
    results = replay(pool, ["random"], [12, 6], 3)
    plot_regret(results, ax)
    table = summarize(results)
    assert_allclose(
        lines(ax)["random"],
        [[25, 100 * table["mean_regret"][1]], [50, 100 * table["mean_regret"][0]]],
    )


def test_intervals_are_bands(ax, pool):
    results = replay(pool, ["random", "default"], [6], 3, traces=True)
    curves = regret_curves(results, against="number")
    plot_regret(curves, ax)
    band, _ = ax.collections
    assert len(ax.get_lines()) == 2
    # The band ends at the upper end of the interval, in percent.
    high = curves.query("search == 'random'")["mean_regret_high"]
    drawn = high[np.isfinite(high)]
    assert_allclose(band.get_datalim(ax.transData).y1, 100 * drawn.max())


def test_curves_without_intervals_have_no_bands(ax):
    plot_regret(CURVES, ax)
    assert len(ax.collections) == 0


def test_bands_leave_the_axis_where_the_lines_are(ax):
    curves = CURVES.assign(mean_regret_low=0.0, mean_regret_high=0.6)
    plot_regret(curves, ax)
    assert ax.get_ylim()[0] > 0.1  # the lowest line is at 1 %


def test_own_figure():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    ax = plot_regret(CURVES)
    assert len(ax.get_lines()) == 2
    pyplot.close(ax.figure)


def test_missing_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingExtraError, match=r"fasta-learn\[plot\]"):
        plot_regret(CURVES)
