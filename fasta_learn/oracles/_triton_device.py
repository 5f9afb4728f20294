"""Compiling and timing the configs of one kernel on one device, in this process."""

import gc
import logging
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Self

from fasta_learn._compat import import_extra
from fasta_learn.configs import config_key
from fasta_learn.oracles._compile_threads import CompileThreads
from fasta_learn.oracles._compile_workers import CompileWorkers
from fasta_learn.oracles._cuda_clock import CudaClock
from fasta_learn.oracles._measurement import Measurement
from fasta_learn.oracles._timing import Clock, Timing, TimingPlan, time_launches
from fasta_learn.oracles._triton_failures import classify, is_sticky

if TYPE_CHECKING:
    from fasta_learn.oracles._triton_binding import CompileFacts
    from fasta_learn.oracles._triton_kernel import Workload

logger = logging.getLogger("fasta_learn.oracles")

# A compiled kernel takes up to some MB of host memory.
_MOST_LOADED = 64
_SWITCH_SECONDS = 1e-4
_PLAN = TimingPlan()


class LocalDevice:
    """Measure configs of a kernel on a device that this process uses.

    Configs are compiled in forked processes (in threads where forking is not possible),
    the next ones while one is timed. No compile begins during a timing, and there is
    only one timing at a time.

    Parameters
    ----------
    workload : Workload
        The kernel with its arguments, on the device.
    n_threads : int or None, default=None
        How many configs are compiled at a time; None takes all but one of the cores.
    plan : TimingPlan, default=TimingPlan()
        How precisely configs are timed.
    clock : Clock or None, default=None
        What times launches; None is a `CudaClock` of the device.
    device : int or None, default=None
        Index of the device that the workload is on; None is the current one.
    compile_timeout : float or None, default=None
        The most time that compiling a config may take, in s.
    forks : bool, default=True
        Whether to compile in forked processes where that is possible.
    watch : callable or None, default=None
        Called with ``"compiling"``, ``"compiled"`` or ``"running"`` and the config,
        in whichever thread it happens.

    Attributes
    ----------
    broken : str or None
        The error after which the device can't be used in this process any more.

    Examples
    --------
    >>> from fasta_learn.oracles._triton_device import LocalDevice
    >>> def tune(workload, configs):
    ...     with LocalDevice(workload) as device:
    ...         device.prepare(configs)
    ...         return [device.measure(config) for config in configs]
    """

    def __init__(
        self,
        workload: "Workload",
        *,
        n_threads: int | None = None,
        plan: TimingPlan = _PLAN,
        clock: Clock | None = None,
        device: int | None = None,
        compile_timeout: float | None = None,
        forks: bool = True,
        watch: Callable[[str, Any], None] | None = None,
    ) -> None:
        self.broken: str | None = None
        self._workload = workload
        self._plan = plan
        self._own_clock = CudaClock(device) if clock is None else None
        self._clock: Clock = self._own_clock or clock  # type: ignore[assignment]
        self._device = device
        self._has_run = False
        self._loaded: dict[str, Any] = {}
        self._compile_timeout = compile_timeout
        self._watch = watch or (lambda event, config: None)
        self._timing = threading.Lock()
        self._switching = ExitStack()
        self._switching.enter_context(_prompt_switches())
        n_threads = count_cores() - 1 or 1 if n_threads is None else n_threads
        self._workers = (
            _start_workers(workload, n_threads, compile_timeout) if forks else None
        )
        self._threads = CompileThreads(
            self._workers or workload.compile, n_threads, watch=watch
        )

    def prepare(self, configs: Iterable[Any]) -> None:
        """Start to compile configs; returns at once.

        Parameters
        ----------
        configs : iterable
            In the order in which they will be measured.
        """
        self._threads.announce(configs)

    def compile(self, config: Any) -> "CompileFacts":
        """Compile a config, or wait until it is compiled.

        Parameters
        ----------
        config : dict or triton.Config
            The config.

        Returns
        -------
        CompileFacts
            Seconds, registers, shared memory.

        Raises
        ------
        Exception
            What triton raises, a TimeoutError if it takes too long.
        """
        facts: CompileFacts = self._threads.get(config, self._compile_timeout)
        return facts

    def measure(self, config: Any, best: float | None = None) -> Measurement:
        """Compile, run, check and time a config.

        Parameters
        ----------
        config : dict or triton.Config
            The config.
        best : float or None, default=None
            Best duration so far, in ms; a config that is much slower is not timed to
            the end.

        Returns
        -------
        Measurement
            Its duration, or how it failed. `info` tells registers, spilled registers,
            bytes of shared memory, the number of timed launches, the standard error
            of the duration in ms, and whether it was cut off.

        Raises
        ------
        RuntimeError
            An earlier config broke the device for this process, or it was closed.
        """
        if self.broken is not None:
            raise RuntimeError(
                "an earlier config has broken the device for this process "
                f"({self.broken}); measure with isolate=True, or start again."
            )
        if best is not None and not 0 < best < math.inf:
            best = None
        try:
            facts = self.compile(config)
        except Exception as error:
            if isinstance(error, RuntimeError) and self._threads.is_closed:
                raise
            seconds = self._threads.seconds(config)
            return self._failed(error, "compile", {}, seconds)
        with self._timing, on_device(self._device):
            measurement: Measurement = self._run(config, facts, best)
            if measurement.status == "out_of_memory" and self.broken is None:
                self._free_memory()
                measurement = self._run(config, facts, best)
            self._release_oldest(config)
        return measurement

    def close(self) -> None:
        """End the threads, put the arguments back, free the buffers of the clock."""
        if self._workers is not None:
            self._workers.close()
        self._threads.close()
        if self._has_run and self.broken is None:
            with on_device(self._device):
                self._workload.restore()
        self._has_run = False
        if self._own_clock is not None:
            self._own_clock.close()
        self._switching.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _run(self, config: Any, facts: "CompileFacts", best: float | None) -> Any:
        """Load, launch and check once, then time; failures become measurements."""
        info, stage = _info_of(facts), "launch"
        self._threads.admit()
        start = time.perf_counter()
        self._watch("running", config)
        self._has_run = True
        try:
            info = _info_of(self._workload.load(config))
            stage = "run"
            self._workload.first_launch(config)
            timing = self._time(config, best)
        except Exception as error:
            seconds = time.perf_counter() - start
            return self._failed(error, stage, info, facts.seconds, seconds)
        return Measurement(
            timing.median,
            compile_seconds=facts.seconds,
            run_seconds=time.perf_counter() - start,
            duration_p20=timing.p20,
            duration_p80=timing.p80,
            info={**info, **_timing_info(timing)},
        )

    def _time(self, config: Any, best: float | None) -> Timing:
        launch = self._workload.launcher(config)
        with self._threads.quiet():
            timing = time_launches(
                launch,
                self._clock,
                self._plan,
                best=best,
                prepare=self._workload.prepare,
            )
        self._workload.finish()
        return timing

    def _failed(
        self,
        error: Exception,
        stage: str,
        info: dict[str, Any],
        compile_seconds: float | None = None,
        run_seconds: float | None = None,
    ) -> Measurement:
        failure = classify(error, stage)
        if stage != "compile" and is_sticky(error):
            self.broken = failure.reason
        return Measurement.failed(
            failure.status,
            failure.reason,
            compile_seconds=compile_seconds,
            run_seconds=run_seconds,
            info={**info, **failure.info},
        )

    def _release_oldest(self, config: Any) -> None:
        """Keep the last configs loaded, which may be measured again, and no others."""
        key = config_key(config)
        self._loaded.pop(key, None)
        self._loaded[key] = config
        while len(self._loaded) > _MOST_LOADED and self.broken is None:
            self._workload.release(self._loaded.pop(next(iter(self._loaded))))

    def _free_memory(self) -> None:
        """Give back what is not needed, so that another try can succeed."""
        for config in self._loaded.values():
            self._workload.release(config)
        self._loaded.clear()
        gc.collect()
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            torch.cuda.empty_cache()


