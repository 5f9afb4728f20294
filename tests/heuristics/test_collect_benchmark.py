import functools
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fasta_learn.heuristics import (
    CudaPadBenchmark,
    GemmInput,
    SimulatedGPU,
    collect,
    read_log,
)
from fasta_learn.heuristics._collect_cuda import make_functions
from fasta_learn.heuristics._collect_workers import Worker

# Not a folder with __init__.py: helpers are found by path.
sys.path.insert(0, os.path.dirname(__file__))
sys.path.insert(0, str(Path(__file__).parents[1] / "inductor"))
from artifacts import COMPILE
from children import run_child

torch = pytest.importorskip("torch")
pad_mm = pytest.importorskip("torch._inductor.fx_passes.pad_mm")

BOTH = [(False, False), (True, False), (False, True), (True, True)]


@pytest.fixture
def made(monkeypatch):
    """The matrices that functions are made of."""
    matrices = []
    inner = torch.randn

    def remember(*arguments, **options):
        matrices.append(inner(*arguments, **options))
        return matrices[-1]

    monkeypatch.setattr(torch, "randn", remember)
    return matrices


@pytest.mark.parametrize("transposes", BOTH)
@pytest.mark.parametrize("prepadded", BOTH)
@pytest.mark.parametrize("sizes", [(5, 7, 9), (8, 7, 16), (5, 8, 8), (1, 9, 3)])
def test_both_choices_compute_the_product(made, transposes, prepadded, sizes):
    item = GemmInput(*sizes, "float32", *transposes, *prepadded)
    functions = make_functions(item, "cpu")
    left, right = made
    if transposes[0]:
        left = left.t()
    if transposes[1]:
        right = right.t()
    for choice in ("orig", "pad"):
        torch.testing.assert_close(functions[choice](), left @ right)


@pytest.mark.parametrize("prepadded", [False, True])
def test_padding_of_a_prepadded_matrix_is_not_timed(monkeypatch, prepadded):
    item = GemmInput(8, 7, 8, "float32", prepadded_left=prepadded)
    function = make_functions(item, "cpu")["pad"]
    padded = []
    inner = pad_mm.pad_mat1

    def spy(*arguments, **options):
        padded.append(1)
        return inner(*arguments, **options)

    monkeypatch.setattr(pad_mm, "pad_mat1", spy)
    function()
    assert len(padded) == (not prepadded)


class FakeGpu(CudaPadBenchmark):
    """Counts calls instead of timing them."""

    def __init__(self, milliseconds):
        super().__init__()
        self.milliseconds = milliseconds
        self.n_single = 0

    def _time_once(self, function):
        function()
        self.n_single += 1
        return self.milliseconds


@pytest.fixture
def on_the_cpu(monkeypatch):
    """Let what is made for CUDA be made on the CPU, and count Inductor's timings."""
    from fasta_learn.heuristics import _collect_cuda

    timed = []

    def time_function(function):
        timed.append(function)
        return 0.25

    monkeypatch.setattr(
        _collect_cuda,
        "make_functions",
        lambda item, _: make_functions(item, "cpu"),
    )
    monkeypatch.setattr(pad_mm, "get_do_bench", lambda: time_function)
    before = torch.get_float32_matmul_precision()
    yield timed
    torch.set_float32_matmul_precision(before)


def test_quick_products_are_timed_by_inductor(on_the_cpu):
    rows = FakeGpu(1.0).measure(GemmInput(5, 6, 7, "float32"), 3)
    assert rows == [("orig", 0.25), ("pad", 0.25)] * 3
    assert len(on_the_cpu) == 6


def test_slow_products_are_called_once_for_each_repetition(on_the_cpu):
    gpu = FakeGpu(26.0)
    rows = gpu.measure(GemmInput(5, 6, 7, "float32"), 3)
    assert rows == [("orig", 26.0), ("pad", 26.0)] * 3
    assert on_the_cpu == []
    assert gpu.n_single == 2 + 6


@pytest.mark.parametrize("tf32", [False, True])
def test_precision_is_that_of_the_input(on_the_cpu, tf32):
    FakeGpu(1.0).measure(GemmInput(5, 6, 7, "float32", tf32=tf32), 1)
    assert torch.get_float32_matmul_precision() == ("high" if tf32 else "highest")


@pytest.mark.parametrize("choice", ["orig", "pad"])
def test_a_choice_without_memory_is_infinite(on_the_cpu, monkeypatch, choice):
    from fasta_learn.heuristics import _collect_cuda

    def make(item, device):
        def fail():
            raise torch.OutOfMemoryError("CUDA out of memory.")

        return {**make_functions(item, "cpu"), choice: fail}

    monkeypatch.setattr(_collect_cuda, "make_functions", make)
    rows = dict(FakeGpu(1.0).measure(GemmInput(5, 6, 7, "float32"), 1))
    assert rows.pop(choice) == float("inf")
    assert list(rows.values()) == [0.25]


def test_matrices_without_memory_make_both_infinite(on_the_cpu, monkeypatch):
    from fasta_learn.heuristics import _collect_cuda

    def make(item, device):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(_collect_cuda, "make_functions", make)
    rows = FakeGpu(1.0).measure(GemmInput(5, 6, 7, "float32"), 2)
    assert rows == [("orig", float("inf")), ("pad", float("inf"))] * 2


