"""Every name that the integration uses, in the sources of each version of torch_npu.

Its wheels are parsed, not installed.
"""

import ast
import functools
import sys
from pathlib import Path

import pytest

from fasta_learn.inductor._hook_sources import misfit
from fasta_learn.inductor._npu_hooks import NPU_HOOKS, check

sys.path.insert(0, str(Path(__file__).parent))
from torch_sources import read_sources

VERSIONS = ("2.13.0", "2.14.0")
MODULES = tuple(sorted({hook.module for hook in NPU_HOOKS}))


@functools.cache
def sources_of(version):
    """Give the text of the modules of a version."""
    return read_sources(version, MODULES, package="torch_npu")


@functools.cache
def tree_of(version, module):
    text = sources_of(version)[module]
    assert text is not None, f"torch_npu {version} has no module {module}"
    return ast.parse(text)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "hook", NPU_HOOKS, ids=lambda hook: f"{hook.module}.{hook.name}"
)
def test_hook_fits(version, hook):
    assert misfit(hook, tree_of(version, hook.module)) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_doctor_finds_nothing_wrong(version):
    assert check(sources_of(version).get) == []


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        # A version that drifts in one of these ways must not pass.
        ("def _set_best_candidate(", "def _set_best(", "is missing"),
        (
            "def _precompile_current_configs(self, compile_fn)",
            "def _precompile_current_configs(self, configs, compile_fn)",
            "has the parameters",
        ),
        (
            "self._precompile_current_configs(compile_fn)",
            "self._compile_all(compile_fn)",
            "does not use",
        ),
        ("else NPUCachingAutotuner", "else NPUAutotuner", "does not use"),
    ],
)
def test_drift_is_noticed(before, after, reason):
    sources = dict(sources_of("2.14.0"))
    (module,) = (name for name in MODULES if name.endswith("triton_heuristics"))
    assert before in sources[module]
    sources[module] = sources[module].replace(before, after)
    (line,) = check(sources.get)
    assert reason in line
