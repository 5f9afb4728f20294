import logging

import pytest

from fasta_learn.inductor import Settings
from fasta_learn.inductor._npu_search import NPUSearch
from fasta_learn.inductor._npu_settings import NPUSettings
from fasta_learn.oracles import BaseOracle, Measurement

SUBS, BLOCKS = (1, 2, 4, 8, 16, 32), (32, 64, 96, 128)
SIZES = {"x0": 4096, "r1": 64}
OVERFLOW = {"resource": "ub", "required_bits": 4000, "available_bits": 1000}


def make_plan():
    """Variants differ in X0BLOCK_SUB and multibuffer, candidates in X0BLOCK."""
    entries = []
    for sub in SUBS:
        for flag in (False, True):
            for block in BLOCKS:
                config = {"X0BLOCK": block, "X0BLOCK_SUB": sub, "multibuffer": flag}
                entries.append(
                    {
                        "candidate_id": f"c{len(entries)}",
                        "variant_id": f"v{sub}{'d' if flag else 's'}",
                        "full_config": {**config, "split_axis": (0,)},
                        "runtime_blocks": (("X0BLOCK", block),),
                    }
                )
    return {"candidate_entries": entries}


def duration_of(config):
    return (
        1.0
        + abs(config["X0BLOCK"] - 96) / 100
        + abs(config["X0BLOCK_SUB"] - 8) / 20
        + 0.1 * (not config["multibuffer"])
    )


class Device(BaseOracle):
    """Measures by a function; one that raises breaks the device."""

    def __init__(self, measure=lambda config: Measurement(duration_of(config))):
        self.measure_one = measure
        self.prepared, self.asked = [], []

    def prepare(self, configs):
        self.prepared.append(list(configs))

    def measure(self, configs):
        return list(self.measure_each(configs))

    def measure_each(self, configs):
        for config in configs:
            self.asked.append(config)
            yield self.measure_one(config)


def make_search(npu=None, **settings):
    npu = NPUSettings() if npu is None else npu
    return NPUSearch(make_plan(), SIZES, 48, Settings(**settings), npu)


def test_equal_arguments_make_the_same_first_round():
    first, again = make_search(random_state=5), make_search(random_state=5)
    assert first.first == again.first
    assert first.first_variants() == again.first_variants()
    assert make_search(random_state=6).first != first.first


def test_first_variants_are_those_of_the_first_round():
    search = make_search()
    configs = [search.candidates.configs[index] for index in search.first]
    names = {f"v{c['X0BLOCK_SUB']}{'sd'[c['multibuffer']]}" for c in configs}
    assert sorted(search.first_variants()) == sorted(names)


def test_budget_is_kept_and_the_fastest_comes_first():
    search, device = make_search(npu_budget=20), Device()
    ranked = search.run(device, {})
    assert len(device.asked) == len(search.measured) == 20
    durations = [duration_of(search.candidates.configs[index]) for index in ranked]
    assert durations == sorted(durations)
    assert search.best_duration == durations[0] == 1.0
    assert search.stop_reason == "budget"


def test_later_rounds_are_announced_whole():
    search, device = make_search(npu_budget=20), Device()
    search.run(device, {})
    assert [len(batch) for batch in device.prepared] == [7, 4, 4, 4, 1]
    assert [c for batch in device.prepared for c in batch] == device.asked


def test_oracle_is_asked_for_the_whole_config():
    search, device = make_search(), Device()
    search.run(device, {})
    assert all(config["split_axis"] == (0,) for config in device.asked)


def test_variant_that_did_not_compile_before_is_not_asked_for():
    search, device = make_search(npu_budget=30), Device()
    variant = search.first_variants()[0]
    failure = Measurement.failed("compile_error", "it does not compile")
    search.run(device, {variant: failure})
    asked = {f"v{c['X0BLOCK_SUB']}{'sd'[c['multibuffer']]}" for c in device.asked}
    assert variant not in asked
    assert failure in search.measured.values()


