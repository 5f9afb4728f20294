"""Forked processes that compile, since Triton holds the interpreter meanwhile."""

import contextlib
import gc
import multiprocessing
import os
import pickle
import queue
import signal
import warnings
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

from fasta_learn._compat import cloudpickle
from fasta_learn.oracles._triton_failures import CompileFailedError, classify

if TYPE_CHECKING:
    from fasta_learn.oracles._triton_binding import CompileFacts
    from fasta_learn.oracles._triton_kernel import Workload

# A fork of a process with many threads can hang; then it must not be used.
_READY_SECONDS = 20.0


class CompileWorkers:
    """Compile configs of a kernel in processes, each of which has one caller at a time.

    The processes are forked, so that any kernel can be compiled with any arguments, and
    never use the device. What they compile lies in Triton's cache on disk, where this
    process then finds it.

    Parameters
    ----------
    workload : Workload
        The kernel with its arguments.
    n_workers : int
        How many processes; they are started at once.
    timeout : float or None, default=None
        The most time that compiling a config may take, in s.

    Raises
    ------
    OSError
        This platform or process can't fork, or what was forked hangs.
    """

    def __init__(
        self, workload: "Workload", n_workers: int, timeout: float | None = None
    ) -> None:
        self._workload, self._timeout = workload, timeout
        self._workers: list[_Worker] = []
        self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        self._target, self._device = workload.target, workload.device
        self._is_closed = False
        workload.fill_tables()
        try:
            for _ in range(n_workers):
                self._start()
            for worker in self._workers:
                worker.wait_until_ready()
                self._idle.put(worker)
        except BaseException:
            self.close()
            raise

    def __call__(self, config: Any) -> "CompileFacts":
        """Compile a config; callable from as many threads as there are workers.

        Parameters
        ----------
        config : dict or triton.Config
            The config.

        Returns
        -------
        CompileFacts
            With the seconds that the worker took.

        Raises
        ------
        CompileFailedError
            It can't be compiled, or the compiler has crashed.
        TimeoutError
            It took too long; the worker was ended.
        """
        worker = self._idle.get()
        try:
            facts = worker.compile(config, self._timeout)
        except (EOFError, OSError) as error:
            if not self._is_closed:
                worker = self._replace(worker)
            if isinstance(error, TimeoutError):
                raise
            raise CompileFailedError.crashed() from None
        finally:
            self._idle.put(worker)
        here = self._workload.compile(config)
        return replace(here, seconds=facts.seconds, cached=facts.cached)

    def close(self) -> None:
        """End the processes."""
        self._is_closed = True
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.join()
        self._workers.clear()

    def _replace(self, worker: "_Worker") -> "_Worker":
        worker.kill()
        worker.join()
        self._workers.remove(worker)
        other = self._start()
        other.wait_until_ready()
        return other

    def _start(self) -> "_Worker":
        inherited = [worker.connection for worker in self._workers]
        worker = _Worker(self._workload, self._target, self._device, inherited)
        self._workers.append(worker)
        return worker


class _Worker:
    """This process's side of one of them."""

    def __init__(
        self,
        workload: "Workload",
        target: Any,
        device: int,
        inherited: list[Connection],
    ) -> None:
        try:
            context = multiprocessing.get_context("fork")
        except ValueError as error:
            raise OSError("this platform can't fork") from error
        self.connection, theirs = context.Pipe()
        process = context.Process(
            target=_serve,
            args=(workload, target, device, theirs, [self.connection, *inherited]),
            daemon=True,
        )
        try:
            with warnings.catch_warnings():  # of threads; see wait_until_ready
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
        except AssertionError as error:
            raise OSError("daemonic processes can't fork") from error
        finally:
            theirs.close()
        self._process: BaseProcess = process

    def wait_until_ready(self) -> None:
        """Wait for the first word of the process."""
        try:
            if self.connection.poll(_READY_SECONDS) and self.connection.recv():
                return
        except EOFError:
            pass
        raise OSError("a forked process hangs")

    def compile(self, config: Any, timeout: float | None) -> "CompileFacts":
        """Let the process compile a config."""
        self.connection.send_bytes(cloudpickle.dumps(config))  # hooks, too
        if not self.connection.poll(timeout):
            raise TimeoutError(f"compiling took more than {timeout:g} s")
        facts: CompileFacts
        facts, failure = self.connection.recv()
        if failure is not None:
            raise CompileFailedError(failure)
        return facts

    def kill(self) -> None:
        """End the process; it takes some time to go."""
        self._process.kill()

    def join(self) -> None:
        """Wait until the process has gone."""
        self._process.join()
        self.connection.close()


def _serve(
    workload: "Workload",
    target: Any,
    device: int,
    connection: Connection,
    inherited: list[Connection],
) -> None:
    """Compile what comes through the connection, until its other end is closed."""
    for other in inherited:  # or it would not seem closed
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.freeze()  # what this process has of the device must not be freed by it
    with open(os.devnull, "w") as nowhere:  # Triton prints whole programs
        os.dup2(nowhere.fileno(), 1)
    workload.renew_locks()  # another thread may have held one during the fork
    _use_no_device(target, device)
    connection.send(True)
    with contextlib.suppress(EOFError, OSError):
        while True:
            config = pickle.loads(connection.recv_bytes())
            answer: tuple[Any, Any]
            try:
                answer = workload.compile(config), None
            except Exception as error:
                answer = None, classify(error, "compile")
            connection.send(answer)


def _use_no_device(target: Any, device: int) -> None:
    """Let Triton compile for a device without asking it."""
    from triton.runtime import driver

    driver.set_active(_DeviceOnPaper(target, device))


class _DeviceOnPaper:
    """What Triton asks its driver while it compiles."""

    def __init__(self, target: Any, device: int) -> None:
        self._target, self._device = target, device

    def get_current_target(self) -> Any:
        return self._target

    def get_current_device(self) -> int:
        return self._device

    def set_current_device(self, device: int) -> None:
        self._device = device

    def get_current_stream(self, device: int | None = None) -> int:
        return 0
