"""Draw the picture of the start page from a replay of a pool that ships.

From the root of the repository, with the package installed::

    python docs/images/make_search_picture.py

This writes ``search.svg``, with two panels in a row, and ``search_narrow.svg``, with
all panels below each other for telephones, into the folder of this file. The colours
follow the theme of the documentation where a page includes the text of the file, and
the light or dark colours of the system where it is shown as an image.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from fasta_learn import ActiveConfigSearch
from fasta_learn.configs import Pool
from fasta_learn.datasets import load_pool
from fasta_learn.search import ExpectedImprovement, SearchState

POOL = "mm_2048_2048_2048"
BUDGET = 0.2
# The predictions are those after so many measurements: the blind sample and one more.
N_FIRST = 10
ROWS, COLUMNS = "BLOCK_M", "BLOCK_N"

# Shares of the best speed at which the colour changes; the last is a catch.
EDGES = (0.25, 0.5, 0.75, 1 / 1.05)

WIDTH, HEIGHT, GUTTER = 340, 318, 28
# A cell of the map holds a block of configs, each a square of SIDE every PITCH.
SIDE, PITCH, PER_ROW, CELL_W, CELL_H = 8, 9.8, 5, 55, 43
LEFT, TOP = 52, 34
# The curve: where its axes stand, and the speed at the top of it.
AXIS_X, AXIS_Y, PLOT_W, PLOT_H, FASTEST = 44, 215, 280, 165, 1.2

MIDDLE, END = {"text-anchor": "middle"}, {"text-anchor": "end"}

LIGHT = {
    "ink": "#1f2328",
    "muted": "#59636e",
    "line": "#aab4bf",
    "band": "#d4dbe3",
    "accent": "#c2410c",
    "1": "#d3e0f3",
    "2": "#a3c0e8",
    "3": "#6795d6",
    "4": "#2f63b0",
    "5": "#0a2a63",
}
DARK = {
    "ink": "#e6edf3",
    "muted": "#9da7b3",
    "line": "#59636e",
    "band": "#343d49",
    "accent": "#ff9b5e",
    "1": "#223655",
    "2": "#2f5389",
    "3": "#4d83cb",
    "4": "#8dbaf0",
    "5": "#e3efff",
}


class Replay(NamedTuple):
    """What the panels show.

    Attributes
    ----------
    pool : Pool
        The recorded pool.
    speed : ndarray of shape (n_pool,)
        Share of the best speed of the pool.
    order : ndarray of shape (n_measured,)
        Pool indices in the order of their measurement.
    mean, std : ndarray of shape (n_pool,)
        What was predicted after `N_FIRST` measurements: speeds as shares of the best
        measured one.
    """

    pool: Pool
    speed: NDArray
    order: NDArray
    mean: NDArray
    std: NDArray


def replay() -> Replay:
    """Return a replay of the default search, with predictions of early on."""
    pool = load_pool(POOL)
    early: dict[str, Any] = {}

    def watch(state: SearchState, n_configs: int) -> NDArray[np.intp]:
        if len(state.measured) == N_FIRST:
            assert state.surrogate is not None
            assert state.surrogate.std is not None
            early["mean"] = 1 - state.surrogate.mean
            early["std"] = state.surrogate.std.copy()
        return ExpectedImprovement()(state, n_configs)

    search = ActiveConfigSearch(budget=BUDGET, acquisition=watch, random_state=0)
    search.fit(pool.configs, pool.durations)
    order = search.results_["index"].to_numpy()
    return Replay(
        pool=pool, speed=pool.best_duration / pool.durations, order=order, **early
    )


def text(x: float, y: float, words: str, kind: str = "label", **more: str) -> str:
    """Return a line of text; `more` are attributes such as the anchor."""
    extra = "".join(f' {key}="{value}"' for key, value in more.items())
    return f'<text class="fl-{kind}" x="{x:.1f}" y="{y:.1f}"{extra}>{words}</text>'


def path(kind: str, data: str) -> str:
    """Return a path of a class."""
    return f'<path class="fl-{kind}" d="{data}"/>'


def places(pool: Pool) -> NDArray[np.float64]:
    """Return the corner of each config's square on the map, shape (n_pool, 2)."""
    rows = sorted({config[ROWS] for config in pool.configs})
    columns = sorted({config[COLUMNS] for config in pool.configs})
    taken: dict[tuple[int, int], int] = {}
    corners = np.empty((len(pool), 2))
    # Inside a cell by the other parameters, so that neighbours are alike.
    for i in sorted(range(len(pool)), key=lambda i: list(pool.configs[i].values())):
        config = pool.configs[i]
        cell = columns.index(config[COLUMNS]), rows.index(config[ROWS])
        n = taken[cell] = taken.get(cell, -1) + 1
        corners[i] = (
            LEFT + cell[0] * CELL_W + n % PER_ROW * PITCH,
            TOP + (len(rows) - 1 - cell[1]) * CELL_H + n // PER_ROW * PITCH,
        )
    return corners


