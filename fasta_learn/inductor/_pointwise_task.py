"""What is to be tuned: the facts about a kernel, its pool, and where it is known."""

import functools
import math
from dataclasses import dataclass
from typing import Any

import fasta_learn
from fasta_learn._compat import import_extra
from fasta_learn.autotuner._identity import identify_device
from fasta_learn.autotuner._store import pool_hash, short_hash
from fasta_learn.configs import config_key
from fasta_learn.inductor._measurements import ConfigStore, StoredPrior, family_of
from fasta_learn.inductor._pointwise_kernels import KINDS, REST
from fasta_learn.inductor._pointwise_pool import KernelFacts, make_pool
from fasta_learn.inductor._pointwise_prior import InductorPrior
from fasta_learn.inductor._settings import Settings

# Changes with the way in which configs are timed or compiled.
_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Task:
    """A kernel to tune.

    Attributes
    ----------
    kind : str
        As in `SearchRecord`.
    name : str
        Name of the kernel.
    pool : list of dict
        The configs, Inductor's own first.
    n_stock : int
        How many are Inductor's.
    prior : object with ``predict``, or None
        What is known beforehand.
    first : list of int
        Indices of the pool of configs to be measured first.
    store : ConfigStore
        Where results are kept.
    identity : dict
        What is measured, for the store.
    choice : str
        What a decision depends on beyond that, for the store.
    shape, dtype : str
        For people.
    """

    kind: str
    name: str
    pool: list[dict[str, Any]]
    n_stock: int
    prior: Any
    first: list[int]
    store: ConfigStore
    identity: dict[str, Any]
    choice: str
    shape: str
    dtype: str


def make_task(
    tuner: Any, launchers: list[Any], args: tuple[Any, ...], settings: Settings
) -> Task:
    """Describe the task of tuning a kernel.

    Parameters
    ----------
    tuner : CachingAutotuner
        Inductor's tuner of the kernel, which `refusal` has no reason against.
    launchers : list of callable
        Those of Inductor's own configs.
    args : tuple
        Arguments of the first call.
    settings : Settings
        How to tune.

    Returns
    -------
    Task
        The task.
    """
    heuristics = import_extra("torch._inductor.runtime.triton_heuristics", "torch")
    stock: dict[str, dict[str, Any]] = {}
    for launcher in launchers:
        config = heuristics.config_to_dict(launcher.config)
        stock.setdefault(config_key(config), config)
    kind = KINDS[tuner.heuristic_type.name]
    configs = list(stock.values())
    prior: Any = None
    if kind == "user_triton":
        rest = {config_key(config): config for config in getattr(tuner, REST, ())}
        pool = list({**stock, **rest}.values())
    else:
        facts = find_facts(tuner, configs, kind)
        pool, prior = make_pool(facts), InductorPrior(facts, is_outer=_is_outer(tuner))
    store, identity = _open_store(tuner, args, settings)
    relatives = store.relatives(identity)
    known = {config_key(config): i for i, config in enumerate(pool)}
    first = list(range(len(configs)))
    if relatives:
        prior = StoredPrior(relatives, prior)
        first += [known[relatives[0].winner]] if relatives[0].winner in known else []
    return Task(
        kind=kind,
        name=tuner.fn.__name__,
        pool=pool,
        n_stock=len(configs),
        prior=prior,
        first=list(dict.fromkeys(first)),
        store=store,
        identity=identity,
        choice=short_hash(
            [pool_hash(pool), settings.cache_key(), fasta_learn.__version__]
        ),
        shape="x".join(str(size) for size in (tuner.size_hints or {}).values()),
        dtype=_dtypes_of(tuner),
    )


def find_facts(tuner: Any, stock: list[dict[str, Any]], kind: str) -> KernelFacts:
    """Return what the configs of a generated kernel depend on.

    Parameters
    ----------
    tuner : CachingAutotuner
        Inductor's tuner of the kernel.
    stock : list of dict
        Inductor's configs.
    kind : str
        Kind of the kernel.

    Returns
    -------
    KernelFacts
        The facts.
    """
    hints = import_extra("torch._inductor.runtime.hints", "torch")
    meta, device = tuner.inductor_meta, tuner.device_props
    sizes = {axis: int(size) for axis, size in tuner.size_hints.items()}
    least = dict(meta.get("tma_min_block_sizes") or {})
    for name, key in (("XBLOCK", "min_xblock"), ("R0_BLOCK", "min_rblock")):
        least[name] = max(least.get(name, 1), meta.get(key) or 1)
    reduced = math.prod(size for axis, size in sizes.items() if axis[0] == "r")
    most_stages = 2 if reduced > 8192 else 3
    if not meta.get("mix_order_reduction_allow_multi_stages", True):
        most_stages = 1
    most_threads = device.max_threads_per_block or 1024
    return KernelFacts(
        kind=kind,
        sizes=sizes,
        stock=stock,
        most={axis.lower(): most for axis, most in hints.TRITON_MAX_BLOCK.items()},
        least=least,
        n_processors=device.multi_processor_count,
        most_warps=most_threads // (device.warp_size or 32),
        split=meta.get("RSPLIT_SIZE"),
        most_stages=most_stages,
    )


def _is_outer(tuner: Any) -> bool:
    hint = tuner.inductor_meta.get("reduction_hint")
    return getattr(hint, "name", "") in ("OUTER", "OUTER_TINY")


def _open_store(
    tuner: Any, args: tuple[Any, ...], settings: Settings
) -> tuple[ConfigStore, dict[str, Any]]:
    source, meta = tuner.fn.src, tuner.triton_meta
    numbers = [value for value in args if type(value) is int]
    hints = tuner.size_hints or {}
    identity = {
        "version": _VERSION,
        "key": [*(int(hints[axis]) for axis in sorted(hints)), *numbers],
        "source": short_hash(source),
        "signature": {name: str(kind) for name, kind in meta["signature"].items()},
        "attributes": short_hash(str(meta.get("configs"))),
        "device": _device(meta["device"]),
    }
    if tuner.inductor_meta.get("force_disable_caches"):
        settings = Settings(store=False)
    family = [family_of(source), sorted(hints)]
    return ConfigStore(settings, tuner.fn.__name__, family), identity


@functools.cache
def _device(index: int) -> dict[str, Any]:
    """Describe the device of a kernel, once: asking takes longer than a config."""
    return identify_device()


def _dtypes_of(tuner: Any) -> str:
    kinds = tuner.triton_meta["signature"].values()
    pointers = (str(kind)[1:] for kind in kinds if str(kind).startswith("*"))
    return "/".join(dict.fromkeys(pointers))
