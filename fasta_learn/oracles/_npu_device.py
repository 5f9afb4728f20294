"""Compiling and timing configs on one Ascend NPU, in this process."""

import gc
import logging
import math
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Self

from fasta_learn.oracles._measurement import Measurement
from fasta_learn.oracles._npu_clock import NPUClock, import_npu
from fasta_learn.oracles._npu_compiling import NPUCompiler, NPUTask
from fasta_learn.oracles._npu_failures import classify_npu, device_code
from fasta_learn.oracles._npu_kernel import NPUFacts
from fasta_learn.oracles._npu_timers import (
    BatchTimer,
    TimerError,
    choose_backend,
    make_timer,
)
from fasta_learn.oracles._timing import Clock, Timing, TimingPlan, time_launches
from fasta_learn.oracles._triton_device import on_device

logger = logging.getLogger("fasta_learn.oracles")

# A process has one device, and backward passes are tuned in a thread of their own.
_TIMING = threading.Lock()


@dataclass
class _Run:
    """A config that has been launched once."""

    config: Any
    info: dict[str, Any]
    compile_seconds: float
    start: float


class NPUDevice:
    """Measure configs of a kernel on the NPU that this process uses.

    What configs have in common is compiled once, some variants at a time in threads:
    compiling is done by processes that they wait for.

    Parameters
    ----------
    task : NPUTask
        The kernel with its arguments.
    timer : {"auto", "events", "profiler", "mspti"}
        What times launches; see `choose_backend`.
    n_threads : int
        How many variants are compiled at a time.
    plan : TimingPlan
        How precisely events time configs.
    compile_timeout : float
        The most time that compiling a variant may take, in s.
    clock : Clock or None, default=None
        What times launches by events; None is an `NPUClock`.

    Attributes
    ----------
    backend : str or None
        What times launches, once that is chosen.
    broken : str or None
        The error after which the device can't be used in this process any more.
    """

    def __init__(
        self,
        task: NPUTask,
        *,
        timer: str,
        n_threads: int,
        plan: TimingPlan,
        compile_timeout: float,
        clock: Clock | None = None,
    ) -> None:
        self.backend: str | None = None
        self.broken: str | None = None
        self._task, self._wish, self._plan = task, timer, plan
        self._clock: Clock = NPUClock() if clock is None else clock
        self._timer: BatchTimer | None = None
        self._has_timed = False
        self._compiler = NPUCompiler(task, n_threads, compile_timeout)
        self._has_run = False

    def begin(self) -> str:
        """Choose what times launches, unless that is done.

        Returns
        -------
        str
            ``"events"``, ``"profiler"`` or ``"mspti"``.

        Raises
        ------
        ValueError
            What was asked for can't be used here.
        """
        if self.backend is None:
            self._use(choose_backend(self._wish))
        assert self.backend is not None
        return self.backend

    def end(self) -> None:
        """End a search: the next one may be timed by something else."""
        self.backend, self._timer, self._has_timed = None, None, False

    def prepare(self, configs: Iterable[Any]) -> None:
        """Start to compile the variants of configs; returns at once.

        Parameters
        ----------
        configs : iterable
            In the order in which they will be measured. What is no config is left for
            `measure` to complain of.
        """
        self._compiler.prepare(configs)

    def measure(
        self, configs: Sequence[Any], best: float | None = None
    ) -> list[Measurement]:
        """Compile, run, check and time configs, in one session if the timer has them.

        Parameters
        ----------
        configs : sequence of length n
            The configs.
        best : float or None, default=None
            Best duration so far, in ms; with events, a config that is much slower is
            not timed to the end.

        Returns
        -------
        list of Measurement, length n
            `info` tells ``"required_bits"`` of the unified buffer, ``"variant"``, what
            compiling has ``"changed"``, and how the duration was measured.

        Raises
        ------
        RuntimeError
            An earlier config has broken the device for this process, or it was closed.
        ValueError
            The timer can't be used here.
        """
        if self.broken is not None:
            raise RuntimeError(
                f"an earlier config has broken the device for this process "
                f"({self.broken}); start again without it."
            )
        self.begin()
        self.prepare(configs)
        with on_device(self._task.device):
            runs = [self._run_once(config) for config in configs]
            good = [run for run in runs if isinstance(run, _Run)]
            with _TIMING:
                timed = iter(self._time_all(good, best))
        return [next(timed) if isinstance(run, _Run) else run for run in runs]

    def close(self) -> None:
        """End the threads, put the arguments back, free the buffers of the clock."""
        self._compiler.threads.close()
        if self._has_run and self.broken is None:
            with on_device(self._task.device):
                self._task.restore()
        self._task.close()
        self._has_run = False
        if isinstance(self._clock, NPUClock):
            self._clock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _use(self, backend: str) -> None:
        self.backend = backend
        self._timer = None if backend == "events" else make_timer(backend)

    def _run_once(self, config: Any) -> _Run | Measurement:
        """Compile a config and launch it once; failures become measurements."""
        if self.broken is not None:
            reason = f"not run: the device is broken ({self.broken})"
            return Measurement.failed("error", reason)
        try:
            self._task.variant(config)
        except (TypeError, ValueError) as error:  # no config, or one of another pool
            return Measurement.failed("error", error)
        try:
            facts = self._compiler.compile(config)
        except Exception as error:
            if isinstance(error, RuntimeError) and self._compiler.threads.is_closed:
                raise
            seconds = self._compiler.charge(config)
            return self._failed(error, "compile", {}, seconds)
        info = {"variant": self._compiler.number(config), **_info_of(facts)}
        seconds = self._compiler.charge(config)
        run = _Run(config, info, seconds, time.perf_counter())
        failed = self._launch_once(run)
        if failed and failed.status == "out_of_memory" and self.broken is None:
            self._free_memory()
            failed = self._launch_once(run)
        return failed or run

    def _launch_once(self, run: _Run) -> Measurement | None:
        self._compiler.threads.admit()
        self._has_run = True
        try:
            self._task.first_launch(run.config)
        except Exception as error:
            return self._failed(error, "run", run.info, run.compile_seconds, run.start)
        return None

    def _time_all(self, runs: list[_Run], best: float | None) -> list[Measurement]:
        if self._timer is None:
            return [self._time_one(run, best) for run in runs]
        timings: list[Timing] | None = None
        if len(runs) > 1 and self.broken is None:
            # What goes wrong, a single config will show again.
            with suppress(Exception):
                timings = self._time_session(runs)
        if timings is None:
            return [self._time_one(run, best) for run in runs]
        return [self._succeeded(*pair) for pair in zip(runs, timings, strict=True)]

    def _time_one(self, run: _Run, best: float | None) -> Measurement:
        if self.broken is not None:
            return Measurement.failed(
                "error",
                f"not timed: the device is broken ({self.broken})",
                compile_seconds=run.compile_seconds,
                info=run.info,
            )
        try:
            timing = self._time_surely(run, best)
        except Exception as error:
            return self._failed(error, "run", run.info, run.compile_seconds, run.start)
        return self._succeeded(run, timing)

    def _time_surely(self, run: _Run, best: float | None) -> Timing:
        """Time a config; by events if the preferred timer fails at its first one."""
        try:
            if self._timer is not None:
                return self._time_session([run])[0]
        except TimerError as error:
            if self._has_timed or self._wish != "auto":
                raise
            logger.warning("timing by events, since %s fails: %s", self.backend, error)
            self._use("events")
        launch = self._task.launcher(run.config)
        if best is not None and not 0 < best < math.inf:
            best = None
        with self._compiler.threads.quiet():
            timing = time_launches(
                launch, self._clock, self._plan, best=best, prepare=self._task.prepare
            )
        self._task.finish()
        self._has_timed = True
        return timing

    def _time_session(self, runs: list[_Run]) -> list[Timing]:
        assert self._timer is not None
        calls = [self._task.caller(run.config) for run in runs]
        with self._compiler.threads.quiet():
            durations = self._timer.time(calls, self._task.recorded_name)
        self._task.finish()
        if len(durations) != len(runs):
            raise TimerError(f"{len(durations)} timings of {len(runs)} configs")
        self._has_timed = True
        return [Timing(of_one) for of_one in durations]

    def _succeeded(self, run: _Run, timing: Timing) -> Measurement:
        error = timing.standard_error
        return Measurement(
            timing.median,
            compile_seconds=run.compile_seconds,
            run_seconds=time.perf_counter() - run.start,
            duration_p20=timing.p20,
            duration_p80=timing.p80,
            info={
                **run.info,
                "timer": self.backend,
                "n_launches": timing.n_launches,
                "standard_error_ms": error if math.isfinite(error) else None,
                "cut_off": timing.cut_off,
            },
        )

    def _failed(
        self,
        error: Exception,
        stage: str,
        info: dict[str, Any],
        compile_seconds: float,
        start: float | None = None,
    ) -> Measurement:
        failure = classify_npu(error, stage)
        if isinstance(error, TimerError):
            failure = replace(failure, status="error")
        if stage != "compile" and device_code(error) is not None:
            self._probe(failure.reason)
        return Measurement.failed(
            failure.status,
            failure.reason,
            compile_seconds=compile_seconds,
            run_seconds=None if start is None else time.perf_counter() - start,
            info={**info, **failure.info},
        )

    def _probe(self, reason: str) -> None:
        """Find out whether the device still works after an error of its own."""
        with suppress(Exception):
            self._task.synchronize()  # may bring the same error once more
        try:
            self._task.synchronize()
        except Exception:
            self.broken = reason

    def _free_memory(self) -> None:
        self._task.finish()
        gc.collect()
        import_npu().empty_cache()


def _info_of(facts: NPUFacts) -> dict[str, Any]:
    info = {
        "required_bits": facts.required_bits,
        "changed": facts.changed or None,
    }
    return {name: value for name, value in info.items() if value is not None}
