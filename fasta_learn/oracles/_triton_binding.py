"""Configs of a Triton kernel, bound to its arguments, and their compilation."""

import copy
import inspect
import itertools
import os
import threading
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any

from fasta_learn._compat import import_extra
from fasta_learn.configs._keys import config_key, config_to_dict
from fasta_learn.oracles import _triton_arguments as arguments

Grid = Sequence[int] | Callable[[dict[str, Any]], Sequence[int]]

# Triton fills a kernel's tables when they are first asked for, without a lock; and
# hashes its own files then, which no second thread needs to do.
_TABLES = threading.Lock()
_MOST_PARSES = 4


@dataclass(frozen=True)
class CompileFacts:
    """What is known of a compiled kernel.

    Parameters
    ----------
    seconds : float
        How long the call took that has compiled it, in s.
    registers : int or None
        Registers a thread; None before the kernel is loaded.
    spills : int or None
        Words of 4 bytes of local memory a thread; None before the kernel is loaded.
    shared_bytes : int
        Shared memory a block, in bytes.
    cached : bool
        Whether it was found in memory or in Triton's cache on disk.
    """

    seconds: float
    registers: int | None
    spills: int | None
    shared_bytes: int
    cached: bool


@dataclass
class BoundConfig:
    """A config with all that a launch of it needs.

    Parameters
    ----------
    values : dict
        Values of all parameters of the kernel, in its order.
    options : dict
        Options of the compiler.
    hook : callable or None
        The config's own hook, to be called before each launch.
    hook_arguments : dict
        What hooks are called with.
    kernel : CompiledKernel or None
        The compiled kernel.
    facts : CompileFacts or None
        What is known of it.
    """

    values: dict[str, Any]
    options: dict[str, Any]
    hook: Callable[[dict[str, Any]], Any] | None
    hook_arguments: dict[str, Any]
    kernel: Any = None
    facts: CompileFacts | None = None

    def full_grid(self, grid: Grid) -> tuple[int, int, int]:
        """Give the grid of a launch.

        Parameters
        ----------
        grid : sequence of int, or callable
            As at a launch.

        Returns
        -------
        tuple of int, length 3
            Axes that are not given have length 1.
        """
        sizes = grid(dict(self.values)) if callable(grid) else grid
        first, second, third = (*(int(size) for size in sizes), 1, 1)[:3]
        return first, second, third

    def split(self, names: Container[str]) -> tuple[list[Any], dict[str, Any]]:
        """Give values as a launch commonly has them.

        Parameters
        ----------
        names : container of str
            Names of the arguments that no config sets.

        Returns
        -------
        positional : list
            Values of the leading parameters that are among the names.
        named : dict
            All other values, and the options.
        """
        leading = itertools.takewhile(names.__contains__, self.values)
        positional = [self.values[name] for name in leading]
        named = dict(itertools.islice(self.values.items(), len(positional), None))
        return positional, {**named, **self.options}


def key_of(config: Any) -> tuple[str, Any]:
    """Give what two configs share if and only if they are the same launch.

    Parameters
    ----------
    config : dict or triton.Config
        The config.

    Returns
    -------
    tuple
        Text of the parameters, and the hook.
    """
    return config_key(_parameters(config)), getattr(config, "pre_hook", None)


def bind(
    jit: Any,
    heuristics: list[tuple[str, Callable[..., Any]]],
    fixed: dict[str, Any],
    config: Any,
) -> BoundConfig:
    """Give each parameter of a kernel its value.

    Parameters
    ----------
    jit : triton.JITFunction
        The kernel.
    heuristics : list of (str, callable)
        Names of parameters, and functions that compute them from all others.
    fixed : dict
        Arguments and constants by name.
    config : dict or triton.Config
        The config.

    Returns
    -------
    BoundConfig
        Not compiled yet.

    Raises
    ------
    TypeError
        The config sets what is fixed, or a parameter has no value.
    """
    chosen, hook = _parameters(config), getattr(config, "pre_hook", None)
    if clash := sorted(chosen.keys() & fixed.keys()):
        raise TypeError(
            f"the config sets {clash}, which args or constants set as well; "
            "leave them out there."
        )
    given = {**fixed, **chosen}
    if hook is not None:
        given = _with_own_descriptors(given, hook)
    hook_arguments = dict(given)
    for name, heuristic in heuristics:
        given[name] = heuristic(dict(given))
    values = {
        parameter.name: given.pop(parameter.name, parameter.default)
        for parameter in jit.params
    }
    if missing := [k for k, v in values.items() if v is inspect.Parameter.empty]:
        raise TypeError(
            f"kernel {jit.__name__!r} gets no value for {missing}: put them into "
            "args, constants or the config."
        )
    return BoundConfig(values, given, hook, hook_arguments)


def fill_tables(jit: Any, device: int) -> None:
    """Compute once what every compile of a kernel needs.

    Parameters
    ----------
    jit : triton.JITFunction
        The kernel.
    device : int
        Index of the current device.
    """
    from triton.runtime.cache import triton_key

    with _TABLES:
        triton_key()
        _, _, _, backend, *_ = jit.device_caches[device]
        _patiently(lambda: _read_key(jit))
        backend.hash()


