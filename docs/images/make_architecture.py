"""Draw which part of the package imports which, as its sources have it.

From the root of the repository::

    python docs/images/make_architecture.py

writes ``docs/images/architecture.svg``. Nothing of the package is imported: the
imports are read from the syntax trees of its files.
"""

import ast
import json
import re
from collections.abc import Iterator
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "fasta_learn"
PICTURE = HERE / "architecture.svg"

# What everything may use is not drawn, nor is what only forwards names.
SUPPORT = ("_blas", "_compat", "_text", "exceptions")
FACADE = ("__init__", "__main__")

BOX_HEIGHT, ROW, MARGIN, LANE = 46, 82, 6, 14
GAP, THREAD, LETTER = 12, 8, 8.5


class Import(NamedTuple):
    """One part of the package imports another, or a package from outside.

    `late` is True if that happens only when a function is called.
    """

    importer: str
    imported: str
    late: bool


def read_imports(package: Path = PACKAGE) -> set[Import]:
    """Find the imports between the parts of a package, and those from outside.

    Parameters
    ----------
    package : Path
        Folder of the package. Its parts are its folders and its modules.

    Returns
    -------
    set of Import
        Modules from outside are named by the package that they belong to.
    """
    homes = _names_at_the_top(package)
    found = set()
    for path in sorted(package.rglob("*.py")):
        importer = path.relative_to(package).parts[0].removesuffix(".py")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for module, late in _modules(tree, package.name, late=False):
            imported = _part_of(module, package, homes)
            if imported and imported != importer:
                found.add(Import(importer, imported, late))
    return found


def _names_at_the_top(package: Path) -> dict[str, str]:
    """Return where the names are at home that the package itself exports."""
    tree = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOMES":
            return dict(ast.literal_eval(node.value))
    return {}


