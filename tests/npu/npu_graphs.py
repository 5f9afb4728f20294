"""Graphs that torch_npu's Inductor makes one kernel of, and what tuning them shows.

Latencies are simulated; compiling, its failures and torch_npu itself are real.
"""

import hashlib
import math
import os
import random
from dataclasses import dataclass, field

import npu_testbed
import torch
from torch._inductor.codecache import PyCodeCache
from torch._inductor.utils import fresh_cache

from fasta_learn import inductor
from fasta_learn.inductor._npu_autotuner import find_stock

GRAPHS = {
    "pointwise": (lambda x: torch.relu(x) + 1, (2048, 512)),
    "row_reduction": (lambda x: (x * x).sum(-1), (4096, 1024)),
    "column_reduction": (lambda x: x.sum(0), (4096, 1024)),
    "softmax": (lambda x: torch.softmax(x, -1), (512, 128)),
    "layer_norm": (
        lambda x: torch.nn.functional.layer_norm(x, (x.shape[-1],)),
        (1024, 768),
    ),
}


@dataclass
class Tuned:
    """What tuning a graph shows.

    Attributes
    ----------
    tuners : list
        The autotuners that chose.
    compiles : list of CompileRecord
        What was compiled.
    launches : list of LaunchRecord
        What was launched, the model's own launch last.
    record : dict or None
        The last search, as `inductor.statistics` gives it.
    """

    tuners: list = field(default_factory=list)
    compiles: list = field(default_factory=list)
    launches: list = field(default_factory=list)
    record: dict | None = None

    @property
    def tuner(self):
        (tuner,) = self.tuners
        return tuner

    @property
    def last(self):
        """The launch of the model itself."""
        return self.launches[-1]

    @property
    def variants(self):
        return len(self.tuner.candidate_plan["variant_order"])


def run_graph(name, stock=False, **settings):
    """Compile a graph and run it once, in empty caches of Inductor.

    Kernels of Triton that were compiled before are found again. With `stock`, torch_npu
    tunes it, else the search with these settings.
    """
    kernels = os.environ["TRITON_CACHE_DIR"]
    with fresh_cache():
        os.environ["TRITON_CACHE_DIR"] = kernels
        return run_again(name, stock, **settings)


def run_again(name, stock=False, **settings):
    """Compile a graph and run it once, in the caches as they are."""
    function, shape = GRAPHS[name]
    if stock:
        return _run(function, shape)
    n_before = len(inductor.statistics())
    with inductor.enable(**{"store": False, **settings}):
        tuned = _run(function, shape)
    tuned.record = (inductor.statistics()[n_before:] or [None])[-1]
    return tuned


def _run(function, shape):
    torch._dynamo.reset()
    PyCodeCache.cache_clear()  # so that kernels are loaded as in a new process
    n_compiles, n_launches = len(npu_testbed.compile_log()), npu_testbed.launch_count()
    tuned = Tuned()
    autotuner = find_stock()
    stock_run = autotuner.run

    def run(tuner, *args, **kwargs):
        if tuner not in tuned.tuners:
            tuned.tuners.append(tuner)
        return stock_run(tuner, *args, **kwargs)

    autotuner.run = run
    try:
        torch.compile(function, dynamic=False)(torch.empty(*shape, device="npu"))
    finally:
        autotuner.run = stock_run
    tuned.compiles = npu_testbed.compile_log()[n_compiles:]
    n_new = npu_testbed.launch_count() - n_launches
    tuned.launches = npu_testbed.launch_log()[-n_new:] if n_new else []
    return tuned


class Landscape:
    """Simulated latencies: the test bed's model of a device drawn by a seed.

    Each config is off the model by a factor of its own, of half a percent, so that one
    of them is the fastest.
    """

    def __init__(self, seed):
        draw = random.Random(seed)

        def between(low, high):
            return math.exp(draw.uniform(math.log(low), math.log(high)))

        self.seed = seed
        self.model = npu_testbed.AnalyticLatency(
            launch=between(1, 10),
            start=between(0.2, 2),
            dma=between(0.05, 1),
            bandwidth=between(6000, 60000),
            lane_us=between(0.002, 0.02),
        )

    def __call__(self, kernel_name, constants, grid):
        key = f"{self.seed} {kernel_name} {sorted(constants.items(), key=str)} {grid}"
        draw = random.Random(hashlib.sha256(key.encode()).digest())
        factor = draw.lognormvariate(0.0, 0.005)
        return factor * self.model(kernel_name, constants, grid)
