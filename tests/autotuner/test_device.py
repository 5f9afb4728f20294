import json
import logging
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import triton
from sample_kernels import (
    accumulate,
    accumulate_kernel,
    heuristic_kernel,
    matmul_kernel,
    options_kernel,
    scale,
    scale_kernel,
)
from simulated_cuda import illegal_access

import fasta_learn
from fasta_learn import ActiveConfigSearch
from fasta_learn.exceptions import AllConfigsFailedError
from fasta_learn.oracles._timing import TimingPlan

BLOCKS = (64, 128, 256, 512)
CONFIGS = [triton.Config({"BLOCK": b}, num_warps=w) for b in BLOCKS for w in (2, 4)]
BEST = triton.Config({"BLOCK": 256}, num_warps=2)
N = 256


def tuned(kernel=scale_kernel, *, configs=CONFIGS, key=("n",), **options):
    return fasta_learn.autotune(list(configs), key=list(key), **options)(kernel)


def grid(meta):
    return (triton.cdiv(meta["n"], meta["BLOCK"]),)


def make_arguments(n=N, dtype=torch.float32):
    return torch.ones(n, dtype=dtype), torch.zeros(n, dtype=dtype), n


def measured(cuda):
    """Answer what was launched, apart from single launches, and forget it."""
    launches = [(c["BLOCK"], c["num_warps"]) for c in cuda.launches]
    cuda.launches.clear()
    return {launch for launch in launches if launches.count(launch) > 1}


def everything():
    return {(c.kwargs["BLOCK"], c.num_warps) for c in CONFIGS}


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


def journal():
    """Give the records of the only journal."""
    import os

    folder = Path(os.environ["FASTA_LEARN_CACHE_DIR"])
    (path,) = folder.rglob("*.jsonl")
    return path.read_text().splitlines()[1:]


def test_prints_each_config(cuda, monkeypatch, capsys):
    monkeypatch.setenv("TRITON_PRINT_AUTOTUNING", "1")
    kernel = tuned()
    kernel[grid](*make_arguments())
    printed = capsys.readouterr().out
    assert printed.count("Autotuning kernel scale_kernel with config") == len(CONFIGS)
    assert f"best config selected: {BEST};" in printed


# -- the store ---------------------------------------------------------------------


def test_the_decision_is_kept(cuda):
    tuned()[grid](*make_arguments())
    cuda.launches.clear()
    kernel = tuned()
    kernel[grid](*make_arguments())
    assert kernel.best_config == BEST
    assert len(cuda.launches) == 1
    assert len(kernel.configs_timings) == len(CONFIGS)


def test_another_process_compiles_only_the_winner(cuda, tmp_path):
    tuned()[grid](*make_arguments())
    text = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1] / "oracles")!r})
from simulated_cuda import SimulatedCuda
from sample_kernels import scale_kernel
import torch, triton, fasta_learn
configs = [triton.Config({{"BLOCK": b}}, num_warps=w)
           for b in {BLOCKS!r} for w in (2, 4)]
kernel = fasta_learn.autotune(configs, key=["n"])(scale_kernel)
with SimulatedCuda(cache_dir={str(tmp_path / "empty")!r}) as cuda:
    kernel[(1,)](torch.ones({N}), torch.zeros({N}), {N})
    assert len(cuda.launches) == len(cuda.compiles) == 1, cuda.compiles
    print(kernel.best_config)
