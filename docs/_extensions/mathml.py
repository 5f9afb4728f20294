"""Formulas as MathML, which browsers draw without scripts and without a network.

The default of Sphinx asks another site for a script each time a page is opened.
"""

from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

# Not the class "math", which the theme aligns to the right and cuts off on the left.
_BLOCK = "overflow-x:auto;padding:0 0 0.4rem 1.5rem;margin-bottom:0.8rem"

# Where the browser's own choice knows no fonts whose signs grow with what they enclose.
_FONTS = "STIX Two Math,Cambria Math,Latin Modern Math,DejaVu Math TeX Gyre,math"


def render(formula: str, attributes: str = "") -> str:
    """Return a formula of LaTeX as MathML."""
    start = f'<math style="font-family:{_FONTS}"{attributes}'
    return tex2mathml(formula).replace("<math", start, 1)


def visit_inline(translator: Any, node: nodes.math) -> None:
    """Write a formula within a line."""
    translator.body.append(render(node.astext()))
    raise nodes.SkipNode


def visit_block(translator: Any, node: nodes.math_block) -> None:
    """Write formulas on lines of their own; a wide one is scrolled, not the page."""
    for part in node.astext().strip().split("\n\n"):
        # Large signs, but aligned to the left, where a wide one begins to be read.
        formula = render(part, ' displaystyle="true"')
        translator.body.append(f'<div style="{_BLOCK}">{formula}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer under the name ``mathml``."""
    app.add_html_math_renderer(
        "mathml",
        inline_renderers=(visit_inline, None),
        block_renderers=(visit_block, None),
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
