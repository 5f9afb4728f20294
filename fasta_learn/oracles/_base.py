"""The interface of everything that measures."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from fasta_learn.oracles._measurement import Measurement


class BaseOracle(ABC):
    """Base of everything that measures configs.

    A subclass implements `measure`, and overrides `measure_each` if it can answer
    before the whole batch is measured. `fasta_learn.oracles.check_oracle` tests
    whether a subclass keeps to what is written here.

    Attributes
    ----------
    lookahead : int
        How many configs it can make ready (compile) at a time besides those that are to
        be measured next. A search guesses so many and announces them by `prepare`.
    n_parallel : int
        How many configs it measures at the same time, on as many devices.

    Examples
    --------
    >>> from fasta_learn.oracles import BaseOracle, Measurement
    >>> class TileOracle(BaseOracle):
    ...     def measure(self, configs):
    ...         return [Measurement(64 / config["BLOCK"]) for config in configs]
    >>> TileOracle().measure([{"BLOCK": 32}, {"BLOCK": 64}])[0].duration
    2.0
    """

    lookahead: int = 0
    n_parallel: int = 1

    @abstractmethod
    def measure(self, configs: Iterable[Any]) -> list[Measurement]:
        """Measure configs.

        Parameters
        ----------
        configs : iterable of length n
            The configs: dicts, objects with ``kwargs``, or rows of a matrix.

        Returns
        -------
        list of Measurement, length n
            In the order of the configs. A config that fails is a measurement too:
            it does not raise.
        """

    def measure_each(self, configs: Iterable[Any]) -> Iterator[Measurement]:
        """Measure configs and give each measurement as soon as it is there.

        Parameters
        ----------
        configs : iterable of length n
            The configs. It may be a generator that decides only when asked for the
            next config: an oracle that measures one after the other should take
            each only then.

        Yields
        ------
        Measurement
            In the order of the configs.
        """
        yield from self.measure(list(configs))

    def remeasure_each(self, configs: Iterable[Any]) -> Iterator[Measurement]:
        """Measure configs anew that were measured before, as `measure_each`.

        A search asks for it when near-tied configs are to be told apart. An oracle
        that answers known configs from a store overrides it.

        Parameters
        ----------
        configs : iterable of length n
            The configs.

        Yields
        ------
        Measurement
            In the order of the configs.
        """
        yield from self.measure_each(configs)

    def prepare(self, configs: Iterable[Any]) -> None:  # noqa: B027
        """Begin to make configs ready that may be measured soon, and do not wait.

        Parameters
        ----------
        configs : iterable of length n
            The configs, the most urgent first. Some may never be asked for.
        """

    def open_pool(self, configs: Iterable[Any]) -> None:  # noqa: B027
        """Learn of the whole pool; a search calls it before the first measurement.

        Parameters
        ----------
        configs : iterable of length N
            All configs of the pool.
        """

    def fingerprint(self) -> dict[str, Any]:
        """Say what is measured: kernel, device and versions.

        Returns
        -------
        dict
            JSON can hold it. Measurements under equal fingerprints may be mixed.
        """
        return {"oracle": type(self).__name__}
