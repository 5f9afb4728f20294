import pickle
from multiprocessing import Pipe
from types import SimpleNamespace

import pytest
import simulated_specs as specs

from fasta_learn.oracles import TimingPlan
from fasta_learn.oracles._child import ChildEndedError
from fasta_learn.oracles._device_child import DeviceChild, visible_device
from fasta_learn.oracles._triton_child import DeviceServer, SpecSource

# No call that ends comes near this many seconds, on however slow a machine.
LONG = 60.0


@pytest.mark.parametrize(
    ("visible", "device", "name"),
    [(None, 1, "1"), ("", 2, "2"), ("4,5", 1, "5"), ("GPU-a, GPU-b", 1, "GPU-b")],
)
def test_device_is_one_of_those_that_the_parent_sees(
    monkeypatch, visible, device, name
):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert visible_device(device) == name


def test_hidden_device_is_an_error(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    with pytest.raises(ValueError, match=r"no device 2: .* shows 2 devices"):
        visible_device(2)


class FakeChild(DeviceChild):
    """A child whose messages the test sends."""

    def _spawn(self, environment=None):
        self._connection, self.theirs = Pipe()
        return self._connection

    def hear(self, *messages):
        for message in messages:
            self.theirs.send(message)
        self.read()


@pytest.fixture
def child():
    child = FakeChild(b"", compile_timeout=20.0, run_timeout=5.0)
    child.start()
    child.begin(0)
    yield child
    child.kill()
    child.theirs.close()


@pytest.fixture
def ready(child):
    child.hear(None, ("ready", {"device": "fake"}))
    return child


@pytest.fixture
def now(monkeypatch):
    clock = SimpleNamespace(time=1000.0)
    monkeypatch.setattr(
        "fasta_learn.oracles._device_child.time",
        SimpleNamespace(monotonic=lambda: clock.time),
    )
    return clock


def test_child_is_ready_when_it_says_so(child):
    assert not child.is_ready
    child.hear(None)
    assert not child.is_ready
    child.hear(("ready", {"device": "fake"}))
    assert child.is_ready
    assert child.is_idle
    assert child.facts == {"device": "fake"}


def test_child_that_can_not_load_its_server_refuses(child):
    child.hear("ModuleNotFoundError: no")
    assert child.refusal == (False, "ModuleNotFoundError: no")


def test_config_is_announced_once(ready):
    ready.announce({"a": 1}, "a")
    ready.announce({"a": 1}, "a")
    ready.hear(("compiling", "a", 0.0), ("compiled", "a", 0.0))
    ready.announce({"a": 1}, "a")
    ready.theirs.recv_bytes()
    ready.theirs.recv_bytes()
    assert pickle.loads(ready.theirs.recv_bytes()) == ("prepare", {"a": 1})
    assert not ready.theirs.poll()


def test_suspects_are_what_was_at_work(ready):
    ready.ask(0, {}, "a", None)
    ready.announce({}, "d")
    ready.hear(
        ("compiling", "a", 0.0),
        ("compiled", "a", 0.0),
        ("compiling", "b", 0.0),
        ("compiling", "c", 0.0),
        ("compiled", "c", 0.0),
        ("running", "a", 0.0),
    )
    assert ready.suspects() == ["a", "b"]


@pytest.mark.parametrize(
    ("messages", "seconds", "late"),
    [
        ([("compiling", "a", 1000.0)], 19.0, None),
        (
            [("compiling", "a", 1000.0)],
            21.0,
            ("a", "compiling took more than 20 s"),
        ),
        ([("compiling", "a", 1000.0), ("compiled", "a", 1001.0)], 24.0, None),
        ([("running", "a", 1000.0)], 4.0, None),
        ([("running", "a", 1000.0)], 6.0, ("a", "running took more than 5 s")),
        ([], 26.0, ("a", "the child process said nothing for 25 s")),
    ],
)
def test_what_takes_too_long_is_told(now, ready, messages, seconds, late):
    ready.ask(0, {}, "a", None)
    ready.hear(*messages)
    now.time += seconds
    assert ready.overdue() == late
    assert (ready.deadline() <= now.time) == (late is not None)


def test_start_that_takes_too_long_is_told(now, child):
    child.begin(0)
    now.time += 299
    assert child.overdue() is None
    now.time += 2
    assert child.overdue() == (None, "it was not ready within 300 s")


def test_nothing_is_due_of_an_idle_child(now, ready):
    now.time += 1e6
    assert ready.overdue() is None


def test_answers_before_the_end_are_taken(ready):
    ready.ask(3, {}, "a", None)
    ready.theirs.send(("done", 3, "measurement", False))
    ready.theirs.close()
    with pytest.raises(ChildEndedError):
        ready.read()
    assert ready.answers == [(3, "measurement")]
    assert ready.asked == {}


def test_sending_to_a_child_that_has_ended_is_no_error(ready):
    ready.theirs.close()
    ready.ask(0, {}, "a", None)
    with pytest.raises(ChildEndedError):
        ready.read()
    assert list(ready.asked.values()) == ["a"]


def test_child_process_measures(monkeypatch, tmp_path):
    monkeypatch.setenv(specs.FOLDER, str(tmp_path))
    server = DeviceServer(SpecSource("simulated_specs:faulty", {}), 1, TimingPlan())
    child = DeviceChild(server.to_bytes(), 10.0, 10.0)
    try:
        child.start()
        assert child.is_alive
        child.begin(5)
        child.ask(0, specs.good(64), "key", None)
        while not child.answers:
            assert child.connection.poll(LONG)
            child.read()
        assert child.answers[0][1].duration == 16.0
        assert {line.split()[1] for line in (tmp_path / "notes").open()} == {"5"}
    finally:
        child.close_now()
    assert not child.is_alive
