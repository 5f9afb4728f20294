import json
import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fasta_learn.transfer import PoolPrior


@pytest.fixture(scope="module")
def prior(recorded):
    return PoolPrior(n_trees=5, random_state=4).fit(recorded)


@pytest.fixture
def path(prior, tmp_path):
    prior.save(tmp_path / "prior.npz")
    return tmp_path / "prior.npz"


def test_a_prior_survives_a_round_trip(prior, path, make_pool):
    configs = make_pool(seed=9).configs
    copy = PoolPrior.load(path)
    assert_array_equal(copy.predict(configs), prior.predict(configs))
    assert repr(copy) == repr(prior)
    assert copy.feature_names_ == prior.feature_names_


def test_saving_twice_gives_the_same_bytes(prior, path, tmp_path):
    prior.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def rewrite(path, **changes):
    """Write the archive again with other parts; None leaves a part out."""
    with np.load(path) as archive:
        parts = dict(archive) | changes
    np.savez(path, **{k: v for k, v in parts.items() if v is not None})


def change_about(path, **changes):
    with np.load(path) as archive:
        about = json.loads(str(archive["about"]))
    rewrite(path, about=np.array(json.dumps(about | changes)))


DAMAGES = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("hello"),
    "pickle": lambda path: path.write_bytes(pickle.dumps({"a": 1})),
    "array": lambda path: np.save(path.open("wb"), np.zeros(3)),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-50]),
    "flipped": lambda path: path.write_bytes(
        path.read_bytes()[:2000] + b"\0\1\2\3" + path.read_bytes()[2004:]
    ),
    "other archive": lambda path: np.savez(path, a=np.zeros(3)),
    "part missing": lambda path: rewrite(path, value=None),
    "objects": lambda path: rewrite(path, value=np.array([{}, []], dtype=object)),
    "text as array": lambda path: rewrite(path, value=np.array(["a"])),
    "endless tree": lambda path: rewrite(path, left=np.zeros(10, dtype=np.int64)),
    "no JSON": lambda path: rewrite(path, about=np.array("{")),
    "list": lambda path: rewrite(path, about=np.array("[]")),
    "format": lambda path: change_about(path, format="other"),
    "version": lambda path: change_about(path, version=2),
    "count": lambda path: change_about(path, n_pools="2"),
    "names": lambda path: change_about(path, feature_names=[1]),
    "too few names": lambda path: change_about(path, feature_names=["tile"]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_and_foreign_files_are_refused(path, damage):
    DAMAGES[damage](path)
    with pytest.raises(ValueError, match=r"not a prior that PoolPrior\.save wrote"):
        PoolPrior.load(path)


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("the file ran code",))


def test_nothing_in_a_file_is_run(path):
    rewrite(path, roots=np.array([Bomb()], dtype=object))
    with pytest.raises(ValueError, match="not a prior"):
        PoolPrior.load(path)


def test_archives_that_unpack_to_too_much_are_refused(path, monkeypatch):
    monkeypatch.setattr("fasta_learn.transfer._storage._MAX_BYTES", 1000)
    with pytest.raises(ValueError, match="unpacks to"):
        PoolPrior.load(path)


def test_a_missing_file_is_reported_as_such(tmp_path):
    with pytest.raises(FileNotFoundError):
        PoolPrior.load(tmp_path / "none.npz")
