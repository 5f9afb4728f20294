"""Forked processes that compile, since Triton holds the interpreter meanwhile."""

import contextlib
import functools
import logging
import os
import pickle
import queue
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from fasta_learn._compat import cloudpickle
from fasta_learn.oracles._fork_server import ForkServer
from fasta_learn.oracles._triton_failures import CompileFailedError, classify

if TYPE_CHECKING:
    from fasta_learn.oracles._triton_binding import CompileFacts
    from fasta_learn.oracles._triton_kernel import Workload

logger = logging.getLogger("fasta_learn.oracles")


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
        self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        self._is_closed = False
        workload.fill_tables()
        self._server = ForkServer(
            functools.partial(_prepare, workload, workload.target, workload.device),
            functools.partial(_serve, workload),
        )
        self._workers = [_Worker(self._server) for _ in range(n_workers)]
        try:
            for worker in self._workers:
                worker.start()
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
            if not self._revive(worker):
                return self._workload.compile(config)
            facts = worker.compile(config, self._timeout)
        except TimeoutError:
            worker.end()
            raise
        except (EOFError, OSError):
            worker.end()
            raise CompileFailedError.crashed() from None
        finally:
            self._idle.put(worker)
        here = self._workload.compile(config)
        return replace(here, seconds=facts.seconds, cached=facts.cached)

    def close(self) -> None:
        """End the processes."""
        self._is_closed = True
        self._server.close()
        for worker in self._workers:
            worker.end()

    def _revive(self, worker: "_Worker") -> bool:
        """Start a worker again that was ended; False if that is not possible."""
        try:
            worker.start()
        except OSError as error:
            if self._is_closed:
                raise
            logger.debug("a config is compiled in a thread: %s", error)
            return False
        return True


class _Worker:
    """This process's side of one of them."""

    def __init__(self, server: ForkServer) -> None:
        self._server = server
        self._connection: Connection | None = None
        self.pid = 0

    def start(self) -> None:
        """Fork the process, unless there is one."""
        if self._connection is None:
            self.pid, self._connection = self._server.fork()

    def compile(self, config: Any, timeout: float | None) -> "CompileFacts":
        """Let the process compile a config."""
        connection = self._connection
        if connection is None:
            raise EOFError
        connection.send_bytes(cloudpickle.dumps(config))  # hooks, too
        if not connection.poll(timeout):
            raise TimeoutError(f"compiling took more than {timeout:g} s")
        facts: CompileFacts
        facts, failure = connection.recv()
        if failure is not None:
            raise CompileFailedError(failure)
        return facts

    def end(self) -> None:
        """End the process, if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._server.end(self.pid)
            connection.close()


def _prepare(workload: "Workload", target: Any, device: int) -> None:
    """Make a process ready to compile, before it forks those that do."""
    with open(os.devnull, "w") as nowhere:  # Triton prints whole programs
        os.dup2(nowhere.fileno(), 1)
    workload.renew_locks()  # another thread may have held one during the fork
    _use_no_device(target, device)


def _serve(workload: "Workload", connection: Connection) -> None:
    """Compile what comes through the connection, until its other end is closed."""
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