"""
    answer = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == str(BEST)


def test_nothing_is_kept_without_a_store(cuda, tmp_path):
    for _ in range(2):
        tuned(store=False)[grid](*make_arguments())
        assert measured(cuda) == everything()
    assert not (tmp_path / "autotune").exists()


def test_the_store_may_be_named(cuda, tmp_path):
    tuned(store=tmp_path / "mine")[grid](*make_arguments())
    assert list((tmp_path / "mine").rglob("*.jsonl"))


def test_a_new_config_is_all_that_is_measured(cuda):
    tuned(configs=CONFIGS[:-1])[grid](*make_arguments())
    assert measured(cuda) == everything() - {(512, 4)}
    kernel = tuned()
    kernel[grid](*make_arguments())
    assert measured(cuda) == {(512, 4)}
    assert kernel.best_config == BEST


def test_a_config_that_an_earlier_search_found_may_win(cuda):
    tuned()[grid](*make_arguments())
    kernel = tuned(search=ActiveConfigSearch(budget=1, random_state=0))
    kernel[grid](*make_arguments())
    assert kernel.best_config == BEST


@pytest.mark.parametrize(
    "change",
    [
        {"timing": TimingPlan(min_launches=9)},
        {"check": lambda args: True},
        {"key": ["n", "x"]},
    ],
)
def test_what_was_measured_otherwise_is_measured_anew(cuda, change):
    tuned()[grid](*make_arguments())
    cuda.launches.clear()
    tuned(**change)[grid](*make_arguments())
    assert measured(cuda) == everything()


def test_another_source_is_measured_anew(cuda, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    source = """
import triton
import triton.language as tl
@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + places, {} * tl.load(x + places, mask=places < n), mask=places < n)
"""
    for i, factor in enumerate((2, 2, 3)):
        (tmp_path / f"kernel_{i}.py").write_text(source.format(factor))
    # The same source in another file is the same kernel.
    for i, wanted in enumerate((everything(), set(), everything())):
        tuned(__import__(f"kernel_{i}").kernel)[grid](*make_arguments())
        assert measured(cuda) == wanted


def test_shapes_of_another_size_are_measured_anew(cuda):
    kernel, again = tuned(key=()), tuned(key=())
    kernel[grid](*make_arguments())
    measured(cuda)
    again[grid](*make_arguments(4 * N))
    assert measured(cuda) == everything()


def test_a_damaged_store_is_no_obstacle(cuda, store_folder, caplog):
    tuned()[grid](*make_arguments())
    measured(cuda)
    for path in store_folder.rglob("*.json*"):
        path.write_text("rubbish")
    kernel = tuned()
    kernel[grid](*make_arguments())
    assert kernel.best_config == BEST
    assert measured(cuda) == everything()
    assert len(caplog.records) == 1
    tuned()[grid](*make_arguments())
    assert measured(cuda) == set()


# -- frozen ------------------------------------------------------------------------


def test_frozen_uses_what_is_known(cuda, caplog):
    tuned()[grid](*make_arguments())
    measured(cuda)
    kernel = tuned(frozen=True)
    kernel[grid](*make_arguments())
    assert kernel.best_config == BEST
    assert not caplog.records


def test_frozen_by_the_environment_takes_the_first(cuda, monkeypatch, caplog):
    monkeypatch.setenv("FASTA_LEARN_FROZEN", "1")
    kernel = tuned()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            kernel[grid](*make_arguments())
    assert kernel.best_config == CONFIGS[0]
    assert len(cuda.launches) == 2
    assert len(caplog.records) == 1


def test_frozen_takes_the_winner_of_the_nearest_key(cuda):
    for n, block in ((64, 64), (4096, 512)):
        cuda.duration = lambda config, block=block: 1 + abs(config["BLOCK"] - block)
        tuned()[grid](*make_arguments(n))
    kernel = tuned(frozen=True)
    for n, block in ((128, 64), (2048, 512), (10**5, 512)):
        kernel[grid](*make_arguments(n))
        assert kernel.best_config.kwargs == {"BLOCK": block}


def test_frozen_prefers_what_is_known_of_this_device(cuda, monkeypatch):
    # A far key of this device beats a near one of another.
    for n, block, device in ((64, 64, "here"), (4096, 512, "there")):
        monkeypatch.setattr(
            "fasta_learn.autotuner._tuning.identify_device",
            lambda device=device: {"device": device, "environment": {"A": "b"}},
        )
        cuda.duration = lambda config, block=block: 1 + abs(config["BLOCK"] - block)
        tuned()[grid](*make_arguments(n))
    for device, block in (("here", 64), ("there", 512)):
        monkeypatch.setattr(
            "fasta_learn.autotuner._tuning.identify_device",
            lambda device=device: {"device": device, "environment": {"A": "b"}},
        )
        kernel = tuned(frozen=True)
        kernel[grid](*make_arguments(512))
        assert kernel.best_config.kwargs == {"BLOCK": block}


def test_frozen_finds_decisions_about_other_pools(cuda):
    tuned()[grid](*make_arguments())
    kernel = tuned(frozen=True, configs=CONFIGS[1:])
    kernel[grid](*make_arguments())
    assert kernel.best_config == BEST


def test_thawed_beats_the_environment(cuda, monkeypatch):
    monkeypatch.setenv("FASTA_LEARN_FROZEN", "1")
    kernel = tuned(frozen=False)
    kernel[grid](*make_arguments())
    assert kernel.best_config == BEST


@pytest.mark.parametrize("value", ["", "0", "False", "off", "no"])
def test_values_of_the_environment_that_do_not_freeze(cuda, monkeypatch, value):
    monkeypatch.setenv("FASTA_LEARN_FROZEN", value)
    kernel = tuned()
    kernel[grid](*make_arguments())
    assert kernel.best_config == BEST


# -- several at once ---------------------------------------------------------------


def test_two_processes_share_a_store(cuda, tmp_path):
    text = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1] / "oracles")!r})
from simulated_cuda import SimulatedCuda
from sample_kernels import scale_kernel
import torch, triton, fasta_learn
configs = [triton.Config({{"BLOCK": b}}, num_warps=w)
           for b in {BLOCKS!r} for w in (2, 4)]
def bench(kernel_call, quantiles):
    kernel_call()
    config = cuda.launches[-1]
    return abs(config["BLOCK"] - 256) + config["num_warps"]
kernel = fasta_learn.autotune(configs, key=["n"], do_bench=bench)(scale_kernel)
with SimulatedCuda(cache_dir={str(tmp_path / "cache")!r}) as cuda:
    print("ready", flush=True)
    sys.stdin.readline()
    kernel[(1,)](torch.ones({N}), torch.zeros({N}), {N})
    print(kernel.best_config)
"""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", text],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        printed, told = process.communicate()
        assert printed.strip() == str(BEST)
        assert "can't be used" not in told
    assert len(journal()) == len({json.loads(line)["key"] for line in journal()}) == 8


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
