import importlib.util
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fasta_learn import heuristics
from fasta_learn.exceptions import MissingExtraError
from fasta_learn.heuristics import (
    install,
    list_installed,
    uninstall,
    verify,
)
from fasta_learn.heuristics._install_code import parse_artifact
from fasta_learn.heuristics._install_store import combined_hash, find_folder
from fasta_learn.heuristics._install_verify import without_binding

# Not a folder with __init__.py: helpers are found by path.
sys.path.insert(0, os.path.dirname(__file__))
from artifacts import make_artifact


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "heuristics"


def test_installed_module_is_what_was_generated(folder):
    artifact = install(make_artifact(), folder=folder)
    assert Path(artifact.path).read_text() == make_artifact()
    assert Path(artifact.path).parent == folder


def test_it_is_described_by_what_its_code_says(folder):
    text = make_artifact("Mine", shared_memory=166912, device_capa=(8, 0))
    artifact = install(text, folder=folder)
    assert (artifact.class_name, artifact.name) == ("Mine", "pad_mm")
    assert (artifact.shared_memory, artifact.device_capa) == (166912, (8, 0))


def test_a_file_is_installed_under_its_path_as_source(tmp_path, folder):
    path = tmp_path / "_PadMM.py"
    path.write_text(make_artifact())
    install(path, folder=folder)
    (artifact,) = list_installed(folder=folder)
    assert artifact.source == str(path)


def test_what_is_listed_is_what_was_installed(folder):
    artifact = install(make_artifact(), folder=folder)
    assert list_installed(folder=folder) == [artifact]


def test_installing_the_same_again_changes_nothing(folder):
    artifact = install(make_artifact(), folder=folder)
    assert install(make_artifact(), folder=folder) == artifact
    assert len(list_installed(folder=folder)) == 1


def test_second_artifact_of_a_device_is_refused(folder):
    first = install(make_artifact(), folder=folder)
    with pytest.raises(ValueError, match=f"{first.hash}.*replace=True"):
        install(make_artifact(threshold=3000), folder=folder)
    assert list_installed(folder=folder) == [first]


def test_replace_takes_the_place_of_the_first(folder):
    install(make_artifact(), folder=folder)
    second = install(make_artifact(threshold=3000), folder=folder, replace=True)
    assert list_installed(folder=folder) == [second]
    assert sorted(path.suffix for path in folder.iterdir()) == [".json", ".py"]


@pytest.mark.parametrize(
    "other",
    [
        {"shared_memory": 166912},
        {"device_capa": (8, 0)},
        {"name": "mm"},
    ],
)
def test_artifacts_of_other_devices_or_decisions_stand_beside_each_other(folder, other):
    install(make_artifact(), folder=folder)
    install(make_artifact(**other), folder=folder)
    assert len(list_installed(folder=folder)) == 2


def test_devices_that_torch_can_not_tell_apart_each_have_their_artifact(folder):
    install(make_artifact(), device_name="NVIDIA H100", folder=folder)
    install(make_artifact(threshold=9), device_name="NVIDIA H200", folder=folder)
    assert len(list_installed(folder=folder)) == 2


@pytest.mark.parametrize(
    ("first", "second", "fits"),
    [
        ({"device_memory": 80 * 10**9}, {"device_memory": 141 * 10**9}, True),
        ({"device_memory": 80 * 10**9}, {"device_memory": 82 * 10**9}, False),
        ({"device_memory": 80 * 10**9}, {}, False),
        ({"device_name": "A"}, {}, False),
        ({"device_name": "A"}, {"device_name": "B", "device_memory": 1}, True),
    ],
)
def test_bound_artifacts_are_rivals_where_a_device_may_fit_both(
    folder, first, second, fits
):
    install(make_artifact(), folder=folder, **first)
    other = make_artifact(threshold=9)
    if fits:
        install(other, folder=folder, **second)
    else:
        with pytest.raises(ValueError, match="is installed for pad_mm"):
            install(other, folder=folder, **second)


@pytest.mark.parametrize(
    ("name", "memory", "decides"),
    [
        ("NVIDIA H200", 141 * 10**9, True),
        ("NVIDIA H200", 139 * 10**9, True),
        ("NVIDIA H100", 141 * 10**9, False),
        ("NVIDIA H200", 80 * 10**9, False),
    ],
)
def test_bound_artifact_decides_on_its_device_only(
    folder, monkeypatch, name, memory, decides
):
    torch = pytest.importorskip("torch")
    artifact = install(
        make_artifact(),
        device_name="NVIDIA H200",
        device_memory=141 * 10**9,
        folder=folder,
    )
    device = SimpleNamespace(name=name, total_memory=memory)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: device)
    heuristic = load_class(artifact)()
    metadata = SimpleNamespace(name="pad_mm", shared_memory=200000, device_capa=(0, 0))
    assert heuristic.check_precondition(metadata, None) is decides


def test_bound_artifact_does_not_fail_without_a_gpu(folder, monkeypatch):
    torch = pytest.importorskip("torch")
    artifact = install(make_artifact(), device_name="NVIDIA H200", folder=folder)

    def fail():
        raise RuntimeError("no driver")

    monkeypatch.setattr(torch.cuda, "current_device", fail)
    metadata = SimpleNamespace(name="pad_mm", shared_memory=200000, device_capa=(0, 0))
    assert load_class(artifact)().check_precondition(metadata, None) is False


def load_class(artifact):
    spec = importlib.util.spec_from_file_location("bound_artifact", artifact.path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, artifact.class_name)


