"""Tests of the search at the first run of a kernel, by Inductor's own tuners."""

import math
import pickle

import pytest
from simulated_inductor import SimulatedInductor, arguments_of
from torch._inductor.codegen import triton as codegen
from torch._inductor.runtime import triton_heuristics

from fasta_learn.configs import config_key
from fasta_learn.inductor import _guard, _pointwise_search, statistics


def fast_at(block, warps):
    """Give a duration in ms that is least for a tile and a number of warps."""

    def duration(config):
        tile = math.prod(v for name, v in config.items() if name.endswith("BLOCK"))
        off = math.log2(tile / block) ** 2 + math.log2(config["num_warps"] / warps) ** 2
        return 0.02 * (1 + 0.2 * off)

    return duration


@pytest.fixture
def inductor(simulate, tmp_path, monkeypatch):
    """Start Inductor on a simulated device; errors come out."""

    def fail(feature, error):
        raise error

    monkeypatch.setattr(_guard, "warn_once", fail)
    started = []

    def start(duration=1.0, *, n_workers=4, fault=None, **settings):
        cuda = simulate(duration=duration, fault=fault)
        bed = SimulatedInductor(
            cuda, tmp_path, monkeypatch, n_workers=n_workers, **settings
        )
        started.append(bed)
        return bed

    yield start
    for bed in started:
        bed.close()


@pytest.mark.parametrize("kind", ["pointwise", "reduction"])
@pytest.mark.parametrize("origin", ["load", "load_from_worker"])
def test_a_search_takes_the_fastest_config(inductor, kind, origin):
    best = {"pointwise": 512, "reduction": 4096}[kind]
    bed = inductor(fast_at(best, 8))
    tuner = getattr(bed, origin)(kind)

    tuner.run(*arguments_of(kind), stream=0)

    (launcher,) = tuner.launchers
    tile = math.prod(v for n, v in launcher.config.kwargs.items())
    assert (tile, launcher.config.num_warps) == (best, 8)
    assert bed.cuda.launches[-1]["num_warps"] == 8


def test_a_search_measures_no_more_than_the_budget(inductor):
    bed = inductor(fast_at(2048, 8), pointwise_budget=14)
    tuner = bed.load("reduction")
    n_stock = len(tuner.launchers)
    tuner.run(*arguments_of("reduction"), stream=0)

    entry = statistics()[-1]
    assert entry["n_measured"] == 14
    assert entry["n_pool"] > 200
    assert len(bed.workers.jobs) == 14 - n_stock


def test_stock_configs_are_measured_first(inductor):
    bed = inductor(fast_at(2048, 8))
    tuner = bed.load("reduction")
    stock = [launcher.config for launcher in tuner.launchers]
    tuner.run(*arguments_of("reduction"), stream=0)

    order = list(dict.fromkeys(config_key(config) for config in bed.cuda.launches))
    wanted = [config_key({**c.kwargs, **options(c)}) for c in stock]
    assert order[: len(stock)] == wanted


def options(config):
    """Give what a launch of the simulated device shows besides the tiles."""
    return {"num_warps": config.num_warps, "num_stages": 1, "num_ctas": 1}


def test_stock_stays_where_nothing_is_clearly_faster(inductor):
    bed = inductor(0.03)
    tuner = bed.load("reduction")
    stock = [launcher.config for launcher in tuner.launchers]
    tuner.run(*arguments_of("reduction"), stream=0)

    assert tuner.launchers[0].config in stock


def test_a_second_process_finds_the_winner_where_inductor_looks(inductor):
    bed = inductor(fast_at(4096, 8), store=False)
    tuner = bed.load("reduction")
    tuner.run(*arguments_of("reduction"), stream=0)
    winner = tuner.launchers[0].config
    bed.cuda.launches.clear()

    again = bed.load_from_worker("reduction")
    again.run(*arguments_of("reduction"), stream=0)

    assert again.launchers[0].config.kwargs == winner.kwargs
    assert again.launchers[0].config.num_warps == winner.num_warps
    assert len(bed.cuda.launches) == 1


def test_a_second_process_finds_the_winner_in_the_store(inductor, tmp_path):
    bed = inductor(fast_at(4096, 8))
    tuner = bed.load("reduction", autotune_local_cache=False)
    tuner.run(*arguments_of("reduction"), stream=0)
    winner = tuner.launchers[0].config
    bed.cuda.launches.clear()

    again = bed.load("reduction", autotune_local_cache=False)
    again.run(*arguments_of("reduction"), stream=0)

    assert again.launchers[0].config.kwargs == winner.kwargs
    assert statistics()[-1]["source"] == "store"
    assert len(bed.cuda.launches) == 1


