import json
import os
import subprocess
import sys

import numpy as np
import pytest
import sample_kernels as kernels
import torch
from triton.tools.tensor_descriptor import TensorDescriptor
from workloads import N, grid, scaling

from fasta_learn.oracles._triton_kernel import Workload

# Arguments


def test_defaults_and_none_are_as_in_a_plain_launch(simulate, vectors):
    cuda = simulate(compute=kernels.options)
    x, y = vectors
    workload = Workload(
        kernels.options_kernel, {"x": x, "y": y, "n": N}, grid, check={"y": 3 * x}
    )
    workload.first_launch({"num_warps": 2})
    kernels.options_kernel[grid](x, y, N, num_warps=2)
    assert len(cuda.compiles) == 1
    assert cuda.launches[0]["FACTOR"] == 3


def test_constants_are_arguments_and_options(simulate, vectors):
    cuda = simulate()
    x, y = vectors
    constants = {"FACTOR": 5, "bias": x, "num_warps": 8}
    workload = Workload(kernels.options_kernel, (x, y, N), grid, constants=constants)
    workload.launch({"BLOCK": 128})
    assert cuda.launches[0]["FACTOR"] == 5
    assert cuda.launches[0]["num_warps"] == 8


def test_sequence_may_include_leading_constexprs(simulate, vectors):
    cuda = simulate()
    workload = Workload(kernels.options_kernel, (*vectors, N, None, 9), grid)
    workload.launch({"BLOCK": 128})
    assert cuda.launches[0]["FACTOR"] == 9


def test_grid_sees_all_parameters(simulate, vectors):
    simulate()
    seen = []

    def record(meta):
        seen.append(dict(meta))
        return (1,)

    x, y = vectors
    workload = Workload(kernels.options_kernel, (x, y, N), record)
    workload.launch({"BLOCK": 32, "num_warps": 1})
    assert seen[0].keys() == {"x", "y", "n", "bias", "FACTOR", "BLOCK"}
    assert (seen[0]["BLOCK"], seen[0]["FACTOR"], seen[0]["n"]) == (32, 3, N)


def test_heuristics_are_computed_for_each_config(simulate, vectors):
    cuda = simulate()
    workload = Workload(kernels.heuristic_kernel, (*vectors, N), grid)
    for block in (64, 8):
        workload.compile({"BLOCK": block})
        kernels.heuristic_kernel[grid](*vectors, N, BLOCK=block)
    assert [config["EVEN"] for config, _ in cuda.compiles] == [False, True]


def test_autotuner_is_unwrapped_with_its_tensors_to_restore(simulate, vectors):
    cuda = simulate(compute=kernels.accumulate)
    x, y = vectors
    expected = {"y": x + 7}
    workload = Workload(kernels.tuned_kernel, (x, y, N), grid, check=expected)
    for block in (32, 128):
        workload.first_launch({"BLOCK": block})
    assert [config["BLOCK"] for config in cuda.launches] == [32, 128]


@pytest.mark.parametrize(
    ("args", "options", "error", "message"),
    [
        ((1, 2, 3, 4, 5), {}, ValueError, "5 values.* only 4 parameters"),
        ({"z": 1}, {}, ValueError, r"args has \['z'\].*x, y, n, BLOCK"),
        ({"n": 1}, {"constants": {"n": 2}}, ValueError, r"\['n'\] are in both"),
        ({"n": 1}, {"reset_to_zero": ["y"]}, ValueError, "reset_to_zero has 'y'"),
        ({"n": 1}, {"restore_value": ["n"]}, ValueError, "'n', which is a int"),
        ({"n": 1}, {"check": {"n": 1}}, ValueError, "check has 'n'"),
    ],
)
def test_wrong_arguments_are_refused_at_once(args, options, error, message):
    with pytest.raises(error, match=message):
        Workload(kernels.scale_kernel, args, (1,), **options)


def test_expected_tensor_of_another_shape_is_refused(vectors):
    with pytest.raises(ValueError, match=r"shape \(1000,\), got \(3,\)"):
        scaling(vectors, check={"y": torch.zeros(3)})


def test_function_without_jit_is_refused():
    with pytest.raises(TypeError, match=r"decorated by triton\.jit, got a function"):
        Workload(grid, (), (1,))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"BLOCK": 64, "n": 3}, r"config sets \['n'\]"),
        ({}, r"no value for \['BLOCK'\]"),
    ],
)
def test_config_that_does_not_fit_is_refused(simulate, vectors, config, message):
    simulate()
    with pytest.raises(TypeError, match=message):
        scaling(vectors).compile(config)


# Identity


def test_fingerprint_is_json_and_tells_alignment(vectors):
    _, y = vectors
    aligned = scaling(vectors).fingerprint()
    shifted = scaling((torch.zeros(N + 1)[1:], y)).fingerprint()
    assert json.loads(json.dumps(aligned)) == aligned
    assert aligned["args"]["x"] == {
        "dtype": "torch.float32",
        "shape": [N],
        "stride": [1],
        "aligned": True,
    }
    assert not shifted["args"]["x"]["aligned"]
    assert aligned != shifted


@pytest.mark.parametrize("other", ["values", "same"])
def test_fingerprint_does_not_depend_on_the_values_of_tensors(vectors, other):
    _, y = vectors
    changed = (torch.ones(N), y) if other == "values" else vectors
    assert scaling(vectors).fingerprint() == scaling(changed).fingerprint()


def test_fingerprint_depends_on_kernel_numbers_and_constants(vectors):
    x, y = vectors
    made = [
        Workload(kernels.options_kernel, (x, y, N), (1,)),
        Workload(kernels.options_kernel, (x, y, N - 1), (1,)),
        Workload(kernels.options_kernel, (x, y, N), (1,), constants={"FACTOR": 2}),
        Workload(kernels.options_kernel, (x, y, N), (2,)),
        Workload(kernels.options_kernel, (x, y, N, x), (1,)),
        Workload(kernels.scale_kernel, (x, y, N), (1,)),
    ]
    texts = {json.dumps(workload.fingerprint()) for workload in made}
    assert len(texts) == len(made)


def test_fingerprint_describes_arguments_of_all_kinds():
    descriptor = TensorDescriptor.from_tensor(torch.zeros(32, 32), [8, 16])
    args = {"x": descriptor, "y": (np.int64(3), None, 2.5), "n": torch.float16}
    described = Workload(kernels.scale_kernel, args, (1,)).fingerprint()["args"]
    assert described["x"]["base"]["shape"] == [32, 32]
    assert described["x"]["block_shape"] == [8, 16]
    assert described["y"] == [3, None, 2.5]
    assert described["n"] == "torch.float16"


def test_fingerprint_tells_functions_among_the_arguments_apart(vectors):
    made = [
        Workload(kernels.scale_kernel, vectors, (1,), constants={"n": function})
        for function in (kernels.scale_kernel, kernels.accumulate_kernel)
    ]
    first, second = (workload.fingerprint()["constants"]["n"] for workload in made)
    assert first != second
    assert len(first) == len(second) == 64


def test_name_and_target(simulate, vectors):
    simulate()
    workload = scaling(vectors)
    assert workload.name == "scale_kernel"
    assert (workload.target.backend, workload.target.arch) == ("cuda", 90)


def test_module_imports_neither_torch_nor_triton():
    code = (
        "import sys; import fasta_learn.oracles._triton_kernel; "
        "sys.exit(bool({'torch', 'triton'} & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0
