"""Searches the configs of pointwise kernels, reductions and user-defined kernels.

Inductor can tune a kernel from where its own configs have led, at its first run: by
coordinate descent. This package does so in its place, by its own search. All that
Inductor has for the outcome then serves for ours: configs that were in no list are
saved with the kernel, found again by other processes, and taken without a question.

So the generated code of each kernel asks for such tuning, and says with which settings.
Kernels are compiled as ever; what is patched are methods of Inductor's tuner that are
called in the process that runs the kernel.
"""

import functools
import importlib
import sys
import threading
from collections.abc import Callable
from typing import Any

from fasta_learn.inductor import _guard
from fasta_learn.inductor._imports import when_imported
from fasta_learn.inductor._patches import Patches
from fasta_learn.inductor._pointwise_kernels import MARK, REST, refusal
from fasta_learn.inductor._settings import Settings

_HEURISTICS = "torch._inductor.runtime.triton_heuristics"
_CODEGEN = "torch._inductor.codegen.triton"
_TUNING = "coordinate_descent_tuning"
_WISH = "fasta_learn_stock_tuning"

# So many of a user's configs are compiled before the search; it asks for the others.
_FEWEST_COMPILED = 4

# Two searches at the same time would disturb each other's timing.
_searching = threading.RLock()


def install(settings: Settings, patches: Patches) -> None:
    """Patch Inductor's tuner of kernels, and mark the kernels that it generates.

    Parameters
    ----------
    settings : Settings
        How to search.
    patches : Patches
        What undoes it.
    """
    heuristics: Any = sys.modules[_HEURISTICS]
    tuner = heuristics.CachingAutotuner
    hooks = _TunerHooks(settings, tuner)
    for name in (
        "autotune_to_one_config",
        "coordinate_descent_tuning",
        "recheck_autotune_cache",
    ):
        patches.set(tuner, name, _as_method(getattr(hooks, name), getattr(tuner, name)))
    patches.set(heuristics, "cached_autotune", _holding_back(heuristics))
    mark = functools.partial(_mark_kernels, settings, patches)
    patches.at_end(when_imported(_CODEGEN, mark))


