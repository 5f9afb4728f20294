"""An oracle from a function that measures one config."""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from numbers import Integral, Real
from typing import Any, Self

from joblib import Parallel, delayed

from fasta_learn.oracles._base import BaseOracle
from fasta_learn.oracles._child import CallTimeoutError, ChildEndedError, ChildPool
from fasta_learn.oracles._measurement import Measurement
from fasta_learn.oracles._worker import Answer, call


class CallableOracle(BaseOracle):
    """Measure configs by calling a function.

    What the function raises is a failed measurement with the status ``"error"``
    (``"out_of_memory"`` if that is what the error says), and so is an answer that is
    no duration. KeyboardInterrupt and SystemExit are passed on.

    Parameters
    ----------
    function : callable
        Takes a config and returns its duration in ms, inf if it failed, or a
        `Measurement`.
    timeout : float or None, default=None
        The most seconds that a config may take. The function then runs in a child
        process that is used for all configs; one that hangs is killed, together with
        what it has started, and the config fails with the status ``"timeout"``. A
        function that ends its process (a segmentation fault, an exit) fails with the
        status ``"error"``. What the function imports and where it is defined does
        not count. With None it runs in this process and can't be stopped.
    n_jobs : int or None, default=None
        How many configs are measured at a time, as in joblib: None is 1 unless in a
        `joblib.parallel_config`. Only useful if they don't disturb each other. With
        a timeout, threads are used, each with a child process of its own; otherwise
        the backend that joblib is set to.
    fingerprint : dict or None, default=None
        What is measured, such as kernel, device and versions; JSON can hold it.

    Attributes
    ----------
    function, timeout, n_jobs
        The parameters.

    Raises
    ------
    TypeError
        The function is not callable, or `n_jobs` is no int.
    ValueError
        The timeout is not positive and finite.

    See Also
    --------
    JournaledOracle : Keeps the measurements on disk.

    Notes
    -----
    The children end with `close`, at the end of a ``with`` block, or with the oracle.
    They are started without the code of the main script, so no
    ``if __name__ == "__main__"`` is needed; functions of the main script and lambdas
    are sent to them by value.

    Examples
    --------
    >>> from fasta_learn.oracles import CallableOracle
    >>> oracle = CallableOracle(lambda config: 64 / config["BLOCK"])
    >>> [answer.duration for answer in oracle.measure([{"BLOCK": 32}, {"BLOCK": 64}])]
    [2.0, 1.0]
    >>> oracle.measure([{"BLOCK": 0}])[0].reason
    'ZeroDivisionError: division by zero'
    """

    def __init__(
        self,
        function: Callable[[Any], float | Measurement],
        *,
        timeout: float | None = None,
        n_jobs: int | None = None,
        fingerprint: dict[str, Any] | None = None,
    ) -> None:
        _check_parameters(function, timeout, n_jobs)
        self.function = function
        self.timeout = timeout
        self.n_jobs = n_jobs
        self._fingerprint = fingerprint
        self._children = None if timeout is None else ChildPool(function, timeout)

    def measure(self, configs: Iterable[Any]) -> list[Measurement]:
        """Measure configs.

        Parameters
        ----------
        configs : iterable of length n
            The configs.

        Returns
        -------
        list of Measurement, length n
            In the order of the configs.

        Raises
        ------
        RuntimeError
            The function can't be loaded in a child process.
        """
        return list(self.measure_each(configs))

    def measure_each(self, configs: Iterable[Any]) -> Iterator[Measurement]:
        """Measure configs and give each measurement as soon as it is there.

        Parameters
        ----------
        configs : iterable of length n
            The configs; each is taken when it can be measured soon.

        Yields
        ------
        Measurement
            In the order of the configs.

        Raises
        ------
        RuntimeError
            The function can't be loaded in a child process.
        """
        if self._children is None:
            task = partial(_measure_here, self.function)
            parallel = Parallel(n_jobs=self.n_jobs, return_as="generator")
        else:
            task = partial(_measure_in_child, self._children)
            parallel = Parallel(
                n_jobs=self.n_jobs, return_as="generator", backend="threading"
            )
        yield from parallel(delayed(task)(config) for config in configs)

    def fingerprint(self) -> dict[str, Any]:
        """Say what is measured.

        Returns
        -------
        dict
            The `fingerprint` of the constructor, or else the name of the function.
        """
        if self._fingerprint is not None:
            return dict(self._fingerprint)
        return {**super().fingerprint(), "function": _name_of(self.function)}

    def close(self) -> None:
        """End the child processes; measuring again starts new ones."""
        if self._children is not None:
            self._children.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _check_parameters(function: Any, timeout: Any, n_jobs: Any) -> None:
    if not callable(function):
        raise TypeError(f"function must be callable, got {function!r}.")
    if n_jobs is not None and not isinstance(n_jobs, Integral):
        raise TypeError(f"n_jobs must be an int or None, got {n_jobs!r}.")
    if timeout is None:
        return
    if not isinstance(timeout, Real) or not 0 < float(timeout) < math.inf:
        raise ValueError(
            f"timeout must be a positive, finite number of seconds or None, got "
            f"{timeout!r}."
        )


def _name_of(function: Any) -> str:
    while isinstance(function, partial):
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def _measure_here(function: Callable[[Any], Any], config: Any) -> Measurement:
    return _as_measurement(call(function, config))


def _measure_in_child(children: ChildPool, config: Any) -> Measurement:
    start = time.perf_counter()
    try:
        answer = children.call(config)
    except CallTimeoutError as error:
        status, reason = "timeout", str(error)
    except ChildEndedError as error:
        status, reason = "error", str(error)
    else:
        return _as_measurement(answer)
    seconds = time.perf_counter() - start
    return Measurement.failed(status, reason, run_seconds=seconds)


def _as_measurement(answer: Answer) -> Measurement:
    value, seconds = answer.value, answer.seconds
    if isinstance(value, Measurement):
        return value
    if answer.error is not None:
        status = "out_of_memory" if answer.out_of_memory else "error"
        return Measurement.failed(status, answer.error, run_seconds=seconds)
    if isinstance(value, Real) and value == math.inf:
        reason = "the function answered inf"
        return Measurement.failed("error", reason, run_seconds=seconds)
    try:
        return Measurement(value, run_seconds=seconds)
    except ValueError as error:
        reason = f"the answer of the function is no duration in ms: {error}"
        return Measurement.failed("error", reason, run_seconds=seconds)
