"""Every name that the integration uses, in the sources of each version of torch.

The installed torch is one; the other wheels are parsed, not installed.
"""

import ast
import functools
import sys
from pathlib import Path

import pytest

from fasta_learn.inductor._hook_sources import misfit, probe
from fasta_learn.inductor._hooks import HOOKS, parse_version

sys.path.insert(0, str(Path(__file__).parent))
from torch_sources import read_sources

VERSIONS = ("2.11.0", "2.12.0", "2.14.0", "2.15.0")
MODULES = tuple(sorted({hook.module for hook in HOOKS}))


@functools.cache
def trees_of(version):
    """Parse the modules of a version."""
    sources = read_sources(version, MODULES)
    return {
        name: None if text is None else ast.parse(text)
        for name, text in sources.items()
    }


def expected(version):
    return [hook for hook in HOOKS if hook.is_in(parse_version(version))]


@pytest.mark.parametrize(
    ("version", "hook"),
    [
        pytest.param(version, hook, id=f"{version}-{hook.module}.{hook.name}")
        for version in VERSIONS
        for hook in expected(version)
    ],
)
def test_hook_fits(version, hook):
    tree = trees_of(version)[hook.module]
    assert tree is not None, f"torch {version} has no module {hook.module}"
    assert misfit(hook, tree) is None


def test_hooks_fit_the_installed_version():
    problems = probe()
    assert set(problems) >= {"workers", "ptxas", "caches", "gemm", "pointwise"}
    assert {feature: lines for feature, lines in problems.items() if lines} == {}
