import importlib
import sys

import pytest

from fasta_learn.oracles._triton_source import hash_kernel, hash_source

SOURCE = """
import triton
import triton.language as tl

SIZE = tl.constexpr(4)
OTHER = 1


@triton.jit
def helper(x):
    return x + SIZE


@triton.jit
def kernel(x, BLOCK: tl.constexpr):
    places = x + tl.arange(0, BLOCK)
    tl.store(places, helper(tl.cdiv(7, BLOCK)))
"""


@pytest.fixture
def hash_of(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    names = iter(f"kernel_source_{i}" for i in range(9))

    def import_and_hash(text):
        name = next(names)
        (tmp_path / f"{name}.py").write_text(text)
        importlib.invalidate_caches()
        monkeypatch.delitem(sys.modules, name, raising=False)
        return hash_kernel(importlib.import_module(name).kernel)

    return import_and_hash


def test_place_in_the_file_does_not_matter(hash_of):
    assert hash_of(SOURCE) == hash_of("CONFIGS = [1, 2, 3]\n\n" + SOURCE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tl.store(places", "tl.store(1 + places"),
        ("return x + SIZE", "return x - SIZE"),
        ("tl.constexpr(4)", "tl.constexpr(8)"),
    ],
    ids=["kernel", "helper", "constant"],
)
def test_each_used_part_matters(hash_of, old, new):
    assert old in SOURCE
    assert hash_of(SOURCE) != hash_of(SOURCE.replace(old, new))


def test_what_is_not_used_does_not_matter(hash_of):
    assert hash_of(SOURCE) == hash_of(SOURCE.replace("OTHER = 1", "OTHER = 2"))


def test_recursive_functions_are_hashed(hash_of):
    assert hash_of(SOURCE.replace("return x + SIZE", "return helper(x)"))


def test_source_of_heuristics_matters():
    first, second = (lambda args: 1), (lambda args: 2)  # fmt: skip
    assert hash_source(test_place_in_the_file_does_not_matter) != hash_source(first)
    assert hash_source(second) == hash_source(second)
    assert hash_source(len) == hash_source(len)
