"""Compiles that run ahead, in Inductor's own processes or in threads."""

import concurrent.futures
import contextlib
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from fasta_learn._compat import import_extra

# The processes start with torch's import; where they are not there by then, threads
# of this process compile instead.
_READY_SECONDS = 60.0
# Threads of an older interpreter can mix up their parsers (python/cpython#106905).
_HAS_SAFE_THREADS = sys.version_info >= (3, 11, 9)


class Compiles:
    """Compile choices in the background.

    Triton templates are compiled by the processes that Inductor compiles with, as it
    would do itself; the parent then finds the kernels in Triton's cache. Other choices
    that can be compiled ahead are compiled in threads.

    Parameters
    ----------
    n_jobs : int or None, default=None
        How many at a time; None for as many as Inductor would.
    may_wait : bool, default=True
        Whether to wait until Inductor's processes are there.

    Attributes
    ----------
    n_jobs : int
        How many at a time.
    seconds : float
        How long was waited for compiles.
    """

    def __init__(self, n_jobs: int | None = None, *, may_wait: bool = True) -> None:
        self._module = import_extra("torch._inductor.async_compile", "torch")
        self._select = import_extra("torch._inductor.select_algorithm", "torch")
        self._requests = import_extra("torch._inductor.autotune_process", "torch")
        self.n_jobs = n_jobs or max(1, self._select.get_num_workers())
        self.seconds = 0.0
        self._futures: dict[int, Future[Any]] = {}
        self._choices: list[Any] = []  # so that no id is used anew
        self._sources: list[str] = []
        self._threads: ThreadPoolExecutor | None = None
        self._has_processes = self._find_processes(may_wait)

    def _find_processes(self, may_wait: bool) -> bool:
        compile_class = self._module.AsyncCompile
        if self._module.get_compile_threads() <= 1:
            return False
        if may_wait:
            with contextlib.suppress(TimeoutError, concurrent.futures.TimeoutError):
                compile_class.wait_pool_ready(timeout=_READY_SECONDS)
        return bool(compile_class.use_process_pool())

    @property
    def has_processes(self) -> bool:
        """Whether Inductor's processes compile Triton templates."""
        return self._has_processes

    def start(self, choice: Any) -> None:
        """Begin to compile a choice, unless that was begun already.

        Parameters
        ----------
        choice : ChoiceCaller
            The choice. What can't be compiled ahead is ready at once.
        """
        if id(choice) in self._futures:
            return
        self._choices.append(choice)
        self._futures[id(choice)] = self._submit(choice)

    def is_ready(self, choice: Any) -> bool:
        """Tell whether a choice that was started is compiled, or has failed."""
        return self._futures[id(choice)].done()

    def wait(self, choices: Sequence[Any], timeout: float | None = None) -> None:
        """Wait until one of some choices is ready.

        Parameters
        ----------
        choices : sequence of ChoiceCaller
            Choices that were started.
        timeout : float or None, default=None
            The most time to wait, in s.
        """
        started = time.perf_counter()
        futures = [self._futures[id(choice)] for choice in choices]
        first = concurrent.futures.FIRST_COMPLETED
        concurrent.futures.wait(futures, timeout, return_when=first)
        self.seconds += time.perf_counter() - started

    def error(self, choice: Any) -> BaseException | None:
        """Return why a choice can't be compiled; None if it can.

        Parameters
        ----------
        choice : ChoiceCaller
            A choice that was started. It is waited for.

        Returns
        -------
        BaseException or None
            What the compiler raised.
        """
        return self._futures[id(choice)].exception()

    def close(self) -> None:
        """Forget the choices; compiles that have begun can't be ended."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        # Inductor would hand out what was compiled in the name of a template.
        for source in self._sources:
            with contextlib.suppress(Exception):
                self._module.CompiledTritonKernels.remove_future(source)
        self._futures.clear()
        self._choices.clear()
        self._sources.clear()

    def _submit(self, choice: Any) -> Future[Any]:
        if self._has_processes and self._is_template(choice):
            return self._submit_to_process(choice)
        if hasattr(choice, "precompile") and _HAS_SAFE_THREADS:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self.n_jobs)
            return self._threads.submit(choice.precompile)
        ready: Future[Any] = Future()
        ready.set_result(None)
        return ready

    def _is_template(self, choice: Any) -> bool:
        return isinstance(choice, self._select.TritonTemplateCaller) and isinstance(
            choice.bmreq, self._requests.TritonGPUBenchmarkRequest
        )

    def _submit_to_process(self, choice: Any) -> Future[Any]:
        with open(choice.bmreq.module_path, encoding="utf-8") as file:
            source = file.read()
        answer = self._module.AsyncCompile().triton(
            kernel_name=choice.bmreq.kernel_name, source_code=source
        )
        self._sources.append(source)
        future = getattr(answer, "future", None)
        if future is None:  # it was compiled already
            future = Future()
            future.set_result(None)
        return future
