"""One worker for each device: a plain child process, or this process."""

from collections.abc import Sequence
from typing import Any

from fasta_learn._compat import cloudpickle
from fasta_learn.heuristics._collect_benchmark import (
    CHOICES,
    DeviceDescription,
    PadBenchmark,
)
from fasta_learn.heuristics._collect_shapes import GemmInput
from fasta_learn.oracles import bound_reason
from fasta_learn.oracles._child import CallTimeoutError, Child, ChildEndedError
from fasta_learn.oracles._worker import Answer, call

# The first call imports torch and starts the device.
_SETUP_SECONDS = 600.0

Rows = list[tuple[str, float]]


class _Calls:
    """Calls methods of a benchmark; what a child process holds."""

    def __init__(self, benchmark: PadBenchmark, device: int) -> None:
        self.benchmark = benchmark
        self.device: int | None = device

    def __call__(self, request: tuple[str, tuple[Any, ...]]) -> Any:
        if self.device is not None:
            device, self.device = self.device, None
            self.benchmark.select_device(device)
        name, arguments = request
        return getattr(self.benchmark, name)(*arguments)


class Worker:
    """Measures on one device.

    Parameters
    ----------
    benchmark : PadBenchmark
        What measures.
    device : int
        Index of the device.
    isolate : bool
        Whether a child process measures.
    timeout : float
        The most time that one input may take, in s; counts where a child measures.
    """

    def __init__(
        self, benchmark: PadBenchmark, device: int, isolate: bool, timeout: float
    ) -> None:
        self.device = device
        self._timeout = timeout
        self._calls = _Calls(benchmark, device)
        self._child = Child(cloudpickle.dumps(self._calls)) if isolate else None

    def describe(self) -> DeviceDescription:
        """Return what it measures on.

        Returns
        -------
        DeviceDescription
            The device.

        Raises
        ------
        RuntimeError
            The device can't be used.
        """
        device: DeviceDescription = self._setup("describe")
        return device

    def is_decided(self, items: Sequence[GemmInput]) -> list[bool]:
        """Return for which inputs torch would ask a heuristic.

        Parameters
        ----------
        items : sequence of GemmInput
            The inputs.

        Returns
        -------
        list of bool
            For each.

        Raises
        ------
        RuntimeError
            The device can't be used.
        """
        decided: list[bool] = self._setup("is_decided", list(items))
        return decided

    def measure(self, item: GemmInput, n_repetitions: int) -> tuple[Rows, str | None]:
        """Measure an input.

        Parameters
        ----------
        item : GemmInput
            The input.
        n_repetitions : int
            How often each choice is measured.

        Returns
        -------
        rows : list of (str, float)
            Choices and durations in ms, inf if they failed.
        error : str or None
            Why both failed.
        """
        try:
            answer = self._call("measure", (item, n_repetitions), self._timeout)
        except (CallTimeoutError, ChildEndedError) as error:
            answer = Answer(None, str(error), False, self._timeout)
        if answer.error is None:
            return answer.value, None
        if self._child is not None:
            # A failed kernel can leave a context in which all others fail.
            self._child.kill()
        rows = [(choice, float("inf")) for choice in CHOICES] * n_repetitions
        return rows, bound_reason(answer.error)

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.kill()

    def _setup(self, name: str, *arguments: Any) -> Any:
        try:
            answer = self._call(name, arguments, _SETUP_SECONDS)
            error = answer.error
        except (CallTimeoutError, ChildEndedError) as exception:
            error = str(exception)
        if error is not None:
            raise RuntimeError(
                f"device {self.device} can't be measured on: {bound_reason(error)}"
            )
        return answer.value

    def _call(self, name: str, arguments: tuple[Any, ...], timeout: float) -> Answer:
        request = (name, arguments)
        if self._child is None:
            return call(self._calls, request)
        with self._child.busy:
            return self._child.call(request, timeout)