@pytest.fixture
def simulated_h200(monkeypatch):
    device = SimpleNamespace(
        name="NVIDIA H200", total_memory=150 * 10**9, major=9, minor=0
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: device)
    monkeypatch.setattr("torch._inductor.utils.get_gpu_shared_memory", lambda: 232448)
    monkeypatch.setattr(pad_mm, "is_mm_compute_bound", lambda m, k, n, dtype: n > 1000)


def test_device_is_described_as_torch_knows_it(simulated_h200):
    found = CudaPadBenchmark().describe()
    assert (found.name, found.memory) == ("NVIDIA H200", 150 * 10**9)
    assert (found.shared_memory, found.device_capa) == (232448, (9, 0))


@pytest.mark.parametrize("all_inputs", [False, True])
def test_only_what_torch_asks_about_is_decided(simulated_h200, all_inputs):
    items = [
        GemmInput(801, 900, 1001, "float16"),
        GemmInput(767, 900, 1001, "float16"),  # below the precondition of an H200
        GemmInput(801, 900, 1000, "float16"),  # bound by the bandwidth, as simulated
    ]
    found = CudaPadBenchmark(all_inputs=all_inputs).is_decided(items)
    assert found == [True, all_inputs, all_inputs]


def test_peak_is_asked_for_at_the_precision_of_the_input(simulated_h200, monkeypatch):
    """Torch keeps the peak of a dtype for good, at whichever precision that was."""
    before = torch.get_float32_matmul_precision()
    seen = []

    @functools.cache
    def peak(dtype):
        seen.append(torch.get_float32_matmul_precision())
        return len(seen)

    monkeypatch.setattr("torch._inductor.utils.get_device_tflops", peak)
    monkeypatch.setattr(
        pad_mm, "is_mm_compute_bound", lambda m, k, n, dtype: peak(dtype) >= 0
    )
    items = [
        GemmInput(801, 900, 1001, dtype, tf32=tf32)
        for dtype, tf32 in 2
        * [("float32", True), ("float16", False), ("float32", False)]
    ]
    try:
        CudaPadBenchmark().is_decided(items)
    finally:
        torch.set_float32_matmul_precision(before)
    assert sorted(seen[-2:]) == ["high", "highest"]


@pytest.mark.parametrize(
    ("visible", "device", "expected"),
    [(None, 1, "1"), ("4,6", 1, "6"), ("GPU-a,GPU-b", 0, "GPU-a")],
)
def test_a_worker_sees_its_device_only(monkeypatch, visible, device, expected):
    # Set first, so that what the benchmark sets is undone.
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible or "")
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    CudaPadBenchmark().select_device(device)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == expected


def test_devices_that_are_not_visible_are_refused(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with pytest.raises(ValueError, match="has no device 1"):
        CudaPadBenchmark().select_device(1)


def test_without_a_gpu_the_child_says_so(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    worker = Worker(CudaPadBenchmark(), 0, isolate=False, timeout=10)
    with pytest.raises(RuntimeError, match="device 0 can't be measured on"):
        worker.describe()


def test_torch_appends_to_a_log_of_ours(tmp_path):
    """Its own collection, while it compiles, writes rows that stand with ours."""
    path = tmp_path / "log.txt"
    collect(path, n_samples=2, benchmark=SimulatedGPU(), isolate=False)
    code = f"""{COMPILE}
torch._inductor.config.autoheuristic_collect.pad_mm = True
torch._inductor.config.autoheuristic_log_path = {str(path)!r}
print(json.dumps(run((1001, torch.float16))))
"""
    run_child(code, tmp_path)
    rows = read_log(path, strict=True).frame
    assert len(rows) == 2 * 6 + 2
    last = rows.iloc[-2:]
    key = [str(last[name].iloc[0]) for name in rows.columns[:-2]]
    assert tuple(key) == GemmInput(9, 11, 1001, "float16").key()
    assert list(last["choice"]) == ["orig", "pad"]


def test_alignment_makes_a_simulated_product_faster():
    gpu = SimulatedGPU(noise=0)
    odd = gpu.durations(GemmInput(4096, 4095, 4096, "float16"))
    aligned = gpu.durations(GemmInput(4096, 4096, 4096, "float16"))
    assert odd["orig"] > 2 * aligned["orig"]
    assert aligned["orig"] < odd["pad"] < odd["orig"]


def test_a_prepadded_simulated_product_is_not_copied():
    gpu = SimulatedGPU(noise=0)
    item = GemmInput(4096, 4095, 4096, "float16", transpose_right=True)
    prepadded = GemmInput(
        4096, 4095, 4096, "float16", transpose_right=True, prepadded_left=True
    )
    # Reads and writes of the left matrix, of two bytes a number.
    seconds = 2 * 4096 * (4095 + 4096) / gpu.bandwidth
    saved = gpu.durations(item)["pad"] - gpu.durations(prepadded)["pad"]
    assert saved == pytest.approx(1e3 * seconds + 0.003)
