"""What measures the configs of a tuner, and remembers what it has measured."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from fasta_learn.configs import config_key
from fasta_learn.oracles import BaseOracle, Measurement, bound_reason
from fasta_learn.oracles._wrapper import OracleWrapper


class WatchedOracle(OracleWrapper):
    """Passes everything on to another oracle, and remembers its measurements.

    Parameters
    ----------
    oracle : BaseOracle
        What measures.
    announce : callable or None, default=None
        Called with each config before it is measured.

    Attributes
    ----------
    seen : dict of str to Measurement
        The measurements by key of the config; the first one of each.
    """

    def __init__(
        self, oracle: BaseOracle, announce: Callable[[Any], None] | None = None
    ) -> None:
        super().__init__(oracle)
        self.seen: dict[str, Measurement] = {}
        self._announce = announce

    def measure_each(self, configs: Iterable[Any]) -> Iterator[Measurement]:
        """Measure configs and give each measurement as soon as it is there."""
        yield from self._watch(self.oracle.measure_each, configs)

    def remeasure_each(self, configs: Iterable[Any]) -> Iterator[Measurement]:
        """Measure known configs anew."""
        yield from self._watch(self.oracle.remeasure_each, configs)

    def _watch(
        self, measure_each: Callable[..., Any], configs: Iterable[Any]
    ) -> Iterator[Measurement]:
        keys: list[str] = []

        def due() -> Iterator[Any]:
            for config in configs:
                keys.append(config_key(config))
                if self._announce is not None:
                    self._announce(config)
                yield config

        for i, measurement in enumerate(measure_each(due())):
            self.seen.setdefault(keys[i], measurement)
            yield measurement


class BenchmarkOracle(BaseOracle):
    """Measures by the benchmark function that a user of the tuner has given.

    Parameters
    ----------
    bench : callable
        Takes a config; answers its durations in ms, the median first, or one number.
        inf is a config that the compiler refused; what it raises is a failure too.
    """

    def __init__(self, bench: Callable[[Any], float | Sequence[float]]) -> None:
        self._bench = bench

    def measure(self, configs: Iterable[Any]) -> list[Measurement]:
        """Measure configs, one after the other."""
        return list(self.measure_each(configs))

    def measure_each(self, configs: Iterable[Any]) -> Iterator[Measurement]:
        """Measure configs, each when it is due."""
        for config in configs:
            yield self._measure(config)

    def _measure(self, config: Any) -> Measurement:
        # Not imported before it is needed: it knows the errors of Triton.
        from fasta_learn.oracles._triton_failures import classify

        try:
            answer = self._bench(config)
            durations = [float(value) for value in _as_list(answer)]
            if durations[0] == float("inf"):
                reason = "it does not compile, or needs more than the device has"
                return Measurement.failed("compile_error", reason)
            p20, p80 = durations[1:3] if len(durations) >= 3 else (None, None)
            return Measurement(durations[0], duration_p20=p20, duration_p80=p80)
        except Exception as error:
            failure = classify(error, "run")
            return Measurement.failed(
                failure.status, bound_reason(error), info=failure.info
            )


class LaunchHook:
    """A hook of a user's, for launches only.

    Its last call, which only resets, is the tuner's: it knows the winner.

    Parameters
    ----------
    hook : callable
        Function of ``(kwargs, reset_only)``.
    """

    def __init__(self, hook: Callable[..., Any]) -> None:
        self._hook = hook

    def __call__(self, kwargs: dict[str, Any], reset_only: bool = False) -> None:
        """Call the hook before a launch.

        Parameters
        ----------
        kwargs : dict
            All arguments of the launch.
        reset_only : bool, default=False
            Whether it is no launch.
        """
        if not reset_only:
            self._hook(kwargs)


def _as_list(answer: Any) -> list[Any]:
    if hasattr(answer, "tolist"):
        answer = answer.tolist()
    return list(answer) if isinstance(answer, list | tuple) else [answer]


def timings_of(measurement: Measurement) -> list[float]:
    """Return a measurement as Triton lists it: median, 20 % and 80 % quantile.

    Parameters
    ----------
    measurement : Measurement
        The measurement.

    Returns
    -------
    list of float of length 3
        In ms; inf for a config that failed.
    """
    low, high = measurement.duration_p20, measurement.duration_p80
    median = measurement.duration
    return [median, median if low is None else low, median if high is None else high]
