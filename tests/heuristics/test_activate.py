import os
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from fasta_learn import heuristics
from fasta_learn.heuristics import _activate, install
from fasta_learn.heuristics._install_store import combined_hash

# Not a folder with __init__.py: helpers are found by path.
sys.path.insert(0, os.path.dirname(__file__))
sys.path.insert(0, str(Path(__file__).parents[1] / "inductor"))
from artifacts import COMPILE, make_artifact
from children import run_child

CASES = "((1001, torch.float32), (3001, torch.float32), (3001, torch.float16))"
# Padded or not without a benchmark, and a benchmark of both where it is unsure.
DECIDED = [[True, 0], [False, 0], [False, 2]]
BENCHMARKED = [[False, 2], [False, 2], [False, 2]]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "heuristics"


def test_environment_switches_an_artifact_on(tmp_path):
    """Torch decides by it at compile time, and benchmarks where it is unsure."""
    pytest.importorskip("torch")
    install(make_artifact(), folder=tmp_path / "store" / "heuristics")
    code = f"{COMPILE}\nprint(json.dumps(run(*{CASES})))"
    assert run_child(code, tmp_path, FASTA_LEARN_HEURISTICS="1")[0] == DECIDED


def test_what_was_learned_decides_when_torch_compiles(tmp_path):
    """From durations to a compile: padded where n is small; float16 was not learned."""
    pytest.importorskip("torch")
    random = np.random.default_rng(0)
    sizes = random.integers(2, 4000, size=(600, 3))
    items = [heuristics.GemmInput(*map(int, row), "float32") for row in sizes]
    inputs = pd.DataFrame([item.features() for item in items])
    small = sizes[:, 2] <= 2000
    durations = np.column_stack([np.where(small, 2.0, 1.0), np.where(small, 1.0, 2.0)])
    learned = heuristics.PadHeuristic(heuristics.PadDecisionTree(), random_state=0)
    metadata = heuristics.LogMetadata(
        "pad_mm",
        200000,
        (0, 0),
        heuristics.PAD_NUMERICAL,
        heuristics.PAD_CATEGORICAL,
    )
    code = heuristics.generate_code(
        learned.fit(inputs, durations), metadata=metadata, name="PadMMLearned"
    )
    install(code, folder=tmp_path / "store" / "heuristics")
    child = f"{COMPILE}\nprint(json.dumps(run(*{CASES})))"
    assert run_child(child, tmp_path, FASTA_LEARN_HEURISTICS="1")[0] == DECIDED


def test_artifact_counts_while_it_is_active(tmp_path):
    pytest.importorskip("torch")
    install(make_artifact(), folder=tmp_path / "store" / "heuristics")
    code = f"""{COMPILE}
from fasta_learn import heuristics
found = []
cache = lambda: os.environ["TORCHINDUCTOR_CACHE_DIR"]
for n in range(2):  # the second time with what torch's controller knows by then
    with heuristics.activate():
        with mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=cache() + str(n)):
            found.append(run(*{CASES}))
    with mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=cache() + str(n)):
        found.append(run(*{CASES}))
print(json.dumps(found))
"""
    found, _ = run_child(code, tmp_path)
    assert found == [DECIDED, BENCHMARKED, DECIDED, BENCHMARKED]


def test_caches_know_which_artifact_is_active(tmp_path):
    """What one artifact decided is not found again under another, or under none."""
    pytest.importorskip("torch")
    folder = tmp_path / "store" / "heuristics"
    code = f"{COMPILE}\nprint(json.dumps(run((3001, torch.float32))))"
    first = install(make_artifact(threshold=2000), folder=folder)
    assert run_child(code, tmp_path, FASTA_LEARN_HEURISTICS="1")[0] == [[False, 0]]
    install(make_artifact(threshold=4000), folder=folder, replace=True)
    assert run_child(code, tmp_path, FASTA_LEARN_HEURISTICS="1")[0] == [[True, 0]]
    folders = [path.name for path in (tmp_path / "inductor").glob("fasta_learn_*")]
    assert f"fasta_learn_heuristics_{combined_hash([first])}" in folders
    assert len(folders) == 2


