"""Tests of the order of measurements, the prior, and timing on a call's arguments."""

import numpy as np
import pytest
import torch
from simulated_inductor import SimulatedInductor, arguments_of

from fasta_learn import ActiveConfigSearch
from fasta_learn.inductor._pointwise_explore import explore
from fasta_learn.inductor._pointwise_launch import Launches
from fasta_learn.inductor._pointwise_pool import KernelFacts
from fasta_learn.inductor._pointwise_prior import InductorPrior
from fasta_learn.oracles import Measurement

POOL = [{"XBLOCK": 2**i, "num_warps": 2**j} for i in range(4, 12) for j in range(5)]


def duration(config):
    off = np.log2(config["XBLOCK"]) - 8
    return 1 + 0.1 * off**2 + 0.05 * (np.log2(config["num_warps"]) - 2) ** 2


@pytest.mark.parametrize("window", [1, 4, 16])
def test_exploring_keeps_to_window_and_budget(window):
    open_now, most, order = [], [0], []

    def announce(indices):
        open_now.extend(indices)
        most[0] = max(most[0], len(open_now))

    def measure(index):
        assert index == open_now[0]  # in the order of the proposals
        order.append(open_now.pop(0))
        return Measurement(duration(POOL[index]))

    search = ActiveConfigSearch(budget=20, n_initial=4, random_state=0)
    explore(search, POOL, window=window, announce=announce, measure=measure)

    assert len(order) == len(set(order)) == 20
    assert most[0] <= max(window, 4)
    assert not open_now
    assert search.best_duration_ == 1.0


def test_exploring_goes_on_where_all_of_the_first_sample_fails():
    search = ActiveConfigSearch(budget=12, n_initial=4, random_state=0)
    count = [0]

    def measure(index):
        count[0] += 1
        if count[0] <= 4:
            return Measurement.failed("compile_error", "no")
        return Measurement(duration(POOL[index]))

    explore(search, POOL, window=8, announce=lambda indices: None, measure=measure)
    assert count[0] == 12
    assert search.best_duration_ < 2


class Listener:
    """A prior that remembers what it was asked."""

    def predict(self, configs):
        self.configs = configs
        return np.zeros(len(configs))


def facts(kind):
    return KernelFacts(kind=kind, sizes={"x": 4096, "r0_": 1024}, stock=[], most={})


@pytest.mark.parametrize(
    ("kind", "is_outer", "config", "wanted"),
    [
        (
            "reduction",
            False,
            {"XBLOCK": 4, "R0_BLOCK": 512},
            {"X0BLOCK": 4, "X0BLOCK_SUB": 4, "R0BLOCK": 512},
        ),
        (
            "reduction",
            True,
            {"XBLOCK": 64, "R0_BLOCK": 8},
            {"X0BLOCK": 64, "R0BLOCK": 8, "SPLIT": 1},
        ),
        (
            "persistent_reduction",
            False,
            {"XBLOCK": 4},
            {"X0BLOCK": 4, "X0BLOCK_SUB": 4, "R0BLOCK": 1024},
        ),
        (
            "pointwise",
            False,
            {"YBLOCK": 32, "XBLOCK": 64},
            {"X0BLOCK": 64, "Y0BLOCK": 32},
        ),
        ("reduction", False, {"R0_BLOCK": 64}, {"X0BLOCK": 1, "R0BLOCK": 64}),
    ],
)
def test_the_prior_hears_its_own_words(kind, is_outer, config, wanted):
    base = Listener()
    prior = InductorPrior(facts(kind), is_outer=is_outer, base=base)
    prior.predict([{**config, "num_warps": 8, "num_stages": 1}])
    (heard,) = base.configs
    assert heard["num_warps"] == 8
    assert {name: heard[name] for name in wanted} == wanted


def test_the_shipped_prior_tells_row_sums_from_column_sums():
    wide = {"XBLOCK": 1, "R0_BLOCK": 2048, "num_warps": 8}
    tall = {"XBLOCK": 64, "R0_BLOCK": 32, "num_warps": 8}
    rows = InductorPrior(facts("reduction")).predict([wide, tall])
    columns = InductorPrior(facts("reduction"), is_outer=True).predict([wide, tall])
    assert rows[0] - rows[1] < columns[0] - columns[1]


@pytest.fixture
def inductor(simulate, tmp_path, monkeypatch):
    bed = SimulatedInductor(simulate(duration=0.5), tmp_path, monkeypatch)
    yield bed
    bed.close()


def launches_of(inductor, tuner, args):
    class Clock:
        def time_batch(self, launch, n_launches, prepare=None):
            return inductor.cuda.clock.time_batch(launch, n_launches, prepare)

    return Launches(tuner, args, {}, Clock())


def test_nothing_is_put_back_where_nothing_is_written_in_place(inductor):
    tuner = inductor.load("pointwise")
    launches = launches_of(inductor, tuner, arguments_of("pointwise"))
    assert launches.prepare is None
    assert launches.measure(tuner.launchers[0]).duration == 0.5


def test_strided_arguments_are_cloned_whole(inductor):
    tuner = inductor.load("pointwise", mutated=["in_ptr0"])
    given = torch.arange(12.0).reshape(3, 4)[:, :2]
    args = (given, torch.zeros(3), 1000000)
    launches = launches_of(inductor, tuner, args)
    clone = launches._args[0]
    clone.zero_()
    launches.prepare()

    assert clone.data_ptr() != given.data_ptr()
    assert clone.stride() == given.stride()
    assert torch.equal(clone, given)


def test_arguments_that_require_a_gradient_are_put_back(inductor):
    tuner = inductor.load("pointwise", mutated=["in_ptr0"])
    given = torch.ones(100, requires_grad=True)
    tuner.run(given, torch.zeros(100), 1000000, stream=0)
    assert given.grad_fn is None
    assert torch.equal(given, torch.ones(100))


def test_a_failed_launch_is_a_measurement(simulate, tmp_path, monkeypatch):
    def fault(config, stage):
        if stage == "launch":
            raise RuntimeError("Triton Error [CUDA]: invalid argument")

    bed = SimulatedInductor(simulate(fault=fault), tmp_path, monkeypatch)
    tuner = bed.load("pointwise")
    launches = launches_of(bed, tuner, arguments_of("pointwise"))
    measurement = launches.measure(tuner.launchers[0])
    bed.close()
    assert measurement.status == "launch_error"


def test_a_broken_device_ends_the_search(simulate, tmp_path, monkeypatch):
    from simulated_cuda import illegal_access

    def fault(config, stage):
        if stage == "run":
            raise illegal_access()

    bed = SimulatedInductor(simulate(fault=fault), tmp_path, monkeypatch)
    tuner = bed.load("pointwise")
    launches = launches_of(bed, tuner, arguments_of("pointwise"))
    with pytest.raises(RuntimeError, match="illegal memory access"):
        launches.measure(tuner.launchers[0])
    bed.close()
