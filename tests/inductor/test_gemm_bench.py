"""Tests of how long a bench waits for compiles."""

import math

import pytest

from fasta_learn.inductor import _gemm_bench
from fasta_learn.inductor._gemm_bench import ChoiceBench
from fasta_learn.inductor._gemm_search import Contender
from fasta_learn.oracles import Measurement


class Compiles:
    """Compiles that are ready when the test says so."""

    n_jobs = 4

    def __init__(self):
        self.ready, self.timeouts = set(), []

    def start(self, choice):
        pass

    def is_ready(self, choice):
        return choice in self.ready

    def wait(self, choices, timeout=None):
        self.timeouts.append(timeout)

    def error(self, choice):
        return None


class Timer:
    is_lost = False

    def measure(self, choice, best):
        return Measurement(1.0)


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 100.0

        def perf_counter(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(_gemm_bench, "time", clock)
    return clock


def make_bench():
    return ChoiceBench(Timer(), Compiles(), render=lambda contender: contender.key)


def measure_some(bench, clock, seconds, n=5):
    for i in range(n):
        contender = Contender(key=f"quick {i}", make=None)
        bench.start(contender)
        clock.now += seconds
        bench._compiles.ready.add(contender.key)
        assert bench.measure(contender, math.inf).ok


@pytest.mark.parametrize(("usual", "patience"), [(0.1, 10.0), (3.0, 30.0)])
def test_a_compile_that_takes_far_too_long_counts_as_failed(clock, usual, patience):
    bench = make_bench()
    measure_some(bench, clock, usual)
    slow = Contender(key="slow", make=None, is_stock=False)
    bench.start(slow)
    assert not bench.is_ready(slow)
    bench.wait([slow])
    assert bench._compiles.timeouts == [pytest.approx(patience)]
    clock.now += patience + 0.01
    assert bench.is_ready(slow)
    answer = bench.measure(slow, 1.0)
    assert answer.status == "timeout"
    assert "compiling takes more than" in answer.reason


def test_what_inductor_would_measure_is_always_waited_for(clock):
    bench = make_bench()
    measure_some(bench, clock, 0.1)
    stock = Contender(key="stock", make=None)
    bench.start(stock)
    clock.now += 1000
    assert not bench.is_ready(stock)
    bench.wait([stock])
    assert bench._compiles.timeouts == [None]


def test_there_is_no_limit_before_the_usual_time_is_known(clock):
    bench = make_bench()
    measure_some(bench, clock, 0.1, n=4)
    slow = Contender(key="slow", make=None, is_stock=False)
    bench.start(slow)
    clock.now += 1000
    assert not bench.is_ready(slow)