def test_measurements_are_shared_between_settings(inductor):
    bed = inductor(fast_at(4096, 8), pointwise_budget=20)
    bed.load("reduction", autotune_local_cache=False).run(
        *arguments_of("reduction"), stream=0
    )
    bed.close()
    bed = inductor(fast_at(4096, 8), pointwise_budget=22)
    bed.load("reduction", autotune_local_cache=False).run(
        *arguments_of("reduction"), stream=0
    )

    assert statistics()[-1]["n_measured"] < 22


def test_a_graph_from_the_cache_finds_its_winner(inductor):
    bed = inductor(fast_at(4096, 8), store=False)
    tuner = bed.load_from_worker("reduction")
    reload, tuner._reload_kernel = tuner._reload_kernel, None
    tuner.prepare_for_pickle()
    stored = pickle.dumps(tuner)
    tuner = bed.load_from_worker("reduction")
    tuner.run(*arguments_of("reduction"), stream=0)
    winner = tuner.launchers[0].config
    bed.cuda.launches.clear()

    again = pickle.loads(stored)
    again.restore_after_unpickle(None)
    again.recheck_autotune_cache(reload_kernel_from_src=reload)
    again.precompile(reload_kernel=reload)
    again.run(*arguments_of("reduction"), stream=0)

    assert again.launchers[0].config.kwargs == winner.kwargs
    assert len(bed.cuda.launches) == 1


def test_a_kernel_with_one_config_is_searched_too(inductor):
    bed = inductor(fast_at(4096, 8))
    tuner = bed.load("reduction", max_autotune_pointwise=False)
    assert len(tuner.launchers) == 1
    tuner.run(*arguments_of("reduction"), stream=0)

    assert statistics()[-1]["n_measured"] > 10
    assert tuner.launchers[0].config.found_by_coordesc


def test_without_workers_configs_compile_in_this_process(inductor):
    bed = inductor(fast_at(512, 8), n_workers=1, pointwise_budget=8)
    tuner = bed.load_from_worker("pointwise")
    tuner.run(*arguments_of("pointwise"), stream=0)

    assert not bed.workers.jobs
    assert statistics()[-1]["n_measured"] == 8


def test_a_later_run_launches_once(inductor):
    bed = inductor(fast_at(512, 8))
    tuner = bed.load("pointwise")
    tuner.run(*arguments_of("pointwise"), stream=0)
    bed.cuda.launches.clear()
    tuner.run(*arguments_of("pointwise"), stream=0)

    assert len(bed.cuda.launches) == 1


def test_configs_that_fail_cost_the_search_nothing_else(inductor):
    def fault(config, stage):
        if stage == "load" and config["num_warps"] == 8:
            raise RuntimeError("Triton Error [CUDA]: out of resources: registers")

    bed = inductor(fast_at(4096, 16), fault=fault)
    tuner = bed.load("reduction", max_autotune_pointwise=False)
    tuner.run(*arguments_of("reduction"), stream=0)

    assert statistics()[-1]["n_failed"] > 0
    assert tuner.launchers[0].config.num_warps == 16


def test_equal_seeds_make_equal_choices(inductor):
    seen = []
    for _ in range(2):
        bed = inductor(fast_at(2048, 4), store=False, random_state=3)
        tuner = bed.load("reduction", autotune_local_cache=False)
        tuner.run(*arguments_of("reduction"), stream=0)
        seen.append(bed.cuda.launches)
        bed.close()
    assert seen[0] == seen[1]


def test_frozen_leaves_what_is_not_known_to_inductor(inductor):
    bed = inductor(fast_at(4096, 8), frozen=True)
    tuner = bed.load("reduction")
    stock = [launcher.config for launcher in tuner.launchers]
    tuner.run(*arguments_of("reduction"), stream=0)

    assert tuner.launchers[0].config in stock
    assert statistics()[-1]["source"] == "frozen"
    assert len(bed.cuda.launches) == len(stock) + 1


def test_in_place_arguments_are_written_once(inductor):
    def compute(arguments):
        arguments["in_ptr0"] += 1

    bed = inductor(fast_at(512, 8))
    bed.cuda.compute = compute
    tuner = bed.load("pointwise", mutated=["in_ptr0"])
    given = arguments_of("pointwise")
    tuner.run(*given, stream=0)

    assert (given[0] == 1).all()


def test_each_timed_launch_finds_what_the_first_one_found(inductor):
    seen = []

    def compute(arguments):
        seen.append(float(arguments["in_ptr0"][0]))
        arguments["in_ptr0"] += 1

    bed = inductor(fast_at(512, 8))
    bed.cuda.compute = compute
    tuner = bed.load("pointwise", mutated=["in_ptr0"])
    tuner.run(*arguments_of("pointwise"), stream=0)

    assert set(seen) == {0.0}


