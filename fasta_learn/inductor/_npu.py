"""Searches the configs of kernels for Ascend NPUs, where torch_npu is installed.

torch_npu takes its autotuner by the name of a global variable of its module; a subclass
of it is put there. Nothing in torch_npu is changed that is not put back.
"""

import contextlib
import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from fasta_learn.configs import ConfigPruner, expand_multibuffer
from fasta_learn.inductor import _guard, _npu_hooks
from fasta_learn.inductor._npu_autotuner import HEURISTICS, find_stock, make_autotuner
from fasta_learn.inductor._npu_settings import NPUSettings
from fasta_learn.inductor._patches import Patches
from fasta_learn.inductor._settings import Settings


def install(settings: Settings, patches: Patches) -> None:
    """Put the autotuner that searches in the place of torch_npu's.

    Parameters
    ----------
    settings : Settings
        How to search.
    patches : Patches
        What undoes it.

    Raises
    ------
    HookMismatchError
        This version of torch_npu differs from those that fasta_learn knows.

    Warns
    -----
    logging.WARNING
        torch_npu is too old, or a variable of the environment has no valid value;
        torch_npu tunes in its own way then.
    """
    reason = _npu_hooks.unsupported()
    try:
        npu = NPUSettings.from_environment()
    except ValueError as error:
        reason = str(error)
    if reason is not None:
        _guard.logger.warning("%s Kernels for NPUs are not searched.", reason)
        return
    if not npu.enabled:
        return
    _npu_hooks.require()
    heuristics: Any = sys.modules[HEURISTICS]
    if npu.optimizes:  # its generator; derived from torch_npu's class, not from ours
        with contextlib.suppress(Exception):
            importlib.import_module("torch_npu._inductor.runtime.fasta_autotune")
    autotuner = make_autotuner(find_stock(), settings, npu)
    patches.set(heuristics, "NPUCachingAutotuner", autotuner)
    if npu.optimizes:
        stock = heuristics.triton_config_npu_index
        patches.set(heuristics, "triton_config_npu_index", _optimized(stock))
    _tag_caches(npu, patches)


def _tag_caches(npu: NPUSettings, patches: Patches) -> None:
    """Keep Inductor from finding what the environment had chosen otherwise."""
    config: Any = sys.modules.get("torch.compiler.config")
    if config is None or not npu.cache_tag():
        return
    before = config.cache_key_tag
    config.cache_key_tag = before + npu.cache_tag()
    patches.at_end(functools.partial(setattr, config, "cache_key_tag", before))


def _optimized(stock: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Return a generator of configs that makes more of them, and prunes these."""

    @functools.wraps(stock)
    def triton_config_npu_index(
        size_hints: Any, inductor_meta: dict[str, Any], *args: Any, **kwargs: Any
    ) -> list[Any]:
        configs = stock(size_hints, inductor_meta, *args, **kwargs)
        # Groups of shapes have plans of their own.
        if inductor_meta.get("group_enabled", False):
            return configs
        try:
            more = _fine_configs(
                stock, configs, size_hints, inductor_meta, args, kwargs
            )
            return optimize(configs, more)
        except Exception as error:
            _guard.warn_once("npu by FASTA_CONFIG_OPTIMIZER", error)
            return configs

    return triton_config_npu_index


def optimize(experts: list[Any], others: list[Any]) -> list[Any]:
    """Return the pool of the config optimizer.

    Parameters
    ----------
    experts : list of triton.Config
        torch_npu's own configs, which all stay.
    others : list of triton.Config
        Further ones, which are pruned.

    Returns
    -------
    list of triton.Config
        Those that stay, each with and without a second buffer unless it says itself.
    """
    for config in experts:
        config.from_expert = True
    pool = ConfigPruner().fit_transform([*experts, *others])
    return expand_multibuffer(pool)


def _fine_configs(
    stock: Callable[..., list[Any]],
    experts: list[Any],
    size_hints: Any,
    inductor_meta: dict[str, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> list[Any]:
    """Return the configs of torch_npu's finer generator, which its experts lack."""
    try:
        with _fine_generator():
            made = stock(size_hints, inductor_meta, *args, **kwargs)
    except Exception as error:  # for some kernels it is broken in torch_npu itself
        _guard.logger.debug("torch_npu's finer generator of configs fails: %s", error)
        return []
    fine = [config for config in made if not getattr(config, "from_expert", False)]
    modes = {config.kwargs.get("compile_mode") for config in experts}
    if len(modes) != 1:
        return []
    for config in fine:
        config.num_warps, config.num_stages = (
            experts[0].num_warps,
            experts[0].num_stages,
        )
        if modes != {None}:
            config.kwargs["compile_mode"] = experts[0].kwargs["compile_mode"]
    return fine


@contextlib.contextmanager
def _fine_generator() -> Iterator[None]:
    """Let torch_npu use its finer generator of configs."""
    config: Any = sys.modules[HEURISTICS].npu_config
    before, config.fasta_autotune = config.fasta_autotune, True
    try:
        yield
    finally:
        config.fasta_autotune = before
