"""The parent's view of a child process that owns a device."""

import contextlib
import math
import os
import pickle
import time
from multiprocessing.connection import Connection
from typing import Any

from fasta_learn._compat import cloudpickle
from fasta_learn.oracles._child import Child, ChildEndedError
from fasta_learn.oracles._measurement import Measurement
from fasta_learn.oracles._triton_child import VISIBLE_DEVICES

# Importing torch from a cold network disk takes minutes.
_START_SECONDS = 300.0


class DeviceChild(Child):
    """The parent's view of the child process that owns a device.

    Nothing here waits, except for the pipe to take what is sent.

    Parameters
    ----------
    server : bytes
        The `DeviceServer`, pickled.
    compile_timeout, run_timeout : float
        The most time that compiling and running a config may take, in s.

    Attributes
    ----------
    device : int or None
        Index of the device; None before `begin`.
    facts : dict or None
        What the child said of kernel and device; None until it is ready.
    refusal : tuple of (bool, str) or None
        Whether the user is to blame, and why the child can't measure.
    is_broken : bool
        Whether the last config has made the device unusable for the child.
    compiling : dict of str to float
        Configs that are being compiled, and since when.
    compiled : set of str
        Configs whose compiling has ended.
    running : tuple of (str, float) or None
        The config that is on the device, and since when.
    asked : dict of int to str
        Requests that are not answered, in their order.
    answers : list of (int, Measurement)
        Answers that were read and not yet taken.
    is_alone : bool
        Whether the config that is asked for must not share the child.
    """

    def __init__(
        self, server: bytes, compile_timeout: float, run_timeout: float
    ) -> None:
        super().__init__(server)
        self.device: int | None = None
        self._compile_timeout, self._run_timeout = compile_timeout, run_timeout
        self.answers: list[tuple[int, Measurement]] = []
        self.facts: dict[str, Any] | None = None
        self.refusal: tuple[bool, str] | None = None
        self.is_broken = self.is_alone = self._is_loaded = False
        self.compiling: dict[str, float] = {}
        self.compiled: set[str] = set()
        self.announced: set[str] = set()
        self.running: tuple[str, float] | None = None
        self.asked: dict[int, str] = {}
        self._last_heard = time.monotonic()

    @property
    def connection(self) -> Connection | None:
        """This end of the pipe; None if there is no child."""
        return self._connection

    @property
    def is_ready(self) -> bool:
        """Whether configs can be sent."""
        return self._connection is not None and self.facts is not None

    @property
    def is_idle(self) -> bool:
        """Whether the child is ready and does nothing."""
        return self.is_ready and not (self.asked or self.n_compiling)

    @property
    def n_compiling(self) -> int:
        """How many configs are being compiled or wait for it, having been announced."""
        return len(self.announced) + len(self.compiling)

    def start(self) -> None:
        """Start the process, which imports what it needs and waits for its device."""
        self._send_bytes(self._spawn(), self._loading_message())

    def begin(self, device: int) -> None:
        """Let the child make ready for a device; it is ready when it says so.

        Parameters
        ----------
        device : int
            Index of the device.
        """
        self.device = device
        self._last_heard = time.monotonic()
        self._send(visible_device(device))

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    def announce(self, config: Any, key: str) -> None:
        """Let the child compile a config ahead.

        Parameters
        ----------
        config : object
            The config.
        key : str
            Its key.
        """
        if key not in self.announced | self.compiled | self.compiling.keys():
            self.announced.add(key)
            self._send(("prepare", config))

    def ask(self, number: int, config: Any, key: str, best: float | None) -> None:
        """Let the child measure a config.

        Parameters
        ----------
        number : int
            Number of the request.
        config : object
            The config.
        key : str
            Its key.
        best : float or None
            Best duration so far, in ms.
        """
        self.asked[number] = key
        self._send(("measure", number, config, best))

    def read(self) -> None:
        """Take all that the child has sent.

        Raises
        ------
        ChildEndedError
            The child has ended; what it sent before is taken all the same.
        """
        connection = self._connection
        try:
            while connection is not None and connection.poll():
                self._take(pickle.loads(connection.recv_bytes()))
        except (EOFError, ConnectionError):
            raise ChildEndedError(self._describe_end()) from None

    def suspects(self) -> list[str]:
        """Give the configs that may be why the child has ended: all it was at."""
        running = [] if self.running is None else [self.running[0]]
        return list(dict.fromkeys([*running, *self.compiling]))

    def deadline(self) -> float:
        """Give the time at which something takes too long; inf if nothing is due."""
        return min((due for due, *_ in self._dues()), default=math.inf)

    def overdue(self) -> tuple[str | None, str] | None:
        """Tell what takes too long.

        Returns
        -------
        tuple of (str or None, str) or None
            Key of the config, None if it is the start of the child, and a text about
            it. None if all is well.
        """
        now = time.monotonic()
        late = [(due, key, text) for due, key, text in self._dues() if due <= now]
        return None if not late else min(late, key=lambda item: item[0])[1:]

    def close_now(self) -> None:
        """End the child, unless it belongs to the parent that this process forked."""
        if self.owner == os.getpid():
            self.kill()
        elif self._connection is not None:
            self._connection.close()

    def _dues(self) -> list[tuple[float, str | None, str]]:
        if self._connection is None:
            return []
        if self.facts is None:
            due = self._last_heard + _START_SECONDS
            return [(due, None, f"it was not ready within {_START_SECONDS:g} s")]
        limit = self._compile_timeout
        dues: list[tuple[float, str | None, str]] = [
            (since + limit, key, f"compiling took more than {limit:g} s")
            for key, since in self.compiling.items()
        ]
        limit = self._run_timeout
        if self.running is not None:
            key, since = self.running
            dues.append((since + limit, key, f"running took more than {limit:g} s"))
        if self.asked and not dues:  # it neither compiles nor runs
            limit += self._compile_timeout
            key = next(iter(self.asked.values()))
            text = f"the child process said nothing for {limit:g} s"
            dues.append((self._last_heard + limit, key, text))
        return dues

    def _take(self, message: Any) -> None:
        self._last_heard = time.monotonic()
        if not self._is_loaded:  # the worker's word on whether it has the server
            self._is_loaded = True
            if message is not None:
                self.refusal = (False, message)
            return
        kind, *content = message
        getattr(self, f"_on_{kind}")(*content)

    def _on_ready(self, facts: dict[str, Any]) -> None:
        self.facts = facts

    def _on_refused(self, is_usage: bool, text: str) -> None:
        self.refusal = (is_usage, text)

    def _on_compiling(self, key: str, since: float) -> None:
        self.announced.discard(key)
        self.compiling[key] = since

    def _on_compiled(self, key: str, since: float) -> None:
        self.compiling.pop(key, None)
        self.compiled.add(key)

    def _on_running(self, key: str, since: float) -> None:
        self.running = (key, since)

    def _on_done(self, number: int, measurement: Measurement, broken: bool) -> None:
        self.running = None
        self.is_broken = broken
        self.asked.pop(number, None)
        self.is_alone = self.is_alone and bool(self.asked)
        self.answers.append((number, measurement))

    def _send(self, message: Any) -> None:
        if self._connection is not None:
            self._send_bytes(self._connection, cloudpickle.dumps(message))

    def _send_bytes(self, connection: Connection, message: bytes) -> None:
        # A child that has ended is noticed, and told apart, when it is read from.
        with contextlib.suppress(ConnectionError):
            connection.send_bytes(message)


def visible_device(device: int) -> str:
    """Give the name of a device for a child that is to see no other.

    Parameters
    ----------
    device : int
        Its index in this process.

    Returns
    -------
    str
        Its index or identifier for CUDA_VISIBLE_DEVICES.

    Raises
    ------
    ValueError
        This process does not see so many devices.
    """
    names = [name.strip() for name in os.environ.get(VISIBLE_DEVICES, "").split(",")]
    if names == [""]:
        return str(device)
    if device >= len(names):
        raise ValueError(
            f"there is no device {device}: {VISIBLE_DEVICES} shows {len(names)} "
            f"devices, {','.join(names)!r}."
        )
    return names[device]
