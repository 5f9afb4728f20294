"""The picture of the architecture is true, and the layers that the page names hold."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docs" / "images" / "make_architecture.py"
PICTURE = SCRIPT.with_name("architecture.svg")
# What is no dependency of the core, by the names under which it is imported.
OPTIONAL = {
    "torch",
    "triton",
    "torch_npu",
    "matplotlib",
    "rich",
    "pyarrow",
    "polars",
    "dask",
    "distributed",
    "optuna",
    "kernel_tuner",
    "IPython",
}


def load_script():
    spec = importlib.util.spec_from_file_location("make_architecture", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


architecture = load_script()
IMPORTS = architecture.read_imports()
EARLY = architecture.drawn(IMPORTS, late=False)


def make_package(folder, **modules):
    package = folder / "fasta_learn"
    for name, text in {"__init__": "", **modules}.items():
        path = package.joinpath(*name.split("__in__")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return package


def test_the_committed_picture_is_what_the_sources_give():
    assert PICTURE.read_text(encoding="utf-8") == architecture.make_svg(), (
        "run: python docs/images/make_architecture.py"
    )


def test_a_new_import_changes_the_picture(tmp_path):
    files = {"bases__in____init__": "", "search__in____init__": ""}
    before = make_package(tmp_path / "a", **files)
    text = "from fasta_learn.bases import LinearBasis"
    after = make_package(tmp_path / "b", **{**files, "search__in____init__": text})
    assert architecture.read_imports(before) == set()
    assert architecture.read_imports(after) == {("search", "bases", False)}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import torch.cuda", ("bases", "torch", False)),
        ("def f():\n    import torch", ("bases", "torch", True)),
        ("f = lambda: import_extra('triton.knobs', 'x')", ("bases", "triton", True)),
        ("importlib.import_module('fasta_learn.exceptions')",
         ("bases", "exceptions", False)),
        ("class A:\n    from fasta_learn import exceptions",
         ("bases", "exceptions", False)),
    ],
)  # fmt: skip
def test_every_way_to_import_is_seen(tmp_path, text, found):
    package = make_package(tmp_path, bases__in____init__=text, exceptions="")
    assert architecture.read_imports(package) == {found}


@pytest.mark.parametrize(
    "text",
    [
        "if TYPE_CHECKING:\n    import torch",
        "from fasta_learn import __version__",
        "from fasta_learn.bases import _base",
    ],
)
def test_what_is_no_import_of_another_part_is_left_out(tmp_path, text):
    package = make_package(tmp_path, bases__in____init__=text)
    assert architecture.read_imports(package) == set()


def test_a_name_that_the_top_forwards_counts_for_its_home(tmp_path):
    package = make_package(
        tmp_path,
        __init__="_HOMES = {'Search': 'search'}",
        search__in____init__="",
        cli__in____init__="from fasta_learn import Search",
    )
    assert architecture.read_imports(package) == {("cli", "search", False)}


def test_implied_imports_are_not_drawn():
    edges = {("a", "b"), ("b", "c"), ("a", "c")}
    assert architecture.essential(edges) == {("a", "b"), ("b", "c")}


def test_parts_that_import_each_other_are_refused():
    with pytest.raises(ValueError, match="import each other: a, b"):
        architecture.levels(["a", "b"], {("a", "b"), ("b", "a")})


@pytest.mark.parametrize(
    "part", ["configs", "bases", "model_selection", "gaussian_process", "transfer"]
)
def test_what_learns_knows_nothing_of_the_search(part):
    above = {"search", "autotuner", "inductor", "experiments", "heuristics", "_cli"}
    used = {b for a, b in architecture.reachable(EARLY) if a == part}
    assert not used & above


def test_oracles_know_nothing_of_the_search():
    assert ("oracles", "search") not in architecture.reachable(EARLY)


def test_only_the_parts_that_the_page_names_touch_torch_and_triton():
    accelerators = {"torch", "triton", "torch_npu"}
    touching = {one.importer for one in IMPORTS if one.imported in accelerators}
    assert touching == {"_cli", "autotuner", "heuristics", "inductor", "oracles"}


def test_optional_packages_are_imported_only_when_they_are_needed():
    early = {one for one in IMPORTS if one.imported in OPTIONAL and not one.late}
    assert early == set()


@pytest.mark.parametrize("part", architecture.SUPPORT)
def test_the_support_modules_use_no_part(part):
    used = {one.imported for one in IMPORTS if one.importer == part}
    assert not used & set(architecture.parts())
