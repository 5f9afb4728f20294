"""A process that forks others, having one thread itself."""

import contextlib
import gc
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any

# A fork of a process with many threads can hang; then it must not be used.
_ANSWER_SECONDS = 20.0


class ForkServer:
    """Fork processes that serve one connection each, at any time and from any thread.

    What is forked has only the thread that has forked it, while a lock that another
    thread held stays locked for ever: those of imports, for example, which Python does
    not renew. So a process is forked early, when other threads have least to do, and
    that one forks all others. They end with it, and it ends with its parent.

    Parameters
    ----------
    prepare : callable
        Called in the server once, without arguments.
    serve : callable
        Called in each forked process with its end of the connection; the process ends
        when it returns.

    Raises
    ------
    OSError
        This platform or process can't fork.
    """

    def __init__(
        self, prepare: Callable[[], None], serve: Callable[[Connection], None]
    ) -> None:
        try:
            context = multiprocessing.get_context("fork")
        except ValueError as error:
            raise OSError("this platform can't fork") from error
        self._lock = threading.Lock()
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve_forks,
            args=(prepare, serve, theirs, self._connection),
            daemon=True,
        )
        try:
            with warnings.catch_warnings():  # of threads; see _ANSWER_SECONDS
                warnings.simplefilter("ignore", DeprecationWarning)
                self._process.start()
        except AssertionError as error:
            raise OSError("daemonic processes can't fork") from error
        finally:
            theirs.close()

    def fork(self) -> tuple[int, Connection]:
        """Fork a process.

        Returns
        -------
        pid : int
            Its id; it stays taken until `end`.
        connection : Connection
            This end of the connection that the process serves.

        Raises
        ------
        OSError
            The server hangs or has ended.
        """
        ours, theirs = multiprocessing.Pipe()
        try:
            with theirs, self._lock:
                self._connection.send(None)
                send_handle(self._connection, theirs.fileno(), self._process.pid)
                return int(self._answer()), ours
        except BaseException:
            ours.close()
            raise

    def end(self, pid: int) -> None:
        """Kill a process, and wait until it has gone; no error if all have ended.

        Parameters
        ----------
        pid : int
            What `fork` has given.
        """
        with contextlib.suppress(OSError), self._lock:
            self._connection.send(pid)
            self._answer()

    def close(self) -> None:
        """Kill the server and all that it has forked, and wait until they have gone."""
        self._process.terminate()
        self._process.join(_ANSWER_SECONDS)
        self._process.kill()
        self._process.join()
        with self._lock:
            self._connection.close()

    def _answer(self) -> Any:
        if not self._connection.poll(_ANSWER_SECONDS):
            self._process.kill()  # a late answer must not be taken for the next one
            raise OSError("a forked process hangs")
        try:
            return self._connection.recv()
        except EOFError as error:
            raise OSError("the process that forks others has ended") from error


def _serve_forks(
    prepare: Callable[[], None],
    serve: Callable[[Connection], None],
    connection: Connection,
    other_end: Connection,
) -> None:
    """Fork and end processes as told, until the other end is closed."""
    other_end.close()  # or it would not seem closed
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    gc.freeze()  # what this process has of a device must not be freed by it
    pids: set[int] = set()
    try:
        prepare()
        with contextlib.suppress(EOFError, OSError):
            while True:
                pid = connection.recv()
                if pid is None:
                    pids.add(pid := _fork(serve, connection))
                else:
                    _kill([pid])
                    pids.remove(pid)
                connection.send(pid)
    finally:
        _kill(pids)


def _fork(serve: Callable[[Connection], None], connection: Connection) -> int:
    """Fork a process that serves the connection whose other end was sent."""
    with Connection(recv_handle(connection)) as theirs:
        pid = os.fork()
        if pid:
            return pid
        try:  # nothing of this process goes further than here
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            connection.close()
            serve(theirs)
        finally:
            os._exit(0)


def _kill(pids: Iterable[int]) -> None:
    """Kill processes and wait for them, also if an exit has interrupted that before."""
    for pid in (pids := list(pids)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
