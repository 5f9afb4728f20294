import ast
import re
import sys
from types import ModuleType

import pytest

from fasta_learn.inductor import _hooks
from fasta_learn.inductor._hook_sources import check, misfit, read_installed
from fasta_learn.inductor._hook_table import parse_row
from fasta_learn.inductor._hooks import (
    HOOKS,
    TRIGGERS,
    Hook,
    HookMismatchError,
    parse_version,
    require,
)

SOURCE = """
from elsewhere import imported as renamed
first: int = 1
second = third = 2
try:
    import maybe
except ImportError:
    maybe = None
if first:
    def conditional(): ...

def function(a, b, /, c, *, d=1, **rest):
    inner = opened()
    return b.later(inner)

class Outer(Base):
    def __init__(self, size):
        self.attribute = size

    @staticmethod
    def static(x): ...

    @classmethod
    def made(cls, x): ...
"""


def hook(name, **rest):
    return Hook("feature", "module", name, **rest)


@pytest.mark.parametrize(
    "found",
    [
        hook("renamed"),
        hook("first"),
        hook("maybe"),
        hook("conditional"),
        hook("Outer"),
        hook("Outer.attribute"),
        hook("function", leading=("a", "b", "c")),
        hook("function", keywords=("d", "anything")),
        hook("function", mentions=("opened", "b", "later", "inner")),
        hook("Outer.__init__", leading=("size",)),
        hook("Outer.static", leading=("x",)),
        hook("Outer.made", leading=("x",)),
    ],
    ids=str,
)
def test_name_that_is_there_fits(found):
    assert misfit(found, ast.parse(SOURCE)) is None


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        (hook("imported"), "is missing"),
        (hook("Outer.size"), "is missing"),
        (hook("Base"), "is missing"),
        (hook("inner"), "is missing"),
        (hook("first", leading=("a",)), "is no function"),
        (hook("function", leading=("b",)), "has the parameters .*, not first"),
        (hook("function", leading=("a", "c")), "has the parameters .*, not first"),
        (hook("Outer.__init__", keywords=("other",)), r"has no parameters \['other'\]"),
        (hook("function", mentions=("later", "opened")), "does not use later, opened"),
        (hook("function", mentions=("other",)), "does not use other"),
    ],
    ids=str,
)
def test_name_that_changed_does_not_fit(missing, reason):
    assert re.match(reason, misfit(missing, ast.parse(SOURCE)))


def test_version_decides_which_names_are_looked_up(monkeypatch):
    late = hook("later", since=(2, 13))
    monkeypatch.setattr("fasta_learn.inductor._hook_sources.HOOKS", (late,))
    missing = {"feature": ["module.later is missing"]}
    found = {v: check(lambda module: SOURCE, v) for v in [(2, 12), (2, 13), (3, 0)]}
    assert found == {(2, 12): {"feature": []}, (2, 13): missing, (3, 0): missing}


def test_missing_module_does_not_fit(monkeypatch):
    monkeypatch.setattr("fasta_learn.inductor._hook_sources.HOOKS", (hook("first"),))
    found = check(lambda module: None, (2, 13))
    assert found == {"feature": ["module.first has no module"]}


def test_reading_does_not_import(tmp_path, monkeypatch):
    package = tmp_path / "fasta_learn_some_package"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError\n")
    (package / "part.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert read_installed(f"{package.name}.part") == "x = 1\n"
    assert read_installed(package.name) == "raise RuntimeError\n"
    assert read_installed(f"{package.name}.other") is None
    assert read_installed("fasta_learn_no_package.part") is None


@pytest.mark.parametrize(
    ("text", "version"),
    [("2.11.0", (2, 11)), ("2.13.0+cpu", (2, 13)), ("3.0a1", (3, 0))],
)
def test_version_is_two_numbers(text, version):
    assert parse_version(text) == version


def test_text_without_numbers_is_no_version():
    with pytest.raises(ValueError, match="'main' is no version"):
        parse_version("main")


@pytest.fixture
def installed(monkeypatch):
    """Import a made-up module that hooks are looked up in."""
    module = ModuleType("module")
    exec(
        SOURCE.replace("from elsewhere", "from json")
        .replace("imported", "load")
        .replace("(Base)", ""),
        vars(module),
    )
    monkeypatch.setitem(sys.modules, "module", module)
    require.cache_clear()
    yield
    require.cache_clear()


@pytest.mark.parametrize(
    "found",
    [
        hook("renamed"),
        hook("function", leading=("a", "b"), keywords=("d", "more")),
        hook("Outer.__init__", leading=("size",)),
        hook("Outer.static", leading=("x",)),
        hook("Outer.made", leading=("x",)),
        hook("Outer.attribute"),
        hook("other", since=(99, 0)),
        Hook("feature", "fasta_learn_not_imported", "name"),
        Hook("other feature", "module", "name"),
    ],
    ids=str,
)
def test_feature_whose_hooks_fit_is_not_refused(installed, monkeypatch, found):
    monkeypatch.setattr(_hooks, "HOOKS", (found,))
    require("feature")


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        (hook("other"), r"module\.other of torch \d+\.\d+ is missing"),
        (hook("function", leading=("b",)), "function .* has the parameters"),
        (hook("Outer.__init__", keywords=("other",)), "has no parameters"),
        (hook("Outer.other", leading=("x",)), "Outer.other .* is missing"),
    ],
    ids=str,
)
def test_feature_whose_hooks_do_not_fit_is_refused(
    installed, monkeypatch, missing, reason
):
    monkeypatch.setattr(_hooks, "HOOKS", (missing,))
    with pytest.raises(HookMismatchError, match=reason):
        require("feature")


def test_each_feature_that_is_triggered_has_hooks():
    assert set(TRIGGERS) < {row.feature for row in HOOKS}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name", {}),
        ("Outer.method(a, b)", {"leading": ("a", "b")}),
        ("f(a, *, b, c)", {"leading": ("a",), "keywords": ("b", "c")}),
        ("f(*, b)", {"keywords": ("b",)}),
        ("f uses g, h", {"mentions": ("g", "h")}),
        (
            "f(a) uses g since 2.13",
            {"leading": ("a",), "mentions": ("g",), "since": (2, 13)},
        ),
    ],
)
def test_row_of_the_table_is_read(text, expected):
    name = re.match(r"[\w.]+", text)[0]
    assert parse_row("feature", "module", text) == hook(name, **expected)


@pytest.mark.parametrize("text", ["", "f(a", "f(a, *)", "f since now", "f using g"])
def test_text_that_is_no_row_is_an_error(text):
    with pytest.raises(ValueError, match="is no row"):
        parse_row("feature", "module", text)
