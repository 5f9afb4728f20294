import json
import math

import pytest
import torch
import triton
from calls import N, grid, make_arguments
from device_tuning import BEST, BLOCKS, CONFIGS, everything, journal, measured, tuned
from sample_kernels import (
    accumulate,
    accumulate_kernel,
    heuristic_kernel,
    matmul_kernel,
    options_kernel,
    scale,
)
from simulated_cuda import illegal_access

from fasta_learn import ActiveConfigSearch
from fasta_learn.exceptions import AllConfigsFailedError
from fasta_learn.oracles._timing import TimingPlan


def test_finds_the_fastest(cuda):
    kernel = tuned()
    kernel[grid](*make_arguments())
    assert kernel.best_config == BEST
    assert measured(cuda) == everything()
    median, p20, p80 = kernel.configs_timings[BEST]
    assert p20 <= median <= p80
    assert median == pytest.approx(1.0)


def test_constants_are_passed_on(cuda):
    kernel = tuned(options_kernel)
    x, y, n = make_arguments()
    kernel[grid](x, y, n, FACTOR=5)
    assert {launch["FACTOR"] for launch in cuda.launches} == {5}


def test_heuristics_are_evaluated_for_each_config(cuda):
    tuned(heuristic_kernel)[grid](*make_arguments())
    assert {(c["BLOCK"], c["EVEN"]) for c in cuda.launches} == {
        (b, N % b == 0) for b in BLOCKS
    }


@pytest.mark.parametrize("names", [{"reset_to_zero": ["y"]}, {"restore_value": ["y"]}])
def test_a_kernel_that_adds_counts_once(cuda, names):
    cuda.compute = accumulate
    x, y, n = make_arguments()
    tuned(accumulate_kernel, **names)[grid](x, y, n)
    assert y.tolist() == [1.0] * n


def test_restored_values_survive_a_failed_search(cuda):
    cuda.compute = accumulate
    x, y, n = make_arguments()
    kernel = tuned(accumulate_kernel, restore_value=["y"], check=lambda args: False)
    with pytest.raises(AllConfigsFailedError, match="wrong_result"):
        kernel[grid](x, y, n)
    assert y.tolist() == [0.0] * n


def test_hooks_are_called_and_reset_at_the_end(cuda):
    calls = []

    def before(kwargs, reset_only=False):
        calls.append((kwargs["BLOCK"], reset_only))

    kernel = tuned(pre_hook=before)
    kernel[grid](*make_arguments())
    assert {block for block, _ in calls} == set(BLOCKS)
    assert calls[-1] == (BEST.kwargs["BLOCK"], True)


def test_a_user_hook_takes_the_place_of_resetting(cuda):
    cuda.compute = accumulate
    x, y, n = make_arguments()
    kernel = tuned(
        accumulate_kernel, reset_to_zero=["y"], pre_hook=lambda args, reset_only=0: None
    )
    kernel[grid](x, y, n)
    assert y[0] > 2


def test_a_config_too_large_for_shared_memory(cuda):
    cuda.duration = lambda config: float(config["BM"])
    configs = [
        triton.Config({"BM": m, "BN": 128, "BK": 64}, num_stages=s, num_warps=4)
        for m, s in ((32, 1), (64, 2), (128, 8))
    ]
    kernel = tuned(matmul_kernel, configs=configs, key=("M",))
    a, b, c = (torch.ones(128, 128, dtype=torch.float16) for _ in range(3))
    kernel[(1, 1)](a, b, c, 128, 128, 128)
    assert kernel.best_config == configs[0]
    assert kernel.configs_timings[configs[2]] == [math.inf] * 3


def test_wrong_results_do_not_win(cuda):
    def compute(args):
        scale(args)
        if args["BLOCK"] == 256:
            args["y"] += 1

    cuda.compute = compute
    kernel = tuned(check=lambda args: torch.equal(args["y"], 2 * args["x"]))
    kernel[grid](*make_arguments())
    assert kernel.best_config.kwargs["BLOCK"] in (128, 512)


def test_a_pool_that_fails_says_why(cuda):
    def fault(config, stage):
        if stage == "launch":
            raise RuntimeError("CUDA error: invalid argument")

    cuda.fault = fault
    with pytest.raises(AllConfigsFailedError, match=r"scale_kernel.*launch_error"):
        tuned()[grid](*make_arguments())


def test_a_broken_device_ends_the_search_with_the_best_so_far(cuda, caplog):
    def fault(config, stage):
        if stage == "run" and config["BLOCK"] == 512:
            raise illegal_access()

    cuda.fault = fault
    kernel = tuned(search=ActiveConfigSearch(budget=8, random_state=3))
    # The context is lost: the launch itself can only say so.
    with pytest.raises(RuntimeError, match="illegal memory access"):
        kernel[grid](*make_arguments())
    assert "broke off" in caplog.text
    assert kernel.best_config in CONFIGS
    statuses = {json.loads(line)["measurement"].get("status") for line in journal()}
    assert "illegal_access" in statuses


def test_prints_each_config(cuda, monkeypatch, capsys):
    monkeypatch.setenv("TRITON_PRINT_AUTOTUNING", "1")
    kernel = tuned()
    kernel[grid](*make_arguments())
    printed = capsys.readouterr().out
    assert printed.count("Autotuning kernel scale_kernel with config") == len(CONFIGS)
    assert f"best config selected: {BEST};" in printed


# -- what is passed on -------------------------------------------------------------


def test_options_reach_the_oracle(cuda, monkeypatch):
    seen = {}

    def refuse(kernel, args, grid, **options):
        seen.update(options, kernel=kernel, args=args, grid=grid)
        raise KeyError("no oracle")

    monkeypatch.setattr("fasta_learn.oracles.TritonKernelOracle", refuse)
    plan, check = TimingPlan(max_launches=9), lambda args: True
    kernel = tuned(options_kernel, isolate=True, timing=plan, check=check)
    x, y, n = make_arguments()
    with pytest.raises(KeyError, match="no oracle"):
        kernel[grid](x, y, n, FACTOR=5)
    assert seen["kernel"] is options_kernel
    assert seen["args"] == {"x": x, "y": y, "n": n}
    assert seen["constants"] == {"FACTOR": 5}
    assert seen["grid"] is grid
    assert (seen["isolate"], seen["timing"], seen["check"]) == (True, plan, check)


def test_a_listener_of_newer_tritons_is_told(cuda, monkeypatch):
    told = []
    knobs = triton.knobs.autotuning
    has_listener = hasattr(knobs, "listener")
    monkeypatch.setattr(
        knobs, "listener", lambda **facts: told.append(facts), raising=False
    )
    kernel = tuned()
    kernel[grid](*make_arguments())
    tuned()[grid](*make_arguments())
    assert [facts["cache_hit"] for facts in told] == [False, True] * has_listener
    assert all(len(facts["configs_timings"]) == len(CONFIGS) for facts in told)
