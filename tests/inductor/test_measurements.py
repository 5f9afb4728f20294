"""Tests of the store of measurements of Inductor's kernels."""

import numpy as np
import pytest

from fasta_learn.configs import config_key
from fasta_learn.inductor._measurements import (
    ConfigStore,
    Relative,
    StoredPrior,
    family_of,
)
from fasta_learn.inductor._settings import Settings
from fasta_learn.oracles import Measurement

POOL = [{"XBLOCK": 2**i, "num_warps": 4} for i in range(6)]


def identity(*sizes, device="H200"):
    return {"key": list(sizes), "device": {"device": device}}


def measured(durations):
    return {
        config_key(config): (config, Measurement(duration))
        for config, duration in zip(POOL, durations, strict=False)
    }


@pytest.fixture
def store(tmp_path):
    return ConfigStore(Settings(store=str(tmp_path)), "kernel", "family")


def test_nothing_is_known_at_first(store):
    assert store.winner(identity(8), "choice") is None
    assert store.measurements(identity(8)) == {}
    assert store.relatives(identity(8)) == []


def test_another_process_finds_what_was_kept(store, tmp_path):
    store.keep(identity(8), "choice", POOL[1], measured([3.0, 1.0, 2.0]))
    again = ConfigStore(Settings(store=str(tmp_path)), "kernel", "family")
    assert again.winner(identity(8), "choice") == config_key(POOL[1])
    known = again.measurements(identity(8))
    assert {key: m.duration for key, (_, m) in known.items()} == {
        config_key(config): duration
        for config, duration in zip(POOL, [3.0, 1.0, 2.0], strict=False)
    }


@pytest.mark.parametrize(
    ("family", "sizes", "choice"),
    [("other", 8, "choice"), ("family", 16, "choice"), ("family", 8, "other")],
)
def test_a_winner_holds_for_what_it_was_decided_for(
    store, tmp_path, family, sizes, choice
):
    store.keep(identity(8), "choice", POOL[1], measured([3.0, 1.0]))
    other = ConfigStore(Settings(store=str(tmp_path)), "kernel", family)
    assert other.winner(identity(sizes), choice) is None


def test_measurements_add_up(store):
    store.keep(identity(8), "a", POOL[0], measured([3.0]))
    store.keep(
        identity(8), "b", POOL[1], {config_key(POOL[1]): (POOL[1], Measurement(1.0))}
    )
    assert len(store.measurements(identity(8))) == 2


def test_what_may_be_otherwise_at_the_next_try_is_not_kept(store):
    failed = {
        config_key(POOL[0]): (POOL[0], Measurement.failed("out_of_memory", "full")),
        config_key(POOL[1]): (POOL[1], Measurement.failed("compile_error", "no")),
    }
    store.keep(identity(8), "choice", POOL[2], failed)
    assert list(store.measurements(identity(8))) == [config_key(POOL[1])]


def test_relatives_come_by_distance_and_from_this_device(store):
    store.keep(identity(64), "choice", POOL[1], measured([3.0]))
    store.keep(identity(16), "choice", POOL[2], measured([2.0]))
    store.keep(identity(8, device="A100"), "choice", POOL[3], measured([1.0]))
    store.keep(identity(8), "choice", POOL[4], measured([1.0]))
    relatives = store.relatives(identity(8))
    assert [relative.distance for relative in relatives] == [1.0, 3.0]
    assert relatives[0].winner == config_key(POOL[2])


def test_without_a_store_nothing_is_kept():
    store = ConfigStore(Settings(store=False), "kernel", "family")
    store.keep(identity(8), "choice", POOL[1], measured([3.0]))
    assert store.winner(identity(8), "choice") is None
    assert store.measurements(identity(8)) == {}
    assert store.relatives(identity(8)) == []


def test_a_damaged_store_is_told_and_not_used(store, tmp_path, caplog):
    store.keep(identity(8), "choice", POOL[1], measured([3.0]))
    for path in tmp_path.rglob("*.measured"):
        path.write_text("{")
    assert store.measurements(identity(8)) == {}
    assert "can't be used" in caplog.text


def relative(distance, durations):
    return Relative(distance, config_key(POOL[0]), measured(durations))


def test_the_prior_tells_the_share_of_speed_that_is_lost():
    prior = StoredPrior([relative(1.0, [2.0, 1.0, 4.0, 8.0, 2.0, 1.0])])
    assert prior.predict(POOL) == pytest.approx([0.5, 0.0, 0.75, 0.875, 0.5, 0.0])


def test_the_nearer_relative_is_asked_first():
    far = relative(3.0, [1.0, 2.0, 2.0, 2.0, 2.0, 2.0])
    near = relative(1.0, [2.0, 1.0, 4.0, 8.0])
    costs = StoredPrior([near, far]).predict(POOL)
    assert costs == pytest.approx([0.5, 0.0, 0.75, 0.875, 0.5, 0.5])


def test_what_no_relative_knows_is_guessed_by_the_base():
    class Base:
        def predict(self, configs):
            return np.array([0.0, 0.1, 0.2, 0.3, 0.0, 0.3])

    known = relative(1.0, [1.0, 2.0, 2.0, 2.0])
    costs = StoredPrior([known], Base()).predict(POOL)
    assert costs[:4] == pytest.approx([0.0, 0.5, 0.5, 0.5])
    assert costs[5] - costs[4] == pytest.approx(0.3)


def test_few_measurements_tell_nothing():
    costs = StoredPrior([relative(1.0, [1.0, 2.0])]).predict(POOL)
    assert np.ptp(costs) == 0


CODE = """def triton_red_{number}(x, XBLOCK):
    n = {size}
    y = x {sign} {size}*tl.arange(0, 2)
"""


def test_a_family_has_the_same_code_for_other_sizes():
    small = CODE.format(number=0, size=4096, sign="+")
    large = CODE.format(number=7, size=32768, sign="+")
    other = CODE.format(number=0, size=4096, sign="-")
    assert family_of(small) == family_of(large)
    assert family_of(small) != family_of(other)


def test_names_keep_their_numbers():
    assert "tmp12" in family_of("def f(x):\n    tmp12 = 128\n")
