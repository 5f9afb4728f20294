"""Tests of the search among templates: Inductor's lowering on a simulated device."""

import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

SHAPES = (1000, 3000), (3000, 777)
BUDGET = 9


def duration_of(config):
    """Give a duration in ms: the larger the tile, the better."""
    tile = math.log2(config["BLOCK_M"] * config["BLOCK_N"])
    return 0.05 * (1 + 0.1 * abs(tile - 15))


@pytest.fixture
def make_bed(simulate, tmp_path, monkeypatch):
    """Start Inductor on a simulated device; faults come out."""
    from simulated_gemm import SimulatedGemm

    monkeypatch.setenv("FASTA_LEARN_RAISE", "1")
    monkeypatch.setenv("FASTA_LEARN_CACHE_DIR", str(tmp_path / "store"))
    monkeypatch.delenv("FASTA_LEARN_FROZEN", raising=False)
    started = []

    def make(duration=duration_of, **options):
        bed = SimulatedGemm(
            simulate(duration=duration), tmp_path, monkeypatch, **options
        )
        started.append(bed)
        return bed

    yield make
    for bed in started:
        bed.close()


@pytest.fixture
def bed(make_bed):
    return make_bed()


@pytest.fixture
def enable():
    """Turn the search on for one test."""
    from fasta_learn.inductor import enable

    switches = []

    def turn_on(**settings):
        settings = {"gemm_budget": BUDGET, "pointwise": False, **settings}
        switches.append(enable(**settings))

    yield turn_on
    for switch in switches:
        switch.disable()


def n_stock():
    from simulated_gemm import N_STOCK

    return N_STOCK + 1


def last_record():
    from fasta_learn.inductor import statistics

    return statistics()[-1]


def fastest(timings):
    return min(timings, key=timings.__getitem__)


def is_template(choice):
    return hasattr(choice, "bmreq") and hasattr(choice.bmreq, "module_path")


@pytest.mark.parametrize(
    ("operation", "shapes"),
    [
        ("mm", SHAPES),
        ("addmm", ((1000, 777), *SHAPES)),
        ("bmm", ((4, 256, 128), (4, 128, 192))),
        ("baddbmm", ((4, 256, 192), (4, 256, 128), (4, 128, 192))),
    ],
)
def test_more_is_measured_than_inductor_would(bed, enable, operation, shapes):
    import torch

    enable()
    bed.timings(getattr(torch, operation), *shapes)

    record = last_record()
    assert record["kind"] == operation
    assert record["n_measured"] == BUDGET
    assert record["n_pool"] > 500
    assert record["n_failed"] == 0


def test_the_winner_was_not_among_inductors_choices(bed, enable):
    import torch

    plain = bed.timings(torch.mm, *SHAPES)
    enable()
    searched = bed.timings(torch.mm, *SHAPES)

    assert min(searched.values()) < 0.95 * min(plain.values())
    known = {choice.hash_key() for choice in plain}
    assert fastest(searched).hash_key() not in known


def test_the_winner_is_in_the_code(bed, enable):
    import torch

    enable()
    choice = fastest(bed.timings(torch.mm, *SHAPES))
    code = bed.generate(torch.mm, *SHAPES)

    for constant in ("BLOCK_M", "BLOCK_N", "BLOCK_K"):
        value = choice.description.split(f"{constant}=")[1].split(",")[0]
        assert f"{constant} : tl.constexpr = {value}\n" in code


def test_only_what_is_measured_is_rendered(bed, enable):
    import torch
    from torch._inductor.select_algorithm import TritonTemplateCaller

    made = []
    init = TritonTemplateCaller.__init__

    def count(self, *args, **kwargs):
        made.append(self)
        init(self, *args, **kwargs)

    bed._patch.setattr(TritonTemplateCaller, "__init__", count)
    enable()
    bed.timings(torch.mm, *SHAPES)

    assert len(made) == BUDGET - 1  # cuBLAS is no template


def test_an_exhaustive_space_is_searched_too(bed, enable):
    import torch
    from torch._inductor import config

    enable()
    with config.patch(max_autotune_gemm_search_space="EXHAUSTIVE"):
        bed.timings(torch.mm, *SHAPES)

    assert last_record()["n_measured"] == BUDGET


def test_equal_seeds_measure_the_same(bed, enable):
    import torch

    seen = []
    for _ in range(2):
        enable(store=False, random_state=3)
        timings = bed.timings(torch.mm, *SHAPES)
        seen.append({choice.description: ms for choice, ms in timings.items()})
        bed.lose_cache()

    assert seen[0] == pytest.approx(seen[1])


def test_another_process_measures_nothing(bed, enable):
    import torch

    enable(store=False)
    first = bed.timings(torch.mm, *SHAPES)
    n_launches = len(bed.cuda.launches)
    bed.forget()
    second = bed.timings(torch.mm, *SHAPES)

    assert len(bed.cuda.launches) == n_launches
    assert last_record()["source"] == "store"
    assert {c.hash_key(): ms for c, ms in first.items()} == {
        c.hash_key(): ms for c, ms in second.items()
    }


def test_the_store_serves_where_inductors_cache_is_gone(bed, enable):
    import torch

    enable()
    first = fastest(bed.timings(torch.mm, *SHAPES))
    n_launches = len(bed.cuda.launches)
    bed.lose_cache()
    second = fastest(bed.timings(torch.mm, *SHAPES))

    assert len(bed.cuda.launches) == n_launches
    assert second.description == first.description


