"""Which item of a pool is which."""

import numpy as np
import pytest

from fasta_learn.search import _identity
from fasta_learn.search._identity import Identities, same_items

ROWS = np.array([[0.0, 1.0], [2.0, 3.0], [1.0, 0.0], [2.0, 3.0]])
CONFIGS = [{"M": 16, "N": 1}, {"M": 16, "N": True}, {"M": 16.0, "N": 1}]


@pytest.mark.parametrize(
    ("row", "expected"),
    [([1, 0], [2]), ([0, 1], [0]), ([-0.0, 1], [0]), ([2, 3], [1, 3]), ([3, 2], [])],
)
def test_rows_are_found_by_their_numbers(row, expected):
    assert Identities(ROWS).find(np.array(row, dtype=float)) == expected


@pytest.mark.parametrize("i", range(3))
def test_configs_are_found_by_value_and_type(i):
    config = dict(reversed(CONFIGS[i].items()))
    assert Identities(CONFIGS).find(config) == [i]


def test_a_row_is_no_config_and_a_config_no_row():
    assert Identities(CONFIGS).find(np.array([16.0, 1.0])) == []
    assert Identities(ROWS).find({"x0": 0.0, "x1": 1.0}) == []


def test_copies_name_the_first_of_their_equals():
    items = [CONFIGS[0], CONFIGS[1], dict(CONFIGS[0]), CONFIGS[1], CONFIGS[0]]
    assert Identities(items).copies() == [(2, 0), (3, 1), (4, 0)]
    assert Identities(CONFIGS).copies() == []


@pytest.mark.parametrize("items", [ROWS, CONFIGS], ids=["rows", "configs"])
def test_items_of_equal_hashes_are_told_apart(monkeypatch, items):
    expected = [Identities(items).find(item) for item in items]
    monkeypatch.setattr(
        _identity, "_hash_items", lambda items: np.zeros(len(items), np.uint64)
    )
    identities = Identities(items)
    assert [identities.find(item) for item in items] == expected
    assert len(identities.copies()) == (1 if items is ROWS else 0)


def test_no_two_of_many_rows_share_a_hash():
    grid = np.stack(np.unravel_index(np.arange(100_000), (10,) * 5), axis=1) / 7
    assert len(np.unique(_identity._hash_items(grid))) == 100_000


def test_hashes_do_not_depend_on_the_process():
    # A pickled search is opened in other processes, whose str hashes differ.
    text = b'{"M":16,"N":1}'
    digest = _identity.hashlib.blake2b(text, digest_size=8).digest()
    expected = np.frombuffer(digest, dtype=np.uint64)
    assert _identity._hash_items([CONFIGS[0]]).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (ROWS.copy(), True),
        (np.where(ROWS == 0, -0.0, ROWS), True),
        (ROWS[::-1], False),
        (ROWS[:3], False),
        (ROWS[:, :1], False),
        ([{"x0": a, "x1": b} for a, b in ROWS.tolist()], False),
    ],
)
def test_matrices_are_the_same_by_their_numbers(other, expected):
    assert same_items(ROWS, other) is expected
