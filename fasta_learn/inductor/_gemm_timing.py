"""How long a choice takes: Inductor's benchmark of it, read by a steadier clock."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fasta_learn._compat import import_extra
from fasta_learn.oracles import Measurement
from fasta_learn.oracles._timing import time_launches
from fasta_learn.oracles._triton_failures import classify, is_sticky

_ABSENT = object()
# Each of the finals' rounds on a CPU, in ms.
_CPU_WARMUP_MS, _CPU_REP_MS = 2, 20


class ChoiceTimer:
    """Time choices on the inputs that Inductor makes for them.

    A choice is run by its own ``benchmark``, so that everything is set up as Inductor
    does it; only what reads the time in the end is replaced, on CUDA devices by a
    `GraphClock`.

    Parameters
    ----------
    selector : AlgorithmSelectorCache
        Inductor's selector.
    choices : list of ChoiceCaller
        Inductor's choices, which say what inputs there have to be.
    input_nodes, layout, input_gen_fns : object
        As in Inductor's ``do_autotuning``.
    hint_override : int or None
        Likewise.
    clock : Clock or None
        Reads the time on a GPU; None leaves that to Inductor.

    Attributes
    ----------
    is_lost : bool
        Whether the device can't be used any more in this process.
    seconds : float
        How long was spent on measuring.
    """

    def __init__(
        self,
        selector: Any,
        choices: Sequence[Any],
        input_nodes: Any,
        layout: Any,
        input_gen_fns: Any,
        *,
        hint_override: int | None = None,
        clock: Any = None,
    ) -> None:
        module = import_extra("torch._inductor.runtime.benchmarking", "torch")
        self._benchmarker = module.benchmarker
        self._selector, self._clock = selector, clock
        self.is_lost = False
        self.seconds = 0.0
        self._launches: dict[int, Callable[[], Any]] = {}
        self._requests: list[Any] = []
        self._call = (input_nodes, layout, input_gen_fns)
        self._hint = hint_override
        self._arguments = selector.get_inputs(
            choices, *self._call, hint_override=hint_override
        )

    def measure(self, choice: Any, best: float = math.inf) -> Measurement:
        """Measure a choice.

        Parameters
        ----------
        choice : ChoiceCaller
            The choice, compiled.
        best : float, default=inf
            Best duration so far, in ms; what is much slower is measured less often.

        Returns
        -------
        Measurement
            Its duration in ms, or why it failed.

        Raises
        ------
        AssertionError
            Inductor verifies results, and that of the choice is wrong.
        """
        started = time.perf_counter()
        try:
            duration = self._benchmark(choice, best)
        except AssertionError as error:
            if self._is_verifying():
                message = f"Incorrect result from choice {choice}\n\n{error}"
                raise AssertionError(message) from error
            return self._failed(error)
        except Exception as error:
            return self._failed(error)
        finally:
            self.seconds += time.perf_counter() - started
        if not math.isfinite(duration):
            return Measurement(math.inf, "error", "Inductor's benchmark skips it")
        return Measurement(duration)

    def measure_again(self, choice: Any) -> float:
        """Give one short measurement of a choice that ran before.

        Parameters
        ----------
        choice : ChoiceCaller
            The choice.

        Returns
        -------
        float
            Its duration in ms; inf if it fails now.
        """
        started = time.perf_counter()
        try:
            return self._again(choice)
        except Exception as error:
            self._failed(error)
            return math.inf
        finally:
            self.seconds += time.perf_counter() - started

    def close(self) -> None:
        """Give back what the measurements have loaded and allocated."""
        if self._clock is not None:
            self._clock.close()
        for request in self._requests:
            with contextlib.suppress(Exception):
                request.cleanup_run_fn()
        self._requests.clear()
        self._launches.clear()
        self._arguments = None

    # -- one choice ----------------------------------------------------------------

    def _benchmark(self, choice: Any, best: float) -> float:
        if self._clock is None:
            return self._by_inductor(choice)

        def read(launch: Callable[[], Any], *_: Any, **__: Any) -> float:
            return self._time(launch, best)

        # Triton launchers are handed the stream that is current when they are made.
        with self._clock.on_stream(), _reading(self._benchmarker, _gpu(read)):
            return float(self._selector.benchmark_choice(choice, self._arguments))

    def _by_inductor(self, choice: Any) -> float:
        if not runs_in_child([choice]):
            return float(self._selector.benchmark_choice(choice, self._arguments))
        # Inductor knows what to run in its child process.
        benchmark = self._selector.make_benchmark_fn(
            [choice], *self._call, hint_override=self._hint
        )
        return float(benchmark([choice])[choice])

    def _time(self, launch: Callable[[], Any], best: float) -> float:
        plan = import_extra("fasta_learn.inductor._graph_clock", "torch").GRAPH_PLAN
        limit = best if best < math.inf else None
        return time_launches(launch, self._clock, plan, best=limit).median

    def _again(self, choice: Any) -> float:
        if self._clock is None:
            short = {"benchmark_cpu": self._read_short}
            with _reading(self._benchmarker, short):
                return self._by_inductor(choice)
        launch = self._launch_of(choice)
        if launch is None:
            return self._benchmark(choice, math.inf)
        with self._clock.on_stream():
            return float(np.median(self._clock.time_batch(launch, 2)))

    def _read_short(self, launch: Callable[[], Any], *_: Any, **__: Any) -> float:
        function = type(self._benchmarker).benchmark_cpu
        return float(
            function(self._benchmarker, launch, warmup=_CPU_WARMUP_MS, rep=_CPU_REP_MS)
        )

    def _launch_of(self, choice: Any) -> Callable[[], Any] | None:
        """Return what runs a choice once, kept from one round to the next."""
        launch = self._launches.get(id(choice))
        request = vars(choice).get("bmreq")
        if launch is None and _can_be_kept(choice, request):
            is_extern = self._selector._is_extern(choice)
            tensors = self._arguments.get_benchmark_tensors(is_extern)
            inputs, output = tensors.unpack()
            with self._clock.on_stream():
                launch = request.make_run_fn(*inputs, out=output)
            self._requests.append(request)
            self._launches[id(choice)] = launch
        return launch

    def _failed(self, error: BaseException) -> Measurement:
        self.is_lost = self.is_lost or is_sticky(error)
        failure = classify(error, "run")
        return Measurement(math.inf, failure.status, failure.reason)

    def _is_verifying(self) -> bool:
        return getattr(self._arguments, "expected", None) is not None


def runs_in_child(choices: Sequence[Any]) -> bool:
    """Tell whether Inductor may measure one of some choices in a child process.

    Parameters
    ----------
    choices : sequence of ChoiceCaller
        The choices.

    Returns
    -------
    bool
        If so, no clock of this process can read the time.
    """
    config = import_extra("torch._inductor.config", "torch")
    if config.autotune_in_subproc:
        return True
    return any(type(choice).__name__.startswith("CUTLASS") for choice in choices)


def _can_be_kept(choice: Any, request: Any) -> bool:
    """Whether a launch stays valid for as long as nobody cleans up after it."""
    requests = import_extra("torch._inductor.autotune_process", "torch")
    if isinstance(request, requests.TritonBenchmarkRequest):
        return True
    is_extern = isinstance(request, requests.ExternKernelBenchmarkRequest)
    return is_extern and bool(request.has_out_variant)


def _gpu(read: Callable[..., float]) -> dict[str, Callable[..., float]]:
    return {"benchmark_gpu": read, "benchmark_gpu_with_cuda_graph": read}


@contextlib.contextmanager
def _reading(
    benchmarker: Any, methods: Mapping[str, Callable[..., float]]
) -> Iterator[None]:
    """Let Inductor's benchmarker read the time in other ways for a while."""
    methods = {n: m for n, m in methods.items() if hasattr(type(benchmarker), n)}
    before = {name: vars(benchmarker).get(name, _ABSENT) for name in methods}
    vars(benchmarker).update(methods)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is _ABSENT:
                vars(benchmarker).pop(name, None)
            else:
                vars(benchmarker)[name] = value
