"""Compiling the variants of configs: each once, patiently, and charged once."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from fasta_learn.configs import config_key
from fasta_learn.oracles._compile_threads import CompileThreads
from fasta_learn.oracles._npu_failures import is_transient
from fasta_learn.oracles._npu_kernel import NPUFacts

_LONGEST_WAIT = 10.0  # s


class NPUTask(Protocol):
    """A kernel with its arguments: `NPUWorkload` or `AutotunerWorkload`."""

    @property
    def recorded_name(self) -> str: ...
    @property
    def device(self) -> int | None: ...
    def variant(self, config: Any) -> dict[str, Any]: ...
    def rescue(self, variant: dict[str, Any]) -> dict[str, Any] | None: ...
    def fill_tables(self) -> None: ...
    def compile(self, variant: Any) -> NPUFacts: ...
    def launcher(self, config: Any) -> Callable[[], None]: ...
    def caller(self, config: Any) -> Callable[[], None]: ...
    def prepare(self) -> None: ...
    def first_launch(self, config: Any) -> None: ...
    def finish(self) -> None: ...
    def restore(self) -> None: ...
    def close(self) -> None: ...
    def synchronize(self) -> None: ...
    def fingerprint(self) -> dict[str, Any]: ...


class NPUCompiler:
    """Compile what configs have in common once, some variants at a time in threads.

    Threads are enough, since compiling is done by processes that they wait for.

    Parameters
    ----------
    task : NPUTask
        The kernel with its arguments.
    n_threads : int
        How many variants are compiled at a time.
    timeout : float
        The most time that compiling a variant may take, in s.

    Attributes
    ----------
    threads : CompileThreads
        Where it happens.
    """

    def __init__(self, task: NPUTask, n_threads: int, timeout: float) -> None:
        self.threads = CompileThreads(PatientCompiler(task.compile), n_threads)
        self._task, self._timeout = task, timeout
        self._numbers: dict[str, int] = {}
        self._charged: set[str] = set()
        self._rescued: dict[str, dict[str, Any]] = {}
        self._has_compiled = False

    def prepare(self, configs: Iterable[Any]) -> None:
        """Start to compile the variants of configs; returns at once.

        Parameters
        ----------
        configs : iterable
            In the order in which they will be measured. What is no config is left for
            `compile` to complain of.
        """
        self._task.fill_tables()
        variants: dict[str, dict[str, Any]] = {}
        for config in configs:
            with suppress(TypeError, ValueError):
                variant = self._task.variant(config)
                variants.setdefault(config_key(variant), variant)
        self.threads.announce(variants.values())

    def compile(self, config: Any) -> NPUFacts:
        """Wait until the variant of a config is compiled.

        While no config has compiled, one that does not is tried with other options if
        the task has some, as torch_npu does when all of its configs have failed.

        Parameters
        ----------
        config : object
            The config.

        Returns
        -------
        NPUFacts
            What is known of it.

        Raises
        ------
        Exception
            What compiling raises; a TimeoutError if it takes too long.
        """
        variant = self._task.variant(config)
        key = config_key(variant)
        facts: NPUFacts
        try:
            facts = self.threads.get(self._rescued.get(key, variant), self._timeout)
        except Exception:
            other = None if self._has_compiled else self._task.rescue(variant)
            if other is None:
                raise
            with suppress(Exception):
                facts = self.threads.get(other, self._timeout)
                self._rescued[key], self._has_compiled = other, True
                return facts
            raise
        self._has_compiled = True
        return facts

    def number(self, config: Any) -> int:
        """Number the variants in the order in which they are asked for."""
        key = config_key(self._task.variant(config))
        return self._numbers.setdefault(key, len(self._numbers))

    def charge(self, config: Any) -> float:
        """Give the seconds of compiling to the first config that they are spent for.

        Parameters
        ----------
        config : object
            A config that was compiled, or failed to.

        Returns
        -------
        float
            In s; 0 for every further config of the variant, and for what is none.
        """
        try:
            variant = self._task.variant(config)
        except (TypeError, ValueError):
            return 0.0
        key = config_key(variant)
        if key in self._charged:
            return 0.0
        self._charged.add(key)
        tried = [variant, self._rescued[key]] if key in self._rescued else [variant]
        return sum(self.threads.seconds(one) or 0.0 for one in tried)


class PatientCompiler:
    """Compile; once more, alone, after an error that has nothing to do with the kernel.

    Parameters
    ----------
    compile : callable
        Compiles a variant. May be called by several threads.
    """

    def __init__(self, compile: Callable[[Any], NPUFacts]) -> None:
        self._compile = compile
        self._changed = threading.Condition()
        self._n_running = 0
        self._is_alone = False

    def __call__(self, variant: Any) -> NPUFacts:
        """Compile a variant.

        Parameters
        ----------
        variant : object
            What the callable takes.

        Returns
        -------
        NPUFacts
            What the callable gives.

        Raises
        ------
        Exception
            What the callable raises; of errors that pass, the second.
        """
        try:
            with self._together():
                return self._compile(variant)
        except Exception as error:
            if not is_transient(error):
                raise
        with self._alone():
            return self._compile(variant)

    @contextmanager
    def _together(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._is_alone)
            self._n_running += 1
        try:
            yield
        finally:
            with self._changed:
                self._n_running -= 1
                self._changed.notify_all()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._is_alone)
            self._is_alone = True
            # One that hangs must not keep all others from compiling.
            self._changed.wait_for(lambda: not self._n_running, _LONGEST_WAIT)
        try:
            yield
        finally:
            with self._changed:
                self._is_alone = False
                self._changed.notify_all()
