"""What a child process that owns a device runs."""

import contextlib
import os
import pickle
import queue
import threading
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from fasta_learn._compat import cloudpickle, import_extra
from fasta_learn.configs import config_key
from fasta_learn.oracles._kernel_spec import load_kernel_spec
from fasta_learn.oracles._measurement import bound_reason
from fasta_learn.oracles._timing import TimingPlan
from fasta_learn.oracles._triton_device import LocalDevice, describe_device

if TYPE_CHECKING:
    from fasta_learn.oracles._triton_kernel import Workload

VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class SpecSource:
    """A kernel spec that whoever measures it makes by itself.

    Parameters
    ----------
    target : str
        ``"module:function"`` or ``"path/to/file.py:function"``.
    parameters : dict of str to object
        Keyword arguments of the function.
    """

    target: str
    parameters: dict[str, Any]

    def load(self) -> "Workload":
        """Call the function, and give what it wants to be tuned.

        Returns
        -------
        Workload
            The kernel with its arguments.

        Raises
        ------
        ValueError, ImportError, FileNotFoundError
            As `load_kernel_spec` does.
        """
        spec = load_kernel_spec(self.target, self.parameters)
        return workload_of(spec)


def workload_of(spec: Any) -> "Workload":
    """Give the kernel of a spec with its arguments.

    Parameters
    ----------
    spec : KernelSpec
        The spec.

    Returns
    -------
    Workload
        What can be compiled and launched.
    """
    from fasta_learn.oracles._triton_kernel import Workload

    return Workload(
        spec.kernel,
        spec.args,
        spec.grid,
        constants=spec.constants,
        reset_to_zero=spec.reset_to_zero,
        restore_value=spec.restore_value,
        check=spec.check,
    )


class DeviceServer:
    """What a child process runs: a device that is told what to do by messages.

    The parent sends the name of the device, as CUDA_VISIBLE_DEVICES has it, then
    ``("prepare", config)`` and ``("measure", number, config, best)``. The child sends
    ``("ready", facts)`` or ``("refused", is_usage, text)``, then ``(event, key of a
    config, time)`` with the events of a `LocalDevice`, and ``("done", number,
    measurement, broken)``. Before it knows its device, it imports what takes long.

    Parameters
    ----------
    source : SpecSource, Workload or bytes
        What is measured; bytes are one of them, pickled.
    n_threads : int
        How many configs are compiled at a time.
    plan : TimingPlan
        How precisely they are timed.
    """

    def __init__(
        self, source: "SpecSource | Workload | bytes", n_threads: int, plan: TimingPlan
    ) -> None:
        self._source: Any = source
        self._n_threads, self._plan = n_threads, plan

    def to_bytes(self) -> bytes:
        """Pickle the server for its children.

        Returns
        -------
        bytes
            With the source as bytes, so that a child can tell why it can't load it.

        Raises
        ------
        ValueError
            A child can't import the kernel.
        """
        source = cloudpickle.dumps(self._source)
        server = DeviceServer(source, self._n_threads, self._plan)
        return bytes(cloudpickle.dumps(server))

    def serve(self, connection: Connection) -> None:
        """Serve the parent until it is at its end.

        Parameters
        ----------
        connection : Connection
            The child's end of the pipe.
        """
        send = _Sender(connection)
        try:
            for module in ("torch", "triton", "fasta_learn.oracles._triton_kernel"):
                import_extra(module, "torch")
            os.environ[VISIBLE_DEVICES] = connection.recv()
            workload = pickle.loads(self._source)
            if isinstance(workload, SpecSource):
                workload = workload.load()
            facts = {**describe_device(), "kernel": workload.fingerprint()}
        except EOFError:  # the parent has no use for it any more
            return
        except Exception as error:
            is_usage = isinstance(error, (ValueError, ImportError, OSError))
            send("refused", is_usage, bound_reason(error))
            return
        send("ready", facts)

        def watch(event: str, config: Any) -> None:
            send(event, config_key(config), time.monotonic())

        with (
            LocalDevice(
                workload, n_threads=self._n_threads, plan=self._plan, watch=watch
            ) as device,
            open(os.devnull, "w") as nowhere,
            contextlib.redirect_stdout(nowhere),  # triton prints whole programs
        ):
            self._measure_all(connection, device, send)

    @staticmethod
    def _measure_all(
        connection: Connection, device: LocalDevice, send: "_Sender"
    ) -> None:
        requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        reader = threading.Thread(
            target=_read, args=(connection, device, requests), daemon=True
        )
        reader.start()
        while (request := requests.get()) is not None:
            number, config, best = request
            measurement = device.measure(config, best)
            send("done", number, measurement, device.broken is not None)
            if device.broken is not None:
                # Freeing what is on a broken device only makes noise: wait for the end.
                threading.Event().wait()


class _Sender:
    """Sends messages from any thread."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def __call__(self, *message: Any) -> None:
        with self._lock:
            self._connection.send(message)


def _read(
    connection: Connection, device: LocalDevice, requests: queue.SimpleQueue[Any]
) -> None:
    """Take what the parent sends, also while a config is measured."""
    with contextlib.suppress(EOFError, OSError):
        while message := connection.recv_bytes():
            kind, *content = pickle.loads(message)
            if kind == "prepare":
                device.prepare(content)
            else:
                # Compiling begins now, even if another config is being measured.
                device.prepare([content[1]])
                requests.put(content)
    requests.put(None)
