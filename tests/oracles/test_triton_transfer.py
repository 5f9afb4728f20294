import pickle
import subprocess
import sys

import pytest
import sample_kernels as kernels
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from fasta_learn._compat import cloudpickle
from fasta_learn.oracles._triton_arguments import innermost
from fasta_learn.oracles._triton_kernel import Workload
from fasta_learn.oracles._triton_transfer import pack_tensors, unpack_tensors


def travel(value):
    packed = pickle.loads(pickle.dumps(pack_tensors(value)))
    return unpack_tensors(*packed, "cpu")


@pytest.mark.parametrize("dtype", [torch.float16, torch.float8_e5m2, torch.int64])
def test_tensor_arrives_with_type_shape_strides_and_content(dtype):
    tensor = torch.arange(24).reshape(4, 6).to(dtype).t()
    arrived = travel({"x": tensor})["x"]
    assert (arrived.dtype, arrived.shape) == (dtype, tensor.shape)
    assert arrived.stride() == tensor.stride()
    assert torch.equal(arrived.double(), tensor.double())


def test_views_of_one_memory_stay_views_of_one_memory():
    base = torch.arange(100.0)
    arrived = travel({"x": base[10:20], "y": base[15:40:2], "z": torch.zeros(3)})
    arrived["x"][5] = -1.0  # place 15 of the base
    assert arrived["y"][0] == -1
    assert arrived["y"][1] == 17
    assert not arrived["z"].any()


def test_only_the_used_part_of_a_memory_travels():
    base = torch.zeros(1_000_000)
    _, (buffer,) = pack_tensors([base[500:600], base[550:700]])
    assert buffer.content.nbytes < 200 * 4 + 256


@pytest.mark.parametrize("shift", [0, 1, 2, 3, 5, 17])
def test_alignment_is_kept(shift):
    tensor = torch.arange(200, dtype=torch.int32)[shift:]
    arrived = travel([tensor])[0]
    assert arrived.data_ptr() % 16 == tensor.data_ptr() % 16
    assert torch.equal(arrived, tensor)


def test_empty_and_scalar_tensors_arrive():
    arrived = travel([torch.zeros(0, 3), torch.tensor(2.5)])
    assert arrived[0].shape == (0, 3)
    assert arrived[1].item() == 2.5


def test_descriptor_and_tuples_arrive():
    base = torch.arange(1024.0).reshape(32, 32)
    descriptor = TensorDescriptor.from_tensor(base, [8, 16])
    arrived, (again, number) = travel((descriptor, (base, 3)))
    assert arrived.block_shape == [8, 16]
    assert torch.equal(arrived.base, base)
    assert arrived.base.data_ptr() == again.data_ptr()
    assert number == 3
    assert descriptor.base is base


def make_workload(**options):
    x = torch.arange(64.0)
    return Workload(
        kernels.scale_kernel,
        (x, torch.zeros_like(x), 64),
        lambda meta: (triton.cdiv(64, meta["BLOCK"]),),
        **{"check": {"y": 2 * x}, **options},
    )


def test_copy_of_a_workload_has_tensors_of_its_own(simulate):
    simulate(compute=kernels.scale)
    workload = make_workload()
    copied = workload.device_copy("cpu")
    copied.first_launch({"BLOCK": 64})
    assert copied.args["y"].any()
    assert not workload.args["y"].any()
    assert copied.fingerprint() == workload.fingerprint()


def test_pickled_workload_has_the_same_identity():
    workload = make_workload(constants={"num_warps": 2}, restore_value=["y"])
    again = cloudpickle.loads(cloudpickle.dumps(workload))
    assert again.fingerprint() == workload.fingerprint()


def test_heuristics_travel(simulate):
    cuda = simulate()
    x = torch.zeros(64)
    workload = Workload(kernels.heuristic_kernel, (x, x, 64), (1,))
    again = cloudpickle.loads(cloudpickle.dumps(workload))
    again.compile({"BLOCK": 64})
    assert cuda.compiles[0][0]["EVEN"] is True


def test_workload_runs_in_another_process(tmp_path):
    wanted = 2 * torch.arange(64.0)

    def check(args):
        return torch.equal(args["y"], wanted)

    path = tmp_path / "workload"
    path.write_bytes(cloudpickle.dumps(make_workload(check=check)))
    code = f"""
import pickle, sys
sys.path[:] = {sys.path!r}
import sample_kernels
from simulated_cuda import SimulatedCuda
cuda = SimulatedCuda(compute=sample_kernels.scale)
cuda.start()
workload = pickle.loads(open({str(path)!r}, "rb").read())
workload.first_launch({{"BLOCK": 64}})
print(cuda.launches)
cuda.stop()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "'BLOCK': 64" in done.stdout


def test_kernel_of_a_function_is_refused_with_advice():
    @triton.jit
    def local_kernel(x, n: tl.constexpr):
        pass

    workload = Workload(local_kernel, (torch.zeros(1),), (1,))
    with pytest.raises(ValueError, match=r"local_kernel.*top level of a module"):
        cloudpickle.dumps(workload)


def test_kernel_of_the_main_program_is_refused_with_advice(monkeypatch):
    monkeypatch.setattr(kernels.scale_kernel.fn, "__module__", "__main__")
    with pytest.raises(ValueError, match=r"can't import it.*isolate=False"):
        cloudpickle.dumps(make_workload())


def test_kernel_that_was_replaced_is_refused(monkeypatch):
    workload = make_workload()
    monkeypatch.setattr(kernels, "scale_kernel", kernels.accumulate_kernel)
    with pytest.raises(ValueError, match="holds another object"):
        cloudpickle.dumps(workload)


def test_innermost_goes_below_all_decorators():
    assert isinstance(innermost(kernels.tuned_kernel), triton.JITFunction)
    assert innermost(kernels.heuristic_kernel) is kernels.heuristic_kernel.fn
    assert innermost(kernels.scale_kernel) is kernels.scale_kernel
