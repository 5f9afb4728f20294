"""Find a fast launch config of a GPU or NPU kernel after measuring few of them."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fasta_learn.autotuner import autotune
    from fasta_learn.configs import (
        ConfigPruner,
        ConfigVectorizer,
        TileSpace,
        read_pool,
        write_pool,
    )
    from fasta_learn.model_selection import ModelSelector
    from fasta_learn.search import ActiveConfigSearch, dynamic_filter_search

__version__ = "0.1.0.dev0"

__all__ = [
    "ActiveConfigSearch",
    "ConfigPruner",
    "ConfigVectorizer",
    "ModelSelector",
    "TileSpace",
    "autotune",
    "dynamic_filter_search",
    "read_pool",
    "write_pool",
]

# `import torch` loads the entry point of fasta_learn.inductor, and with it this file,
# in every process: what is heavy is imported when it is first asked for.
_HOMES = {
    "autotune": "autotuner",
    "ConfigPruner": "configs",
    "ConfigVectorizer": "configs",
    "TileSpace": "configs",
    "read_pool": "configs",
    "write_pool": "configs",
    "ModelSelector": "model_selection",
    "ActiveConfigSearch": "search",
    "dynamic_filter_search": "search",
}
_SUBPACKAGES = (
    "autotuner",
    "bases",
    "configs",
    "datasets",
    "exceptions",
    "experiments",
    "gaussian_process",
    "heuristics",
    "inductor",
    "model_selection",
    "oracles",
    "search",
    "transfer",
)


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBPACKAGES})
