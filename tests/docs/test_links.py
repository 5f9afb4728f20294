"""Links between the texts of the repository lead somewhere; nothing is downloaded."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# Written by Sphinx, not by us.
BUILT = {"_build", "auto_examples", "generated", "sg_execution_times.rst"}
MARKDOWN = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "tests" / "npu_testbed" / "README.md",
]
PAGES = sorted(
    path
    for path in DOCS.rglob("*.rst")
    if not BUILT & set(path.relative_to(DOCS).parts)
)
FOLDERS = ("docs", "examples", "fasta_learn", "tests")


def name_of(path):
    return str(path.relative_to(ROOT))


def markdown_links(text):
    """Targets of links and images, without those to other sites."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    return [target for target in targets if not re.match(r"\w+:", target)]


def markdown_anchors(text):
    """Anchors as GitHub makes them of headings."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles}


def markdown_problem(path, target):
    """Say what is wrong with a link of a file, or None."""
    file, _, anchor = target.partition("#")
    where = path.parent / file if file else path
    if not where.exists():
        return f"{target}: there is no such file"
    if not anchor or where.suffix != ".md":
        return None
    known = anchor in markdown_anchors(where.read_text(encoding="utf-8"))
    return None if known else f"{target}: there is no such heading"


def mentioned_files(text):
    """Paths of the repository between back-quotes, as in commands and in prose."""
    literals = re.findall(r"`([^`]+)`", text)
    words = [word for literal in literals for word in re.split(r"[\s,;]+", literal)]
    pattern = rf"(?:{'|'.join(FOLDERS)})/[\w./-]*[\w/]"
    found = [word for word in words if re.fullmatch(pattern, word)]
    return [word for word in found if not BUILT & set(Path(word).parts)]


def roles(text, role):
    """Targets of a role, with or without a text of its own."""
    found = re.findall(rf":{role}:`([^`]+)`", text)
    return [re.sub(r".*<([^>]+)>$", r"\1", item, flags=re.DOTALL) for item in found]


def page_of(path, target):
    """Return the file of the page that a `:doc:` of another one names."""
    page = DOCS / target[1:] if target.startswith("/") else path.parent / target
    example = page.resolve().relative_to(DOCS)
    if example.parts[0] == "auto_examples":
        name = example.name
        source = ROOT / "examples" / f"{name}.py"
        return ROOT / "examples" / "GALLERY_HEADER.rst" if name == "index" else source
    return page.with_name(f"{page.name}.rst")


def included_files(text):
    """Files that directives read: pictures, code, raw HTML."""
    directive = r"^ *\.\. (?:image|figure|literalinclude|include):: (\S+)"
    option = r"^ +:(?:file|target): (\S+\.\w+)$"
    found = re.findall(f"(?m){directive}", text) + re.findall(f"(?m){option}", text)
    return [file for file in found if not re.match(r"\w+:", file)]


def labels():
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    return set(re.findall(r"^\.\. _([^:]+):$", text, flags=re.MULTILINE))


@pytest.mark.parametrize("path", MARKDOWN, ids=name_of)
def test_links_of_markdown_files_resolve(path):
    links = markdown_links(path.read_text(encoding="utf-8"))
    problems = [markdown_problem(path, target) for target in links]
    assert [problem for problem in problems if problem] == []


@pytest.mark.parametrize("path", [*MARKDOWN, *PAGES], ids=name_of)
def test_files_that_a_text_mentions_exist(path):
    files = mentioned_files(path.read_text(encoding="utf-8"))
    assert [file for file in files if not (ROOT / file).exists()] == []


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_pages_that_a_page_names_exist(path):
    pages = roles(path.read_text(encoding="utf-8"), "doc")
    assert [page for page in pages if not page_of(path, page).is_file()] == []


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_labels_that_a_page_names_exist(path):
    named = roles(path.read_text(encoding="utf-8"), "ref")
    assert [label for label in named if label not in labels()] == []


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_files_that_a_page_includes_exist(path):
    files = included_files(path.read_text(encoding="utf-8"))
    assert [file for file in files if not (path.parent / file).is_file()] == []


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("missing.md", "missing.md: there is no such file"),
        ("#nowhere", "#nowhere: there is no such heading"),
        ("other.md#nowhere", "other.md#nowhere: there is no such heading"),
        ("#use-it-now", None),
        ("other.md", None),
        ("other.md#some", None),
    ],
)
def test_a_wrong_link_of_markdown_is_found(tmp_path, target, problem):
    path = tmp_path / "page.md"
    path.write_text("# Use it, now!\n")
    (tmp_path / "other.md").write_text("## Some\n")
    assert markdown_problem(path, target) == problem


def test_links_within_code_are_no_links():
    assert markdown_links("[a](b.md) [c](https://d)\n```\n[e](f.md)\n```\n") == ["b.md"]


def test_files_are_found_in_commands():
    text = "`python tests/a/b.py --x` and ``docs/c.rst``, `other/d.py`, `tests/*.py`"
    assert mentioned_files(text) == ["tests/a/b.py", "docs/c.rst"]


def test_targets_of_roles_are_found_with_and_without_a_text():
    text = ":doc:`a` :doc:`the page\n   b </c/b>` :ref:`d`"
    assert roles(text, "doc") == ["a", "/c/b"]


def test_files_of_directives_are_found():
    text = (
        ".. image:: a.png\n\n   .. literalinclude:: ../b.py\n      :language: python\n"
        ".. raw:: html\n   :file: c.svg\n"
    )
    assert included_files(text) == ["a.png", "../b.py", "c.svg"]