def _as_method(
    function: Callable[..., Any], stock: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a plain function, which a class binds to its instances."""

    @functools.wraps(stock)
    def method(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        return function(tuner, *args, **kwargs)

    return method


def _mark_kernels(settings: Settings, patches: Patches) -> None:
    """Let generated kernels ask for tuning, and say for which settings."""
    try:
        kernel: Any = sys.modules[_CODEGEN].TritonKernel
        stock = vars(kernel)["inductor_meta_common"]
    except (
        AttributeError,
        KeyError,
    ) as error:  # it must not end the import of Inductor
        _guard.warn_once("pointwise", error)
        return

    def inductor_meta_common(cls: Any) -> dict[str, Any]:
        meta = stock.__get__(None, cls)()
        wish = bool(meta.get(_TUNING, False))
        return {**meta, _TUNING: True, _WISH: wish, MARK: settings.cache_key()}

    patches.set(kernel, "inductor_meta_common", classmethod(inductor_meta_common))


class _TunerHooks:
    """What is called in place of methods of Inductor's tuner.

    Parameters
    ----------
    settings : Settings
        How to search.
    tuner : type
        Inductor's class, whose methods are taken where the search has no part.
    """

    def __init__(self, settings: Settings, tuner: type) -> None:
        self._settings = settings
        self._autotune = vars(tuner)["autotune_to_one_config"]
        self._descend = vars(tuner)["coordinate_descent_tuning"]
        self._recheck = vars(tuner)["recheck_autotune_cache"]

    def autotune_to_one_config(self, tuner: Any, *args: Any, **kwargs: Any) -> None:
        """Search where Inductor would time its configs."""
        launcher = self._find(tuner, args, kwargs)
        if launcher is not None:
            tuner.launchers = [launcher]
            return
        _drop_wish(tuner)
        self._autotune(tuner, *args, **kwargs)

    def coordinate_descent_tuning(
        self, tuner: Any, launcher: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Search where Inductor would go on from its best config."""
        found = self._find(tuner, args, kwargs)
        if found is not None:
            return found
        _drop_wish(tuner)
        if not tuner.inductor_meta.get(_TUNING):
            return launcher
        return self._descend(tuner, launcher, *args, **kwargs)

    def recheck_autotune_cache(
        self, tuner: Any, reload_kernel_from_src: Callable[[], Any]
    ) -> None:
        """Look for the winner of a kernel that came from the cache of graphs."""
        try:
            if MARK in tuner.inductor_meta and _restore(tuner, reload_kernel_from_src):
                return
        except Exception as error:
            _guard.warn_once("pointwise", error)
        self._recheck(tuner, reload_kernel_from_src)

    def _find(self, tuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the launcher that a search gives; None if there is no search."""
        if refusal(tuner) is not None or _is_capturing():
            return None
        try:
            if (launcher := _saved_winner(tuner)) is not None:
                return launcher
            search = importlib.import_module("fasta_learn.inductor._pointwise_search")
            # Copies that put arguments back are nothing to differentiate.
            with _searching, sys.modules["torch"].no_grad():
                return search.KernelSearch(tuner, args, kwargs, self._settings).run()
        except Exception as error:
            _guard.warn_once("pointwise", error)
            return None


def _drop_wish(tuner: Any) -> None:
    """Let a kernel ask for Inductor's tuning only if the user does.

    Inductor would ask at each run again.
    """
    if MARK in tuner.inductor_meta:
        tuner.inductor_meta[_TUNING] = bool(tuner.inductor_meta.get(_WISH))


def _is_capturing() -> bool:
    torch: Any = sys.modules["torch"]
    return bool(torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())


def _saved_winner(tuner: Any) -> Any | None:
    """Return the only launcher, if it is of the config that a search has saved.

    Inductor marks the config when it finds it, but what comes from a worker has lost
    the mark: Triton's configs keep nothing but their own fields through pickle.
    """
    if len(tuner.launchers) != 1:
        return None
    (launcher,) = tuner.launchers
    best = _read_best(tuner, [launcher.config])
    if not getattr(best, "found_by_coordesc", False):
        return None
    hashable = sys.modules[_HEURISTICS].triton_config_to_hashable
    if hashable(best) != hashable(launcher.config):
        return None
    launcher.config.found_by_coordesc = True
    return launcher


def _read_best(tuner: Any, configs: list[Any]) -> Any | None:
    """Return the config that was saved for a kernel.

    Inductor looks for it by the configs that compiled, and by the settings of this
    process; where some did not, or a worker made the tuner, it would not be found. The
    tuner itself knows where its winner was to be saved.
    """
    cache: Any = getattr(tuner.save_cache_hook, "__self__", None)
    if not hasattr(cache, "read_best"):
        return None
    return cache.read_best(tuner.inductor_meta, configs)


def _restore(tuner: Any, reload_kernel_from_src: Callable[[], Any]) -> bool:
    """Give a tuner the winner of an earlier process, and tell whether there is one."""
    heuristics: Any = sys.modules[_HEURISTICS]
    best = _read_best(tuner, [result.config for result in tuner.compile_results])
    if best is None:
        return False
    wanted = heuristics.triton_config_to_hashable(best)
    for result in tuner.compile_results:
        if heuristics.triton_config_to_hashable(result.config) == wanted:
            found = getattr(best, "found_by_coordesc", False)
            result.config.found_by_coordesc = found
            tuner.compile_results = [result]
            break
    else:
        if tuner.fn.fn is None:
            tuner.fn = reload_kernel_from_src().fn
        tuner.compile_results = [tuner._precompile_config(best)]
    tuner.autotune_cache_info = {
        "best_config": wanted,
        "autotune_cache_state": "hit",
    }
    return True


def _holding_back(heuristics: Any) -> Callable[..., Any]:
    """Return a `cached_autotune` that compiles few of a user's many configs at once."""
    stock = heuristics.cached_autotune
    user_autotune = heuristics.HeuristicType.USER_AUTOTUNE

    @functools.wraps(stock)
    def cached_autotune(*args: Any, **kwargs: Any) -> Any:
        decorate = stock(*args, **kwargs)

        def decorator(fn: Any) -> Any:
            tuner = decorate(fn)
            if (
                getattr(tuner, "heuristic_type", None) is user_autotune
                and MARK in tuner.inductor_meta
                and tuner.configs
                and len(tuner.configs) > _FEWEST_COMPILED
            ):
                rest = tuner.configs[_FEWEST_COMPILED:]
                setattr(tuner, REST, [heuristics.config_to_dict(c) for c in rest])
                tuner.configs = tuner.configs[:_FEWEST_COMPILED]
            return tuner

        return decorator

    return cached_autotune
