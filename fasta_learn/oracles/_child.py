"""Child processes that call a measuring function and are ended when it hangs."""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from fasta_learn._compat import cloudpickle
from fasta_learn.oracles import _worker
from fasta_learn.oracles._measurement import bound_reason

# Importing a deep-learning framework from a cold network disk takes minutes.
_START_SECONDS = 300.0
_EXIT_SECONDS = 5.0


class CallTimeoutError(TimeoutError):
    """The function did not return in time, and its process was ended."""


class ChildEndedError(RuntimeError):
    """The process of the function ended while it was called."""


class Child:
    """One child process, started when first needed and again after it has ended.

    Parameters
    ----------
    function_bytes : bytes
        The function, pickled.

    Attributes
    ----------
    busy : threading.Lock
        To be held by who calls `call`.
    owner : int
        Id of the process whose child it is.
    """

    def __init__(self, function_bytes: bytes) -> None:
        self._function_bytes = function_bytes
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self.busy = threading.Lock()
        self.owner = os.getpid()

    def call(self, config: Any, timeout: float) -> _worker.Answer:
        """Call the function in the child.

        Parameters
        ----------
        config : object
            Its argument.
        timeout : float
            The most time that the call may take, in s; the start of a child does
            not count.

        Returns
        -------
        Answer
            What the function returned or raised.

        Raises
        ------
        CallTimeoutError, ChildEndedError
            The child is gone; the next call starts another.
        RuntimeError
            The function can't be loaded in a child.
        """
        request = cloudpickle.dumps(config)
        try:
            connection = self._running() or self._start()
            connection.send_bytes(request)
            return _worker.Answer(*pickle.loads(self._receive(connection, timeout)))
        except (EOFError, ConnectionError):
            raise ChildEndedError(self._describe_end()) from None
        except BaseException:  # an interrupt, too, must leave no hanging child
            self.kill()
            raise

    def kill(self) -> None:
        """End the child at once, together with the processes it has started."""
        process, connection = self._process, self._connection
        self._process = self._connection = None
        if process is not None:
            _kill_group(process)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Let an idle child end by itself; kill one that is busy or takes too long."""
        process, connection = self._process, self._connection
        if process is None or connection is None:
            return
        if self.owner != os.getpid():  # inherited by a fork: the parent still uses it
            connection.close()
        elif self.busy.acquire(blocking=False):
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                connection.send_bytes(b"")
                process.wait(_EXIT_SECONDS)
            self.kill()
        else:
            # The thread that waits for the answer sees the end and tidies up.
            _kill_group(process)

    def _running(self) -> Connection | None:
        # A child that died between two calls is not the fault of the next config.
        if self._process is not None and self._process.poll() is not None:
            self.kill()
        return self._connection

    def _start(self) -> Connection:
        connection = self._spawn()
        error = self._load_function(connection)
        if error is not None:
            raise RuntimeError(
                f"the function can't be loaded in a child process: {error}. Define "
                "it in a module that can be imported, or measure without timeout."
            )
        return connection

    def _spawn(self, environment: dict[str, str] | None = None) -> Connection:
        self._connection, theirs = Pipe()
        command = [sys.executable, "-P", _worker.__file__, str(theirs.fileno())]
        with theirs:
            # A session of its own, so that all it starts can be killed with it.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env=environment,
            )
        return self._connection

    def _load_function(self, connection: Connection) -> str | None:
        try:
            connection.send_bytes(self._loading_message())
            error = pickle.loads(self._receive(connection, _START_SECONDS))
        except (EOFError, ConnectionError):
            error = self._describe_end()
        except CallTimeoutError as exception:
            error = str(exception)
        return None if error is None else bound_reason(error)

    def _loading_message(self) -> bytes:
        return pickle.dumps((sys.path, self._function_bytes))

    @staticmethod
    def _receive(connection: Connection, timeout: float) -> bytes:
        if not connection.poll(timeout):
            raise CallTimeoutError(f"no answer within {timeout:g} s")
        return connection.recv_bytes()

    def _describe_end(self) -> str:
        process = self._process
        if process is None:
            return "the child process was closed"
        try:
            code = process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            return "the child process closed its pipe"
        finally:
            self.kill()
        if code < 0:
            return f"the child process was ended by {_signal_name(-code)}"
        return f"the child process ended with exit code {code}"


def _signal_name(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):  # all of it has ended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class ChildPool:
    """As many children as there are calls at a time, each used again and again.

    Parameters
    ----------
    function : callable
        What the children call; pickled with cloudpickle.
    timeout : float
        The most time that a call may take, in s.
    """

    def __init__(self, function: Callable[[Any], Any], timeout: float) -> None:
        self._function = function
        self._timeout = timeout
        self._children: list[Child] = []
        self._lock = threading.Lock()
        weakref.finalize(self, _close_all, self._children)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._function, self._timeout)

    def call(self, config: Any) -> _worker.Answer:
        """Call the function in a free child.

        Parameters
        ----------
        config : object
            Its argument.

        Returns
        -------
        Answer
            What the function returned or raised.

        Raises
        ------
        CallTimeoutError, ChildEndedError, RuntimeError
            As `Child.call` does.
        """
        child = self._take()
        try:
            return child.call(config, self._timeout)
        finally:
            child.busy.release()

    def close(self) -> None:
        """End all children; a later call starts new ones."""
        _close_all(self._children)

    def _take(self) -> Child:
        with self._lock:
            for child in self._children:
                if child.owner == os.getpid() and child.busy.acquire(blocking=False):
                    return child
            child = Child(cloudpickle.dumps(self._function))
            child.busy.acquire()
            self._children.append(child)
            return child


def _close_all(children: list[Child]) -> None:
    while children:
        children.pop().close()