def squares(corners: NDArray, side: float = SIDE) -> str:
    """Return the path of squares."""
    return "".join(f"M{x:.1f} {y:.1f}h{side}v{side}h-{side}z" for x, y in corners)


def draw_map(data: Replay, measured: NDArray) -> str:
    """Return the map of the pool, coloured where it is measured."""
    corners = places(data.pool)
    unknown = np.setdiff1d(np.arange(len(data.pool)), measured)
    parts = [path("unknown", squares(corners[unknown] + 0.5, SIDE - 1))]
    level = np.digitize(data.speed[measured], EDGES) + 1
    parts += [
        path(f"speed{i}", squares(corners[measured[level == i]]))
        for i in range(1, len(EDGES) + 2)
        if (level == i).any()
    ]
    rows = sorted({config[ROWS] for config in data.pool.configs})
    columns = sorted({config[COLUMNS] for config in data.pool.configs})
    for i, value in enumerate(reversed(rows)):
        y = TOP + i * CELL_H + 22
        parts.append(text(LEFT - 6, y, str(value), **END))
    bottom = TOP + len(rows) * CELL_H + 9
    for i, value in enumerate(columns):
        x = LEFT + i * CELL_W + 23
        parts.append(text(x, bottom, str(value), **MIDDLE))
    middle = TOP + len(rows) * CELL_H / 2
    turned = f"rotate(-90 14 {middle:.1f})"
    parts.append(text(14, middle, ROWS, "code", transform=turned, **MIDDLE))
    parts.append(text(LEFT + 132, bottom + 15, COLUMNS, "code", **MIDDLE))
    return "".join(parts)


def draw_key(y: float) -> str:
    """Return the legend of the colours, a row of squares with their edges."""
    parts = [text(4, y + 9, "share of the best speed")]
    for i in range(len(EDGES) + 1):
        x = 150 + i * 34
        parts.append(path(f"speed{i + 1}", f"M{x} {y}h33v10h-33z"))
        if i:
            words = f"{100 * EDGES[i - 1]:.0f} %"
            parts.append(text(x, y + 22, words, **MIDDLE))
    return "".join(parts)


def draw_curve(data: Replay) -> str:
    """Return what is predicted of all configs, the fastest predictions on the left."""
    measured, following = data.order[:N_FIRST], int(data.order[N_FIRST])
    by_speed = np.argsort(-data.mean, kind="stable")
    x = np.empty(len(by_speed))
    x[by_speed] = AXIS_X + 8 + np.linspace(0, PLOT_W - 8, len(by_speed))
    best = data.speed[measured].max()
    upper, lower = height(data.mean + data.std), height(data.mean - data.std)
    mean, known = height(data.mean), height(data.speed[measured] / best)
    band = [f"{x[i]:.1f} {upper[i]:.1f}" for i in by_speed]
    band += [f"{x[i]:.1f} {lower[i]:.1f}" for i in by_speed[::-1]]
    level = np.digitize(data.speed[measured], EDGES) + 1
    dots = np.column_stack([x[measured], known]) - SIDE / 2
    return "".join(
        [
            path("band", "M" + "L".join(band) + "z"),
            draw_axes(),
            path(
                "curve", "M" + "L".join(f"{x[i]:.1f} {mean[i]:.1f}" for i in by_speed)
            ),
            *(path(f"speed{i} fl-dot", squares(dots[level == i])) for i in set(level)),
            draw_gains(data, x),
            path("next", f"M{x[following]:.1f} {upper[following]:.1f}V{AXIS_Y}"),
            path("nextbox", squares(np.array([[x[following], mean[following]]]) - 4)),
            draw_note(x[following], mean[following], data.speed[following] / best - 1),
        ]
    )


