"""Settings of the Sphinx documentation.

From the root of the repository, with the extra ``docs`` installed::

    sphinx-build -W -b html docs docs/_build/html
    sphinx-build -W -b doctest -D plot_gallery=0 docs docs/_build/doctest
"""

import doctest
import importlib
import re
import sys
from pathlib import Path

from sphinx_gallery.sorting import ExplicitOrder

import fasta_learn

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))

project = "fasta_learn"
author = "The fasta_learn developers"
copyright = author
version = release = fasta_learn.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "numpydoc",
    "mathml",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build"]
# In docstrings a name between single backticks is a link if it is known, else code.
default_role = "py:obj"

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False

doctest_default_flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
doctest_global_setup = f"""
import numpy as np
DOCS = {str(HERE)!r}
"""

html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_css_files = ["layout.css"]
html_title = f"fasta_learn {release}"
html_theme_options = {
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars = {
    "install": [],
    "troubleshooting": [],
    "contributing": [],
    "decisions": [],
    "index": [],
}
html_show_sourcelink = False
html_math_renderer = "mathml"

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": "plot_",
    # From a first search to what few need; an example that is missing here comes last.
    "within_subsection_order": ExplicitOrder(
        [
            "plot_first_search.py",
            "plot_landscape.py",
            "plot_own_kernel.py",
            "plot_stopping.py",
            "plot_calibration.py",
            "plot_failures.py",
            "plot_what_matters.py",
            "plot_surrogates.py",
            "plot_basis_winners.py",
            "plot_own_basis.py",
            "plot_transfer.py",
            "plot_workers.py",
            "plot_pad_mm.py",
            "*",
        ]
    ),
    "abort_on_example_error": True,
    "show_memory": False,
}

PUBLIC_MODULES = (
    "fasta_learn",
    "fasta_learn.search",
    "fasta_learn.configs",
    "fasta_learn.bases",
    "fasta_learn.model_selection",
    "fasta_learn.gaussian_process",
    "fasta_learn.oracles",
    "fasta_learn.autotuner",
    "fasta_learn.inductor",
    "fasta_learn.heuristics",
    "fasta_learn.datasets",
    "fasta_learn.experiments",
    "fasta_learn.report",
    "fasta_learn.transfer",
    "fasta_learn.exceptions",
)


def check_api_is_complete(app):
    """Refuse to build while a public name is missing in the reference."""
    text = (HERE / "api.rst").read_text(encoding="utf-8")
    listed = set(re.findall(r"\w+", text))
    missing = [
        f"{module}.{name}"
        for module in PUBLIC_MODULES
        for name in importlib.import_module(module).__all__
        if name not in listed
    ]
    if missing:
        raise ValueError(f"docs/api.rst does not list {', '.join(missing)}.")


def setup(app):
    """Register the hooks."""
    app.connect("builder-inited", check_api_is_complete)
