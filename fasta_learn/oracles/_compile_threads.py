"""Threads that compile configs ahead of the one that is timed."""

import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fasta_learn.configs import config_key

# Announcements beyond this are dropped; such configs are compiled when asked for.
_MOST_WAITING = 1024
_CLOSE_SECONDS = 10.0


class _Job:
    """One config on its way through a compiler."""

    __slots__ = ("config", "error", "is_done", "result", "seconds", "started")

    def __init__(self, config: Any) -> None:
        self.config = config
        self.started: float | None = None
        self.seconds: float | None = None
        self.is_done = False
        self.result: Any = None
        self.error: BaseException | None = None


class CompileThreads:
    """Compile each config once, several at a time, what is asked for first.

    Parameters
    ----------
    compile : callable
        Compiles a config; called in the threads.
    n_threads : int
        How many configs are compiled at a time.
    watch : callable or None, default=None
        Called in the thread with ``"compiling"`` or ``"compiled"`` and the config.

    Attributes
    ----------
    is_closed : bool
        Whether nothing is compiled any more.
    """

    def __init__(
        self,
        compile: Callable[[Any], Any],
        n_threads: int,
        *,
        watch: Callable[[str, Any], None] | None = None,
    ) -> None:
        self._compile = compile
        self._n_threads = n_threads
        self._watch = watch or (lambda event, config: None)
        self._changed = threading.Condition()
        self._jobs: dict[str, _Job] = {}
        self._waiting: deque[_Job] = deque()
        self._threads: list[threading.Thread] = []
        self._n_idle = 0
        self._is_quiet = False
        self.is_closed = False

    def announce(self, configs: Iterable[Any]) -> None:
        """Start to compile configs that are not compiled yet; returns at once.

        What was announced before and waits still comes after them: the later an
        announcement, the more was known.

        Parameters
        ----------
        configs : iterable
            In the order in which they will be asked for.
        """
        configs = list(configs)
        with self._changed:
            room = _MOST_WAITING - len(self._waiting)
            for config in reversed(configs[: max(room, 0)]):
                self._put_first(self._job(config))

    def get(self, config: Any, timeout: float | None = None) -> Any:
        """Wait until a config is compiled.

        Parameters
        ----------
        config : object
            The config; it is compiled next if no thread has begun with it.
        timeout : float or None, default=None
            The most time that compiling it may take, in s. The thread can't be
            stopped: another one takes its place.

        Returns
        -------
        object
            What compiling it gave.

        Raises
        ------
        TimeoutError
            It took too long.
        RuntimeError
            The threads were closed.
        Exception
            What compiling it raised.
        """
        with self._changed:
            job = self._job(config)
            self._put_first(job)
            self._wait(job, math.inf if timeout is None else timeout)
        if job.error is not None:
            raise job.error.with_traceback(None)
        return job.result

    def seconds(self, config: Any) -> float | None:
        """Tell how long compiling a config took, or was waited for.

        Parameters
        ----------
        config : object
            The config.

        Returns
        -------
        float or None
            In s; None while it is not known.
        """
        job = self._jobs.get(config_key(config))
        return None if job is None else job.seconds

    def admit(self) -> None:
        """Let every idle thread begin with a config, if one waits.

        To be called between two quiet times: compiling would stand still if one
        followed right after the other. A compile begins with Python code, which is
        in the way of other threads, so that it is best called some time before.
        """
        with self._changed:
            while self._n_idle and self._waiting and not self.is_closed:
                self._changed.wait()

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """Let no thread begin with a config while the block runs."""
        with self._changed:
            self._is_quiet = True
        try:
            yield
        finally:
            with self._changed:
                self._is_quiet = False
                self._changed.notify_all()

    def close(self) -> None:
        """End the threads once they have compiled what they are at."""
        with self._changed:
            self.is_closed = True
            self._waiting.clear()
            self._changed.notify_all()
        deadline = time.monotonic() + _CLOSE_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _job(self, config: Any) -> _Job:
        key = config_key(config)
        job = self._jobs.get(key)
        if job is None:
            if self.is_closed:
                raise RuntimeError("the device was closed; open another to measure.")
            job = self._jobs[key] = _Job(config)
            self._waiting.append(job)
            if len(self._threads) < self._n_threads:
                self._add_thread()
            self._changed.notify_all()
        return job

    def _put_first(self, job: _Job) -> None:
        with contextlib.suppress(ValueError):  # a thread has begun with it
            self._waiting.remove(job)
            self._waiting.appendleft(job)

    def _add_thread(self) -> None:
        # Daemons, since one that hangs must not keep the interpreter from ending.
        thread = threading.Thread(target=self._work, daemon=True)
        self._threads.append(thread)
        self._n_idle += 1
        thread.start()

    def _wait(self, job: _Job, timeout: float) -> None:
        asked = time.monotonic()
        while not job.is_done:
            if self.is_closed:
                raise RuntimeError("the device was closed while it compiled.")
            started = asked if job.started is None else job.started
            left = started + timeout - time.monotonic()
            if left <= 0:
                self._add_thread()
                job.error = TimeoutError(f"compiling took more than {timeout:g} s")
                job.seconds, job.is_done = timeout, True
                with contextlib.suppress(ValueError):
                    self._waiting.remove(job)
                return
            self._changed.wait(None if left == math.inf else left)

    def _work(self) -> None:
        while (job := self._take()) is not None:
            started = time.monotonic()
            self._watch("compiling", job.config)
            result = error = None
            try:
                result = self._compile(job.config)
            except BaseException as exception:
                error = _without_frames(exception)
            self._watch("compiled", job.config)
            with self._changed:
                if not job.is_done:
                    job.seconds = time.monotonic() - started
                    job.result, job.error, job.is_done = result, error, True
                self._n_idle += 1
                self._changed.notify_all()

    def _take(self) -> _Job | None:
        with self._changed:
            while not self.is_closed:
                if self._waiting and not self._is_quiet:
                    self._n_idle -= 1
                    self._changed.notify_all()
                    job = self._waiting.popleft()
                    job.started = time.monotonic()
                    return job
                self._changed.wait()
            return None


def _without_frames(error: BaseException) -> BaseException:
    """Free what the frames of an error hold: whole programs, and tensors."""
    link: BaseException | None = error
    while link is not None:
        link.__traceback__ = None
        link = link.__cause__ or link.__context__
    return error