def height(speed: NDArray) -> NDArray:
    """Return where a speed stands on the curve's axis."""
    return AXIS_Y - PLOT_H * np.clip(speed, 0, FASTEST) / FASTEST


def draw_note(x: float, y: float, gain: float) -> str:
    """Return the note at the next measurement, with what came of it."""
    words = f"measured next: it is {100 * gain:.0f} % faster"
    return "".join(
        [
            path("next", f"M{x + 9:.1f} {y - 8:.1f}L{x + 34:.1f} {TOP + 14:.1f}"),
            text(x + 38, TOP + 14, words, "accent"),
        ]
    )


def draw_axes() -> str:
    """Return the axes of the curve with their words."""
    parts = [path("axis", f"M{AXIS_X} {AXIS_Y - PLOT_H}V{AXIS_Y}h{PLOT_W}")]
    for share in (0, 0.5, 1):
        y = AXIS_Y - PLOT_H * share / FASTEST
        parts.append(path("grid", f"M{AXIS_X} {y:.1f}h{PLOT_W}"))
        words = f"{100 * share:.0f} %"
        parts.append(text(AXIS_X - 4, y + 4, words, **END))
    y = AXIS_Y - PLOT_H / FASTEST - 5
    parts.append(text(AXIS_X + PLOT_W, y, "speed of the best so far", **END))
    return "".join(parts)


def draw_gains(data: Replay, x: NDArray) -> str:
    """Return a bar below the axis for the expected improvement of each config."""
    bottom, following = AXIS_Y + 34, int(data.order[N_FIRST])
    ratio = (data.mean - 1) / data.std
    density = np.exp(-0.5 * ratio**2) / np.sqrt(2 * np.pi)
    gain = data.std * (ratio * ndtr(ratio) + density)
    gain[data.order[:N_FIRST]] = 0
    tall = 28 * gain / gain[following]
    bars = [f"M{x[i]:.1f} {bottom}v{-tall[i]:.1f}" for i in np.flatnonzero(tall > 0.3)]
    words = f"all {len(x)} configs, the fastest by prediction first"
    return "".join(
        [
            path("gain", "".join(bars)),
            path("next", f"M{x[following]:.1f} {bottom}v{-tall[following]:.1f}"),
            text(AXIS_X + PLOT_W, AXIS_Y + 20, "gain to expect from each", **END),
            text(AXIS_X + PLOT_W / 2, bottom + 15, words, **MIDDLE),
        ]
    )


def caption(*lines: str) -> str:
    """Return two lines at the bottom of a panel."""
    return "".join(text(4, HEIGHT - 18 + 15 * i, line) for i, line in enumerate(lines))


def draw_panels(data: Replay) -> list[str]:
    """Return the four panels."""
    n_pool, n_measured = len(data.pool), len(data.order)
    best = data.order[np.argmax(data.speed[data.order])]
    x, y = places(data.pool)[best] + SIDE / 2
    rank = "the fastest" if data.speed[best] == 1 else "not the fastest"
    panels = {
        f"1  A pool of {n_pool} configs": draw_map(data, data.order[:0])
        + caption(
            "each square is a config; those of a block",
            "differ in four more parameters",
        ),
        f"2  Measure a few: {N_FIRST} are known": draw_map(data, data.order[:N_FIRST])
        + draw_key(HEIGHT - 30),
        "3  Predict the others, and how surely": draw_curve(data)
        + caption(
            "line: predicted speed, band: its uncertainty;",
            "squares: what was measured",
        ),
        f"4  Measure, learn, repeat: {n_measured} are known": draw_map(data, data.order)
        + f'<circle class="fl-best" cx="{x:.1f}" cy="{y:.1f}" r="9"/>'
        + caption(
            f"ring: the best config, {rank} of the pool;",
            f"{n_pool - n_measured} were never measured",
        ),
    }
    return [text(4, 16, title, "title") + drawing for title, drawing in panels.items()]


