"""NPUKernelOracle on live autotuners of torch_npu; durations are simulated."""

import json

import pytest
import torch
import torch_npu._inductor.runtime.triton_heuristics as heuristics

from fasta_learn import ActiveConfigSearch
from fasta_learn.oracles import NPUKernelOracle, check_oracle

Stock = heuristics.NPUCachingAutotuner


def row_sum(x):
    return (x * x).sum(-1)


@pytest.fixture
def tune(bed, monkeypatch):
    """Compile a function; its autotuner is handed over when it would measure."""

    def run(use, function=row_sum, shape=(1024, 512), n_compiled=0):
        class Held(Stock):
            def _precompile_current_configs(self, compile_fn):
                variants = self._precompile_variant_configs(self.configs)
                self.compile_results = (
                    compile_fn(variants[:n_compiled]) if n_compiled else []
                )

            def _make_launchers(self):
                if self.compile_results:
                    super()._make_launchers()

            def autotune_to_one_config(self, *args, **kwargs):
                with NPUKernelOracle.from_autotuner(
                    self, args, kwargs, n_jobs=2
                ) as oracle:
                    use(self, oracle)
                if self.best_launcher is None:
                    super().autotune_to_one_config(*args, **kwargs)

        monkeypatch.setattr(heuristics, "NPUCachingAutotuner", Held)
        x = torch.empty(*shape, device="npu")
        torch.compile(function)(x)
        return x

    return run


def test_candidates_and_variants_are_told_apart(bed, tune):
    def use(tuner, oracle):
        assert len(oracle.configs) == len(tuner.candidate_plan["candidate_entries"])
        answers = oracle.measure(oracle.configs)
        n_variants = len(tuner.candidate_plan["variant_order"])
        assert len(bed.compile_log()) == n_variants < len(answers)
        assert {answer.info["variant"] for answer in answers} == set(range(n_variants))
        assert sum(answer.compile_seconds > 0 for answer in answers) == n_variants
        assert not tuner.launchers  # it is left as it was
        oracle.adopt(oracle.configs[0])

    tune(use)


def test_what_the_autotuner_has_compiled_is_not_compiled_again(bed, tune):
    def use(tuner, oracle):
        assert len(bed.compile_log()) == 2
        oracle.measure(oracle.configs)
        assert len(bed.compile_log()) == len(tuner.candidate_plan["variant_order"])
        oracle.adopt(oracle.configs[0])

    tune(use, n_compiled=2)


def test_durations_are_those_of_the_candidate_in_ms(bed, tune):
    bed.set_latency(lambda kernel, constants, grid: constants["X0BLOCK"] / 64)

    def use(tuner, oracle):
        for config, answer in zip(
            oracle.configs, oracle.measure(oracle.configs), strict=True
        ):
            assert answer.duration == pytest.approx(config["X0BLOCK"] / 64)
        oracle.adopt(oracle.configs[0])

    tune(use)


def test_configs_are_known_in_all_their_forms(tune):
    def use(tuner, oracle):
        plan = tuner.candidate_plan["candidate_entries"]
        forms = [oracle.configs[0], tuner.configs[0], plan[0]["full_config"]]
        durations = {answer.duration for answer in oracle.measure(forms)}
        assert len(durations) == 1
        [stranger] = oracle.measure([{**oracle.configs[0], "X0BLOCK": 12345}])
        assert stranger.status == "error"
        assert "is no candidate" in stranger.reason
        oracle.adopt(oracle.configs[0])

    tune(use)


def test_adopted_config_runs_and_is_found_in_inductors_cache(bed, tune):
    chosen = []

    def use(tuner, oracle):
        search = ActiveConfigSearch(budget=10, random_state=0)
        search.fit(oracle.configs, oracle=oracle)
        oracle.adopt(search.best_config_, 1.5)
        chosen.append(search.best_config_)
        assert tuner.autotune_time_taken_ns == 1_500_000_000

    x = tune(use)
    assert bed.launch_log()[-1].constants["X0BLOCK"] == chosen[0]["X0BLOCK"]
    torch._dynamo.reset()
    n_before = bed.launch_count()
    torch.compile(row_sum)(x)
    assert len(chosen) == 1
    assert bed.launch_count() == n_before + 1
    last = bed.launch_log()[-1].constants
    assert {k: v for k, v in chosen[0].items() if k in last}.items() <= last.items()


def test_fastest_candidate_is_the_one_that_the_stock_autotuner_takes(bed, tune):
    found = {}

    def use(tuner, oracle):
        answers = oracle.measure(oracle.configs)
        found["best"] = min(answer.duration for answer in answers)

    tune(use, n_compiled=10_000)
    assert bed.launch_log()[-1].ms == pytest.approx(found["best"], rel=1e-6)


def test_real_overflows_are_measurements(bed, tune):
    def use(tuner, oracle):
        answers = oracle.measure(oracle.configs)
        failed = [answer for answer in answers if not answer.ok]
        assert failed
        for answer in failed:
            assert answer.status == "out_of_resources"
            assert answer.info["required_bits"] > answer.info["available_bits"]
        fine = next(i for i, answer in enumerate(answers) if answer.ok)
        oracle.adopt(oracle.configs[fine])

    tune(use, lambda x: (x * x).sum(0), (1024, 1024))


def test_failures_are_not_compiled_twice_where_no_fusion_could_help(bed, tune):
    # This compiler does not know enable_vf_fusion, with which torch_npu tries again.
    undo = bed.fail_compile_if(lambda kernel, config: True)

    def use(tuner, oracle):
        answers = oracle.measure(oracle.configs)
        assert {answer.status for answer in answers} == {"compile_error"}
        assert len(bed.compile_log()) == len(tuner.candidate_plan["variant_order"])
        undo()
        variants = tuner._precompile_variant_configs(tuner.configs)
        tuner.compile_results = [tuner._precompile_config(variants[0])]
        tuner._make_launchers()

    tune(use)


def test_changed_arguments_are_copies(tune):
    def use(tuner, oracle):
        [answer] = oracle.measure(oracle.configs[:1])
        assert answer.ok
        oracle.adopt(oracle.configs[0])

    def add_in_place(x):
        return x.add_(1.0)

    x = tune(use, add_in_place, (64, 64))
    assert x.shape == (64, 64)


def test_it_keeps_to_the_interface(tune):
    def use(tuner, oracle):
        check_oracle(oracle, oracle.configs[:4], rtol=0, one_by_one=True)
        json.dumps(oracle.fingerprint())
        oracle.adopt(oracle.configs[0])

    tune(use)
