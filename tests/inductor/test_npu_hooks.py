import importlib.metadata
import sys
from types import ModuleType

import pytest

from fasta_learn.inductor import _npu_hooks
from fasta_learn.inductor._hook_table import parse_row
from fasta_learn.inductor._hooks import HookMismatchError
from fasta_learn.inductor._npu_hooks import (
    NPU_HOOKS,
    check,
    probe,
    require,
    unsupported,
    versions,
)


@pytest.fixture
def install(monkeypatch):
    """Pretend that a version of torch_npu is installed."""

    def put(version):
        found = importlib.metadata.version

        def get(name):
            if name != "torch_npu":
                return found(name)
            if version is None:
                raise importlib.metadata.PackageNotFoundError(name)
            return version

        monkeypatch.setattr(importlib.metadata, "version", get)

    return put


@pytest.mark.parametrize("version", ["2.13.0", "2.14.0", "2.15.0rc1", "3.0.0"])
def test_version_is_supported(install, version):
    install(version)
    assert unsupported() is None


@pytest.mark.parametrize("version", ["2.7.1.post11", "2.12.0"])
def test_unsupported_version_is_told_with_what_to_do(install, version):
    install(version)
    assert unsupported().startswith(f"torch_npu {version} is not supported")
    assert unsupported().endswith("Use torch_npu 2.13 or later.")
    assert probe() == [unsupported()]


def test_missing_torch_npu_has_no_version(install):
    install(None)
    assert versions()["torch_npu"] is None
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        probe()


def test_versions(install):
    install("2.14.0")
    assert versions()["torch_npu"] == "2.14.0"


def test_hook_that_does_not_fit_is_an_error(install, monkeypatch):
    install("2.14.0")
    module = ModuleType("npu_module")
    module.choose = lambda configs: configs
    monkeypatch.setitem(sys.modules, "npu_module", module)
    rows = [parse_row("npu", "npu_module", "choose(configs)")]
    monkeypatch.setattr(_npu_hooks, "NPU_HOOKS", rows)
    require()
    rows.append(parse_row("npu", "npu_module", "choose(pool)"))
    with pytest.raises(
        HookMismatchError, match=r"choose of torch_npu 2\.14\.0 has the par"
    ):
        require()


def test_module_that_is_not_imported_is_not_checked(install, monkeypatch):
    install("2.14.0")
    row = parse_row("npu", "npu_module_of_tomorrow", "choose(configs)")
    monkeypatch.setattr(_npu_hooks, "NPU_HOOKS", (row,))
    require()


def test_each_missing_module_is_told():
    lines = check(lambda module: None)
    assert len(lines) == len(NPU_HOOKS)
    assert all(line.endswith("has no module") for line in lines)
