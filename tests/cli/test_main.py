import os
import subprocess
import sys
import warnings
from importlib.metadata import entry_points

import pytest

import fasta_learn
from fasta_learn import _cli
from fasta_learn._cli import main


def error_line(capsys):
    """The only line of the standard error."""
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return line


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"fasta-learn {fasta_learn.__version__}\n"


def test_help_names_the_commands(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for module in _cli._COMMANDS:
        assert f"\n    {module.__name__.rpartition('._')[2]} " in out


def test_console_script_is_main():
    (script,) = entry_points(group="console_scripts", name="fasta-learn")
    assert script.load() is main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "COMMAND"),
        (["tune-up"], "'tune-up'"),
        (["search", "--colour"], "--colour"),
        (["search", "--jso"], "--jso"),
        (["search", "a", "b"], "unrecognized arguments: b"),
    ],
)
def test_bad_usage_is_one_line_that_points_to_the_help(capsys, arguments, message):
    assert main(arguments) == 2
    line = error_line(capsys)
    assert line.startswith("fasta-learn: error: ")
    assert message in line
    assert "--help'" in line


def test_system_error_names_the_file(capsys, tmp_path):
    assert main(["search", str(tmp_path / "none.csv")]) == 2
    expected = f"{tmp_path}/none.csv: No such file or directory; check the path"
    assert error_line(capsys) == f"fasta-learn: error: {expected}"


def test_unexpected_errors_are_not_hidden(monkeypatch):
    def fail(args):
        raise RuntimeError("a defect")

    monkeypatch.setattr(_cli._doctor, "run", fail)
    with pytest.raises(RuntimeError, match="a defect"):
        main(["doctor"])


def test_warning_is_one_line(monkeypatch):
    lines = []

    def warn(args):
        lines.append(warnings.formatwarning("two\nlines", UserWarning, "a.py", 1))
        return 0

    monkeypatch.setattr(_cli._doctor, "run", warn)
    assert main(["doctor"]) == 0
    assert lines == ["fasta-learn: warning: two lines\n"]
    assert warnings.formatwarning("a", UserWarning, "a.py", 1).startswith("a.py:1")


def test_interrupt_is_130(monkeypatch, capsys):
    def interrupt(args):
        raise KeyboardInterrupt

    monkeypatch.setattr(_cli._doctor, "run", interrupt)
    assert main(["doctor"]) == 130
    assert error_line(capsys) == "fasta-learn: interrupted"


def test_module_exits_with_the_code(run_command):
    done = run_command("search", "no_such_pool")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("fasta-learn: error: no pool named 'no_such_pool'")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("arguments", [["search", "swiglu_8M"], ["search", "--help"]])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_closed_pipe_ends_it_silently(arguments, unbuffered):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "fasta_learn", *arguments],
            stdout=writer,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            timeout=120,
            check=False,
        )
    finally:
        os.close(writer)
    # argparse itself ignores a write that fails.
    ignored = unbuffered and "--help" in arguments
    assert (done.returncode, done.stderr) == (0 if ignored else 141, b"")
