"""The kernels of the pools give right results, run by triton's interpreter.

The interpreter has to be chosen before a kernel is decorated, so one other process
runs all kernels (this file as a script) and prints a line of JSON for each config.
"""

import importlib
import inspect
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
N_CONFIGS = 4
MAX_PROGRAMS = 300
# Shapes are small and odd, so that most tiles reach over the edge. The interpreter
# can't multiply matrices of bfloat16.
SMALL = {
    "adamw": {"n": 3000},
    "add_rms_norm": {"rows": 5, "cols": 300},
    "attention": {"heads": 2, "length": 77, "head_size": 16},
    "attention causal": {"heads": 2, "length": 77, "head_size": 32, "causal": True},
    "attention_dkv": {"heads": 2, "length": 45, "head_size": 16},
    "attention_dq": {"heads": 2, "length": 45, "head_size": 16, "dtype": "float16"},
    "batched_matmul": {"batch": 2, "m": 37, "n": 45, "k": 39},
    "bias_gelu_add": {"rows": 5, "cols": 70},
    "causal_conv1d": {"batch": 2, "channels": 5, "length": 50},
    "causal_softmax": {"heads": 2, "length": 9},
    "column_cumsum": {"rows": 21, "cols": 30},
    "column_moments": {"rows": 100, "cols": 30},
    "conv2d": {"images": 2, "side": 5, "channels": 20, "filters": 24},
    "conv2d stride": {
        "images": 1,
        "side": 7,
        "channels": 16,
        "filters": 24,
        "stride": 2,
    },
    "cross_entropy": {"rows": 5, "cols": 300},
    "decode_attention": {"heads": 2, "queries": 3, "length": 150, "head_size": 16},
    "dot_product": {"n": 30000},
    "embedding": {"n_tokens": 11, "length": 4, "vocabulary": 9, "width": 70},
    "expert_choice": {"tokens": 5, "experts": 40, "top": 3},
    "expert_matmul": {"tokens": 50, "experts": 3, "n": 40, "k": 35, "dtype": "float16"},
    "gated_linear": {"m": 37, "n": 45, "k": 39, "dtype": "float16"},
    "geglu": {"rows": 5, "cols": 70},
    "group_norm": {"images": 1, "channels": 12, "height": 5, "width": 5, "groups": 4},
    "histogram": {"n": 9000},
    "int4_weights": {"m": 10, "n": 45, "k": 256, "group": 64},
    "int8_matmul": {"m": 37, "n": 45, "k": 70},
    "int8_weights": {"m": 37, "n": 45, "k": 70},
    "layer_norm": {"rows": 5, "cols": 300},
    "layer_norm_backward": {"rows": 11, "cols": 300},
    "linear_recurrence": {"rows": 5, "cols": 100},
    "matmul": {"m": 37, "n": 45, "k": 39},
    "matmul nt": {"m": 37, "n": 45, "k": 39, "layout": "nt"},
    "matmul tn": {"m": 37, "n": 45, "k": 39, "dtype": "float32", "layout": "tn"},
    "max_pool": {"images": 1, "side": 7, "channels": 12},
    "quantise_rows": {"rows": 5, "cols": 300},
    "rope_pairs": {"batch": 1, "length": 4, "heads": 3, "head_size": 32},
    "row_argmax": {"rows": 5, "cols": 100},
    "scatter_add": {"n_tokens": 11, "vocabulary": 5, "width": 70},
    "skinny_atomic": {"m": 5, "n": 45, "k": 300},
    "skinny_workspace": {"m": 20, "n": 45, "k": 300, "dtype": "float16"},
    "softmax_backward": {"rows": 5, "cols": 300},
    "split_heads": {"batch": 2, "length": 10, "heads": 3, "head_size": 8},
    "transpose_quantise": {"rows": 25, "cols": 19},
    "weight_gradient": {"m": 37, "n": 45, "k": 300, "dtype": "float16"},
}


def run_config(spec, config):
    """Launch a kernel once; return why its results are wrong, or None."""
    settings = {**spec.constants, **config}
    names = list(inspect.signature(spec.kernel.fn).parameters)
    names = [name for name in names if name not in settings]
    arguments = dict(zip(names, spec.args, strict=True))
    for name in spec.reset_to_zero:
        arguments[name].zero_()
    spec.kernel[spec.grid(settings)](*spec.args, **settings)
    try:
        spec.check(arguments)
    except AssertionError as error:
        return str(error)
    try:
        spec.check(arguments)
    except AssertionError:
        return None
    return "outputs that were not written pass the check"


def run_small(name):
    """Try configs from all over a pool on a small shape."""
    function = getattr(importlib.import_module("kernels"), name.partition(" ")[0])
    spec = function(**SMALL[name])
    # The interpreter takes its time for each program.
    configs = [
        config
        for config in spec.configs
        if math.prod(spec.grid({**spec.constants, **config})) <= MAX_PROGRAMS
    ]
    step = (len(configs) - 1) / (N_CONFIGS - 1)
    configs = [configs[round(i * step)] for i in range(N_CONFIGS)]
    return [{"name": name, "error": run_config(spec, config)} for config in configs]


def main(names):
    import torch

    torch.set_num_threads(1)
    for name in names or SMALL:
        for outcome in run_small(name):
            print(json.dumps(outcome), flush=True)


@pytest.fixture(scope="module")
def outcomes():
    """What the other process has to say about each config."""
    environment = os.environ | {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    process = subprocess.run(
        [sys.executable, __file__],
        env=environment | {"PYTHONPATH": str(FOLDER)},
        cwd=FOLDER,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    return [json.loads(line) for line in process.stdout.splitlines()]


@pytest.mark.parametrize("name", SMALL)
def test_results_are_right(name, outcomes):
    errors = [outcome["error"] for outcome in outcomes if outcome["name"] == name]
    assert errors == [None] * N_CONFIGS


@pytest.fixture
def kernels(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("kernels")


def test_every_kernel_of_the_pools_is_tried(kernels):
    used = {function.__name__ for function, _ in kernels.POOLS.values()}
    assert used == {name.partition(" ")[0] for name in SMALL}


def test_parameters_fit_the_functions(kernels):
    for function, parameters in kernels.POOLS.values():
        inspect.signature(function).bind(**parameters)


def test_pools_have_names_of_their_own(kernels):
    recorded = [
        path.stem
        for folder in ("validation_pools", "confirmation_pools")
        for path in (FOLDER / folder).glob("*.csv")
    ]
    assert recorded
    assert not set(kernels.POOLS) & set(recorded)


if __name__ == "__main__":
    main(sys.argv[1:])