def test_cache_folder_of_a_parent_process_is_not_nested(tmp_path):
    pytest.importorskip("torch")
    artifact = install(make_artifact(), folder=tmp_path / "store" / "heuristics")
    code = """
import json, os, torch
import torch._inductor.runtime.cache_dir_utils
print(json.dumps(os.environ["TORCHINDUCTOR_CACHE_DIR"]))
"""
    tag = f"fasta_learn_heuristics_{combined_hash([artifact])}"
    parent = tmp_path / "inductor" / "fasta_learn_heuristics_0123456789abcdef"
    for before in (parent, parent.parent, parent.parent / tag):
        found, _ = run_child(
            code,
            tmp_path,
            FASTA_LEARN_HEURISTICS="1",
            TORCHINDUCTOR_CACHE_DIR=str(before),
        )
        assert found == str(tmp_path / "inductor" / tag)


def test_import_of_torch_imports_nothing_heavy(tmp_path):
    pytest.importorskip("torch")
    install(make_artifact(), folder=tmp_path / "store" / "heuristics")
    code = """
import json, sys, torch
heavy = {"sklearn", "scipy", "pandas", "joblib", "triton"}
print(json.dumps(sorted(heavy & {name.split(".")[0] for name in sys.modules})))
"""
    assert run_child(code, tmp_path, FASTA_LEARN_HEURISTICS="1")[0] == []


def test_nothing_installed_does_not_break_the_import_of_torch(tmp_path):
    pytest.importorskip("torch")
    code = "import json, torch\nprint(json.dumps(torch.ones(2).sum().item()))"
    found, errors = run_child(code, tmp_path, FASTA_LEARN_HEURISTICS="1")
    assert found == 2.0
    assert "no artifact is installed" in errors


def test_activation_without_artifacts_is_an_error(folder):
    with pytest.raises(ValueError, match="no artifact is installed"):
        heuristics.activate(folder=folder)


def test_activation_leaves_the_environment_as_it_was(folder, monkeypatch):
    monkeypatch.delenv("TORCHINDUCTOR_AUTOHEURISTIC_USE", raising=False)
    install(make_artifact(), folder=folder)
    before = dict(os.environ)
    with heuristics.activate(folder=folder):
        assert os.environ["TORCHINDUCTOR_AUTOHEURISTIC_USE"] == "mixed_mm,pad_mm"
    assert dict(os.environ) == before


@pytest.mark.parametrize("before", ["mixed_mm", "mixed_mm,pad_mm", ""])
def test_configuration_of_torch_2_11_is_a_text(monkeypatch, before):
    config = SimpleNamespace(autoheuristic_use=before)
    monkeypatch.setitem(sys.modules, "torch._inductor.config", config)
    activation = _activate.Activation([], Path("nowhere"))
    activation._configure(["pad_mm"], None)
    assert config.autoheuristic_use.split(",").count("pad_mm") == 1
    assert set(before.split(",")) - {""} <= set(config.autoheuristic_use.split(","))
    activation.deactivate()
    assert config.autoheuristic_use == before


@pytest.mark.parametrize("before", [None, True])
def test_configuration_of_newer_torch_has_a_switch_for_each(monkeypatch, before):
    use = SimpleNamespace(pad_mm=before)
    config = SimpleNamespace(autoheuristic_use=use)
    monkeypatch.setitem(sys.modules, "torch._inductor.config", config)
    activation = _activate.Activation([], Path("nowhere"))
    activation._configure(["pad_mm", "mm"], None)
    assert vars(use) == {"pad_mm": True}
    activation.deactivate()
    assert vars(use) == {"pad_mm": before}


def test_configuration_that_has_read_our_environment_is_put_back(monkeypatch):
    use = SimpleNamespace(pad_mm=True)  # since it was imported after the activation
    config = SimpleNamespace(autoheuristic_use=use)
    monkeypatch.setitem(sys.modules, "torch._inductor.config", config)
    activation = _activate.Activation([], Path("nowhere"))
    activation._configure(["pad_mm"], "mixed_mm")
    activation.deactivate()
    assert use.pad_mm is None