def test_binding_is_told_from_the_generated_code(folder):
    artifact = install(make_artifact(), device_name="NVIDIA H200", folder=folder)
    text = Path(artifact.path).read_text()
    assert text != make_artifact()
    assert without_binding(text) == make_artifact()
    assert without_binding(make_artifact()) == make_artifact()


@pytest.mark.parametrize("identity", ["PadMMTest", "pad_mm", "hash"])
def test_uninstall_takes_class_name_or_beginning_of_the_hash(folder, identity):
    artifact = install(make_artifact(), folder=folder)
    removed = uninstall(
        artifact.hash[:6] if identity == "hash" else identity, folder=folder
    )
    assert removed == artifact
    assert list(folder.iterdir()) == []


def test_uninstall_of_nothing_names_what_is_there(folder):
    artifact = install(make_artifact(), folder=folder)
    with pytest.raises(ValueError, match=f"no artifact.*{artifact.hash}"):
        uninstall("other", folder=folder)


def test_uninstall_refuses_to_choose(folder):
    install(make_artifact(), folder=folder)
    install(make_artifact(device_capa=(8, 0)), folder=folder)
    with pytest.raises(ValueError, match="several artifacts"):
        uninstall("pad_mm", folder=folder)


def test_half_written_descriptions_are_not_listed(folder):
    artifact = install(make_artifact(), folder=folder)
    Path(artifact.path).with_suffix(".json").write_text('{"hash": "12')
    assert list_installed(folder=folder) == []


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"FASTA_LEARN_HEURISTICS_DIR": "/a"}, "/a"),
        ({"FASTA_LEARN_CACHE_DIR": "/b"}, "/b/heuristics"),
        ({"XDG_DATA_HOME": "/c"}, "/c/fasta_learn/heuristics"),
        ({"HOME": "/d"}, "/d/.local/share/fasta_learn/heuristics"),
    ],
)
def test_folder_of_the_user(monkeypatch, variables, expected):
    for name in (
        "FASTA_LEARN_HEURISTICS_DIR",
        "FASTA_LEARN_CACHE_DIR",
        "XDG_DATA_HOME",
    ):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert find_folder() == Path(expected)


def test_caches_are_kept_apart_by_artifact_whatever_the_order(folder):
    first = install(make_artifact(), folder=folder)
    second = install(make_artifact(device_capa=(8, 0)), folder=folder)
    assert combined_hash([first, second]) == combined_hash([second, first])
    assert combined_hash([first]) != combined_hash([second])


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("import os", "line 1 imports os"),
        ("from os import path", "line 1 imports from os"),
        ("x = eval('1')", "line 1 calls eval"),
        ("x = open('a')", "line 1 calls open"),
        ("x = ().__class__", "line 1 uses __class__"),
        ("with a: pass", "line 1 has a With"),
    ],
)
def test_code_that_no_tree_needs_is_refused(folder, line, told):
    with pytest.raises(ValueError, match=told):
        install(line + make_artifact(), folder=folder)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a = = 1\n", "is no Python module"),
        ("a = 1\n", "found 0"),
        (make_artifact("A") + make_artifact("B"), "found 2"),
        (make_artifact().replace("metadata.shared_memory", "1"), "shared_memory"),
        (make_artifact().replace("def get_name", "def name"), "no method get_name"),
    ],
)
def test_other_code_is_refused(text, told):
    with pytest.raises(ValueError, match=told):
        parse_artifact(text)


def test_shipped_artifacts_of_torch_are_artifacts():
    artifacts = pytest.importorskip("torch._inductor.autoheuristic.artifacts")
    for path in sorted(Path(artifacts.__path__[0]).glob("_*A100.py")):
        assert parse_artifact(path.read_text()).device_capa == (8, 0)


def test_verify_counts_what_torch_decides():
    pytest.importorskip("torch")
    inputs = pad_inputs()
    found = verify(make_artifact(), inputs=inputs)
    assert found.is_fine
    assert (found.n_rows, found.n_decided) == (3, 2)


def pad_inputs():
    import pandas as pd

    items = [
        heuristics.GemmInput(900, 901, 1001, "float16"),
        heuristics.GemmInput(900, 901, 3001, "float16"),
        heuristics.GemmInput(900, 901, 3001, "float32"),
    ]
    return pd.DataFrame([item.features() for item in items])


def test_verify_tells_where_decisions_differ():
    pytest.importorskip("torch")
    expected = ["pad", None, "pad"]
    found = verify(make_artifact(), inputs=pad_inputs(), decisions=expected)
    (problem,) = found.problems
    assert problem == (
        "1 of 3 decisions differ, the first in row 2: orig instead of pad"
    )


def test_verify_tells_that_torch_can_not_use_it():
    pytest.importorskip("torch")
    broken = make_artifact().replace('return ["orig"', 'return missing["orig"')
    found = verify(broken, inputs=pad_inputs())
    assert not found.is_fine
    assert "NameError" in found.problems[0]


def test_verify_without_torch_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"fasta-learn\[torch\]"):
        verify(make_artifact(), inputs=pad_inputs())


def test_verify_reads_before_it_runs(tmp_path):
    text = f"open({str(tmp_path / 'made')!r}, 'w')\n" + make_artifact()
    assert "calls open" in verify(text).problems[0]
    assert not (tmp_path / "made").exists()


def test_descriptions_are_plain_json(folder):
    artifact = install(make_artifact(), folder=folder)
    values = json.loads(Path(artifact.path).with_suffix(".json").read_text())
    assert values["hash"] == artifact.hash