def _read_key(jit: Any) -> Any:
    """Compute the key of a kernel, anew where an attempt was cut off."""
    for function in (jit, *jit.fn.__globals__.values()):
        # Triton notes this while it parses a function, and keeps it if that fails.
        if isinstance(function, type(jit)) and str(function.hash).startswith(
            "recursion:"
        ):
            function.hash = None
    return jit.cache_key


def renew_locks(jit: Any) -> None:
    """Make new locks, in a process that was forked beside other threads.

    Parameters
    ----------
    jit : JITFunction
        The kernel.
    """
    global _TABLES
    _TABLES = threading.Lock()
    if hasattr(jit, "_hash_lock"):
        jit._hash_lock = threading.RLock()


def warm_up(jit: Any, bound: BoundConfig, device: int) -> Any:
    """Compile as a launch would, so that a launch finds the result.

    Several threads may call it at the same time.

    Parameters
    ----------
    jit : triton.JITFunction
        The kernel.
    bound : BoundConfig
        The config.
    device : int
        Index of the current device.

    Returns
    -------
    CompiledKernel
        Not loaded yet.

    Raises
    ------
    Exception
        What Triton raises.
    """
    fill_tables(jit, device)
    if jit.pre_run_hooks:
        # They belong to launches; here they could change tensors while another
        # config runs. The copy shares the tables of compiled kernels.
        jit = copy.copy(jit)
        jit.pre_run_hooks = []
    arguments = {**bound.values, **bound.options}
    kernel = _patiently(lambda: jit.warmup(grid=(1,), **arguments))
    if kernel is None:
        raise RuntimeError("a hook (jit_cache_hook) has kept Triton from compiling.")
    return kernel


def _patiently(call: Callable[[], Any]) -> Any:
    """Call what parses; again where CPython 3.11 mixes up threads that parse."""
    for _ in range(_MOST_PARSES - 1):
        try:
            return call()
        except SystemError as error:
            if "recursion depth mismatch" not in str(error):
                raise
    return call()


def drop(jit: Any, kernel: Any, device: int) -> None:
    """Take a compiled kernel out of memory; it stays in the cache on disk.

    Parameters
    ----------
    jit : triton.JITFunction
        The kernel.
    kernel : CompiledKernel
        What was compiled.
    device : int
        Index of the device.
    """
    compiled = jit.device_caches[device][0]
    for key in [k for k, v in list(compiled.items()) if v is kernel]:
        del compiled[key]


def unwrap(kernel: Any) -> tuple[Any, list[tuple[str, Callable[..., Any]]], Any]:
    """Give the kernel below its decorators, their heuristics, and the autotuner."""
    jit = import_extra("triton", "torch").JITFunction
    heuristics: list[tuple[str, Callable[..., Any]]] = []
    tuner, inner = None, kernel
    while not isinstance(inner, jit):
        if not hasattr(inner, "fn"):
            raise TypeError(
                f"kernel must be a function decorated by triton.jit, got a "
                f"{type(kernel).__name__}; interpreted kernels (TRITON_INTERPRET=1) "
                "can't be measured."
            )
        if isinstance(getattr(inner, "values", None), dict):
            heuristics += inner.values.items()
        elif hasattr(inner, "configs"):
            tuner = inner
        inner = inner.fn
    return inner, heuristics, tuner


def _parameters(config: Any) -> dict[str, Any]:
    # all_kwargs also has options that came after those that config_to_dict knows.
    if callable(all_kwargs := getattr(config, "all_kwargs", None)):
        return config_to_dict(all_kwargs())
    return config_to_dict(config)


def _with_own_descriptors(
    given: dict[str, Any], hook: Callable[[dict[str, Any]], Any]
) -> dict[str, Any]:
    """Let the hook set up descriptors, which then decide how the kernel compiles.

    The hook may as well write into tensors, which is no matter of compiling: those it
    sees here have no memory.
    """
    torch = arguments.import_torch()
    is_descriptor = arguments.is_descriptor
    own: dict[str, Any] = arguments.map_leaves(
        given, is_descriptor, arguments.copy_descriptor
    )
    if any(is_descriptor(value) for value in own.values()):
        hook(
            {
                name: torch.empty_like(value, device="meta")
                if isinstance(value, torch.Tensor)
                else value
                for name, value in own.items()
            }
        )
    return own


def written_before(kernel: Any, moment: float) -> bool:
    """Tell whether a compiled kernel's files are older than a moment."""
    files = kernel.metadata_group.values()
    return all(
        os.stat(file).st_mtime < moment for file in files if os.path.exists(file)
    )


def provide_allocator(kernel: Any) -> None:
    """Give Triton memory for kernels that need some, unless the user did."""
    if not getattr(kernel.metadata, "global_scratch_size", 0):
        return
    from triton import set_allocator
    from triton.runtime import _allocation

    current = getattr(_allocation, "_allocator", None)
    if type(current.get() if current else None).__name__ != "NullAllocator":
        return
    torch, device = arguments.import_torch(), active_driver().get_active_torch_device()
    set_allocator(
        lambda size, alignment, stream: torch.empty(
            size, dtype=torch.int8, device=device
        )
    )


def active_driver() -> Any:
    """Give Triton's driver."""
    return import_extra("triton", "torch").runtime.driver.active
