"""Live tuning of what ``torch.compile`` makes with TorchInductor.

Nothing here imports torch, or much else, before it is used: this package is loaded at
each ``import torch``, also where the switch is off.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fasta_learn.inductor._settings import Settings
    from fasta_learn.inductor._statistics import statistics, summary
    from fasta_learn.inductor._switch import (
        disable,
        enable,
        fix_parent_cache,
        is_enabled,
    )

__all__ = [
    "Settings",
    "disable",
    "enable",
    "fix_parent_cache",
    "is_enabled",
    "statistics",
    "summary",
]

_MODULES = {"Settings": "_settings", "statistics": "_statistics"}
_MODULES["summary"] = "_statistics"


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_MODULES.get(name, '_switch')}")
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
