"""What the pages for users of other tools say about these tools, and about ours."""

import inspect
import re
import shutil
import warnings
from pathlib import Path

import pytest

import fasta_learn

PAGES = Path(__file__).parents[2] / "docs" / "coming_from"


def named_block(page, name):
    """Return the code of a block of a page that has a name."""
    text = (PAGES / f"{page}.rst").read_text(encoding="utf-8")
    start = text.index(f"   :name: {name}\n")
    return code_after(text, start)


def first_testcode(page):
    text = (PAGES / f"{page}.rst").read_text(encoding="utf-8")
    return code_after(text, text.index(".. testcode::\n"))


def code_after(text, start):
    lines = text[start:].split("\n")[1:]
    block = []
    for line in lines:
        if line and not line.startswith("   "):
            break
        block.append(line[3:])
    return "\n".join(block)


def run(*blocks):
    """Run code as of one program, and return its names."""
    names = {}
    for block in blocks:
        exec(compile(block, "<page>", "exec"), names)
    return names


def left_cells(page, table):
    """Return the literals in the first column of a table of a page."""
    text = (PAGES / f"{page}.rst").read_text(encoding="utf-8")
    body = text[text.index(f".. list-table:: {table}\n") :].split("\n\n")[1]
    rows = re.findall(r"^   \* - (.*(?:\n       .*)*)", body, flags=re.MULTILINE)
    return {word for row in rows[1:] for word in re.findall(r"``(\w+)``", row)}


def test_every_argument_of_triton_autotune_is_in_the_table():
    triton = pytest.importorskip("triton")
    arguments = set(inspect.signature(triton.autotune).parameters)
    assert left_cells("triton_autotune", "Arguments") == arguments


def test_every_argument_of_triton_autotune_is_one_of_ours():
    triton = pytest.importorskip("triton")
    ours = inspect.signature(fasta_learn.autotune).parameters
    assert set(inspect.signature(triton.autotune).parameters) <= set(ours)


def test_the_kernels_of_the_page_differ_in_their_decorator_only():
    theirs, ours = (
        named_block("triton_autotune", name).partition("@triton.jit")[2].rstrip()
        for name in ("triton-autotune", "fasta-learn-autotune")
    )
    assert theirs == ours != ""


def test_the_kernels_of_the_page_are_tuners_of_triton():
    triton = pytest.importorskip("triton")
    head = "import triton, triton.language as tl, fasta_learn\n"
    for name in ("triton-autotune", "fasta-learn-autotune"):
        # Triton reads the source of a kernel, so it needs a file.
        code = head + named_block("triton_autotune", name)
        kernel = run_file(code, f"{name}.py")["double"]
        assert isinstance(kernel, triton.runtime.Autotuner)


def run_file(code, name):
    import linecache

    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    names = {"__name__": "page"}
    exec(compile(code, name, "exec"), names)
    return names


@pytest.fixture
def quiet_optuna():
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def test_the_study_of_the_optuna_page_runs(quiet_optuna, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run(first_testcode("optuna"), named_block("optuna", "optuna-study"))
    first, *rest = names["study"].trials
    assert first.params == {"BLOCK": 64, "num_warps": 4}
    assert len(rest) == 13


def test_the_loop_of_the_optuna_page_runs(quiet_optuna):
    code = (
        first_testcode("optuna"),
        "import optuna",
        named_block("optuna", "optuna-ask"),
    )
    assert len(run(*code)["study"].trials) == 14


def test_optuna_repeats_itself_as_the_page_says(quiet_optuna, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run(first_testcode("optuna"), named_block("optuna", "optuna-study"))
    counts = []
    for seed in range(8):
        sampler = quiet_optuna.samplers.TPESampler(seed=seed)
        study = quiet_optuna.create_study(sampler=sampler)
        study.optimize(names["objective"], n_trials=20, catch=(RuntimeError,))
        counts.append(len({tuple(trial.params.values()) for trial in study.trials}))
    assert (min(counts), max(counts)) == (12, 15)


def test_the_program_of_the_kernel_tuner_page_runs(tmp_path, monkeypatch):
    pytest.importorskip("kernel_tuner")
    if shutil.which("g++") is None:
        pytest.skip("Kernel Tuner compiles C by g++")
    monkeypatch.chdir(tmp_path)
    blocks = [
        named_block("kernel_tuner", name)
        for name in ("kernel-tuner", "kernel-tuner-oracle")
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that no parameter is a size of blocks
        names = run(*blocks)
    pool = fasta_learn.read_pool(tmp_path / "blocked_sum.json")
    assert len(pool) == 6
    assert names["search"].n_measured_ == 6
    assert (tmp_path / "blocked_sum.jsonl").exists()
