import logging
import os
import sys
from importlib.metadata import entry_points

import pytest

from fasta_learn.inductor import Settings, _entry_point, _switch, _workers

# Not a folder with __init__.py: helpers are found by path.
sys.path.insert(0, os.path.dirname(__file__))
from children import run_child

IMPORTED = """
import json, sys
import torch
names = [name for name in sys.modules if name.split(".")[0] in {wanted}]
print(json.dumps(sorted(names)))
"""
FASTA_LEARN = IMPORTED.format(wanted=["fasta_learn"])
HEAVY = IMPORTED.format(wanted=["sklearn", "scipy", "pandas", "joblib", "triton"])


@pytest.fixture(autouse=True)
def _off(monkeypatch):
    monkeypatch.delenv("FASTA_LEARN", raising=False)
    yield
    _switch.disable()


def test_it_is_installed():
    (entry,) = entry_points(group="torch.backends", name="fasta_learn")
    assert entry.load() is _entry_point.load


def test_import_of_torch_imports_only_the_entry_point(tmp_path):
    names, _ = run_child(FASTA_LEARN, tmp_path)
    assert names == [
        "fasta_learn",
        "fasta_learn.inductor",
        "fasta_learn.inductor._entry_point",
    ]


@pytest.mark.parametrize("switch", ["0", "1"])
def test_import_of_torch_imports_nothing_heavy(tmp_path, switch):
    names, _ = run_child(HEAVY, tmp_path, FASTA_LEARN=switch)
    assert names == []


def test_import_of_torch_turns_tuning_on(tmp_path):
    code = """
import json, torch
import fasta_learn.inductor as inductor
print(json.dumps([inductor.is_enabled(), "torch._inductor" in dir(torch)]))
"""
    assert run_child(code, tmp_path, FASTA_LEARN="1")[0][0] is True
    assert run_child(code, tmp_path, FASTA_LEARN="0")[0][0] is False


def test_invalid_setting_does_not_break_the_import_of_torch(tmp_path):
    code = """
import json, torch
import fasta_learn.inductor as inductor
print(json.dumps([torch.ones(2).sum().item(), inductor.is_enabled()]))
"""
    found, errors = run_child(
        code, tmp_path, FASTA_LEARN="1", FASTA_LEARN_MARGIN="large"
    )
    assert found == [2.0, False]
    (line,) = [line for line in errors.splitlines() if "FASTA_LEARN" in line]
    assert "kernels are not tuned" in line
    assert "FASTA_LEARN_MARGIN must be a share in [0, 1), got 'large'" in line


@pytest.mark.parametrize("wish", ["1", " TRUE ", "yes", "on"])
def test_yes_turns_it_on_with_the_settings_of_the_environment(monkeypatch, wish):
    monkeypatch.setenv("FASTA_LEARN", wish)
    monkeypatch.setenv("FASTA_LEARN_GEMM_BUDGET", "7")
    _entry_point.load()
    assert _switch._state.settings == Settings.from_environment(gemm_budget=7)


@pytest.mark.parametrize("wish", ["", "0", "false", "no", "off", "perhaps"])
def test_all_else_leaves_it_off(monkeypatch, wish):
    monkeypatch.setenv("FASTA_LEARN", wish)
    _entry_point.load()
    assert not _switch.is_enabled()


def test_nothing_is_raised(monkeypatch, caplog):
    def fail():
        raise RuntimeError("broken")

    monkeypatch.setenv("FASTA_LEARN", "1")
    monkeypatch.setattr(_switch, "enable", fail)
    _entry_point.load()
    (entry,) = caplog.records
    assert entry.levelno == logging.WARNING
    assert "broken" in entry.getMessage()


def test_parent_of_compile_workers_only_loads_what_they_need(monkeypatch):
    loaded = []
    monkeypatch.setenv("FASTA_LEARN", "1")
    monkeypatch.setattr(_workers, "preload", lambda: loaded.append(1))
    monkeypatch.setattr(
        sys, "argv", ["/lib/torch/_inductor/compile_worker/__main__.py", "--workers=2"]
    )
    _entry_point.load()
    assert loaded == [1]
    assert not _switch.is_enabled()
