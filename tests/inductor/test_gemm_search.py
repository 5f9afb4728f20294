"""Tests of the order in which choices are proposed, measured and told."""

import math

import numpy as np
import pytest

from fasta_learn.inductor._gemm_search import ChoiceSearch, Contender, count_budget
from fasta_learn.oracles import Measurement


class Bench:
    """Measures by a function; what is ready when is up to the test."""

    def __init__(self, duration, *, n_parallel=4, latency=None):
        self.duration, self.n_parallel = duration, n_parallel
        self.latency = latency or (lambda contender: 0)
        self.is_lost = False
        self.now = 0
        self.started, self.measured, self.most_open = {}, [], 0

    def start(self, contender):
        assert contender not in self.started
        self.started[contender] = self.now
        n_open = len(self.started) - len(self.measured)
        self.most_open = max(self.most_open, n_open)

    def is_ready(self, contender):
        return self.now >= self.started[contender] + self.latency(contender)

    def wait(self, contenders):
        assert not any(self.is_ready(contender) for contender in contenders)
        self.now += 1

    def measure(self, contender, best):
        assert self.is_ready(contender)
        self.measured.append(contender)
        duration = self.duration(contender)
        if math.isfinite(duration):
            return Measurement(duration)
        return Measurement(math.inf, "out_of_resources", "too large")


def make_pool(n_stock=6):
    """Give 8 x 8 configs; those of Inductor's own come first."""
    configs = [{"M": 2**i, "N": 2**j} for i in range(8) for j in range(8)]
    pool = [
        Contender(
            key=str(c), make=None, config=c, is_stock=i % 9 == 0 and i < 9 * n_stock
        )
        for i, c in enumerate(configs)
    ]
    pool.sort(key=lambda contender: not contender.is_stock)
    return [Contender(key="extern", make=None), *pool]


def duration_of(contender):
    if contender.config is None:
        return 3.0
    m, n = math.log2(contender.config["M"]), math.log2(contender.config["N"])
    return 1 + 0.2 * (m - 5) ** 2 + 0.1 * (n - 2) ** 2


@pytest.mark.parametrize(
    ("budget", "n_pool", "n_stock", "expected"),
    [
        (60, 1200, 21, 60),
        (0.1, 1200, 21, 120),
        (10, 1200, 21, 21),
        (60, 21, 21, 21),
        (10, 21, 21, 10),
        (0.001, 21, 21, 1),
    ],
)
def test_count_budget(budget, n_pool, n_stock, expected):
    assert count_budget(budget, n_pool, n_stock) == expected


def test_all_that_inductor_would_measure_comes_first():
    pool = make_pool()
    bench = Bench(duration_of)
    ChoiceSearch(pool, bench, 20).run()

    assert [c.is_stock for c in bench.measured[:7]] == [True] * 7
    assert bench.measured[0].key == "extern"


def test_the_budget_counts_all():
    found = ChoiceSearch(make_pool(), Bench(duration_of), 20).run()
    assert len(found.measurements) == 20
    assert found.stop_reason == "budget"


def test_the_search_finds_what_is_fastest():
    found = ChoiceSearch(make_pool(), Bench(duration_of), 25).run()
    best = next(iter(found.ok))
    assert best.config == {"M": 32, "N": 4}


def test_a_pool_within_the_budget_is_measured_whole():
    pool = make_pool()
    bench = Bench(duration_of)
    found = ChoiceSearch(pool, bench, 100).run()

    assert set(found.measurements) == set(pool)
    assert found.stop_reason == "all"


def test_what_has_no_config_is_measured_even_if_the_budget_is_small():
    pool = [Contender(key=str(i), make=None) for i in range(3)]
    found = ChoiceSearch(pool, Bench(lambda contender: 1.0), 2).run()
    assert len(found.measurements) == 3


def test_choices_of_inductor_alone_are_searched_within_the_budget():
    pool = [Contender(key=c.key, make=None, config=c.config) for c in make_pool()]
    found = ChoiceSearch(pool, Bench(duration_of), 20).run()

    assert len(found.measurements) == 20
    assert pool[0] in found.measurements


@pytest.mark.parametrize("seed", range(3))
def test_how_long_compiles_take_changes_no_decision(seed):
    random = np.random.RandomState(seed)
    delays = {contender.key: random.randint(0, 20) for contender in make_pool()}
    instant = ChoiceSearch(make_pool(), Bench(duration_of), 25).run()
    slow = Bench(duration_of, latency=lambda contender: delays[contender.key])
    late = ChoiceSearch(make_pool(), slow, 25).run()

    assert [c.key for c in late.measurements] == [c.key for c in instant.measurements]


