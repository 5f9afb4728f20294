import gc
import logging
import math
import os
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import pytest
import torch
import triton
from bench_tuning import CONFIGS, tuned
from calls import N, grid, make_arguments

from fasta_learn import ActiveConfigSearch, TileSpace
from fasta_learn.exceptions import AllConfigsFailedError


def test_import_needs_no_triton():
    text = (
        "import sys, fasta_learn; fasta_learn.autotune; print('triton' in sys.modules)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "False"


def test_is_an_autotuner_of_the_installed_triton(bench):
    assert isinstance(tuned(bench), triton.runtime.Autotuner)


def test_finds_and_launches_the_fastest(bench, cuda):
    kernel = tuned(bench)
    kernel[grid](*make_arguments())
    best = kernel.best_config
    assert (best.kwargs, best.num_warps) == ({"BLOCK": 256}, 2)
    assert cuda.launches[-1]["BLOCK"] == 256
    assert kernel.nargs is None


def test_attributes_are_those_of_triton(bench):
    kernel = tuned(bench)
    kernel[grid](*make_arguments())
    key = (N, "torch.float32", "torch.float32")
    assert kernel.cache == {key: kernel.best_config}
    best = min(kernel.configs_timings, key=kernel.configs_timings.get)
    assert best == kernel.best_config
    assert kernel.configs_timings[best] == [1.0, 0.9, 1.1]
    assert kernel.bench_time > 0


def test_measures_a_share_of_a_large_pool(bench):
    configs = [
        triton.Config({"BLOCK": 2**i}, num_warps=w, num_stages=s)
        for i in range(6, 11)
        for w in (1, 2, 4, 8)
        for s in range(1, 8)
    ]
    kernel = tuned(bench, configs=configs)
    kernel[grid](*make_arguments())
    assert len(bench.measured) == len(kernel.configs_timings) == 32
    assert kernel.best_config.kwargs == {"BLOCK": 256}


@pytest.mark.parametrize(
    ("n_pool", "n_measured"), [(5, 5), (40, 32), (320, 32), (900, 90), (2000, 128)]
)
def test_the_default_search_measures_a_share_within_limits(n_pool, n_measured):
    from fasta_learn.autotuner._tuning import default_search

    assert default_search(n_pool).budget == n_measured


def test_each_key_is_measured_once(bench):
    kernel = tuned(bench)
    for n in (N, 2 * N, N, 2 * N):
        kernel[grid](*make_arguments(n))
    assert len(bench.measured) == 2 * len(CONFIGS)


def test_dtypes_are_part_of_the_key(bench):
    kernel = tuned(bench)
    for dtype in (torch.float32, torch.float16):
        kernel[grid](*make_arguments(dtype=dtype))
    assert len(kernel.cache) == 2


def test_keyword_arguments(bench):
    kernel = tuned(bench)
    x, y, n = make_arguments()
    kernel[grid](x, n=n, y=y)
    assert kernel.best_config.kwargs == {"BLOCK": 256}


def test_a_pool_of_one_is_launched_at_once(bench, cuda):
    kernel = tuned(bench, configs=CONFIGS[:1])
    kernel[grid](*make_arguments())
    assert bench.measured == []
    assert len(cuda.launches) == 1


def test_no_configs_mean_the_default_of_triton(bench, cuda):
    kernel = tuned(bench, configs=[])
    kernel[grid](*make_arguments(), BLOCK=64)
    assert cuda.launches[-1]["num_warps"] == 4


def test_configs_may_be_dicts(bench):
    configs = [{"BLOCK": 128, "num_warps": 1}, {"BLOCK": 256, "num_warps": 2}]
    kernel = tuned(bench, configs=configs)
    kernel[grid](*make_arguments())
    assert kernel.best_config == triton.Config({"BLOCK": 256}, num_warps=2)


def test_repeated_configs_are_measured_once(bench):
    tuned(bench, configs=CONFIGS + CONFIGS)[grid](*make_arguments())
    assert len(bench.measured) == len(CONFIGS)


def test_search_is_cloned_for_each_key(bench):
    search = ActiveConfigSearch(budget=5, random_state=0)
    kernel = tuned(bench, search=search)
    for n in (N, 2 * N):
        kernel[grid](*make_arguments(n))
    assert len(bench.measured) == 10
    assert not hasattr(search, "best_config_")


def test_search_must_be_a_search(bench):
    with pytest.raises(TypeError, match="ActiveConfigSearch"):
        tuned(bench, search=0.2)


def test_configs_must_be_configs(bench):
    with pytest.raises(TypeError, match=r"triton\.Config"):
        tuned(bench, configs=[64, 128])


# -- failures ----------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError("no"), triton.OutOfResources(3, 2, "x")])
def test_failing_configs_do_not_end_the_search(bench, error):
    def fail_at_two_warps(kernel_call, quantiles):
        answer = bench(kernel_call, quantiles)
        if bench.measured[-1][1] == 2:
            raise error
        return answer

    kernel = tuned(fail_at_two_warps)
    kernel[grid](*make_arguments())
    assert kernel.best_config.kwargs == {"BLOCK": 256}
    assert kernel.best_config.num_warps != 2
    assert kernel.configs_timings[CONFIGS[1]] == [math.inf] * 3


def test_a_pool_that_fails_says_why(bench):
    def fail(kernel_call, quantiles):
        raise ValueError("no such tile")

    with pytest.raises(AllConfigsFailedError, match=r"scale_kernel.*no such tile"):
        tuned(fail)[grid](*make_arguments())


def test_the_median_counts(cuda):
    samples = {64: [1.0, 9.0, 9.5], 128: [2.0, 3.0, 50.0]}

    def sample(kernel_call, quantiles):
        kernel_call()
        low, middle, high = sorted(samples[cuda.launches[-1]["BLOCK"]])
        assert middle == median((low, middle, high))
        return [middle, low, high]

    configs = [triton.Config({"BLOCK": block}) for block in samples]
    kernel = tuned(sample, configs=configs)
    kernel[grid](*make_arguments())
    assert kernel.best_config.kwargs == {"BLOCK": 128}


def test_a_benchmark_may_answer_one_number(cuda):
    kernel = tuned(lambda kernel_call, quantiles: kernel_call() or 2.5)
    kernel[grid](*make_arguments())
    assert set(map(tuple, kernel.configs_timings.values())) == {(2.5, 2.5, 2.5)}


# -- tuning without launching, printing --------------------------------------------


def test_tune_finds_without_launching_once_more(bench, cuda):
    kernel = tuned(bench)
    best = kernel.tune(*make_arguments(), grid=grid)
    assert best == kernel.best_config
    assert len(cuda.launches) == len(CONFIGS)
    assert kernel.nargs is None
    kernel[grid](*make_arguments())
    assert len(bench.measured) == len(CONFIGS)


def test_tune_of_a_pool_of_one(bench):
    assert (
        tuned(bench, configs=CONFIGS[:1]).tune(*make_arguments(), grid=grid)
        == (CONFIGS[0])
    )


def test_warmup_compiles_all_and_launches_none(bench, cuda):
    kernel = tuned(bench, configs=CONFIGS[:3])
    compiled = kernel.warmup(*make_arguments(), grid=grid)
    assert len(compiled) == 3
    assert cuda.launches == []


def test_prints_as_triton(bench, monkeypatch, capsys):
    monkeypatch.setenv("TRITON_PRINT_AUTOTUNING", "1")
    kernel = tuned(bench, configs=CONFIGS[:3])
    kernel[grid](*make_arguments())
    printed = capsys.readouterr().out
    assert printed.count("Autotuning kernel scale_kernel with config BLOCK: 64") == 3
    assert "Triton autotuning for function scale_kernel" in printed
    assert f"best config selected: {kernel.best_config};" in printed


def test_two_threads_tune_once(bench):
    kernel = tuned(bench)
    with ThreadPoolExecutor(2) as threads:
        calls = [threads.submit(kernel[grid], *make_arguments()) for _ in range(2)]
        for call in calls:
            call.result()
    assert len(bench.measured) == len(CONFIGS)


def test_a_tile_space_is_a_pool(bench):
    space = TileSpace({"BLOCK": [64, 128, 256], "num_warps": [1, 2]})
    kernel = tuned(bench, configs=space)
    kernel[grid](*make_arguments())
    assert kernel.best_config == triton.Config({"BLOCK": 256}, num_warps=2)


def test_arguments_are_not_kept_alive(bench):
    kernel = tuned(bench)
    x, y, n = make_arguments()
    kernel[grid](x, y, n)
    held = weakref.ref(x)
    del x
    gc.collect()
    assert held() is None


def test_the_interpreter_uses_the_tuner_of_triton():
    # Triton finds the source of a kernel in a file only.
    script = Path(__file__).with_name("interpreted.py")
    answer = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        env={**os.environ, "TRITON_INTERPRET": "1"},
        check=True,
    )
    assert answer.stdout.split() == ["200.0", "128"]


# -- graphs ------------------------------------------------------------------------


def test_nothing_is_measured_during_a_capture(bench, monkeypatch, caplog):
    kernel = tuned(bench)
    capture = "fasta_learn.autotuner._tuning.is_capturing"
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(capture, lambda: True)
        kernel[grid](*make_arguments())
        kernel[grid](*make_arguments())
    assert bench.measured == []
    assert kernel.best_config == CONFIGS[0]
    assert len(caplog.records) == 1
    kernel[grid](*make_arguments())
    assert kernel.best_config.kwargs == {"BLOCK": 256}