def _modules(node: ast.AST, package: str, late: bool) -> Iterator[tuple[str, bool]]:
    """Yield the modules that a tree imports, by a statement or by a function."""
    for child in ast.iter_child_nodes(node):
        within = late or isinstance(
            child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
        )
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.Import):
            yield from ((alias.name, within) for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module == package:
            yield from ((f"{package}.{alias.name}", within) for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            yield child.module, within
        elif isinstance(child, ast.Call) and (name := _imported_by_call(child)):
            yield name, within
        yield from _modules(child, package, within)


def _imported_by_call(call: ast.Call) -> str | None:
    function = ast.unparse(call.func).rpartition(".")[2]
    if function not in ("import_extra", "import_module") or not call.args:
        return None
    name = call.args[0]
    text = isinstance(name, ast.Constant) and isinstance(name.value, str)
    return name.value if text else None


def _part_of(module: str, package: Path, homes: dict[str, str]) -> str | None:
    first, *rest = module.split(".")
    if first != package.name:
        return first
    if not rest:
        return None
    name = homes.get(rest[0], rest[0])
    known = (package / name).is_dir() or (package / f"{name}.py").is_file()
    return name if known else None


def parts(package: Path = PACKAGE) -> dict[str, str]:
    """Return the folders of the package, and the first line about each."""
    texts = {}
    for path in sorted(package.glob("*/__init__.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts[path.parent.name] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return texts


def drawn(imports: set[Import], late: bool) -> set[tuple[str, str]]:
    """Return the imports between the drawn parts."""
    names = parts()
    return {
        (one.importer, one.imported)
        for one in imports
        if one.late == late and one.importer in names and one.imported in names
    }


def reachable(edges: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the pairs of parts of which the first imports the second, or by others."""
    closure = set(edges)
    while True:
        more = {(a, d) for a, b in closure for c, d in closure if b == c} - closure
        if not more:
            return closure
        closure |= more


def essential(edges: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the imports that no chain of other imports implies."""
    return {edge for edge in edges if edge not in reachable(edges - {edge})}


def levels(names: list[str], edges: set[tuple[str, str]]) -> dict[str, int]:
    """Return how high each part stands: one more than all that it imports."""
    if loops := sorted(a for a, b in reachable(edges) if a == b):
        raise ValueError(f"these parts import each other: {', '.join(loops)}.")
    height = dict.fromkeys(names, 0)
    for _ in names:
        for importer, imported in edges:
            height[importer] = max(height[importer], height[imported] + 1)
    return height


def _rows(height: dict[str, int], edges: set[tuple[str, str]]):
    """Return the items of each row, and chains of items, for edges past rows."""
    rows: list[list[str]] = [[] for _ in range(max(height.values()) + 1)]
    for name in sorted(height):
        rows[height[name]].append(name)
    chains = {}
    for importer, imported in sorted(edges):
        between = range(height[importer] - 1, height[imported], -1)
        chain = [f"{importer}>{imported}@{level}" for level in between]
        for level, item in zip(between, chain, strict=True):
            rows[level].append(item)
        chains[importer, imported] = [importer, *chain, imported]
    return rows, chains


def _places(rows: list[list[str]], chains) -> dict[str, float]:
    """Choose the horizontal place of each item: near those that it is tied to."""
    ties: dict[str, list[str]] = {item: [] for row in rows for item in row}
    for chain in chains.values():
        for upper, lower in pairwise(chain):
            ties[upper].append(lower)
            ties[lower].append(upper)
    place: dict[str, float] = {}
    for row in rows:
        for number, item in enumerate(row):
            place[item] = (number + 1) / (len(row) + 1)
    for sweep in range(24):
        for row in rows[:: 1 if sweep % 2 else -1]:
            wish = {i: sum(place[t] for t in ties[i]) / len(ties[i]) for i in row}
            row.sort(key=lambda item: (wish[item], item))
            _spread(row, wish, place)
    return place


def _spread(row: list[str], wish: dict[str, float], place: dict[str, float]) -> None:
    """Put the items of a row as near to their wishes as their widths allow."""
    at = -1e9
    for before, item in zip([None, *row], row, strict=False):
        room = 0 if before is None else (_width(before) + _width(item)) / 2 + GAP
        at = max(wish[item], at + room)
        place[item] = at
    shift = sum(wish[i] - place[i] for i in row) / len(row)
    for item in row:
        place[item] = round(place[item] + shift, 1)


def _lines(name: str) -> list[str]:
    """Break a name after the underscores within it."""
    return re.sub(r"(?<=\w_)(?=\w)", "\n", name).split("\n")


def _width(item: str) -> float:
    if "@" in item:
        return THREAD
    return max(84.0, 14 + LETTER * max(map(len, _lines(item))))


def make_svg(package: Path = PACKAGE) -> str:
    """Draw the picture.

    Parameters
    ----------
    package : Path
        Folder of the package.

    Returns
    -------
    str
        The SVG. Its colours are those of the page around it, where there is one.
    """
    imports, texts = read_imports(package), parts(package)
    early, late = drawn(imports, late=False), drawn(imports, late=True)
    height = levels(list(texts), early)
    rows, chains = _rows(height, essential(early))
    place = _places(rows, chains)
    top = {
        item: MARGIN + ROW * number
        for number, row in enumerate(reversed(rows))
        for item in row
    }
    gpu = {one.importer for one in imports if one.imported in ("torch", "triton")}
    shapes = [_arrow(chain, place, top) for chain in chains.values()]
    upwards = sorted(late - reachable(early))
    lanes = [_lane(edge, n, place, top) for n, edge in enumerate(upwards)]
    shapes += [_detour(*pair, place, top) for pair in zip(upwards, lanes, strict=True)]
    shapes += [_box(n, texts[n], n in gpu, place[n], top[n]) for n in sorted(texts)]
    listed = {a: sorted(b for c, b in early if c == a) for a in sorted(texts)}
    left = min(place[item] - _width(item) / 2 for item in place) - MARGIN
    ends = [place[item] + _width(item) / 2 for item in place]
    right = max([*ends, *lanes]) + MARGIN
    return _FRAME.format(
        left=f"{left:.0f}",
        width=f"{right - left:.0f}",
        height=2 * MARGIN + ROW * (len(rows) - 1) + BOX_HEIGHT,
        edges=escape(json.dumps({"imports": listed, "late": upwards})),
        body="\n".join(shapes),
    )


def _arrow(chain: list[str], place: dict[str, float], top: dict[str, float]) -> str:
    first, last = chain[0], chain[-1]
    path = f"M{place[first]:.1f} {top[first] + BOX_HEIGHT}"
    at = top[first] + BOX_HEIGHT
    for before, item in pairwise(chain):
        end = top[item] - 2 if item == last else top[item]
        bend = (end - at) / 2
        path += f"C{place[before]:.1f} {at + bend:.1f} "
        path += f"{place[item]:.1f} {end - bend:.1f} {place[item]:.1f} {end}"
        at = end
        if item != last:
            at += BOX_HEIGHT
            path += f"V{at}"
    return f'<path class="edge" d="{path}"><title>{first} imports {last}</title></path>'


def _lane(
    edge: tuple[str, str], number: int, place: dict[str, float], top: dict[str, float]
) -> float:
    """Choose where a dashed arrow runs: right of all that it passes."""
    low, high = sorted(top[name] for name in edge)
    passed = [item for item in top if low <= top[item] <= high]
    return max(place[i] + _width(i) / 2 for i in passed) + LANE * (1 + number % 3)


def _detour(
    edge: tuple[str, str], lane: float, place: dict[str, float], top: dict[str, float]
) -> str:
    start, end = (top[name] + BOX_HEIGHT / 2 + 6 for name in edge)
    left, right = (place[name] + _width(name) / 2 for name in edge)
    path = f"M{left:.1f} {start:.0f}H{lane:.1f}V{end:.0f}H{right + 2:.1f}"
    title = f"{edge[0]} imports {edge[1]} when it is called"
    return f'<path class="edge late" d="{path}"><title>{title}</title></path>'


def _box(name: str, text: str, gpu: bool, middle: float, top: float) -> str:
    width = _width(name)
    kind = "box gpu" if gpu else "box"
    lines = _lines(name)
    start = top + BOX_HEIGHT / 2 + 5 - 8 * (len(lines) - 1)
    label = "".join(
        f'<text x="{middle:.1f}" y="{start + 16 * number:.0f}">{line}</text>'
        for number, line in enumerate(lines)
    )
    return (
        f'<g class="{kind}"><title>{escape(text)}</title>'
        f'<rect x="{middle - width / 2:.1f}" y="{top}" width="{width:.1f}" '
        f'height="{BOX_HEIGHT}" rx="6"/>{label}</g>'
    )


_FRAME = """\
<svg xmlns="http://www.w3.org/2000/svg" class="architecture" role="img" \
viewBox="{left} 0 {width} {height}" width="{width}" height="{height}">
<title>Which part of fasta_learn imports which</title>
<desc>{edges}</desc>
<style>
.architecture {{ max-width: 100%; height: auto;
  --ink: var(--pst-color-text-base, #1f2933);
  --paper: var(--pst-color-surface, #f3f4f6);
  --line: var(--pst-color-text-muted, #56616d);
  --mark: var(--pst-color-primary, #0a7d91); }}
.architecture .edge {{ fill: none; stroke: var(--line); stroke-width: 1.4;
  marker-end: url(#architecture-tip); }}
.architecture .late {{ stroke-dasharray: 5 4; }}
.architecture .box rect {{ fill: var(--paper); stroke: var(--line); }}
.architecture .gpu rect {{ stroke: var(--mark); stroke-width: 2.5; }}
.architecture .box text {{ fill: var(--ink); text-anchor: middle;
  font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }}
.architecture marker path {{ fill: var(--line); }}
</style>
<defs><marker id="architecture-tip" viewBox="0 0 8 8" refX="7" refY="4" \
markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>
{body}
</svg>
"""


if __name__ == "__main__":
    PICTURE.write_text(make_svg(), encoding="utf-8")
