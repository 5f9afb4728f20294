import numpy as np
import pytest
from simulated_npu import SimulatedAutotuner, tiles

from fasta_learn.oracles import TimingPlan, _npu_device
from fasta_learn.oracles._npu_autotuner import AutotunerWorkload
from fasta_learn.oracles._npu_device import NPUDevice
from fasta_learn.oracles._npu_timers import TimerError

PLAN = TimingPlan()


class BatchTimer:
    """A timer that launches each call and takes its time from the virtual clock.

    `lose` says for the number of calls whether a duration is lost, which is an error of
    the timer.
    """

    name = "mspti"

    def __init__(self, clock, lose=lambda n_calls: False):
        self.clock, self.lose = clock, lose
        self.sessions = []

    def time(self, calls, kernel):
        self.sessions.append(len(calls))
        durations = []
        for call in calls:
            before = self.clock.now
            call()
            durations.append(np.array([self.clock.now - before]))
        if self.lose(len(calls)):
            raise TimerError("a record is missing")
        return durations


@pytest.fixture
def open_device(monkeypatch):
    opened = []

    def open_one(tuner, timer="events", make_timer=None, **options):
        if make_timer is not None:
            monkeypatch.setattr(_npu_device, "choose_backend", lambda wish: "mspti")
            monkeypatch.setattr(_npu_device, "make_timer", lambda backend: make_timer)
        options = {"n_threads": 1, "plan": PLAN, "compile_timeout": 20.0, **options}
        device = NPUDevice(
            AutotunerWorkload(tuner, ()), timer=timer, clock=tuner.clock, **options
        )
        opened.append(device)
        return device

    yield open_one
    for device in opened:
        device.close()


def make_tuner(**options):
    return SimulatedAutotuner(
        tiles(), lambda p: p["X0BLOCK"] * p["X0BLOCK_SUB"] / 512, **options
    )


def durations(answers):
    return [answer.duration for answer in answers]


def test_batch_is_timed_in_one_session(open_device):
    tuner = make_tuner()
    timer = BatchTimer(tuner.clock)
    answers = open_device(tuner, "auto", timer).measure(tuner.configs)
    assert timer.sessions == [4]
    assert durations(answers) == [1, 2, 2, 4]
    assert {answer.info["timer"] for answer in answers} == {"mspti"}


def test_batch_with_a_lost_duration_is_measured_one_by_one(open_device):
    tuner = make_tuner()
    timer = BatchTimer(tuner.clock, lambda n_calls: n_calls > 1)
    answers = open_device(tuner, "auto", timer).measure(tuner.configs)
    assert timer.sessions == [4, 1, 1, 1, 1]
    assert durations(answers) == [1, 2, 2, 4]


def test_wrong_number_of_timings_shifts_nothing(open_device):
    class Short(BatchTimer):
        def time(self, calls, kernel):
            answers = super().time(calls, kernel)
            return answers[1:] if len(calls) > 1 else answers

    tuner = make_tuner()
    answers = open_device(tuner, "auto", Short(tuner.clock)).measure(tuner.configs)
    assert durations(answers) == [1, 2, 2, 4]


def test_failing_config_does_not_spoil_its_batch(open_device):
    tuner = make_tuner()
    n_launches = {}

    def fail(parameters):  # it works at first, and not in the session
        key = str(parameters)
        n_launches[key] = n_launches.get(key, 0) + 1
        if parameters["X0BLOCK"] == 64 and n_launches[key] > 1:
            raise RuntimeError("cannot launch")

    tuner.fail_launch = fail
    timer = BatchTimer(tuner.clock)
    answers = open_device(tuner, "auto", timer).measure(tuner.configs)
    assert [answer.status for answer in answers] == ["launch_error"] * 2 + ["ok"] * 2
    assert durations(answers)[2:] == [2, 4]


def test_timer_that_never_works_gives_way_to_events(open_device, caplog):
    tuner = make_tuner()
    device = open_device(tuner, "auto", BatchTimer(tuner.clock, lambda n_calls: True))
    assert durations(device.measure(tuner.configs)) == [1, 2, 2, 4]
    assert device.backend == "events"
    assert [record.message for record in caplog.records] == [
        "timing by events, since mspti fails: a record is missing"
    ]


def test_timer_that_was_asked_for_is_not_replaced(open_device):
    tuner = make_tuner()
    device = open_device(tuner, "mspti", BatchTimer(tuner.clock, lambda n_calls: True))
    [answer] = device.measure(tuner.configs[:1])
    assert (answer.status, device.backend) == ("error", "mspti")
    assert "a record is missing" in answer.reason


def test_timer_is_not_changed_within_a_search(open_device):
    tuner = make_tuner()
    timer = BatchTimer(tuner.clock)
    device = open_device(tuner, "auto", timer)
    device.measure(tuner.configs[:2])
    timer.lose = lambda n_calls: True
    answers = device.measure(tuner.configs[2:])
    assert device.backend == "mspti"
    assert not any(answer.ok for answer in answers)
    device.end()
    assert all(answer.ok for answer in device.measure(tuner.configs))
    assert device.backend == "events"


def test_raising_timer_fails_its_configs(open_device):
    class Raising(BatchTimer):
        def time(self, calls, kernel):
            raise ZeroDivisionError("no time has passed")

    tuner = make_tuner()
    answers = open_device(tuner, "auto", Raising(tuner.clock)).measure(tuner.configs)
    assert {answer.status for answer in answers} == {"error"}
    assert "no time has passed" in answers[0].reason


def test_slow_config_is_cut_off_by_events(open_device):
    tuner = make_tuner()
    [answer] = open_device(tuner).measure(tuner.configs[3:], best=1.0)
    assert answer.info["cut_off"]


def test_full_memory_is_freed_and_tried_again(open_device, monkeypatch):
    tuner = make_tuner()
    errors = [RuntimeError("NPU out of memory")]

    def fail(parameters):
        if errors:
            raise errors.pop()

    tuner.fail_launch = fail
    freed = []
    monkeypatch.setattr(NPUDevice, "_free_memory", lambda self: freed.append(1))
    [answer] = open_device(tuner).measure(tuner.configs[:1])
    assert answer.ok
    assert freed == [1]


def test_rest_of_a_batch_is_not_run_on_a_broken_device(open_device):
    tuner = make_tuner()
    tuner.sync_errors = [RuntimeError("error code is 507015")] * 3
    device = open_device(tuner, "auto", BatchTimer(tuner.clock))
    answers = device.measure(tuner.configs)
    assert answers[0].status == "illegal_access"
    assert {answer.status for answer in answers[1:]} == {"error"}
    assert len(tuner.launched) == 1
    with pytest.raises(RuntimeError, match="broken the device"):
        device.measure(tuner.configs)


def test_device_error_that_passes_breaks_nothing(open_device):
    tuner = make_tuner()
    tuner.sync_errors = [RuntimeError("error code is 507015")] * 2
    answers = open_device(tuner).measure(tuner.configs)
    assert [answer.status for answer in answers] == ["illegal_access"] + ["ok"] * 3


def test_closed_device_measures_no_more(open_device):
    tuner = make_tuner()
    device = open_device(tuner)
    device.close()
    with pytest.raises(RuntimeError, match="closed"):
        device.measure(tuner.configs)
