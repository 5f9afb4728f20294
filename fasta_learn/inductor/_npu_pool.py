"""The candidates of a kernel on an Ascend NPU, as a search sees them."""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fasta_learn.configs import config_key

# They repeat other parameters of a config, or are the same in all of them.
_BOOKKEEPING = ("split_axis", "split_blocks")
_SUB, _BLOCK = "BLOCK_SUB", "BLOCK"
_WORK = "elements_of_busiest_core"


@dataclass(frozen=True)
class Candidates:
    """What can be measured.

    Attributes
    ----------
    configs : list of dict
        The configs, each once, without what only repeats their other parameters.
    variants : list of str
        For each, the name of what is compiled for it.
    full : list of dict
        For each, the config as torch_npu writes it.
    """

    configs: list[dict[str, Any]]
    variants: list[str]
    full: list[dict[str, Any]]

    def __len__(self) -> int:
        return len(self.configs)

    @functools.cached_property
    def keys(self) -> list[str]:
        """Canonical text of each config."""
        return [config_key(config) for config in self.configs]


def find_candidates(plan: Mapping[str, Any]) -> Candidates:
    """Return the candidates of a plan.

    Parameters
    ----------
    plan : mapping
        What torch_npu's ``build_candidate_plan`` makes.

    Returns
    -------
    Candidates
        In the order of the plan.
    """
    found: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {}
    for entry in plan["candidate_entries"]:
        full = entry["full_config"]
        config = {k: v for k, v in full.items() if k not in _BOOKKEEPING}
        found.setdefault(config_key(config), (config, entry["variant_id"], full))
    rows = list(found.values())
    return Candidates(
        [config for config, _, _ in rows],
        [variant for _, variant, _ in rows],
        [full for _, _, full in rows],
    )


def describe_work(
    configs: Sequence[Mapping[str, Any]], sizes: Any, n_cores: int
) -> list[dict[str, Any]]:
    """Add to configs what no single parameter of theirs tells.

    Parameters
    ----------
    configs : sequence of mapping
        The configs.
    sizes : mapping of str to int, or anything else
        Size of each axis, such as ``{"x0": 4096, "r1": 1024}``; without sizes
        nothing is added.
    n_cores : int
        Vector cores of the device.

    Returns
    -------
    list of dict
        With the number of elements that the busiest core works through, whole tiles
        at the ends of axes included: that steps up where one more round of programs
        begins, which the blocks alone don't show.
    """
    if not isinstance(sizes, Mapping):
        return [dict(config) for config in configs]
    return [
        {**config, _WORK: _count_work(config, sizes, n_cores)} for config in configs
    ]


def _count_work(
    config: Mapping[str, Any], sizes: Mapping[str, Any], n_cores: int
) -> int:
    programs = elements = 1
    for axis in {_axis_of(name) for name in config} - {None}:
        assert axis is not None
        block, sub = config.get(axis + _BLOCK), config.get(axis + _SUB)
        size = int(sizes.get(axis.lower(), 0)) or block or sub or 1
        programs *= math.ceil(size / block) if block else 1
        part = min(block or size, size)
        tile = min(sub or part, part)
        elements *= math.ceil(part / tile) * tile
    return elements * math.ceil(programs / n_cores)


def _axis_of(name: str) -> str | None:
    for ending in (_SUB, _BLOCK):
        if name.endswith(ending):
            return name.removesuffix(ending)
    return None


def cannot_fit(
    config: Mapping[str, Any],
    other: Mapping[str, Any],
    required_bits: int | None = None,
    available_bits: int | None = None,
) -> bool:
    """Tell whether a config needs too much of a core's buffer, since another one did.

    Parameters
    ----------
    config, other : mapping
        Two configs of a kernel.
    required_bits, available_bits : int or None, default=None
        What `other` needs of the buffer, and how large that is.

    Returns
    -------
    bool
        True if `config` has no smaller tile and no fewer buffers than `other`, or if it
        has a part of its tile, and that part of what `other` needs is too much still:
        small tiles need no less for an element than large ones. False if what is
        compiled into them differs otherwise.
    """
    if config.keys() != other.keys():
        return False
    tiles = [name for name in other if name.endswith(_SUB)]
    rest = [n for n in other if n not in tiles and not n.endswith(_BLOCK)]
    if any(config[n] != other[n] for n in rest if n != "multibuffer"):
        return False
    shares = [config[name] / other[name] for name in tiles]
    buffers, others = config.get("multibuffer"), other.get("multibuffer")
    if min(shares, default=0) >= 1 and (buffers or not others):
        return True
    if required_bits is None or available_bits is None or buffers != others:
        return False
    return max(shares, default=0) <= 1 and (
        required_bits * math.prod(shares) > available_bits
    )