def _start_workers(
    workload: "Workload", n_workers: int, timeout: float | None
) -> CompileWorkers | None:
    """Fork the processes that compile; None if that is not possible here."""
    try:
        return CompileWorkers(workload, n_workers, timeout)
    except OSError as error:
        logger.debug("configs are compiled in threads: %s", error)
        return None


@contextmanager
def _prompt_switches() -> Iterator[None]:
    """Let threads wait less for the interpreter.

    Compiling and launching give it up many times, and get it back when another thread
    has held it for the switch interval: usually 5 ms, more than all the work between.
    """
    usual = sys.getswitchinterval()
    sys.setswitchinterval(min(_SWITCH_SECONDS, usual))
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def count_cores() -> int:
    """Tell how many cores this process may use.

    Returns
    -------
    int
        At least 1.
    """
    return len(os.sched_getaffinity(0))


def on_device(device: int | None) -> AbstractContextManager[Any]:
    """Make a device current in this thread during a ``with`` block.

    Parameters
    ----------
    device : int or None
        Its index; None changes nothing.

    Returns
    -------
    context manager
        Makes the former device current again at the end.

    Raises
    ------
    MissingExtraError
        Triton is not installed.
    """
    if device is None:
        return nullcontext()
    driver = import_extra("triton.runtime", "torch").driver.active
    chosen: AbstractContextManager[Any] = driver.get_device_interface().device(device)
    return chosen


def describe_device() -> dict[str, Any]:
    """Tell which device is current, and the versions of what drives it.

    Returns
    -------
    dict
        ``"device"`` and ``"versions"``; JSON can hold it.

    Raises
    ------
    MissingExtraError
        Torch or triton is not installed.
    ValueError
        There is no device.
    """
    torch = import_extra("torch", "torch")
    triton = import_extra("triton", "torch")
    driver = import_extra("triton.runtime", "torch").driver
    try:
        target = driver.active.get_current_target()
    except RuntimeError as error:
        raise ValueError(
            f"triton finds no device to measure on ({error}); 'fasta-learn doctor' "
            "shows what torch and triton see."
        ) from error
    versions = {"torch": str(torch.__version__), "triton": triton.__version__}
    name = f"{target.backend}:{target.arch}"
    if torch.cuda.is_available():
        name = torch.cuda.get_device_name()
        versions["cuda"] = torch.version.cuda
        versions["driver"] = _driver_version(torch)
    return {"device": name, "versions": versions}


def _driver_version(torch: Any) -> int | None:
    """Newest CUDA version that the driver supports, such as 13000."""
    ask = getattr(torch._C, "_cuda_getDriverVersion", None)
    return None if ask is None else ask()


def _info_of(facts: "CompileFacts") -> dict[str, Any]:
    info = {
        "registers": facts.registers,
        "spills": facts.spills,
        "shared_bytes": facts.shared_bytes,
    }
    return {name: value for name, value in info.items() if value is not None}


def _timing_info(timing: Timing) -> dict[str, Any]:
    error = timing.standard_error
    return {
        "n_launches": timing.n_launches,
        "standard_error_ms": error if math.isfinite(error) else None,
        "cut_off": timing.cut_off,
    }
