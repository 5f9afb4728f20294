import copy
import json

import pytest
import torch
from simulated_npu import Config, SimulatedAutotuner, tiles

from fasta_learn import ActiveConfigSearch
from fasta_learn.oracles import NPUKernelOracle, check_oracle

OVERFLOW = "error: ub overflow, requires 4096 bits while 1024 bits available!"


@pytest.fixture
def open_oracle():
    opened = []

    def open_one(tuner, args=(), **options):
        options = {"timer": "events", "n_jobs": 1, **options}
        oracle = NPUKernelOracle.from_autotuner(
            tuner, args, clock=tuner.clock, **options
        )
        opened.append(oracle)
        return oracle

    yield open_one
    for oracle in opened:
        oracle.close()


def failing(wants, error):
    def compile(config):
        if wants(config.kwargs):
            raise error

    return compile


def test_candidates_share_what_is_compiled(open_oracle):
    tuner = SimulatedAutotuner(tiles(), lambda p: p["X0BLOCK"] * p["X0BLOCK_SUB"])
    oracle = open_oracle(tuner)
    answers = oracle.measure(oracle.configs)
    assert [answer.duration for answer in answers] == [512, 1024, 1024, 2048]
    assert tuner.compiled == [{"X0BLOCK_SUB": 8}, {"X0BLOCK_SUB": 16}]


def test_bookkeeping_is_no_parameter_of_the_pool(open_oracle):
    pool = [Config(X0BLOCK=64, split_axis=(0,), split_blocks=(64,), X0BLOCK_SUB=8)]
    oracle = open_oracle(SimulatedAutotuner(pool))
    own = {"X0BLOCK": 64, "X0BLOCK_SUB": 8, "num_warps": 1, "num_stages": 2}
    assert oracle.configs == [own]
    assert all(answer.ok for answer in oracle.measure([own, pool[0]]))


def test_config_of_another_pool_is_an_error(open_oracle):
    [answer] = open_oracle(SimulatedAutotuner(tiles())).measure([{"X0BLOCK": 1}])
    assert answer.status == "error"
    assert "is no candidate of the autotuner of triton_simulated" in answer.reason


def test_failed_variant_fails_all_its_candidates_at_one_compile(open_oracle):
    compile = failing(lambda k: k["X0BLOCK_SUB"] == 16, RuntimeError(OVERFLOW))
    tuner = SimulatedAutotuner(tiles(), compile=compile, knows_fusion=False)
    oracle = open_oracle(tuner)
    answers = oracle.measure(oracle.configs)
    assert [answer.status for answer in answers] == ["ok", "out_of_resources"] * 2
    assert answers[1].info["required_bits"] == 4096
    assert answers[1].compile_seconds > 0 == answers[3].compile_seconds
    assert len(tuner.compiled) == 2


def test_fusion_that_a_compile_needs_is_recorded_and_adopted(open_oracle):
    compile = failing(lambda k: not k.get("enable_vf_fusion"), RuntimeError("refused"))
    tuner = SimulatedAutotuner(tiles(), compile=compile)
    oracle = open_oracle(tuner)
    answers = oracle.measure(oracle.configs[:1])
    assert answers[0].info["changed"] == {"enable_vf_fusion": True}
    oracle.adopt(oracle.configs[0])
    assert tuner.saved[0][0]["enable_vf_fusion"] is True
    assert all("enable_vf_fusion" not in config.kwargs for config in tuner.configs)


def test_compiled_results_of_the_autotuner_are_taken(open_oracle):
    tuner = SimulatedAutotuner(tiles())
    variants = tuner._precompile_variant_configs(tuner.configs)
    tuner.compile_results = [tuner._precompile_config(variants[1])]
    oracle = open_oracle(tuner)
    oracle.measure(oracle.configs)
    assert tuner.compiled == [{"X0BLOCK_SUB": 16}, {"X0BLOCK_SUB": 8}]


def test_autotuner_is_left_alone_until_a_config_is_adopted(open_oracle):
    tuner = SimulatedAutotuner(tiles())
    oracle = open_oracle(tuner)
    before = copy.copy(vars(tuner))
    oracle.measure(oracle.configs)
    for name in ("compile_results", "launchers", "best_launcher", "candidate_plan"):
        assert getattr(tuner, name) == before[name]
    oracle.adopt(oracle.configs[2], 2.5)
    [launcher] = tuner.launchers
    assert launcher is tuner.best_launcher
    assert launcher.config.kwargs == {"X0BLOCK_SUB": 8}
    chosen = {"X0BLOCK": 128, "X0BLOCK_SUB": 8, "num_warps": 1, "num_stages": 2}
    assert tuner.saved == [(chosen, 2_500_000_000)]


