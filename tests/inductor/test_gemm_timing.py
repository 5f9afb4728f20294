"""Tests of how choices are measured, with stand-ins for choice, selector and clock."""

import contextlib
import math
from types import SimpleNamespace

import numpy as np
import pytest


class Clock:
    """A clock on which a launch takes what it returns."""

    def __init__(self):
        self.is_current = False
        self.n_launches = 0
        self.is_closed = False

    @contextlib.contextmanager
    def on_stream(self):
        self.is_current = True
        yield
        self.is_current = False

    def time_batch(self, launch, n_launches, prepare=None):
        assert self.is_current
        self.n_launches += n_launches
        return np.array([launch() for _ in range(n_launches)])

    def close(self):
        self.is_closed = True


class Choice:
    """A choice that Inductor's benchmarker measures on a GPU."""

    def __init__(self, duration=1.0, error=None):
        self.duration, self.error = duration, error

    def launch(self):
        if self.error is not None:
            raise self.error
        return self.duration


class Selector:
    """What Inductor's selector does with a choice."""

    def get_inputs(self, choices, input_nodes, layout, gens, hint_override=None):
        return SimpleNamespace(expected=None)

    def benchmark_choice(self, choice, arguments):
        from torch._inductor.runtime.benchmarking import benchmarker

        return benchmarker.benchmark(choice.launch, device="cuda")


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def timer(clock):
    from fasta_learn.inductor._gemm_timing import ChoiceTimer

    return ChoiceTimer(Selector(), [], None, None, None, clock=clock)


def test_the_clock_reads_the_time_of_inductors_benchmark(timer, clock):
    measurement = timer.measure(Choice(0.25))

    assert measurement.ok
    assert measurement.duration == 0.25
    assert clock.n_launches > 3


def test_inductors_benchmarker_is_as_before(timer):
    from torch._inductor.runtime.benchmarking import benchmarker

    before = dict(vars(benchmarker))
    timer.measure(Choice())
    timer.measure(Choice(error=RuntimeError("no")))

    assert vars(benchmarker) == before


def test_what_is_much_slower_than_the_best_is_launched_less(timer, clock):
    def measure_noisy(best):
        choice, noise = Choice(), np.random.RandomState(0)
        choice.launch = lambda: 1 + 0.2 * noise.rand()
        before = clock.n_launches
        timer.measure(choice, best)
        return clock.n_launches - before

    assert measure_noisy(best=0.1) < measure_noisy(best=1.0)


@pytest.mark.parametrize(
    ("error", "status", "is_lost"),
    [
        (RuntimeError("something else"), "error", False),
        (
            RuntimeError("CUDA error: an illegal memory access was encountered"),
            "illegal_access",
            True,
        ),
        (MemoryError(), "out_of_memory", False),
    ],
)
def test_an_error_is_a_measurement(timer, error, status, is_lost):
    measurement = timer.measure(Choice(error=error))

    assert measurement.status == status
    assert measurement.duration == math.inf
    assert timer.is_lost is is_lost


def test_a_wrong_result_comes_out_where_inductor_verifies(timer):
    timer._arguments.expected = object()
    with pytest.raises(AssertionError, match=r"Incorrect result(?s:.)*not close"):
        timer.measure(Choice(error=AssertionError("not close")))


def test_what_inductor_skips_has_failed(timer):
    class Skipped(Selector):
        def benchmark_choice(self, choice, arguments):
            return math.inf

    timer._selector = Skipped()
    assert not timer.measure(Choice()).ok


def test_a_second_measurement_is_short(timer, clock):
    timer.measure(Choice(1.0))
    n_first = clock.n_launches
    assert timer.measure_again(Choice(0.5)) == 0.5
    assert clock.n_launches - n_first <= n_first


def test_a_second_measurement_that_fails_is_inf(timer):
    assert timer.measure_again(Choice(error=RuntimeError("no"))) == math.inf


def test_a_launch_is_kept_between_second_measurements(timer, clock):
    from torch._inductor.autotune_process import TritonBenchmarkRequest

    class Request(TritonBenchmarkRequest):
        def __init__(self):
            self.n_made = self.n_cleaned = 0

        def make_run_fn(self, *inputs, out):
            # Triton's launchers are handed the stream that is current now.
            assert clock.is_current
            self.n_made += 1
            return lambda: 0.75

        def cleanup_run_fn(self):
            self.n_cleaned += 1

    choice = Choice()
    choice.bmreq = request = Request()
    tensors = SimpleNamespace(unpack=lambda: ((), None))
    timer._arguments.get_benchmark_tensors = lambda extern: tensors
    timer._selector._is_extern = lambda choice: False

    assert [timer.measure_again(choice) for _ in range(3)] == [0.75] * 3
    assert (request.n_made, request.n_cleaned) == (1, 0)
    timer.close()
    assert request.n_cleaned == 1
    assert clock.is_closed


def test_inductors_child_process_measures_where_it_is_wanted():
    from torch._inductor import config

    from fasta_learn.inductor._gemm_timing import ChoiceTimer

    class Elsewhere(Selector):
        def make_benchmark_fn(self, choices, nodes, layout, gens, hint_override):
            return lambda choices: dict.fromkeys(choices, 0.125)

    with config.patch(autotune_in_subproc=True):
        timer = ChoiceTimer(Elsewhere(), [], None, None, None)
        assert timer.measure(Choice()).duration == 0.125
        assert timer.measure_again(Choice()) == 0.125


def test_on_a_cpu_inductors_own_clock_is_read():
    from torch._inductor.runtime.benchmarking import benchmarker

    from fasta_learn.inductor._gemm_timing import ChoiceTimer

    class OnCPU(Selector):
        def benchmark_choice(self, choice, arguments):
            return benchmarker.benchmark(choice.launch, device="cpu")

    timer = ChoiceTimer(OnCPU(), [], None, None, None)
    calls = []
    choice = Choice()
    choice.launch = lambda: calls.append(1)

    assert timer.measure(choice).duration > 0
    n_first = len(calls)
    assert timer.measure_again(choice) > 0
    assert len(calls) - n_first < n_first
