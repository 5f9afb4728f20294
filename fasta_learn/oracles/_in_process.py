"""A device of this process behind the interface of a group of child processes."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from fasta_learn.oracles._measurement import Measurement
from fasta_learn.oracles._triton_device import LocalDevice, describe_device, on_device

if TYPE_CHECKING:
    from fasta_learn.oracles._triton_kernel import Workload


class InProcessDevice:
    """Measure configs in this process, one after the other.

    Parameters
    ----------
    make_workload : callable
        Gives the kernel with its arguments; called when it is first needed.
    device : int or None
        Index of the device; None is the current one.
    **options
        Those of `LocalDevice`.
    """

    def __init__(
        self,
        make_workload: Callable[[], "Workload"],
        device: int | None,
        **options: Any,
    ) -> None:
        self._make_workload = make_workload
        self._device = device
        self._options = options
        self._workload: Workload | None = None
        self._local: LocalDevice | None = None
        self._broken: str | None = None
        self._n_requests = 0
        self._configs: dict[int, Any] = {}

    def facts(self) -> dict[str, Any]:
        """Tell what kernel and device are.

        Returns
        -------
        dict
            JSON can hold it.

        Raises
        ------
        ValueError
            There is no device.
        """
        with on_device(self._device):
            kernel = self._loaded().fingerprint()
            return {**describe_device(), "kernel": kernel}

    def prepare(self, configs: Iterable[Any]) -> None:
        """Start to compile configs; returns at once.

        Parameters
        ----------
        configs : iterable
            In the order in which they will be asked for.
        """
        self._open().prepare(configs)

    def submit(self, config: Any) -> int:
        """Ask for a measurement.

        Parameters
        ----------
        config : object
            The config.

        Returns
        -------
        int
            Number of the request.
        """
        self._open().prepare([config])
        self._n_requests += 1
        self._configs[self._n_requests] = config
        return self._n_requests

    def result(self, number: int, best: float | None = None) -> Measurement:
        """Measure what was asked for.

        Parameters
        ----------
        number : int
            Number of the request.
        best : float or None, default=None
            Best duration so far, in ms.

        Returns
        -------
        Measurement
            The answer.

        Raises
        ------
        RuntimeError
            An earlier config has broken the device for this process.
        """
        local = self._open()
        try:
            return local.measure(self._configs.pop(number), best)
        finally:
            self._broken = local.broken

    def forget(self, numbers: Iterable[int]) -> None:
        """Take back requests.

        Parameters
        ----------
        numbers : iterable of int
            Numbers of the requests.
        """
        for number in numbers:
            self._configs.pop(number, None)

    def close(self) -> None:
        """End the threads, put the arguments back; the next use starts again."""
        if self._local is not None:
            self._local.close()
        if self._workload is not None:
            self._workload.close()
        self._local = None

    def _loaded(self) -> "Workload":
        """Give the workload on the device, which must be current."""
        if self._workload is None:
            workload = self._make_workload()
            if self._device is not None and workload.device != self._device:
                workload = workload.device_copy(f"cuda:{self._device}")
            self._workload = workload
        return self._workload

    def _open(self) -> LocalDevice:
        if self._local is None:
            with on_device(self._device):
                workload = self._loaded()
                describe_device()  # says in one line if there is none
            self._local = LocalDevice(workload, device=workload.device, **self._options)
            self._local.broken = self._broken
        return self._local
