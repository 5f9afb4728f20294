"""The documentation builds without a warning, and its examples do what they say."""

import os
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def docs(tmp_path):
    """Give a copy of the sources, because Sphinx writes pages next to them."""
    built = shutil.ignore_patterns("_build", "auto_examples", "generated", "*.pyc")
    for folder in ("docs", "examples"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=built)
    return tmp_path / "docs"


def build(docs, builder, *options):
    """Build with warnings as errors, and return where the result lies."""
    output = docs.parent / builder
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going"]
    done = subprocess.run(
        [*command, "-b", builder, *options, str(docs), str(output)],
        env={**os.environ, "MPLBACKEND": "Agg"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-8000:]
    return output


class Links(HTMLParser):
    """Collects the anchors of a page, and where its links lead."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.targets = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors |= {attributes.get("id"), attributes.get("name")} - {None}
        target = attributes.get("href") or attributes.get("src")
        if target and not urlsplit(target).scheme and not target.startswith("//"):
            self.targets.append(target)


def broken_links(folder):
    """Return the links between files of a folder that lead nowhere."""
    # What lies in _static is the theme's, templates among it.
    files = [f for f in folder.rglob("*.html") if "_static" not in f.parts]
    pages = {file: Links(file.read_text(encoding="utf-8")) for file in files}
    return [
        f"{path.relative_to(folder)}: {target}"
        for path, page in pages.items()
        for target in page.targets
        if not resolves(path, target, pages)
    ]


def resolves(path, target, pages):
    parts = urlsplit(target)
    file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    file = file / "index.html" if file.is_dir() else file
    if not parts.fragment or file not in pages:
        return file.is_file()
    return unquote(parts.fragment) in pages[file].anchors


def test_the_pages_build_without_a_warning_and_link_to_what_is_there(docs):
    # One test, because the build takes long and workers of xdist share nothing. The
    # examples of the gallery run in tests/examples.
    pages = build(docs, "html", "-D", "plot_gallery=0")
    assert broken_links(pages.resolve()) == []


def test_the_examples_of_the_pages_do_what_they_say(docs):
    build(docs, "doctest", "-D", "plot_gallery=0")


def test_a_warning_fails_the_build(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "conf.py").write_text("")
    (docs / "index.rst").write_text("Title\n=====\n\n:doc:`nowhere`\n")
    with pytest.raises(AssertionError, match="nowhere"):
        build(docs, "html")


@pytest.mark.parametrize(
    ("link", "is_broken"),
    [
        ("#here", False),
        ("#there", True),
        ("b.html", False),
        ("b.html#deep", False),
        ("b.html#here", True),
        ("c.html", True),
        ("https://example.org/c.html#x", False),
    ],
)
def test_a_broken_link_is_found(tmp_path, link, is_broken):
    (tmp_path / "a.html").write_text(f'<p id="here"><a href="{link}">a</a></p>')
    (tmp_path / "b.html").write_text('<p id="deep"></p>')
    assert bool(broken_links(tmp_path)) == is_broken