@pytest.mark.parametrize(
    "meta",
    [
        {"deterministic": True},
        {"are_deterministic_algorithms_enabled": True},
        {"fasta_learn": None, "coordinate_descent_tuning": None},
    ],
)
def test_some_kernels_are_left_to_inductor(inductor, meta):
    bed = inductor(fast_at(4096, 8))
    tuner = bed.load("reduction", **meta)
    n_records = len(statistics())
    tuner.run(*arguments_of("reduction"), stream=0)

    assert len(statistics()) == n_records
    assert len(tuner.launchers) == 1
    assert not tuner.inductor_meta.get("coordinate_descent_tuning")


def test_the_user_still_gets_inductors_own_tuning(inductor, monkeypatch):
    bed = inductor(fast_at(4096, 8))
    tuner = bed.load("reduction", deterministic=True, fasta_learn_stock_tuning=True)
    tuner.run(*arguments_of("reduction"), stream=0)

    assert tuner.inductor_meta["coordinate_descent_tuning"]


def test_an_error_leaves_the_kernel_to_inductor(inductor, monkeypatch):
    told = []
    bed = inductor(fast_at(4096, 8))
    monkeypatch.setattr(_guard, "warn_once", lambda *args: told.append(args))
    monkeypatch.setattr(_pointwise_search, "explore", None)
    tuner = bed.load("reduction")
    stock = [launcher.config for launcher in tuner.launchers]
    tuner.run(*arguments_of("reduction"), stream=0)

    assert tuner.launchers[0].config in stock
    assert told[0][0] == "pointwise"


def test_a_users_kernel_is_searched_among_its_configs(inductor):
    bed = inductor(fast_at(256, 2), pointwise_budget=8)
    tuner = bed.load_from_worker("user")
    assert len(tuner.launchers) == 4  # the others wait to be asked for
    given = arguments_of("user")
    tuner.run(*given, stream=0)

    entry = statistics()[-1]
    assert (entry["kind"], entry["n_pool"], entry["n_measured"]) == (
        "user_triton",
        12,
        8,
    )
    config = tuner.launchers[0].config
    assert (config.kwargs["BLOCK"], config.num_warps) == (256, 2)


def test_a_users_kernel_finds_its_winner_again(inductor):
    bed = inductor(fast_at(256, 2), store=False)
    bed.load_from_worker("user").run(*arguments_of("user"), stream=0)
    bed.cuda.launches.clear()

    tuner = bed.load_from_worker("user")
    tuner.run(*arguments_of("user"), stream=0)

    assert tuner.launchers[0].config.kwargs["BLOCK"] == 256
    assert len(bed.cuda.launches) == 1


def test_nothing_is_patched_once_it_is_turned_off(inductor):
    names = ("autotune_to_one_config", "coordinate_descent_tuning")
    tuner = triton_heuristics.CachingAutotuner
    before = [vars(tuner)[name] for name in names]
    before += [vars(tuner)["recheck_autotune_cache"], triton_heuristics.cached_autotune]
    bed = inductor()
    assert vars(tuner)[names[0]] is not before[0]
    bed.turn_off()

    after = [vars(tuner)[name] for name in names]
    after += [vars(tuner)["recheck_autotune_cache"], triton_heuristics.cached_autotune]
    assert all(a is b for a, b in zip(after, before, strict=True))


def test_generated_kernels_are_marked_only_while_it_is_on(inductor, monkeypatch):
    kernel = codegen.TritonKernel
    before = vars(kernel)["inductor_meta_common"]
    stock = classmethod(lambda cls: {"coordinate_descent_tuning": False, "other": 1})
    monkeypatch.setattr(kernel, "inductor_meta_common", stock)
    bed = inductor()
    key = bed.settings.cache_key()

    assert kernel.inductor_meta_common() == {
        "coordinate_descent_tuning": True,
        "fasta_learn_stock_tuning": False,
        "fasta_learn": key,
        "other": 1,
    }
    bed.turn_off()
    assert vars(kernel)["inductor_meta_common"] is stock
    monkeypatch.undo()
    assert vars(kernel)["inductor_meta_common"] is before


def test_a_code_generator_of_another_kind_is_left_alone(inductor, monkeypatch):
    told = []
    monkeypatch.setattr(_guard, "warn_once", lambda *args: told.append(args))
    monkeypatch.setattr(codegen, "TritonKernel", type("TritonKernel", (), {}))
    inductor()
    assert told[0][0] == "pointwise"
