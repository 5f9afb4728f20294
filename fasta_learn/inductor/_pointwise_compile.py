"""Compiles configs of a kernel in Inductor's own worker processes."""

import ast
import os
import time
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import partial
from pathlib import Path
from typing import Any

from fasta_learn._compat import import_extra
from fasta_learn.configs import config_key

# As in AsyncCompile.triton: what may have changed since the workers were started.
_VARIABLES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TRITON_LIBDEVICE_PATH")
# A config that takes so long is none of the good ones: its tiles are unrolled.
_LONGEST_COMPILE = 30.0
_HEURISTICS = "triton_heuristics"


class Compiler:
    """Makes launchers of configs, several at a time where Inductor has workers.

    A worker compiles the kernel's own source, in which the decorator that finds configs
    is replaced by Inductor's decorator for a config that is given. So a worker needs
    nothing of this package, and gives back what it gives for any kernel.

    Parameters
    ----------
    tuner : CachingAutotuner
        Inductor's tuner of the kernel.
    n_jobs : int or None, default=None
        How many configs may be compiled at a time; None for as many as there are
        workers.

    Attributes
    ----------
    n_jobs : int
        How many are compiled at a time.
    seconds : float
        For how long compiles were waited for.
    results : dict of int to object
        What Inductor knows of a compiled config, by the id of its launcher.
    """

    def __init__(self, tuner: Any, n_jobs: int | None = None) -> None:
        self._tuner = tuner
        self._async = import_extra("torch._inductor.async_compile", "torch")
        n_workers = self._async.get_compile_threads()
        self.n_jobs = n_workers if n_jobs is None else min(n_jobs, n_workers)
        self.seconds = 0.0
        self.results: dict[int, Any] = {}
        self._futures: dict[str, Future[Any]] = {}
        self._later: dict[str, dict[str, Any]] = {}
        self._source: str | None = None

    def announce(self, config: dict[str, Any]) -> None:
        """Begin to compile a config, if there is a worker for it.

        Parameters
        ----------
        config : dict
            The config.
        """
        self._later[config_key(config)] = config
        self._submit()

    def launcher(self, config: dict[str, Any]) -> Any:
        """Return the launcher of a config.

        Parameters
        ----------
        config : dict
            The config; it need not be announced.

        Returns
        -------
        callable
            The launcher, loaded onto the device.

        Raises
        ------
        Exception
            It does not compile, or the device has too little of something.
        """
        started = time.perf_counter()
        try:
            self._submit()
            future = self._futures.pop(config_key(config), None)
            if future is None:
                self._later.pop(config_key(config), None)
                result = self._compile_here(config)
            else:
                result = self._wait(future)
        finally:
            self.seconds += time.perf_counter() - started
        return self._load(result)

    def _submit(self) -> None:
        """Hand over what waits, once the workers are there."""
        if self._later and self._has_workers():
            pool = self._async.AsyncCompile.process_pool()
            for key, config in self._later.items():
                self._futures[key] = pool.submit(*self._job(config))
            self._later.clear()

    def _has_workers(self) -> bool:
        # Inductor compiles in its own process until they are ready, and so do we.
        return self.n_jobs > 1 and bool(self._async.AsyncCompile.use_process_pool())

    def _job(self, config: dict[str, Any]) -> tuple[Any, ...]:
        tasks = import_extra("torch._inductor.runtime.compile_tasks", "torch")
        cache = import_extra("torch._inductor.codecache", "torch")
        options = import_extra("torch._inductor.config", "torch")
        if self._source is None:
            self._source = read_source(self._tuner)
        name = self._tuner.fn.__name__
        source = with_config(self._source, name, config)
        static = options.use_static_triton_launcher
        return (
            tasks._worker_compile_triton,
            partial(cache._load_triton_kernel_from_source, name, source),
            {name: os.environ[name] for name in _VARIABLES if name in os.environ},
            {"use_static_triton_launcher": static},
        )

    def _wait(self, future: "Future[Any]") -> Any:
        try:
            kernel, _ = future.result(_LONGEST_COMPILE)
        except FutureTimeoutError as error:
            message = f"compiling took more than {_LONGEST_COMPILE:g} s"
            raise TimeoutError(message) from error
        kernel.restore_after_unpickle(old_values=None)
        return kernel.compile_results[0]

    def _compile_here(self, config: dict[str, Any]) -> Any:
        tuner = self._tuner
        heuristics = import_extra("torch._inductor.runtime.triton_heuristics", "torch")
        if tuner.fn.fn is None:  # it came from a worker, without its function
            tuner.fn = tuner._reload_kernel().fn
        with tuner.lock:
            return tuner._precompile_config(heuristics.config_from_dict(config))

    def _load(self, result: Any) -> Any:
        device = import_extra("torch._dynamo.device_interface", "torch")
        bundler = import_extra("torch._inductor.triton_bundler", "torch").TritonBundler
        index = self._tuner.triton_meta["device"]
        with device.DeviceGuard(self._tuner.get_device_interface(), index):
            launcher = result.make_launcher()
        bundler.put(launcher.cache_hash, index)
        self.results[id(launcher)] = result
        return launcher


def read_source(tuner: Any) -> str:
    """Return the source that Inductor has generated for a kernel.

    Parameters
    ----------
    tuner : CachingAutotuner
        Inductor's tuner of the kernel.

    Returns
    -------
    str
        The whole module.
    """
    path = Path(tuner.filename)
    if not path.exists():  # the cache of graphs outlives that of the sources
        tuner._reload_kernel()
    return path.read_text(encoding="utf-8")


def with_config(source: str, name: str, config: Mapping[str, Any]) -> str:
    """Return the source of a kernel that runs with one config.

    Parameters
    ----------
    source : str
        The module of the kernel, with one of Inductor's decorators on it.
    name : str
        Name of the kernel.
    config : mapping
        The config.

    Returns
    -------
    str
        The module with the same lines, so that Triton takes it for the same kernel.

    Raises
    ------
    ValueError
        There is no such kernel in it.
    """
    found = _find_decorator(ast.parse(source), name)
    if found is None:
        raise ValueError(f"the source has no kernel {name!r} with a decorator.")
    lines = source.splitlines(keepends=True)
    line = lines[found.lineno - 1]
    replaced = (
        f"(lambda **given: {_HEURISTICS}.fixed_config(config={dict(config)!r}, "
        "filename=given['filename'], triton_meta=given['triton_meta'], "
        "inductor_meta={**given['inductor_meta'], "
        "'coordinate_descent_tuning': False}))"
    )
    start, end = found.col_offset, found.end_col_offset
    # Offsets count bytes; what is in front of a decorator is ASCII.
    lines[found.lineno - 1] = line[:start] + replaced + line[end:]
    return "".join(lines)


def _find_decorator(tree: ast.Module, name: str) -> ast.Attribute | None:
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef) or node.name != name:
            continue
        for decorator in node.decorator_list:
            function = getattr(decorator, "func", None)
            if (
                isinstance(function, ast.Attribute)
                and isinstance(function.value, ast.Name)
                and function.value.id == _HEURISTICS
                and function.end_lineno == function.lineno
            ):
                return function
    return None
