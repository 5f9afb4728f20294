"""Lets the parent process find what Inductor's compile workers have compiled.

The workers compile with the ptxas that comes with torch. The parent does not, unless it
compiles something itself first. Triton's cache key holds the version of ptxas, so the
parent finds nothing and compiles each kernel again, one after the other.
"""

import os
import sys

from fasta_learn.inductor._imports import when_imported
from fasta_learn.inductor._patches import Patches

_VARIABLE = "TRITON_PTXAS_PATH"
_TASKS = "torch._inductor.runtime.compile_tasks"
_NVIDIA = "triton.backends.nvidia.compiler"


def install(patches: Patches) -> None:
    """Let this process use the ptxas of the compile workers.

    Parameters
    ----------
    patches : Patches
        What undoes it.
    """
    patches.at_end(when_imported(_TASKS, lambda: _use_ptxas_of_workers(patches)))


def _use_ptxas_of_workers(patches: Patches) -> None:
    set_path = sys.modules[_TASKS]._set_triton_ptxas_path
    before = os.environ.get(_VARIABLE)
    # It runs once a process: a former run may have been undone.
    set_path.cache_clear()
    set_path()
    if os.environ.get(_VARIABLE) == before:
        return
    _forget_ptxas()
    patches.at_end(_forget_ptxas)
    patches.at_end(set_path.cache_clear)
    patches.at_end(_forget_variable)


def _forget_variable() -> None:
    os.environ.pop(_VARIABLE, None)


def _forget_ptxas() -> None:
    """Let Triton ask again which ptxas there is, if it did so before."""
    module = sys.modules.get(_NVIDIA)
    backend = getattr(module, "CUDABackend", None)
    for owner, name in ((module, "get_ptxas_version"), (backend, "hash")):
        clear = getattr(getattr(owner, name, None), "cache_clear", None)
        if clear is not None:
            clear()
