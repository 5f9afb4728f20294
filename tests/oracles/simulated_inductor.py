"""Kernels as TorchInductor generates them, tuned on the simulated device.

Sources, tuners, compiles and caches are Inductor's own. Simulated are the device below
(see `simulated_cuda`) and the processes that compile: a job runs in this process, and
its answer goes through pickle as that of a worker does.
"""

import contextlib
import functools
import hashlib
import pickle
from concurrent.futures import Future

import torch
from torch._dynamo import device_interface
from torch._inductor import async_compile, config
from torch._inductor.runtime import compile_tasks, triton_helpers, triton_heuristics

from fasta_learn.inductor import _pointwise, _pointwise_search
from fasta_learn.inductor._patches import Patches
from fasta_learn.inductor._settings import Settings

_HEAD = """
import triton
import triton.language as tl

from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math
from torch._inductor.runtime.hints import (
    AutotuneHint, ReductionHint, TileHint, DeviceProperties
)

"""
_DEVICE = (
    "DeviceProperties(type='cuda', index=0, multi_processor_count=132, cc=90, major=9, "
    "regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048, "
    "max_threads_per_block=1024, warp_size=32)"
)
_META = {
    "autotune_local_cache": True,
    "autotune_pointwise": True,
    "autotune_remote_cache": None,
    "force_disable_caches": False,
    "dynamic_scale_rblock": False,
    "max_autotune": False,
    "max_autotune_pointwise": True,
    "min_split_scan_rblock": 256,
    "spill_threshold": 16,
    "store_cubin": False,
    "deterministic": False,
}
MARKS = {
    "coordinate_descent_tuning": True,
    "fasta_learn_stock_tuning": False,
    "fasta_learn": "settings",
}

_POINTWISE = """
@triton_heuristics.pointwise(
    size_hints={'x': 1048576},
    filename=__file__,
    triton_meta={
        'signature': {
            'in_ptr0': '*fp32', 'out_ptr0': '*fp32', 'xnumel': 'i32',
            'XBLOCK': 'constexpr'},
        'device': DEVICE, 'constants': {}, 'configs': [{
            (0,): [['tt.divisibility', 16]], (1,): [['tt.divisibility', 16]],
            (2,): [['tt.divisibility', 16]]}]},
    inductor_meta={
        'grid_type': 'Grid1D', 'autotune_hints': set(),
        'kernel_name': 'triton_poi_fused_add_0',
        'mutated_arg_names': MUTATED, 'optimize_mem': True, 'no_x_dim': False,
        'num_load': 1, 'num_reduction': 0, **META},
    min_elem_per_thread=0
)
@triton.jit
def triton_poi_fused_add_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 1000000
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0), xmask)
    tmp1 = tmp0 + 1.0
    tl.store(out_ptr0 + (x0), tmp1, xmask)
"""

_REDUCTION = """
@triton_heuristics.reduction(
    size_hints={'x': 4096, 'r0_': 8192},
    reduction_hint=ReductionHint.INNER,
    filename=__file__,
    triton_meta={
        'signature': {
            'in_ptr0': '*fp16', 'out_ptr0': '*fp32', 'xnumel': 'i32', 'r0_numel': 'i32',
            'XBLOCK': 'constexpr', 'R0_BLOCK': 'constexpr'},
        'device': DEVICE, 'constants': {}, 'configs': [{
            (0,): [['tt.divisibility', 16]], (1,): [['tt.divisibility', 16]],
            (2,): [['tt.divisibility', 16]]}]},
    inductor_meta={
        'grid_type': 'Grid1D', 'autotune_hints': set(),
        'kernel_name': 'triton_red_fused_sum_0',
        'mutated_arg_names': MUTATED, 'optimize_mem': True, 'no_x_dim': False,
        'num_load': 1, 'num_reduction': 1, **META}
)
@triton.jit
def triton_red_fused_sum_0(
    in_ptr0, out_ptr0, xnumel, r0_numel, XBLOCK: tl.constexpr, R0_BLOCK: tl.constexpr
):
    xnumel = 4096
    r0_numel = 6000
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    _tmp2 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        tmp0 = tl.load(in_ptr0 + (r0_index + 6000*xindex), r0_mask, other=0.0)
        tmp0 = tmp0.to(tl.float32)
        _tmp2 = tl.where(r0_mask, _tmp2 + tmp0, _tmp2)
    tmp2 = tl.sum(_tmp2, 1)[:, None]
    tl.store(out_ptr0 + (xindex), tmp2, xmask)
"""

_USER = """
@triton_heuristics.user_autotune(
    configs=[
        {'BLOCK': 64 * 2**i, 'num_warps': 2**j, 'num_stages': 1}
        for i in range(4) for j in range(3)
    ],
    inductor_meta={
        'grid_type': 'PrecomputedGrid', 'precomputed_grids': [
            {
                'config': {'BLOCK': 64 * 2**i},
                'python': [str(10000 // (64 * 2**i)), '1', '1'],
            }
            for i in range(4)
        ],
        'kernel_name': 'double_0', **META},
    triton_meta={
        'signature': {
            'x': '*fp32', 'n': 'i32', 'BLOCK': 'constexpr'},
        'device': DEVICE, 'constants': {}, 'configs': [{
            (0,): [['tt.divisibility', 16]]}], 'restore_value': ('x',)},
    filename=__file__,
    custom_kernel=True,
)
@triton.jit
def double_0(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, 2 * tl.load(x + at, at < n), at < n)
"""