def style() -> str:
    """Return the style sheet, with the colours of both themes."""
    light = "".join(f"--fl-{name}:{colour};" for name, colour in LIGHT.items())
    dark = "".join(f"--fl-{name}:{colour};" for name, colour in DARK.items())
    rules = [
        f".fl-search{{{light}font-family:system-ui,sans-serif}}",
        f"@media(prefers-color-scheme:dark){{.fl-search{{{dark}}}}}",
        f"html[data-theme=light] .fl-search{{{light}}}",
        f"html[data-theme=dark] .fl-search{{{dark}}}",
        ".fl-search text{fill:var(--fl-muted);font-size:12px}",
        ".fl-search .fl-title{fill:var(--fl-ink);font-size:14px;font-weight:600}",
        ".fl-search .fl-code{font-family:ui-monospace,monospace;font-size:11.5px}",
        ".fl-search .fl-accent{fill:var(--fl-accent);font-weight:600}",
        ".fl-search path,.fl-search circle{fill:none}",
        ".fl-search .fl-unknown{stroke:var(--fl-line)}",
        ".fl-search .fl-band{fill:var(--fl-band)}",
        ".fl-search .fl-curve{stroke:var(--fl-ink);stroke-width:1.5}",
        ".fl-search .fl-axis{stroke:var(--fl-muted)}",
        ".fl-search .fl-grid{stroke:var(--fl-line);stroke-dasharray:2 3}",
        ".fl-search .fl-gain{stroke:var(--fl-muted)}",
        ".fl-search .fl-next,.fl-search .fl-best{stroke:var(--fl-accent);"
        "stroke-width:2}",
        ".fl-search .fl-nextbox{fill:var(--fl-accent)}",
        ".fl-search .fl-arrow{stroke:var(--fl-muted);stroke-width:1.5}",
    ]
    rules += [f".fl-search .fl-speed{i}{{fill:var(--fl-{i})}}" for i in range(1, 6)]
    rules.append(".fl-search .fl-dot{stroke:var(--fl-ink)}")
    return "<style>" + "".join(rules) + "</style>"


def arrow(x: float, y: float, turn: float) -> str:
    """Return a short arrow around a point, turned clockwise by degrees."""
    data = "M-9 0H9M4 -5L9 0L4 5"
    return (
        f'<path class="fl-arrow" transform="translate({x:.1f} {y:.1f}) '
        f'rotate({turn})" d="{data}"/>'
    )


def draw(panels: list[str], n_columns: int, name: str) -> str:
    """Return the picture with its panels in so many columns."""
    n_rows = len(panels) // n_columns
    width = n_columns * WIDTH + (n_columns - 1) * GUTTER
    height = n_rows * HEIGHT + (n_rows - 1) * GUTTER
    parts = []
    for i, panel in enumerate(panels):
        x = i % n_columns * (WIDTH + GUTTER)
        y = i // n_columns * (HEIGHT + GUTTER)
        parts.append(f'<g transform="translate({x} {y})">{panel}</g>')
    if n_columns == 1:
        x = WIDTH / 2
        gaps = [i * (HEIGHT + GUTTER) - GUTTER / 2 for i in (1, 2, 3)]
        parts += [arrow(x, gaps[0], 90), arrow(x, gaps[1], 90)]
        parts += [arrow(x - 10, gaps[2], 90), arrow(x + 10, gaps[2], -90)]
    else:
        x, y = WIDTH + GUTTER / 2, HEIGHT + GUTTER / 2
        parts += [arrow(x, HEIGHT / 2, 0), arrow(x, y, 140)]
        parts += [arrow(x, y + HEIGHT / 2, 0), arrow(x, y + HEIGHT / 2 + 20, 180)]
    words = (
        "How a search finds a fast config: the four steps are told below the picture."
    )
    return (
        f'<svg class="fl-search {name}" xmlns="http://www.w3.org/2000/svg" role="img" '
        f'viewBox="0 0 {width} {height}" aria-label="{words}">'
        f"{style()}{''.join(parts)}</svg>\n"
    )


def main() -> None:
    """Write both pictures."""
    folder = Path(__file__).parent
    panels = draw_panels(replay())
    for n_columns, name in ((2, "search"), (1, "search_narrow")):
        picture = draw(panels, n_columns, f"fl-{name.replace('search', 'picture')}")
        (folder / f"{name}.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
