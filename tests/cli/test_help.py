"""The help of every command, and the examples in it."""

import lzma
import shlex
import shutil

import pytest

from fasta_learn._cli import main, make_parser
from fasta_learn._cli._parsers import parse, walk

PATHS = [path for path, _ in walk(make_parser())]
STEPS = [path for path in PATHS if path[:1] == ("heuristic",)]


def examples_of(text):
    """The commands that a help text shows."""
    lines = text.partition("example")[2].splitlines()[1:]
    return [
        shlex.split(line)[1:] for line in lines if line.startswith("  fasta-learn ")
    ]


@pytest.fixture
def help_of(capsys):
    def ask(path):
        assert main([*path, "--help"]) == 0
        return capsys.readouterr().out

    return ask


def test_no_command_is_left_out():
    assert ("heuristic", "train") in PATHS
    assert len(PATHS) == 18


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_each_command_has_examples_that_parse(help_of, path):
    examples = examples_of(help_of(path))
    assert examples
    for arguments in examples:
        if "--help" not in arguments:
            parse(make_parser(), arguments)


@pytest.mark.parametrize("path", [p for p in PATHS if p not in STEPS], ids=" ".join)
def test_examples_work(help_of, capsys, spec_folder, path):
    # The kernels of the examples are simulated, and so nothing needs a GPU.
    for name in ("softmax", "matmul"):
        text = (spec_folder / "standin.py").read_text()
        (spec_folder / f"{name}.py").write_text(
            text.replace("def add(", f"def {name}(")
        )
    for arguments in examples_of(help_of(path)):
        assert main(arguments) == 0, capsys.readouterr().err
        capsys.readouterr()


def test_examples_of_the_heuristic_steps_work(help_of, capsys, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    # What the example of the first step collects on GPUs.
    simulated = ["--simulate", "--samples", "60", "-o", "pad_mm.txt"]
    assert main(["heuristic", "collect", "pad_mm", *simulated]) == 0
    shutil.copy("pad_mm.txt", "gpu0.txt")
    with lzma.open("gpu1.txt.xz", "wb") as file:
        file.write((tmp_path / "pad_mm.txt").read_bytes())
    for path in STEPS:
        if path[-1] in ("collect", "uninstall"):
            continue
        for arguments in examples_of(help_of(path)):
            # The teacher takes long, and what it teaches matters not here.
            quick = ["--no-teacher"] if path[-1] == "train" else []
            assert main([*arguments, *quick]) == 0, capsys.readouterr().err
            capsys.readouterr()
    (example,) = examples_of(help_of(("heuristic", "uninstall")))
    assert main(example) == 0


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_help_fits_80_columns_but_for_examples(help_of, monkeypatch, path):
    monkeypatch.setenv("COLUMNS", "80")
    lines = help_of(path).splitlines()
    long = [line.strip() for line in lines if len(line) > 80]
    # A list of choices can't be wrapped either.
    assert [line for line in long if not line.startswith(("fasta-learn ", "["))] == []


def test_commands_stand_beside_what_they_do(help_of):
    out = help_of(())
    assert "\n    completion  write a script" in out
    assert "\n    tune        find a fast config" in out


def test_paragraphs_are_wrapped(help_of, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    lines = help_of(("doctor",)).splitlines()
    assert "Show what is installed and which devices there" in lines
    assert "are." in lines
