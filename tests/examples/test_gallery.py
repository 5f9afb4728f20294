"""Each example of the gallery tells its story, runs, and draws what can be read."""

import ast
import re
import runpy
from pathlib import Path

import matplotlib
import pytest
from matplotlib import pyplot

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))
every_example = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)


@pytest.fixture
def figures(monkeypatch):
    """Collect the figures that are shown, drawn once so that their layout is done."""
    shown = []

    def show():
        for number in pyplot.get_fignums():
            figure = pyplot.figure(number)
            figure.canvas.draw()
            shown.append(figure)
        pyplot.close("all")

    monkeypatch.setattr(pyplot, "show", show)
    with matplotlib.rc_context(matplotlib.rcParamsDefault.copy()):
        pyplot.switch_backend("agg")
        yield shown
    pyplot.close("all")


def test_there_are_at_least_ten():
    assert len(EXAMPLES) >= 10


@every_example
def test_the_first_lines_are_a_title_and_what_the_example_is_about(path):
    over, title, under, empty, *story = ast.get_docstring(
        ast.parse(path.read_text(encoding="utf-8"))
    ).splitlines()
    assert over == under
    assert re.fullmatch("=+", over)
    assert len(over) >= len(title)
    assert not empty
    assert len(" ".join(story).split()) >= 20


@every_example
def test_the_gallery_has_a_place_for_it(path):
    settings = (ROOT / "docs" / "conf.py").read_text(encoding="utf-8")
    assert f'"{path.name}"' in settings


@every_example
def test_it_runs_and_its_figures_can_be_read(path, figures):
    runpy.run_path(str(path), run_name="__main__")
    assert figures
    for figure in figures:
        assert min(figure.bbox.size / figure.dpi) >= 2
        for axes in figure.axes:
            assert axes.get_xlabel() or axes.get_ylabel() or axes.get_title()
        # Nothing that was drawn, such as a label, reaches out of the picture.
        drawn, page = figure.get_tightbbox(), figure.bbox_inches
        assert drawn.x0 >= page.x0 - 0.02
        assert drawn.y0 >= page.y0 - 0.02
        assert drawn.x1 <= page.x1 + 0.02
        assert drawn.y1 <= page.y1 + 0.02
