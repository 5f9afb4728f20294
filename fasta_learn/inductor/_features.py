"""Installs the parts of the integration, each once Inductor has what it hooks into."""

import importlib
import sys
from functools import partial
from pathlib import Path
from typing import Any

from fasta_learn.inductor import _hooks, _statistics, _workers
from fasta_learn.inductor._guard import warn_once
from fasta_learn.inductor._imports import when_imported
from fasta_learn.inductor._patches import Patches
from fasta_learn.inductor._settings import Settings

_CONFIG = "torch.compiler.config"
# Its hooks are in torch_npu, whose versions are its own: `_npu` checks them.
_NPU = "torch_npu._inductor.runtime.triton_heuristics"
_GPU_FEATURES = ("gemm", "pointwise")


def install(settings: Settings, patches: Patches) -> None:
    """Patch Inductor, now or as soon as it is imported.

    Parameters
    ----------
    settings : Settings
        What to install, and how to tune.
    patches : Patches
        What undoes it.
    """
    if settings.statistics is not None:
        path = Path(settings.statistics).expanduser().absolute()
        patches.set(_statistics, "_path", path)
    patches.at_end(when_imported(_CONFIG, partial(_tag_caches, settings, patches)))
    for feature, module in {**_hooks.TRIGGERS, "npu": _NPU}.items():
        if getattr(settings, feature, True):
            add = partial(_install_feature, feature, settings, patches)
            patches.at_end(when_imported(module, add))


def _install_feature(feature: str, settings: Settings, patches: Patches) -> None:
    """Install all of a feature or, if it does not fit this version, nothing of it."""
    if feature in _GPU_FEATURES and "torch_npu" in sys.modules:
        return  # which has its own ways, and no other accelerator beside it
    n_kept = len(patches)
    try:
        _hooks.require(feature)
        if feature == "workers":
            _workers.install(settings, patches)
        else:
            module = importlib.import_module(f"fasta_learn.inductor._{feature}")
            module.install(settings, patches)
    except Exception as error:
        patches.undo(n_kept)
        # Another thread may have turned the switch off in the meantime.
        if not patches.is_over:
            warn_once(feature, error)


def _tag_caches(settings: Settings, patches: Patches) -> None:
    """Keep Inductor from finding the kernels that it chose with other settings."""
    config: Any = sys.modules[_CONFIG]
    before = config.cache_key_tag
    tag = f"{before}fasta_learn-{settings.cache_key()}"
    config.cache_key_tag = tag

    def restore() -> None:
        if config.cache_key_tag == tag:
            config.cache_key_tag = before

    patches.at_end(restore)