def fits_until(limit):
    def measure(config):
        if config["X0BLOCK_SUB"] >= limit:
            return Measurement.failed("out_of_resources", "ub overflow", info=OVERFLOW)
        return Measurement(duration_of(config))

    return measure


def test_what_needs_no_less_than_an_overflow_is_not_asked_for():
    search, device = make_search(npu_budget=1.0), Device(fits_until(4))
    search.run(device, {})
    asked = [c for c in device.asked if c["X0BLOCK_SUB"] >= 4]
    # Each overflow of a first round rules out whatever is no smaller.
    n_first = len(search.first)
    later = [c for c in device.asked[n_first:] if c["X0BLOCK_SUB"] >= 4]
    for config in later:
        before = asked[: asked.index(config)]
        assert not any(
            config["X0BLOCK_SUB"] >= other["X0BLOCK_SUB"]
            and config["multibuffer"] >= other["multibuffer"]
            for other in before
        )
    assert len(later) < 4


def test_dynamic_filter_charges_all_that_it_proposes():
    npu = NPUSettings(shares=(0.3, 0.35, 0.4, 0.25))
    search, device = make_search(npu), Device(fits_until(4))
    search.run(device, {})
    # N = 48 and D = 2: the class of a high budget, and no guess at what does not fit.
    assert len(search.measured) == int(0.4 * 48)
    failed = {c["X0BLOCK_SUB"] for c in device.asked if c["X0BLOCK_SUB"] >= 4}
    assert failed == {4, 8, 16, 32}


def test_broken_device_leaves_the_best_so_far(caplog):
    search = make_search()
    n_before = len(search.first) + 2

    def measure(config):
        if len(device.asked) > n_before:
            raise RuntimeError("the device is broken")
        return Measurement(duration_of(config))

    device = Device(measure)
    with caplog.at_level(logging.WARNING, logger="fasta_learn.inductor"):
        ranked = search.run(device, {})
    assert len(ranked) == n_before
    assert search.stop_reason == "error"
    assert "the device is broken" in caplog.text
    assert "best" in search.summary("kernel")


def test_device_that_is_broken_from_the_start_raises():
    def measure(config):
        raise RuntimeError("the device is broken")

    with pytest.raises(RuntimeError, match="broken"):
        make_search().run(Device(measure), {})


def test_rest_is_measured_until_one_runs_if_all_have_failed():
    only = {"X0BLOCK": 32, "X0BLOCK_SUB": 1, "multibuffer": False}

    def measure(config):
        if all(config[name] == value for name, value in only.items()):
            return Measurement(2.0)
        return Measurement.failed("launch_error", "it does not launch")

    search = make_search(npu_budget=3)
    (best,) = search.run(Device(measure), {})
    assert search.candidates.configs[best] == only
    assert len(search.measured) > 3


def test_none_is_found_if_none_runs():
    failure = Measurement.failed("launch_error", "it does not launch")
    search = make_search(npu_budget=3)
    assert search.run(Device(lambda config: failure), {}) == []
    assert len(search.measured) == 48


def test_stages_are_the_rounds():
    search = make_search(npu_budget=16)
    search.run(Device(), {})
    names = [stage.name for stage in search.stages.done]
    assert names[:2] == ["R1_BENCHMARK", "R2"]
    assert sum(stage.n_configs for stage in search.stages.done) == 16


def test_summary_tells_what_was_saved():
    search = make_search(npu_budget=20)
    search.run(Device(), {})
    n_compiled = len(search.compiled)
    line = search.summary("kernel")
    assert line.startswith("kernel: N 48, D 4, class fixed, path model, measured 20 (0")
    assert f"compiled {n_compiled} of 12 variants" in line
    assert f"({1 - n_compiled / 12:.0%} saved)" in line
    assert "stop budget" in line