def test_config_that_was_not_measured_cannot_be_adopted(open_oracle):
    tuner = SimulatedAutotuner(tiles())
    oracle = open_oracle(tuner)
    with pytest.raises(ValueError, match="v0 of triton_simulated is not compiled"):
        oracle.adopt(oracle.configs[0])
    assert not tuner.saved


def test_hook_of_a_config_runs_before_each_launch_untimed(open_oracle):
    tuner = SimulatedAutotuner(tiles((64,), (8,)), lambda p: 1.0)
    seen = []

    def hook(arguments):
        seen.append(arguments)
        tuner.clock.now += 5.0

    oracle = open_oracle(tuner, ("tensor",))
    make = tuner._precompile_config

    def with_hook(config):
        config.pre_hook = hook
        return make(config)

    tuner._precompile_config = with_hook
    [answer] = oracle.measure(oracle.configs)
    assert answer.duration == 1.0
    assert seen[0] == {"x": "tensor", "X0BLOCK": 64, "X0BLOCK_SUB": 8}
    assert len(seen) == len(tuner.launched) == tuner.n_resets


def test_launch_failure_is_a_measurement(open_oracle):
    tuner = SimulatedAutotuner(tiles())

    def fail(parameters):
        if parameters["X0BLOCK"] == 64:
            raise RuntimeError("cannot launch")

    tuner.fail_launch = fail
    answers = open_oracle(tuner).measure(tuner.configs)
    assert [answer.status for answer in answers] == ["launch_error"] * 2 + ["ok"] * 2


def test_device_that_stays_broken_ends_the_search(open_oracle):
    tuner = SimulatedAutotuner(tiles())
    tuner.sync_errors = [RuntimeError("error code is 507015")] * 3
    oracle = open_oracle(tuner)
    [answer] = oracle.measure(oracle.configs[:1])
    assert answer.status == "illegal_access"
    with pytest.raises(RuntimeError, match="has broken the device"):
        oracle.measure(oracle.configs[1:])


def test_search_measures_its_budget_and_finds_the_fastest(open_oracle):
    pool = tiles((32, 64, 96, 128, 192, 256), (4, 8, 16, 32, 64))
    tuner = SimulatedAutotuner(
        pool,
        lambda p: 1 + abs(p["X0BLOCK"] - 128) / 64 + abs(p["X0BLOCK_SUB"] - 16) / 8,
    )
    oracle = open_oracle(tuner)
    search = ActiveConfigSearch(budget=12, random_state=0)
    search.fit(oracle.configs, oracle=oracle)
    assert len(search.results_) == 12
    assert search.best_config_["X0BLOCK"] == 128
    assert search.best_config_["X0BLOCK_SUB"] == 16


def test_it_keeps_to_the_interface(open_oracle, monkeypatch):
    facts = {"device": "simulated", "versions": {}}
    monkeypatch.setattr("fasta_learn.oracles._npu.describe_npu", lambda: facts)
    tuner = SimulatedAutotuner(tiles(), lambda p: p["X0BLOCK"] * p["X0BLOCK_SUB"])
    oracle = open_oracle(tuner, (torch.zeros(4), 3))
    check_oracle(oracle, oracle.configs, rtol=0, one_by_one=True)
    found = json.loads(json.dumps(oracle.fingerprint()))
    assert found["kernel"]["kernel"] == "triton_simulated"
    assert found["kernel"]["args"][1] == 3
    assert found["timer"] == "events"


def test_kernel_that_a_worker_left_out_is_loaded(open_oracle):
    tuner = SimulatedAutotuner(tiles())
    full, tuner.fn = tuner.fn, copy.copy(tuner.fn)
    tuner.fn.fn = None
    loaded = copy.copy(tuner)
    loaded.fn = full
    tuner._reload_kernel = lambda: loaded
    oracle = open_oracle(tuner)
    assert oracle.measure(oracle.configs[:1])[0].ok
    assert tuner.fn is full


def test_what_is_no_autotuner_is_refused():
    with pytest.raises(TypeError, match="object has no candidate_plan, _build_cand"):
        NPUKernelOracle.from_autotuner(object(), ())
