import dataclasses
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fasta_learn.configs import TileSpace, read_pool
from fasta_learn.exceptions import JournalMismatchError
from fasta_learn.experiments import record_pool
from fasta_learn.experiments._record import pool_name
from fasta_learn.oracles import (
    BaseOracle,
    JournaledOracle,
    KernelSpec,
    Measurement,
    RecordedOracle,
    TimingPlan,
)

SPACE = TileSpace({"BLOCK": [32, 64, 128], "num_warps": [1, 2, 4]})


def answer(config):
    if config["BLOCK"] == 128 and config["num_warps"] == 4:
        return Measurement.failed("timeout", "no answer, not even | within 3 s")
    return Measurement(
        config["BLOCK"] / 64 + config["num_warps"],
        compile_seconds=0.50004,
        duration_p20=1.0,
        info={"registers": config["BLOCK"], "shared_bytes": 2**16},
    )


class Oracle(BaseOracle):
    """Answers at once, and remembers what it was asked."""

    def __init__(self, spec):
        self.lookahead, self.n_parallel = spec.ahead
        self.spec = spec

    def measure(self, configs):
        return list(self.measure_each(configs))

    def measure_each(self, configs):
        for config in configs:
            self.spec.log.append(("measure", config["BLOCK"], config["num_warps"]))
            yield answer(config)

    def prepare(self, configs):
        for config in configs:
            self.spec.log.append(("prepare", config["BLOCK"], config["num_warps"]))

    def fingerprint(self):
        return {"oracle": "Oracle", "device": self.spec.device, "timing": {"n": 7}}

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.spec.log.append(("closed",))


@dataclass(frozen=True, kw_only=True, eq=False)
class Spec(KernelSpec):
    log: list[Any] = dataclasses.field(default_factory=list)
    device: str = "a test"
    ahead: tuple[int, int] = (0, 1)

    def oracle(self, **options):
        self.log.append(("options", options))
        return Oracle(self)


def add_kernel():
    """Stands in for a function decorated by triton.jit."""


def make_spec(**changes):
    values = {
        "kernel": add_kernel,
        "args": (np.zeros(3, np.float16), np.zeros(2, np.int8), 3, np.zeros(1, "f2")),
        "grid": (1,),
        "configs": SPACE,
        "shape": {"m": 4096, "n": 30},
    }
    return Spec(**{**values, **changes})


def measured(spec):
    return [entry[1:] for entry in spec.log if entry[0] == "measure"]


# -- The pool


def test_pool_holds_what_was_measured(tmp_path):
    pool = record_pool(make_spec(), tmp_path).pool
    assert pool.name == "add_4096_30"
    assert pool.configs == list(SPACE)
    expected = [c["BLOCK"] / 64 + c["num_warps"] for c in SPACE]
    expected[-1] = math.inf
    assert_array_equal(pool.durations, expected)
    assert pool.status == ["ok"] * 8 + ["timeout: no answer, not even | within 3 s"]
    assert list(pool.extra.columns) == [
        "duration_p20_ms",
        "compile_seconds",
        "registers",
        "shared_bytes",
    ]


def test_file_gives_the_pool_back(tmp_path):
    recording = record_pool(make_spec(), tmp_path)
    again = read_pool(recording.path)
    assert again.name == recording.name == "add_4096_30"
    assert again.configs == recording.pool.configs
    assert_array_equal(again.durations, recording.pool.durations)
    assert again.status == recording.pool.status
    registers = [float(config["BLOCK"]) for config in SPACE]
    assert_array_equal(again.extra["registers"], [*registers[:-1], math.nan])
    assert_array_equal(again.extra["compile_seconds"], [0.5] * 8 + [math.nan])


def test_replay_of_the_file_has_statuses_and_reasons(tmp_path):
    path = record_pool(make_spec(), tmp_path).path
    replayed = RecordedOracle.from_pool(read_pool(path)).measure(SPACE[-2:])
    assert [item.status for item in replayed] == ["ok", "timeout"]
    assert replayed[1].reason == "no answer, not even | within 3 s"


