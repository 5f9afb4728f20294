"""The tuner: Triton's own, with a search in place of its exhaustive benchmark."""

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fasta_learn._compat import import_extra
from fasta_learn.autotuner._tuning import Settings, Tuning

# Durations are true only while nothing else runs on the device: one tuner at a time.
_TUNING = threading.RLock()


class SearchingAutotuner:
    """What is put in front of the installed class ``triton.runtime.Autotuner``.

    Triton's own ``run`` finds the key of a call, prunes the pool and launches. It asks
    `check_disk_cache` about a key that it has not seen, which is where the search is.
    """

    # Attributes of Triton's class that are used.
    fn: Any
    base_fn: Any
    arg_names: list[str]
    keys: list[str]
    configs: list[Any]
    cache: dict[tuple[Any, ...], Any]
    nargs: dict[str, Any] | None
    pre_hook: Callable[..., Any]
    post_hook: Callable[..., Any]
    user_defined_pre_hook: bool
    user_defined_post_hook: bool
    reset_to_zero: list[str]
    restore_value: list[str]
    prune_configs: Callable[..., Any]
    best_config: Any
    _bench: Callable[..., Any]
    _do_bench: Callable[..., Any] | None

    def __init__(self, *args: Any, settings: Settings, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.settings = settings
        self.knobs = import_extra("triton.knobs", "torch")
        self.configs_timings: dict[Any, list[float]] = {}
        self.bench_time = 0.0
        # Triton asks check_disk_cache only then. Its interpreter measures nothing.
        self.cache_results = not self.knobs.runtime.interpret
        # Keys whose config is a guess, for want of measurements.
        self.guessed: set[tuple[Any, ...]] = set()
        self._calls = threading.local()

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Launch the kernel, with the config that is known or found to be fast.

        Parameters
        ----------
        *args, **kwargs : object
            Arguments of the kernel, and ``grid``.

        Returns
        -------
        CompiledKernel
            What was launched.

        Raises
        ------
        AllConfigsFailedError
            A search was made, and no config ran.
        """
        calls = self._calls
        calls.current, calls.passing = (args, kwargs), None
        try:
            return super().run(*args, **kwargs)  # type: ignore[misc]
        finally:
            self._end_call()

    def _end_call(self) -> None:
        calls = self._calls
        calls.current = None  # keeps no tensor alive
        if calls.passing is not None:
            self.cache.pop(calls.passing, None)

    def tune(self, *args: Any, grid: Any, **kwargs: Any) -> Any:
        """Find the config of a call without making it; arguments are written to.

        Parameters
        ----------
        *args, **kwargs : object
            Arguments of the kernel.
        grid : tuple or callable
            As in ``kernel[grid]``.

        Returns
        -------
        triton.Config
            The config that such calls are launched with from now on.

        Raises
        ------
        AllConfigsFailedError
            No config ran.
        """
        if len(self.configs) < 2:
            self.best_config = self.configs[0]
            return self.best_config
        kwargs = {**kwargs, "grid": grid, "warmup": False}
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        self._calls.current, self._calls.passing = (args, kwargs), None
        try:
            key = self._key_of({**self.nargs, **kwargs})
            if key not in self.cache:
                self.check_disk_cache(key, self.prune_configs(kwargs), None)
            self.best_config = self.cache[key]
        finally:
            self.nargs = None
            self._end_call()
        return self.best_config

    def _key_of(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the key of a call, as Triton's ``run`` makes it."""
        known = {name: v for name, v in values.items() if name in self.arg_names}
        key = [known[name] for name in self.keys if name in known]
        key += [str(v.dtype) for v in known.values() if hasattr(v, "dtype")]
        return tuple(key)

    def check_disk_cache(
        self, tuning_key: tuple[Any, ...], configs: Sequence[Any], bench_fn: Any
    ) -> bool:
        """Decide about a key: by the store, by a search, or by what is nearest.

        Parameters
        ----------
        tuning_key : tuple
            The key.
        configs : list of triton.Config
            What pruning has left of the pool.
        bench_fn : callable
            Triton's exhaustive benchmark; it is not used.

        Returns
        -------
        bool
            Whether nothing was measured.
        """
        args, kwargs = self._calls.current
        with _TUNING:
            if tuning_key in self.cache:  # another thread was faster
                return True
            return Tuning(self, tuning_key, configs, args, kwargs).decide()

    def pass_once(self, key: tuple[Any, ...]) -> bool:
        """Let the config of a key hold for the present call only.

        Parameters
        ----------
        key : tuple
            The key.

        Returns
        -------
        bool
            Whether it is the first time for this key.
        """
        self._calls.passing = key
        is_first = key not in self.guessed
        self.guessed.add(key)
        return is_first


@functools.cache
def make_autotuner_class(base: type) -> type:
    """Return the tuner for an installed class of Triton.

    Parameters
    ----------
    base : type
        ``triton.runtime.Autotuner``.

    Returns
    -------
    type
        A subclass of it that searches.
    """
    return type("Autotuner", (SearchingAutotuner, base), {"__module__": __name__})
