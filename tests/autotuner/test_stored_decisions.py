import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest
from calls import N, grid, make_arguments
from device_tuning import BEST, BLOCKS, CONFIGS, everything, journal, measured, tuned

from fasta_learn import ActiveConfigSearch
from fasta_learn.oracles._timing import TimingPlan

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
