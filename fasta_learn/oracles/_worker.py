"""Calls of a measuring function: here, or in a child process that runs this file.

The child runs the file by its path, without importing the package: it starts quickly
and pays only for what the function itself imports. So this file needs nothing but
the standard library.
"""

import contextlib
import os
import pickle
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

# Compiler errors can hold a whole program; nobody reads more than the beginning.
_TEXT_LIMIT = 10_000


class Answer(NamedTuple):
    """What one call of a measuring function gave.

    Attributes
    ----------
    value : object
        What the function returned; None if it raised.
    error : str or None
        Type and message of what it raised.
    out_of_memory : bool
        Whether the error says that the memory did not suffice.
    seconds : float
        How long the call took, in seconds.
    """

    value: Any
    error: str | None
    out_of_memory: bool
    seconds: float


def describe_exception(exception: BaseException) -> str:
    """Give type and message of an exception, even if the message can't be made.

    Parameters
    ----------
    exception : BaseException
        The exception.

    Returns
    -------
    str
        Such as ``"ValueError: no such tile"``; may have several lines.
    """
    try:
        message = str(exception)
    except Exception as error:
        message = f"(its message can't be shown: {type(error).__name__})"
    name = type(exception).__name__
    return f"{name}: {message[:_TEXT_LIMIT]}" if message else name


def call(function: Callable[[Any], Any], config: Any) -> Answer:
    """Call a measuring function and catch what it raises.

    Parameters
    ----------
    function : callable
        Takes a config.
    config : object
        The config.

    Returns
    -------
    Answer
        The returned value or the error, and the time taken.
    """
    start = time.perf_counter()
    try:
        value, error, out_of_memory = function(config), None, False
    except Exception as exception:
        value, error = None, describe_exception(exception)
        out_of_memory = _is_out_of_memory(exception)
    return Answer(value, error, out_of_memory, time.perf_counter() - start)


def _is_out_of_memory(exception: Exception) -> bool:
    # Device libraries name theirs OutOfMemoryError and derive it from RuntimeError.
    return isinstance(exception, MemoryError) or any(
        base.__name__ == "OutOfMemoryError" for base in type(exception).__mro__
    )


def main(descriptor: int) -> None:
    """Serve calls to the parent process until it says or is at its end.

    Parameters
    ----------
    descriptor : int
        The inherited end of the parent's pipe.
    """
    os.set_inheritable(descriptor, False)
    connection = Connection(descriptor)
    _end_with_parent(descriptor)
    path, function_bytes = pickle.loads(connection.recv_bytes())
    sys.path[:] = path
    try:
        function = pickle.loads(function_bytes)
    except Exception as exception:
        connection.send_bytes(pickle.dumps(describe_exception(exception)))
        return
    connection.send_bytes(pickle.dumps(None))
    if hasattr(function, "serve"):  # it has a protocol of its own
        function.serve(connection)
        return
    while request := connection.recv_bytes():
        connection.send_bytes(_serve(function, request))


def _serve(function: Callable[[Any], Any], request: bytes) -> bytes:
    try:
        config = pickle.loads(request)
    except Exception as exception:
        return _refusal("the config could not be loaded in the child", exception)
    try:
        return pickle.dumps(tuple(call(function, config)))
    except Exception as exception:
        return _refusal("the answer could not be sent to the parent", exception)


def _refusal(what: str, exception: Exception) -> bytes:
    error = f"{what}: {describe_exception(exception)}"
    return pickle.dumps((None, error, False, 0.0))


def _end_with_parent(descriptor: int) -> None:
    # The parent may be killed while the function hangs: the other end of the pipe is
    # closed then, and nobody is left to end this process.
    def watch() -> None:
        poller = select.poll()
        poller.register(descriptor, 0)
        poller.poll()
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    with contextlib.suppress(EOFError, ConnectionError):  # the parent is gone
        main(int(sys.argv[1]))