def test_what_is_ready_does_not_wait_for_a_straggler():
    pool = make_pool()
    straggler = pool[1]
    bench = Bench(
        duration_of, latency=lambda contender: 50 if contender is straggler else 0
    )
    ChoiceSearch(pool, bench, 20).run()

    assert bench.measured.index(straggler) == 6


def test_no_more_are_open_than_can_be_made_ready():
    bench = Bench(duration_of, n_parallel=3, latency=lambda contender: 2)
    pool = make_pool(n_stock=2)
    ChoiceSearch(pool, bench, 30).run()

    # Inductor's own are started at once.
    assert bench.most_open <= 3 + 3


def test_failures_are_told_and_use_budget():
    def duration(contender):
        m = contender.config["M"] if contender.config else 0
        return math.inf if m > 16 else duration_of(contender)

    found = ChoiceSearch(make_pool(), Bench(duration), 30).run()

    assert len(found.measurements) == 30
    assert next(iter(found.ok)).config == {"M": 16, "N": 4}


def test_the_search_ends_when_the_device_is_lost():
    bench = Bench(duration_of)

    def measure(contender, best):
        bench.is_lost = len(bench.measured) == 9
        return Bench.measure(bench, contender, best)

    bench.measure = measure
    found = ChoiceSearch(make_pool(), bench, 30).run()

    assert len(found.measurements) == 10
    assert found.stop_reason == "device lost"


def test_the_time_budget_ends_the_search():
    found = ChoiceSearch(make_pool(), Bench(duration_of), 30, time_budget=1e-9).run()
    assert found.stop_reason == "time"
    assert len(found.measurements) < 30


def test_all_of_inductors_own_are_measured_whatever_the_time_budget():
    pool = make_pool()
    found = ChoiceSearch(pool, Bench(duration_of), 30, time_budget=1e-9).run()
    assert {c for c in pool if c.is_stock} <= set(found.measurements)


def test_the_fastest_so_far_is_told_to_the_bench():
    told = []

    class Listening(Bench):
        def measure(self, contender, best):
            told.append(best)
            return super().measure(contender, best)

    bench = Listening(duration_of)
    ChoiceSearch(make_pool(), bench, 10).run()

    durations = [duration_of(contender) for contender in bench.measured]
    expected = [min(durations[:i], default=math.inf) for i in range(10)]
    assert told == expected


def test_hints_come_after_inductors_own():
    pool = make_pool()
    bench = Bench(duration_of)
    hint = pool[-1]
    ChoiceSearch(pool, bench, 20, hints=[hint, pool[1]]).run()

    assert bench.measured[7] is hint


def test_hints_beyond_the_budget_are_left_out():
    pool = make_pool()
    found = ChoiceSearch(pool, Bench(duration_of), 8, hints=pool[-3:]).run()

    assert len(found.measurements) == 8
    assert pool[-3] in found.measurements


def search_with_rival(rival, confidence, budget=48):
    """Search beside a library kernel that takes a given time."""
    bench = Bench(lambda c: rival if c.config is None else duration_of(c))
    search = ChoiceSearch(
        make_pool(), bench, budget, confidence=confidence, margin=0.02
    )
    return search.run()


@pytest.mark.parametrize(("budget", "least"), [(48, 30), (62, 31)])
def test_a_library_kernel_that_is_far_ahead_ends_a_search_early(budget, least):
    found = search_with_rival(0.1, 0.9, budget)
    assert found.stop_reason == "confident"
    assert len(found.measurements) == least


def test_what_is_open_at_an_early_end_is_not_waited_for():
    def duration(contender):
        return 0.1 if contender.config is None else duration_of(contender)

    def latency(contender):
        return 0 if list(bench.started).index(contender) < 30 else 1000

    bench = Bench(duration, latency=latency)
    search = ChoiceSearch(make_pool(), bench, 48, confidence=0.9, margin=0.02)
    found = search.run()

    assert len(bench.started) > 30
    assert len(found.measurements) == 30
    assert bench.now == 0


def test_a_search_that_may_still_win_goes_on():
    assert len(search_with_rival(0.1, 0.9999).measurements) == 48


def test_without_a_confidence_the_budget_is_used_up():
    assert search_with_rival(0.1, None).stop_reason == "budget"


def test_an_early_end_does_not_depend_on_compiles():
    random = np.random.RandomState(0)
    delays = {contender.key: random.randint(0, 20) for contender in make_pool()}

    def run(latency):
        bench = Bench(duration_of, latency=latency)
        search = ChoiceSearch(make_pool(), bench, 48, confidence=0.9, margin=0.02)
        return [c.key for c in search.run().measurements]

    assert run(lambda contender: delays[contender.key]) == run(lambda contender: 0)
