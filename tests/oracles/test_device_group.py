import os
import signal
import time
from collections import Counter

import pytest
import simulated_specs as specs
from simulated_specs import bad, good

from fasta_learn.oracles import TimingPlan
from fasta_learn.oracles._device_group import DeviceGroup
from fasta_learn.oracles._triton_child import DeviceServer, SpecSource

LONG = 60.0


class Notes:
    """What child processes have written down."""

    def __init__(self, folder):
        self._file = folder / "notes"

    def lines(self):
        if not self._file.exists():
            return []
        return [line.split(maxsplit=2) for line in self._file.read_text().splitlines()]

    def pids(self, what=""):
        """Give the processes that have noted something that begins with a text."""
        notes = [(pid, note) for pid, _, note in self.lines()]
        return list(dict.fromkeys(int(p) for p, note in notes if note.startswith(what)))

    def wait_for(self, what, number=1):
        deadline = time.monotonic() + LONG
        while [note.strip() for *_, note in self.lines()].count(what) < number:
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.fixture(scope="module")
def open_group(tmp_path_factory):
    """Open groups whose notes go to a folder of their own."""
    patch = pytest.MonkeyPatch()
    opened = []
    kernels = tmp_path_factory.mktemp("kernels")

    def open_one(function="faulty", devices=(0,), **options):
        folder = tmp_path_factory.mktemp("group")
        (folder / "kernels").symlink_to(kernels)
        patch.setenv(specs.FOLDER, str(folder))
        server = DeviceServer(
            SpecSource(f"simulated_specs:{function}", {}), 2, TimingPlan(cutoff=None)
        )
        options = {"compile_timeout": LONG, "run_timeout": LONG, **options}
        group = DeviceGroup(server.to_bytes, devices, n_threads=2, **options)
        opened.append(group)
        return group, Notes(folder)

    yield open_one
    for group in opened:
        group.close()
    patch.undo()


def measure(group, configs):
    numbers = [group.submit(config) for config in configs]
    return [group.result(number) for number in numbers]


FAULTS = ["compile_error", "wrong", "illegal", "crash", "compile_crash"]


@pytest.fixture(scope="module")
def drill(open_group):
    """Measure good configs with a fault of each kind between them."""
    group, notes = open_group()
    configs = [good(32)]
    for fault, block in zip(FAULTS, (64, 128, 256, 512, 1024), strict=True):
        configs += [bad(fault), good(block)]
    answers = measure(group, configs)
    again = measure(group, [bad("illegal"), good(32)])
    group.close()
    return configs, answers, again, notes


def test_good_configs_survive_all_faults(drill):
    configs, answers, _, _ = drill
    for config, answer in zip(configs, answers, strict=True):
        if not config["FAULT"]:
            assert answer.duration == 1024 / config["BLOCK"]


@pytest.mark.parametrize(
    ("fault", "status", "reason"),
    [
        ("compile_error", "compile_error", "no such tile"),
        ("wrong", "wrong_result", "y is wrong"),
        ("illegal", "illegal_access", "illegal memory access"),
        ("crash", "error", "ended by signal 9 (SIGKILL) while it ran this"),
        ("compile_crash", "compile_error", "the compiler has crashed"),
    ],
)
def test_each_fault_is_told_of_its_config(drill, fault, status, reason):
    configs, answers, _, _ = drill
    (answer,) = (a for c, a in zip(configs, answers, strict=True) if c == bad(fault))
    assert answer.status == status
    assert reason in answer.reason


def test_config_that_breaks_the_device_runs_once(drill):
    _, _, again, notes = drill
    runs = Counter(what.strip() for *_, what in notes.lines())
    assert runs["run illegal"] == 1
    assert [answer.status for answer in again] == ["illegal_access", "ok"], again


def test_crash_is_tried_at_most_once_more_to_find_its_cause(drill):
    *_, notes = drill
    runs = Counter(what.strip() for *_, what in notes.lines())
    assert 1 <= runs["run crash"] <= 2
    assert 1 <= runs["compile compile_crash"] <= 4


def test_no_process_is_left(drill, processes):
    *_, notes = drill
    assert len(notes.pids()) >= 4
    assert all(processes.wait_until_gone(pid) for pid in notes.pids())


def test_hangs_cost_their_config_and_no_other(open_group):
    group, notes = open_group(compile_timeout=3.0, run_timeout=2.0)
    hang, good_one, compile_hang, last = measure(
        group, [bad("hang"), good(32), bad("compile_hang"), good(64)]
    )
    group.close()
    assert (hang.status, hang.reason) == ("timeout", "running took more than 2 s")
    assert hang.run_seconds >= 2
    assert compile_hang.status == "timeout"
    assert compile_hang.reason == "compiling took more than 3 s"
    assert (good_one.duration, last.duration) == (32.0, 16.0)
    runs = Counter(what.strip() for *_, what in notes.lines())
    assert runs["run hang"] == 1


def test_devices_share_the_work_and_answers_keep_their_order(open_group):
    group, notes = open_group(devices=(0, 1))
    configs = [good(32 * 2**i) for i in range(6)]
    group.prepare([])
    notes.wait_for("start", 2)
    time.sleep(0.2)
    group.prepare(configs)
    answers = measure(group, configs)
    assert [answer.duration for answer in answers] == [32, 16, 8, 4, 2, 1]
    ran = {(device, what.strip()) for _, device, what in notes.lines() if "run" in what}
    assert {device for device, _ in ran} == {"0", "1"}
    assert len(ran) == len(configs)


def test_child_that_is_gone_is_replaced(open_group, processes):
    group, notes = open_group()
    assert measure(group, [good(32)])[0].ok
    (pid,) = notes.pids("run")
    os.kill(pid, signal.SIGKILL)  # between two configs: neither is to blame
    assert processes.wait_until_gone(pid)
    assert measure(group, [good(64)])[0].duration == 16.0
    group.close()
    assert all(processes.wait_until_gone(pid) for pid in notes.pids())
    assert measure(group, [good(128)])[0].duration == 8.0


def test_child_that_ends_at_its_start_is_started_once_more(open_group, processes):
    group, notes = open_group("end_process")
    with pytest.raises(RuntimeError, match=r"2 times in a row: .* exit code 7"):
        measure(group, [good(32)])
    # Each notes its start twice: as the module is imported, and in the function.
    assert len(notes.pids()) == 2
    assert all(processes.wait_until_gone(pid) for pid in notes.pids())


def test_mistake_of_the_user_is_an_error_at_once(open_group):
    group, notes = open_group("refuse")
    with pytest.raises(ValueError, match="there is no such shape"):
        group.facts()
    assert len(notes.pids()) == 1


def test_interrupt_leaves_no_child(open_group, processes):
    group, notes = open_group()
    with pytest.raises(KeyboardInterrupt):
        measure(group, [bad("interrupt")])
    assert all(processes.wait_until_gone(pid) for pid in notes.pids())
