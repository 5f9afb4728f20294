"""Which configs a kernel that Inductor has generated can run with."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fasta_learn.configs import TileSpace, config_key

# Registers and occupancy: beyond these shares of a tile a thread only spills or idles.
_MOST_PER_THREAD = {"pointwise": 32, "reduction": 64, "persistent_reduction": 64}
_MOST_TILE = {"pointwise": 16384, "reduction": 65536, "persistent_reduction": 65536}
# Smaller tiles leave more to the launch of blocks than to the kernel.
_LEAST_TILE = {"pointwise": 64, "reduction": 128, "persistent_reduction": 1}
_THREADS_PER_WARP = 32
_MOST_BLOCKS = {"x": 2**31 - 1, "y": 65535, "z": 65535}
# A pool of more configs costs the search more time than it gains.
_MOST_CONFIGS = 600


@dataclass(frozen=True, kw_only=True)
class KernelFacts:
    """What the configs of a kernel depend on.

    Attributes
    ----------
    kind : {"pointwise", "reduction", "persistent_reduction"}
        How the kernel is written.
    sizes : dict of str to int
        Inductor's size hints by axis ("x", "y", "z", "r0_", "r1_"): powers of two, not
        below the sizes.
    stock : list of dict
        Inductor's own configs, the one that it would take without tuning first.
    most : dict of str to int
        The largest block that the generated code is right for, by axis.
    least : dict of str to int
        The smallest block that it can be compiled with, by name of the block.
    n_processors : int
        Number of multiprocessors of the device.
    most_warps : int
        Largest number of warps of a block.
    split : int or None
        Rows that a block of a mix-order reduction goes over.
    most_stages : int
        Largest number of stages of its loop.
    """

    kind: str
    sizes: dict[str, int]
    stock: list[dict[str, Any]]
    most: dict[str, int]
    least: dict[str, int] = field(default_factory=dict)
    n_processors: int = 132
    most_warps: int = 32
    split: int | None = None
    most_stages: int = 1

    @property
    def reduced(self) -> int:
        """Product of the sizes that are reduced."""
        return math.prod(s for axis, s in self.sizes.items() if axis[0] == "r")


def make_pool(facts: KernelFacts) -> list[dict[str, Any]]:
    """Return the configs that are worth a search.

    Parameters
    ----------
    facts : KernelFacts
        The kernel.

    Returns
    -------
    list of dict
        Inductor's own configs first, in their order; each once. Only those if nothing
        else fits the kernel.
    """
    pool = {config_key(config): config for config in facts.stock}
    for config in _thinned(_fitting(facts)):
        pool.setdefault(config_key(config), config)
    return list(pool.values())


def _fitting(facts: KernelFacts) -> list[dict[str, Any]]:
    first = facts.stock[0]
    parameters = {name: _values(name, value, facts) for name, value in first.items()}
    # Inductor's configs of one kernel differ in nothing else.
    n_free = sum(len(values) > 1 for values in parameters.values())
    if not n_free:
        return []
    checks = _Checks(facts)
    try:
        return list(TileSpace(parameters, constraints=[checks.fits]))
    except ValueError:  # nothing but what Inductor found
        return []


def _values(name: str, value: Any, facts: KernelFacts) -> list[Any]:
    if name.endswith("BLOCK"):
        axis = axis_of(name)
        high = min(facts.most.get(axis, value), facts.sizes.get(axis, value))
        if name == "XBLOCK" and facts.split:
            high = min(high, facts.split)
        low = max(1, facts.least.get(name, 1))
        if high < low or low & (low - 1) or high & (high - 1):
            return [value]
        return TileSpace.powers_of_two(low, high)
    if name == "num_warps":
        return TileSpace.powers_of_two(1, facts.most_warps)
    if name == "NUM_STAGES" and facts.split:
        return list(range(1, facts.most_stages + 1))
    # Loops without a product of matrices compile to the same code for all num_stages.
    return [value]


def axis_of(name: str) -> str:
    """Return the axis that a block belongs to.

    Parameters
    ----------
    name : str
        Such as "XBLOCK" or "R0_BLOCK".

    Returns
    -------
    str
        Such as "x" or "r0_".
    """
    return name.removesuffix("BLOCK").lower()


class _Checks:
    """What a config must satisfy."""

    def __init__(self, facts: KernelFacts) -> None:
        self._facts = facts
        self._is_persistent = facts.kind == "persistent_reduction"
        self._size = math.prod(facts.sizes.values())
        self._least_tile = min(_LEAST_TILE[facts.kind], self._size)
        # With few blocks most of the device idles; small kernels can't have many.
        most_programs = math.prod(s for a, s in facts.sizes.items() if a[0] != "r")
        enough = min(
            facts.n_processors // 4, self._size // (4 * _LEAST_TILE[facts.kind])
        )
        self._least_programs = min(enough, most_programs)

    def fits(self, config: dict[str, Any]) -> bool:
        """Tell whether a config is worth a try."""
        facts, kind = self._facts, self._facts.kind
        tile, programs = 1, 1
        for name, block in config.items():
            if not name.endswith("BLOCK"):
                continue
            axis = axis_of(name)
            tile *= block
            if axis[0] != "r":
                n_blocks = -(-facts.sizes.get(axis, block) // block)
                if n_blocks > _MOST_BLOCKS.get(axis, 1):
                    return False
                programs *= n_blocks
        if self._is_persistent:
            tile *= facts.reduced
        if facts.split:  # the number of blocks is fixed
            if facts.split % config["XBLOCK"]:
                return False
        elif programs < self._least_programs:
            return False
        if not self._least_tile <= tile <= _MOST_TILE[kind]:
            return False
        warps: int = config["num_warps"]
        per_thread = tile / (_THREADS_PER_WARP * warps)
        return per_thread <= _MOST_PER_THREAD[kind] and (per_thread >= 1 or warps == 1)


def _thinned(configs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out every other value of the block with the most values, if need be."""
    configs = list(configs)
    while len(configs) > _MOST_CONFIGS:
        names = [name for name in configs[0] if name.endswith("BLOCK")]
        values = {name: sorted({c[name] for c in configs}) for name in names}
        widest = max(names, key=lambda name: len(values[name]))
        if len(values[widest]) < 3:
            return configs[:: -(-len(configs) // _MOST_CONFIGS)]
        kept = set(values[widest][::-2])
        configs = [config for config in configs if config[widest] in kept]
    return configs
