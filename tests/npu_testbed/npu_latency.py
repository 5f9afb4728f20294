"""What launches take on the simulated NPU; not measured on any device."""

import hashlib
import math
import random
from collections import Counter

VECTOR_CORES = 48


class AnalyticLatency:
    """A deterministic model of the duration of a launch.

    An axis X0 has the size ``x0_numel``; ``X0BLOCK`` (else the size) is what one
    program does of it and ``X0BLOCK_SUB`` (else that block) what one iteration of its
    loop does. Other upper-case constexprs count as axes of their own::

        loops = product over axes of ceil(block / sub)
        tile  = product over axes of min(sub, block)                  elements
        move  = tile * bytes / bandwidth + dma                        us, * row penalty
        work  = ceil(tile / lanes) * lane_us                          us
        core  = start + loops * (move + work)                         one buffer
        core  = start + move + (loops - 1) * max(move, work) + work   multibuffer
        total = launch + waves * core,   waves = ceil(programs / 48)

    ``bytes`` is 4 for each tensor argument. A row (the tile's part of the last axis
    with a size) below 32 elements costs in proportion.

    Parameters
    ----------
    noise : float, default=0.0
        Above 0, durations are multiplied by a log-normal factor of that sigma, which
        depends on the seed, the arguments, and how often they came before.
    seed : int, default=0
        Seed of the noise.
    launch, start, dma : float
        Time of a launch, of a program's start, and of a copy's start, in us.
    bandwidth : float, default=25000.0
        Of a core, in bytes / us.
    lanes : int, default=64
        Elements that a core works on at a time.
    lane_us : float, default=0.006
        Time that they take, in us.
    """

    def __init__(
        self,
        noise=0.0,
        seed=0,
        launch=10.0,
        start=0.6,
        dma=0.25,
        bandwidth=25000.0,
        lanes=64,
        lane_us=0.006,
    ):
        self.noise, self.seed = noise, seed
        self.launch, self.start, self.dma = launch, start, dma
        self.bandwidth, self.lanes, self.lane_us = bandwidth, lanes, lane_us
        self._calls = Counter()

    def __call__(self, kernel_name, constants, grid):
        """Return the duration of a launch in ms."""
        loops, tile, row = _shape_of(constants)
        n_bytes = tile * 4 * max(1, constants.get("num_tensors", 2))
        move = (n_bytes / self.bandwidth + self.dma) * max(1.0, 32 / row)
        work = math.ceil(tile / self.lanes) * self.lane_us
        if constants.get("multibuffer"):
            core = self.start + move + (loops - 1) * max(move, work) + work
        else:
            core = self.start + loops * (move + work)
        us = self.launch + math.ceil(math.prod(grid) / VECTOR_CORES) * core
        if self.noise > 0:
            us *= self._factor(f"{kernel_name} {sorted(constants.items())} {grid}")
        return us / 1000.0

    def _factor(self, text):
        key = f"{self.seed} {text}"
        self._calls[key] += 1
        digest = hashlib.sha256(f"{key} {self._calls[key]}".encode()).digest()
        return random.Random(digest).lognormvariate(0.0, self.noise)


def _shape_of(constants):
    """Return loops of a program, elements of a tile, and those of its last axis."""
    axes, last = _axes_of(constants)
    loops, tile, row = 1, 1, 32
    for axis, has in axes.items():
        block = has.get("block") or has.get("size") or has["sub"]
        sub = min(has.get("sub", block), block)
        loops *= math.ceil(block / sub)
        tile *= sub
        if axis == last:
            row = sub
    return loops, tile, row


def _axes_of(constants):
    axes, last = {}, None
    for name, value in constants.items():
        if type(value) is not int or value < 1:
            continue
        if name.endswith("numel"):
            last = name.removesuffix("numel").rstrip("_").upper()
            axes.setdefault(last, {})["size"] = value
        elif name.isupper():
            part = "sub" if name.endswith("_SUB") else "block"
            axis = name.removesuffix("_SUB").removesuffix("BLOCK") or name
            axes.setdefault(axis, {})[part] = value
    return axes, last