def test_target_text_is_loaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels.py").write_text(
        "from fasta_learn.oracles import CallableOracle, KernelSpec\n"
        "class Spec(KernelSpec):\n"
        "    def oracle(self, **options):\n"
        "        return CallableOracle(lambda config: config['BLOCK'])\n"
        "def add():\n"
        "    return Spec(kernel=len, args=(), grid=(1,), configs=[{'BLOCK': 3}])\n"
    )
    recording = record_pool("kernels.py:add", tmp_path / "pools")
    assert recording.path == tmp_path / "pools" / "len.csv"
    assert recording.pool.best_duration == 3.0


def test_sample(tmp_path):
    recording = record_pool(make_spec(), tmp_path, n_configs=4, random_state=3)
    positions = [SPACE.index(config) for config in recording.pool.configs]
    assert len(positions) == recording.n_configs == 4
    assert positions == sorted(positions)


def test_sample_larger_than_the_pool_is_the_pool(tmp_path):
    assert len(record_pool(make_spec(), tmp_path, n_configs=99).pool) == 9


def test_options_go_to_the_oracle_and_it_is_closed(tmp_path):
    spec = make_spec()
    record_pool(spec, tmp_path, devices=[1])
    options = {"devices": [1], "timing": TimingPlan(cutoff=None)}
    assert spec.log[0] == ("options", options)
    assert spec.log[-1] == ("closed",)


def test_each_measurement_is_told(tmp_path):
    calls = []
    record_pool(make_spec(), tmp_path, on_measured=lambda *args: calls.append(args))
    # The first is BLOCK=32, num_warps=1, the fastest.
    assert calls == [(count, 9, 1.5) for count in range(1, 10)]


@pytest.mark.parametrize("ahead", [(0, 1), (2, 1), (3, 2), (20, 1)])
def test_configs_are_announced_in_order_and_in_time(tmp_path, ahead):
    spec = make_spec(ahead=ahead)
    record_pool(spec, tmp_path)
    order = [(config["BLOCK"], config["num_warps"]) for config in SPACE]
    prepared = [entry[1:] for entry in spec.log if entry[0] == "prepare"]
    assert prepared == order
    assert measured(spec) == order
    for position in range(9):
        before = spec.log[: spec.log.index(("measure", *order[position]))]
        announced = sum(entry[0] == "prepare" for entry in before)
        assert announced == min(9, position + sum(ahead))


# -- Going on


def test_deadline_keeps_what_was_measured(tmp_path):
    spec = make_spec()
    first = record_pool(spec, tmp_path, max_seconds=1e-9)
    assert (first.pool, first.n_known, first.n_measured) == (None, 0, 1)
    assert not first.path.exists()
    assert len(JournaledOracle.read(first.journal_path)) == 1
    second = record_pool(spec, tmp_path)
    assert (second.n_known, second.n_measured, len(second.pool)) == (1, 8, 9)
    assert len(measured(spec)) == 9


def test_resumed_pool_is_that_of_one_go(tmp_path):
    spec = make_spec()
    record_pool(spec, tmp_path / "two", max_seconds=1e-9)
    two = record_pool(spec, tmp_path / "two")
    one = record_pool(spec, tmp_path / "one")
    assert two.path.read_bytes() == one.path.read_bytes()


def test_other_device_is_refused(tmp_path):
    record_pool(make_spec(), tmp_path)
    with pytest.raises(JournalMismatchError, match="device differ"):
        record_pool(make_spec(device="another"), tmp_path)


