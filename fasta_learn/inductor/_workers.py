"""Brings the settings to Inductor's compile workers.

Workers are fresh processes that outlive many switches, and build the pool of a kernel
themselves. So each job carries the settings of the switch that is on when it is sent.
"""

import importlib
import sys
from functools import partial
from typing import Any

from fasta_learn.inductor._guard import warn_once
from fasta_learn.inductor._patches import Patches
from fasta_learn.inductor._settings import Settings

_COMPILE = "torch._inductor.async_compile"
_TASKS = "torch._inductor.runtime.compile_tasks"
_POOL = "torch._inductor.compile_worker.subproc_pool"


def install(settings: Settings, patches: Patches) -> None:
    """Send the settings with each job, and let new workers load what they will need.

    Parameters
    ----------
    settings : Settings
        The settings.
    patches : Patches
        What undoes it.
    """
    job = partial(compile_in_worker, settings)
    patches.set(sys.modules[_COMPILE], "_worker_compile_triton", job)
    pool = sys.modules[_POOL]
    stock = pool.python_subprocess_env

    def python_subprocess_env() -> dict[str, str]:
        is_wanted = settings.pointwise or settings.npu
        return {**stock(), "FASTA_LEARN": str(int(is_wanted))}

    patches.set(pool, "python_subprocess_env", python_subprocess_env)


def compile_in_worker(settings: Settings, *args: Any, **kwargs: Any) -> Any:
    """Compile a kernel as Inductor's worker does, with tuning on.

    Parameters
    ----------
    settings : Settings
        The settings of the parent process.
    *args, **kwargs : object
        The job.

    Returns
    -------
    object
        What Inductor's own function returns.
    """
    from fasta_learn.inductor._switch import turn_on

    tasks = importlib.import_module(_TASKS)
    with turn_on(settings):
        return tasks._worker_compile_triton(*args, **kwargs)


def preload() -> None:
    """Import what the workers need that will be forked from this process."""
    try:
        importlib.import_module("torch._inductor.runtime.triton_heuristics")
        importlib.import_module("fasta_learn.inductor._pointwise")
    except Exception as error:
        warn_once("pointwise", error)


def is_worker() -> bool:
    """Return whether this is the process that Inductor forks its workers from.

    Returns
    -------
    bool
        False for all other processes.
    """
    command = sys.argv[0] if getattr(sys, "argv", None) else ""
    return command.replace("\\", "/").endswith("compile_worker/__main__.py")
