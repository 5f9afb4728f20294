"""Whether the installed TorchInductor is as the integration expects it.

One table (`_hook_table`) serves three: at run time, a feature whose hooks do not fit is
left out (`require`); ``fasta-learn doctor`` shows what fits the installed torch; and
the tests look the names up in the sources of other versions (`_hook_sources`).
"""

import functools
import importlib.metadata
import inspect
import re
import sys
from typing import Any

from fasta_learn.inductor._hook_table import HOOKS, TRIGGERS, Hook
from fasta_learn.inductor._imports import is_partial

__all__ = ["HOOKS", "TRIGGERS", "Hook", "HookMismatchError", "require"]


class HookMismatchError(RuntimeError):
    """The installed torch differs from those that fasta_learn knows."""


def torch_version() -> tuple[int, int]:
    """Return the installed version of torch, without importing it.

    Returns
    -------
    tuple of (int, int)
        Its first two numbers; what is newer than all known versions is among them.
    """
    return parse_version(importlib.metadata.version("torch"))


def parse_version(text: str) -> tuple[int, int]:
    """Return the first two numbers of a version.

    Parameters
    ----------
    text : str
        Such as "2.13.0+cpu".

    Returns
    -------
    tuple of (int, int)
        The numbers.

    Raises
    ------
    ValueError
        There are none.
    """
    found = re.match(r"(\d+)\.(\d+)", text)
    if found is None:
        raise ValueError(f"{text!r} is no version.")
    return int(found[1]), int(found[2])


@functools.cache
def require(feature: str) -> None:
    """Check the hooks of a feature, as far as their modules are imported.

    Parameters
    ----------
    feature : str
        One of the features.

    Raises
    ------
    HookMismatchError
        A hook does not fit the installed torch.
    """
    version = torch_version()
    for hook in HOOKS:
        module = sys.modules.get(hook.module)
        if hook.feature != feature or module is None or not hook.is_in(version):
            continue
        # That of the trigger has all its names: it is about to end.
        if is_partial(module) and hook.module != TRIGGERS.get(feature):
            continue
        if (reason := _misfit(hook, module)) is not None:
            raise HookMismatchError(
                f"{hook.module}.{hook.name} of torch {version[0]}.{version[1]} {reason}"
            )


def _misfit(hook: Hook, module: Any) -> str | None:
    owner: Any = None
    value: Any = module
    for part in hook.name.split("."):
        owner, value = value, getattr(value, part, None)
        if value is None and not hasattr(owner, part):
            # Attributes of instances are seen in the source only.
            return None if inspect.isclass(owner) and not hook.leading else "is missing"
    if not (hook.leading or hook.keywords):
        return None
    parameters = list(inspect.signature(value).parameters.values())
    names = [parameter.name for parameter in parameters]
    if inspect.isclass(owner) and names[:1] == ["self"]:
        del names[0]
    accepts_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
    return hook.misfit(names, accepts_any)