def test_pool_without_its_journal_is_not_overwritten(tmp_path):
    recording = record_pool(make_spec(), tmp_path)
    before = recording.path.read_bytes()
    recording.journal_path.unlink()
    with pytest.raises(FileExistsError, match="its journal is gone"):
        record_pool(make_spec(), tmp_path)
    assert recording.path.read_bytes() == before


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ([{"BLOCK": 3}, {"BLOCK": 3}], "once"),
        ([{"BLOCK": "3"}], "would be read back"),
    ],
)
def test_unfit_configs_are_refused_before_anything_is_measured(
    tmp_path, configs, message
):
    spec = make_spec(configs=configs)
    with pytest.raises(ValueError, match=message):
        record_pool(spec, tmp_path)
    assert spec.log == []


def test_pool_where_all_failed_is_written(tmp_path):
    recording = record_pool(make_spec(configs=SPACE[-1:]), tmp_path)
    assert read_pool(recording.path).best_duration == math.inf
    assert "best" not in recording.path.with_suffix(".md").read_text()


# -- Names


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "add_4096_30"),
        ({"shape": {}}, "add"),
        ({"name": "my add"}, "my-add_4096_30"),
        ({"name": "add_4096_30"}, "add_4096_30"),
        ({"source": ("a:b", {"n": 30, "dtype": "float16"})}, "add_4096_30_float16"),
        ({"shape": {}, "source": ("a:b", {"kind": "a/b"})}, "add_a-b"),
    ],
)
def test_pool_name(changes, expected):
    assert pool_name(make_spec(**changes)) == expected


# -- Card


def card_rows(text):
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    return dict(row.strip("| ").split(" | ", 1) for row in rows if " | " in row[2:-2])


@pytest.fixture
def card(tmp_path):
    source = ("/home/me/kernels.py:add", {"m": 4096})
    recording = record_pool(make_spec(source=source), tmp_path)
    return recording.path.with_suffix(".md").read_text(encoding="utf-8")


def test_card_begins_with_the_name(card):
    assert card.startswith("# add_4096_30\n\nRecorded by `fasta-learn record` through ")


def test_card_says_what_was_measured_and_on_what(card):
    rows = card_rows(card)
    assert rows["kernel"] == "`add_kernel`"
    assert rows["source"] == "`kernels.py:add`"
    assert rows["arguments"] == "m = 4096"
    assert rows["shape"] == "m = 4096, n = 30"
    assert rows["data types"] == "float16, int8"
    assert rows["results checked"] == "no"
    assert rows["device"] == "a test"
    assert rows["timing"] == "n = 7"
    assert "fasta-learn " in rows["versions"]
    assert "Python " in rows["versions"]
    date = datetime.fromisoformat(rows["date"]).date()
    assert abs((datetime.now(UTC).date() - date).days) <= 1


def test_card_sums_the_pool_up(card):
    rows = card_rows(card)
    assert rows["`BLOCK`"] == "32, 64, 128"
    assert rows["`num_warps`"] == "1, 2, 4"
    assert rows["configs"] == "9"
    assert rows["failed"] == "1"
    assert rows["failed by timeout"] == "1"
    assert rows["best duration"] == "1.5 ms"
    assert rows["best config"] == "BLOCK=32, num_warps=1"
    assert rows["within 5 % of the best"] == "1"


def test_card_tells_that_results_were_checked(tmp_path):
    recording = record_pool(make_spec(check={"x": None}), tmp_path)
    text = recording.path.with_suffix(".md").read_text(encoding="utf-8")
    assert card_rows(text)["results checked"] == "yes"


def test_card_has_the_versions_that_the_oracle_tells(tmp_path, monkeypatch):
    told = {"oracle": "O", "versions": {"torch": "9.8", "driver": "7.6"}}
    monkeypatch.setattr(Oracle, "fingerprint", lambda self: told)
    recording = record_pool(make_spec(), tmp_path)
    text = recording.path.with_suffix(".md").read_text(encoding="utf-8")
    assert card_rows(text)["versions"].endswith(", torch 9.8, driver 7.6")
    assert "device" not in card_rows(text)
