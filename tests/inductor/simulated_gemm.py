"""Inductor's lowering of products for a CUDA device that is not there.

Lowering, choices, templates, their rendering and their compiles are Inductor's and
Triton's own; launches and time are those of `simulated_cuda`. cuBLAS is a stub that
takes a given time.
"""

import contextlib
import os
import re
import shutil
from types import SimpleNamespace

import simulated_cuda
import torch
import torch._inductor.compile_fx
from torch._dynamo.device_interface import CudaInterface
from torch._inductor import config, select_algorithm
from torch._inductor.debug import DebugContext
from torch._inductor.graph import GraphLowering
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.benchmarking import benchmarker
from torch._inductor.template_heuristics.registry import get_template_heuristic
from torch._inductor.utils import clear_caches
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._python_dispatch import _disable_current_modes

H200 = SimpleNamespace(
    name="NVIDIA H200",
    major=9,
    minor=0,
    multi_processor_count=132,
    total_memory=2**37,
    shared_memory_per_block_optin=232448,
    shared_memory_per_block=49152,
    L2_cache_size=60 * 2**20,
    regs_per_multiprocessor=65536,
    max_threads_per_multi_processor=2048,
    warp_size=32,
    gcnArchName="",
)
# Inductor's own configs are few here, so that few are compiled.
N_STOCK = 4
_CONSTANT = re.compile(r"(BLOCK_[MNK]|GROUP_M) : tl\.constexpr = (\d+)")


class SimulatedGemm:
    """Inductor on a simulated device, from the lowering to the chosen kernels.

    Parameters
    ----------
    cuda : SimulatedCuda
        The device; its ``duration`` sees the constants of templates, too.
    folder : Path
        Of Inductor's caches.
    monkeypatch : pytest.MonkeyPatch
        Undoes what is faked.
    extern_ms : float
        How long a product by cuBLAS takes.
    """

    def __init__(self, cuda, folder, monkeypatch, *, extern_ms=0.08):
        self.cuda, self.extern_ms = cuda, extern_ms
        self._patch = monkeypatch
        self._exits = contextlib.ExitStack()
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder / "inductor"))
        self._fake_device()
        self._fake_clock()
        self._shorten_configs()
        settings = {
            "max_autotune_gemm": True,
            "compile_threads": 1,
            "use_static_triton_launcher": False,
            "fx_graph_cache": False,
        }
        self._exits.enter_context(config.patch(settings))
        clear_caches()

    def close(self):
        self._exits.close()
        clear_caches()

    def forget(self):
        """Forget what only this process knows, as a new process would."""
        clear_caches()

    def lose_cache(self):
        """Remove all that Inductor keeps on disk."""
        shutil.rmtree(os.environ["TORCHINDUCTOR_CACHE_DIR"])
        self.forget()

    @contextlib.contextmanager
    def lowered(self, function, *shapes, dtype=torch.float16):
        """Lower a function of matrices; its choices can be asked for within."""
        mode = FakeTensorMode(shape_env=ShapeEnv())
        with mode:
            inputs = [torch.empty(s, dtype=dtype, device="cuda") for s in shapes]
        module = make_fx(function, tracing_mode="fake")(*inputs)
        graph = GraphLowering(module, example_inputs=inputs, shape_env=mode.shape_env)
        with (
            V.set_fake_mode(mode),
            V.set_graph_handler(graph),
            V.set_debug_handler(DebugContext()),
        ):
            graph.run(*inputs)
            yield graph

    def timings(self, function, *shapes, **options):
        """Return what Inductor is told of the choices of the first product."""
        with self.lowered(function, *shapes, **options) as graph:
            (buffer,) = [o for o in graph.operations if hasattr(o, "choice_timings")]
            # As within its scheduler.
            graph.scheduler = object()
            with _disable_current_modes():
                return buffer.choice_timings()

    def generate(self, function, *shapes, **options):
        """Return the code that Inductor writes."""
        lowered = self.lowered(function, *shapes, **options)
        with lowered as graph, _disable_current_modes():
            return graph.codegen()[0].value

    def _fake_device(self):
        for owner, name, value in (
            (torch.cuda, "is_available", lambda: True),
            (torch.cuda, "device_count", lambda: 1),
            (torch.cuda, "current_device", lambda: 0),
            (torch.cuda, "get_device_properties", lambda device=None: H200),
            (torch.cuda, "get_device_capability", lambda device=None: (9, 0)),
            (torch.cuda, "is_tf32_supported", lambda *_: True),
            (torch.version, "cuda", "12.8"),
            (triton_helpers, "set_driver_to_gpu", lambda: None),
            (simulated_cuda, "config_of", _see_constants(simulated_cuda.config_of)),
        ):
            self._patch.setattr(owner, name, value)
        functions = {
            "get_device_properties": lambda device=None: H200,
            "is_available": lambda: True,
            "current_device": lambda: 0,
            "device_count": lambda: 1,
            "synchronize": lambda device=None: self.cuda.synchronize(),
            "get_raw_stream": lambda device=0: 0,
            "get_compute_capability": lambda device=None: 90,
            "exchange_device": lambda device: 0,
            "maybe_exchange_device": lambda device: 0,
            "device": lambda device: contextlib.nullcontext(),
        }
        for name, function in functions.items():
            self._patch.setattr(CudaInterface, name, staticmethod(function))
        for name in ("get_device_properties", "current_device"):
            function = staticmethod(functions[name])
            self._patch.setattr(CudaInterface.Worker, name, function)
        self._patch.setattr(
            select_algorithm.AlgorithmSelectorCache,
            "generate_example_value",
            staticmethod(_make_value),
        )
        # Generated code imports it, and never calls it here.
        self._patch.setattr(
            torch._C, "_cuda_getCurrentRawStream", lambda device: 0, raising=False
        )
        for name in ("mm", "addmm", "bmm", "baddbmm", "bias_addmm"):
            self._patch.setattr(select_algorithm.extern_kernels, name, self._extern)

    def _extern(self, *inputs, out=None, **options):
        self.cuda.clock.now += self.extern_ms

    def _fake_clock(self):
        cuda = self.cuda

        class Clock:
            """Reads the simulated time."""

            def __init__(self, device=None):
                self.time_batch = cuda.clock.time_batch

            @contextlib.contextmanager
            def on_stream(self):
                yield None

            def close(self):
                """Hold nothing."""

        self._patch.setattr("fasta_learn.inductor._graph_clock.GraphClock", Clock)

        def benchmark_gpu(benchmarker, launch, **options):
            return float(cuda.clock.time_batch(launch, 3)[1])

        self._patch.setattr(type(benchmarker), "benchmark_gpu", benchmark_gpu)

    def _shorten_configs(self):
        for template, operation in (
            ("triton::mm", "mm"),
            ("triton::mm", "addmm"),
            ("triton::bmm", "bmm"),
            ("triton::bmm", "baddbmm"),
        ):
            heuristic = get_template_heuristic(template, "cuda", operation)
            if len(heuristic.mm_configs) > N_STOCK:
                few = heuristic.mm_configs[5 : 5 + N_STOCK]
                self._patch.setattr(heuristic, "mm_configs", few)


def _see_constants(config_of):
    def see(source, metadata):
        found = _CONSTANT.findall(source.fn.src)
        return {
            **config_of(source, metadata),
            **{name: int(value) for name, value in found},
        }

    return see


def _make_value(size, stride, device, dtype, extra_size, allocation_size=None):
    n = sum((s - 1) * step for s, step in zip(size, stride, strict=True)) + 1
    return torch.zeros(n, dtype=dtype).as_strided(size, stride)