SOURCES = {"pointwise": _POINTWISE, "reduction": _REDUCTION, "user": _USER}
NAMES = {
    "pointwise": "triton_poi_fused_add_0",
    "reduction": "triton_red_fused_sum_0",
    "user": "double_0",
}


def write_source(kind, mutated=(), **meta):
    """Give the module of a kernel as Inductor writes it."""
    meta = {**_META, **MARKS, **meta}
    meta = {name: value for name, value in meta.items() if value is not None}
    source = (
        SOURCES[kind].replace("DEVICE", _DEVICE).replace("MUTATED", repr([*mutated]))
    )
    return _HEAD + source.replace("META", repr(meta))


class Workers:
    """Stands for Inductor's processes; their answers are made by pickle."""

    def __init__(self):
        self.jobs = []

    def submit(self, function, *args):
        self.jobs.append(args)
        function, args = pickle.loads(pickle.dumps((function, args)))
        future = Future()
        try:
            answer = pickle.dumps(function(*args))
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(pickle.loads(answer))
        return future


class _Interface:
    """What Inductor asks of the device."""

    @staticmethod
    def get_raw_stream(device):
        return 0

    @staticmethod
    def current_device():
        return 0


class SimulatedInductor:
    """Inductor's tuners on a simulated device, with tuning on.

    Parameters
    ----------
    cuda : SimulatedCuda
        The device.
    folder : path
        Of Inductor's cache.
    monkeypatch : MonkeyPatch
        What undoes it.
    n_workers : int
        How many processes compile.
    **settings
        How to tune.
    """

    def __init__(self, cuda, folder, monkeypatch, n_workers=4, **settings):
        self.cuda, self.folder = cuda, folder
        self.workers = Workers()
        self.settings = Settings(**{"store": str(folder / "store"), **settings})
        self.patches = Patches()
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder))
        monkeypatch.setattr(triton_helpers, "set_driver_to_gpu", lambda: None)
        self._exits = contextlib.ExitStack()
        self._exits.enter_context(config.patch(use_static_triton_launcher=False))
        monkeypatch.setattr(
            device_interface, "DeviceGuard", lambda *_: contextlib.nullcontext()
        )
        tuner = triton_heuristics.CachingAutotuner
        monkeypatch.setattr(tuner, "get_device_interface", lambda self: _Interface)
        monkeypatch.setattr(tuner, "bench", self._bench)
        monkeypatch.setattr(async_compile, "get_compile_threads", lambda: n_workers)
        pool = async_compile.AsyncCompile
        get_pool = functools.cache(
            lambda: self.workers
        )  # Inductor clears it in the end
        monkeypatch.setattr(pool, "process_pool", get_pool)
        monkeypatch.setattr(pool, "use_process_pool", lambda: n_workers > 1)
        monkeypatch.setattr(_pointwise_search, "make_clock", lambda tuner: _Clock(cuda))
        self.turn_on()

    def turn_on(self):
        """Patch Inductor, as the switch does."""
        _pointwise.install(self.settings, self.patches)

    def turn_off(self):
        """Undo it."""
        self.patches.undo()

    def close(self):
        """Leave Inductor as it was."""
        self.turn_off()
        self._exits.close()

    def write(self, kind, **meta):
        """Write the source of a kernel into Inductor's cache."""
        source = write_source(kind, **meta)
        name = hashlib.sha256(source.encode()).hexdigest()[:20]
        path = self.folder / "so" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
        return path

    def load(self, kind, **meta):
        """Compile a kernel in this process, as Inductor does without workers."""
        path = self.write(kind, **meta)
        module = compile_tasks._reload_python_module(path.stem, str(path), False)
        tuner = getattr(module, NAMES[kind])
        tuner.precompile()
        return tuner

    def load_from_worker(self, kind, **meta):
        """Compile a kernel in a worker, as Inductor does with workers."""
        path = self.write(kind, **meta)

        def load():
            module = compile_tasks._reload_python_module(path.stem, str(path), False)
            return getattr(module, NAMES[kind])

        tuner = load()
        tuner.precompile(warm_cache_only=True)
        tuner.prepare_for_pickle()
        tuner = pickle.loads(pickle.dumps(tuner))
        tuner.restore_after_unpickle(None)
        tuner.precompile(reload_kernel=load)
        return tuner

    def _bench(self, launcher, *args, **kwargs):
        """Time a launcher for Inductor."""
        before = self.cuda.clock.now
        launcher(*args, **kwargs, stream=0)
        return self.cuda.clock.now - before


class _Clock:
    """The simulated clock, which can be closed."""

    def __init__(self, cuda):
        self._cuda = cuda

    def time_batch(self, launch, n_launches, prepare=None):
        durations = self._cuda.clock.time_batch(launch, n_launches, prepare)
        self._cuda.synchronize()
        return durations

    def close(self):
        pass


def arguments_of(kind):
    """Give arguments of the first call of a kernel."""
    if kind == "pointwise":
        return torch.zeros(1000), torch.zeros(1000), 1000000
    if kind == "reduction":
        return torch.zeros(1000, dtype=torch.float16), torch.zeros(10), 4096, 6000
    return torch.ones(100), 10000
