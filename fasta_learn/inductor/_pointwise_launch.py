"""Times the launchers of a kernel on the arguments of its first call."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fasta_learn._compat import import_extra
from fasta_learn.inductor._graph_clock import GRAPH_PLAN
from fasta_learn.oracles import Measurement
from fasta_learn.oracles._timing import Clock, TimingPlan, time_launches
from fasta_learn.oracles._triton_failures import classify, is_sticky


class Launches:
    """The arguments of a call, ready to be used again and again.

    What the kernel writes in place is cloned, as in Inductor's own benchmarks, and put
    back before each launch, but without being timed. Where a clone would not fit into
    memory, it is put back from a copy on the host.

    Parameters
    ----------
    tuner : CachingAutotuner
        Inductor's tuner of the kernel.
    args : sequence
        Arguments of the call.
    kwargs : mapping
        Its other arguments.
    clock : Clock
        What times launches.
    plan : TimingPlan, default=GRAPH_PLAN
        How precisely.

    Attributes
    ----------
    best : float or None
        The shortest duration so far, in ms: much slower configs are not timed to the
        end.
    """

    def __init__(
        self,
        tuner: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        clock: Clock,
        plan: TimingPlan = GRAPH_PLAN,
    ) -> None:
        self._tuner, self._given = tuner, (tuple(args), dict(kwargs))
        self._clock, self._plan = clock, plan
        self._interface = tuner.get_device_interface()
        self._device = tuner.triton_meta["device"]
        self._on_host = tuner.copy_args_to_cpu_if_needed(*args, **kwargs)
        self._args, self._kwargs = tuner.maybe_clone_args(
            self._on_host, *args, **kwargs
        )
        self._clones = [
            (_storage(mine), _storage(given))
            for mine, given in [
                *zip(self._args, args, strict=True),
                *((self._kwargs[name], kwargs[name]) for name in kwargs),
            ]
            if mine is not given
        ]
        resets = bool(tuner.reset_to_zero_arg_names)
        needed = bool(self._clones or self._on_host or resets)
        self.prepare: Callable[[], None] | None = self._put_back if needed else None
        self._calls: dict[int, tuple[Any, Callable[[], None]]] = {}
        self.best: float | None = None

    def measure(self, launcher: Any) -> Measurement:
        """Time a launcher.

        Parameters
        ----------
        launcher : callable
            Of Inductor, for a compiled config.

        Returns
        -------
        Measurement
            Its duration, or why it can't be launched.

        Raises
        ------
        Exception
            The device can't be used any more.
        """
        try:
            timing = time_launches(
                self._call(launcher),
                self._clock,
                self._plan,
                best=self.best,
                prepare=self.prepare,
            )
        except Exception as error:
            if is_sticky(error):
                raise
            failure = classify(error, "run")
            return Measurement.failed(failure.status, failure.reason, info=failure.info)
        if self.best is None or timing.median < self.best:
            self.best = max(timing.median, 1e-6)
        return Measurement(
            timing.median,
            duration_p20=timing.p20,
            duration_p80=timing.p80,
            info=_facts_of(launcher),
        )

    def measure_once(self, launcher: Any) -> float:
        """Time a launcher shortly, for a comparison in turns.

        Parameters
        ----------
        launcher : callable
            One that was measured.

        Returns
        -------
        float
            Duration in ms.
        """
        call = self._call(launcher)
        return float(self._clock.time_batch(call, 1, self.prepare)[0])

    def close(self) -> None:
        """Leave the arguments of the call as they were."""
        self._calls.clear()
        args, kwargs = self._given
        if self._on_host:
            self._tuner.restore_args_from_cpu(self._on_host)
        self._tuner.reset_to_zero_args(*args, **kwargs)

    def _call(self, launcher: Any) -> Callable[[], None]:
        known = self._calls.get(id(launcher))
        if known is not None:
            return known[1]
        args, kwargs = self._args, self._kwargs
        get_stream, device = self._interface.get_raw_stream, self._device

        def call() -> None:
            # The clock has a stream of its own.
            launcher(*args, **kwargs, stream=get_stream(device))

        self._calls[id(launcher)] = launcher, call
        return call

    def _put_back(self) -> None:
        for mine, given in self._clones:
            mine.copy_(given)
        if self._on_host:
            self._tuner.restore_args_from_cpu(self._on_host)
        self._tuner.reset_to_zero_args(*self._args, **self._kwargs)


def _storage(tensor: Any) -> Any:
    """Give all elements that a tensor can reach, as Inductor clones them."""
    if 0 in tensor.size():
        return tensor
    pairs = zip(tensor.size(), tensor.stride(), strict=True)
    n_elements = sum((size - 1) * stride for size, stride in pairs) + 1
    return import_extra("torch", "torch").as_strided(tensor, (n_elements,), (1,))


def _facts_of(launcher: Any) -> dict[str, Any]:
    names = {"registers": "n_regs", "spills": "n_spills", "shared_bytes": "shared"}
    facts = {name: getattr(launcher, key, None) for name, key in names.items()}
    return {name: value for name, value in facts.items() if value is not None}