def test_another_shape_begins_with_what_won_before(bed, enable):
    import torch

    enable()
    first = fastest(bed.timings(torch.mm, *SHAPES))
    enable(gemm_budget=n_stock() + 1)
    second = fastest(bed.timings(torch.mm, (1100, 3000), (3000, 900)))

    assert second.description == first.description


@pytest.mark.parametrize("change", [{"random_state": 1}, {"gemm_budget": 7}])
def test_other_settings_search_again(bed, enable, change):
    import torch

    enable()
    bed.timings(torch.mm, *SHAPES)
    bed.forget()
    enable(**change)
    bed.timings(torch.mm, *SHAPES)

    assert last_record()["source"] == "search"


def test_frozen_leaves_what_is_not_known_to_inductor(bed, enable):
    import torch

    enable(frozen=True)
    timings = bed.timings(torch.mm, *SHAPES)

    assert last_record()["source"] == "frozen"
    assert len(timings) == n_stock()


def test_frozen_takes_what_is_known(bed, enable):
    import torch

    enable()
    first = fastest(bed.timings(torch.mm, *SHAPES))
    bed.lose_cache()
    enable(frozen=True)
    second = fastest(bed.timings(torch.mm, *SHAPES))

    assert second.description == first.description


def test_cublas_is_kept_unless_it_is_beaten_by_the_margin(make_bed, enable):
    import torch

    bed = make_bed(extern_ms=0.0505)
    enable()
    timings = bed.timings(torch.mm, *SHAPES)

    assert not is_template(fastest(timings))
    assert min(timings.values()) == pytest.approx(0.0505)


def test_failed_choices_are_no_hindrance(make_bed, enable):
    import torch

    def duration(config):
        if config["BLOCK_M"] == 64:
            raise RuntimeError("out of resource: shared memory, Required: 1")
        return duration_of(config)

    bed = make_bed(duration)
    enable()
    timings = bed.timings(torch.mm, *SHAPES)

    assert 0 < last_record()["n_failed"] < BUDGET
    assert math.isfinite(min(timings.values()))
    # What Inductor would measure has a time even then, or it would measure anew.
    assert sum(1 for ms in timings.values() if ms == math.inf) > 0


def test_a_search_that_fails_leaves_it_to_inductor(bed, enable, monkeypatch, caplog):
    import torch

    from fasta_learn.inductor import _gemm_tuning, _guard

    monkeypatch.delenv("FASTA_LEARN_RAISE")
    monkeypatch.setattr(_guard, "_warned", set())
    monkeypatch.setattr(_gemm_tuning, "settle", None)
    enable()
    timings = bed.timings(torch.mm, *SHAPES)

    assert len(timings) == n_stock()
    assert "tuning of gemm failed" in caplog.text


def test_a_lost_device_ends_the_search(make_bed, enable):
    import torch
    from simulated_cuda import illegal_access

    n_launches = []

    def duration(config):
        n_launches.append(1)
        if len(n_launches) > 40:
            raise illegal_access()
        return duration_of(config)

    bed = make_bed(duration)
    enable(gemm_budget=30)
    bed.timings(torch.mm, *SHAPES)

    record = last_record()
    assert record["stop_reason"] == "device lost"
    assert record["n_measured"] < 30


def test_inductor_chooses_alone_where_it_does_not_measure(bed, enable):
    import torch
    from torch._inductor import config

    from fasta_learn.inductor import statistics

    enable()
    n_records = len(statistics())
    with (
        config.patch(deterministic=True),
        bed.lowered(torch.mm, *SHAPES) as graph,
    ):
        (node,) = graph.operations
        assert not hasattr(node, "choice_timings")
    assert len(statistics()) == n_records


def test_inductor_compiles_alone_where_it_measures_elsewhere(bed, enable):
    import torch._inductor.select_algorithm as select
    from torch._inductor import config

    asked = []

    def precompile(self, choices, *args, **kwargs):
        asked.append(choices)

    base = select.AlgorithmSelectorCache
    bed._patch.setattr(base, "make_precompile_fn", precompile)
    enable()
    selector = select.get_algorithm_selector_cache()
    selector.make_precompile_fn([], "mm", "inputs")
    with config.patch(pipeline_max_autotune_gemm=True):
        selector.make_precompile_fn(["elsewhere"], "mm", "inputs")

    assert asked == [["elsewhere"]]


def test_off_restores_what_was_there():
    import torch._inductor.select_algorithm as select
    from torch._inductor.choices import InductorChoices

    from fasta_learn.inductor import enable

    before = (
        select._ALGORITHM_SELECTOR_CACHE,
        InductorChoices._finalize_template_configs,
    )
    with enable(pointwise=False):
        assert select._ALGORITHM_SELECTOR_CACHE is not before[0]
    after = (
        select._ALGORITHM_SELECTOR_CACHE,
        InductorChoices._finalize_template_configs,
    )
    assert all(a is b for a, b in zip(before, after, strict=True))


def test_what_is_registered_with_the_selector_outlives_the_switch():
    import torch._inductor.select_algorithm as select

    from fasta_learn.inductor import enable

    def save(*args, **kwargs):
        """Save nothing."""

    selector = select.get_algorithm_selector_cache()
    with enable(pointwise=False):
        select.add_feedback_saver(save)
    try:
        assert save in selector.feedback_saver_fns
    finally:
        select.clear_feedback_savers()


def test_feedback_savers_see_what_was_measured(bed, enable):
    import torch
    import torch._inductor.select_algorithm as select

    seen = []
    enable()
    select.add_feedback_saver(lambda timings, *rest, **kwargs: seen.append(timings))
    try:
        timings = bed.timings(torch.mm, *SHAPES)
    finally:
        select.clear_feedback_savers()

    assert set(timings) <= set(seen[0])
