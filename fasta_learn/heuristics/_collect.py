"""Collect the measurements from which heuristics are learned."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fasta_learn.heuristics._collect_active import ActiveQueue
from fasta_learn.heuristics._collect_benchmark import DeviceDescription, PadBenchmark
from fasta_learn.heuristics._collect_cuda import CudaPadBenchmark
from fasta_learn.heuristics._collect_journal import CollectionLog
from fasta_learn.heuristics._collect_queue import (
    IsDecided,
    PlannedQueue,
    plan_inputs,
)
from fasta_learn.heuristics._collect_run import CollectionRun, Queue
from fasta_learn.heuristics._collect_shapes import GemmInput
from fasta_learn.heuristics._collect_sources import read_shapes
from fasta_learn.heuristics._collect_workers import Worker

# Inputs at random before the first model of an active collection.
_MIN_RANDOM = 50


@dataclass(frozen=True)
class CollectReport:
    """What a collection has done.

    Attributes
    ----------
    path : str
        The log.
    device : DeviceDescription
        What was measured on.
    n_samples : int
        How many inputs the log is to have.
    n_before : int
        How many of them it had before.
    n_measured : int
        How many were added.
    n_failed : int
        Of how many of these a choice failed.
    reasons : dict of str to int
        Why, and how often.
    seconds : float
        How long it took.
    is_complete : bool
        Whether the log has all that it is to have.
    """

    path: str
    device: DeviceDescription
    n_samples: int
    n_before: int
    n_measured: int
    n_failed: int
    reasons: dict[str, int] = field(repr=False)
    seconds: float
    is_complete: bool


def collect(
    path: str | os.PathLike[str],
    *,
    n_samples: int = 1000,
    devices: Sequence[int] = (0,),
    shapes: str | os.PathLike[str] | Sequence[GemmInput] | None = None,
    known: bool = True,
    active: bool = False,
    n_repetitions: int = 3,
    seconds: float | None = None,
    max_operations: float | None = None,
    random_state: int = 0,
    benchmark: PadBenchmark | None = None,
    isolate: bool = True,
    timeout: float = 300.0,
    progress: Callable[[int, int], None] | None = None,
) -> CollectReport:
    """Measure matrix products as they are and padded, into a log of torch's form.

    Shapes of yours come first, then those of well-known models, then random ones (see
    `InputSampler`). Only inputs about which torch would ask a heuristic count. What the
    log holds already is not measured again, so that the same call resumes a collection
    that was ended, by whatever; and a larger `n_samples` extends it.

    Parameters
    ----------
    path : path-like
        The log, which is made or appended to. Torch itself can append to it too.
    n_samples : int, default=1000
        How many inputs.
    devices : sequence of int, default=(0,)
        Indices of equal devices. Each is measured on by a child process of its own.
    shapes : path-like or sequence of GemmInput, default=None
        Your shapes: a CSV file with the columns M, K, N, dtype, or inputs. Transposes
        and the like are drawn at random.
    known : bool, default=True
        Whether up to a quarter of the inputs are of well-known models; a tenth with
        `active`.
    active : bool, default=False
        Whether all but your shapes, those of models and a tenth at random are chosen
        where a model of what was measured so far expects to lose most time, instead of
        at random (see `select_inputs`).
    n_repetitions : int, default=3
        How often each choice of an input is measured, in turns.
    seconds : float, default=None
        After this time no further input is begun.
    max_operations : float, default=None
        Products of more floating-point operations are left out.
    random_state : int, default=0
        Equal seeds give equal inputs; with `active`, if the durations are equal too.
    benchmark : PadBenchmark, default=None
        What measures; by default `CudaPadBenchmark`.
    isolate : bool, default=True
        Whether child processes measure. Without, a crash of the device is one of this
        process.
    timeout : float, default=300.0
        The most time that an input may take in a child process, in s.
    progress : callable, default=None
        Called with how many inputs are measured and how many are to be.

    Returns
    -------
    CollectReport
        What was done.

    Raises
    ------
    MissingExtraError, RuntimeError
        The devices can't be used, or everything fails on them.
    OSError, ValueError
        The log can't be written or is another one, the devices differ, or so many
        inputs can't be found.

    Examples
    --------
    >>> import tempfile
    >>> from fasta_learn.heuristics import SimulatedGPU, collect, read_log
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/log.txt"
    ...     gpu = SimulatedGPU()
    ...     report = collect(path, n_samples=20, benchmark=gpu, isolate=False)
    ...     len(read_log(path))
    120
    >>> report.is_complete
    True
    """
    _check_counts(n_samples, n_repetitions, devices)
    start = time.monotonic()
    benchmark = CudaPadBenchmark() if benchmark is None else benchmark
    with _open_workers(benchmark, devices, isolate, timeout) as workers:
        device = _common_device(workers)
        log = CollectionLog(path, device)
        queue = _make_queue(
            log,
            workers[0].is_decided,
            n_samples=n_samples,
            shapes=shapes,
            known=known,
            active=active,
            n_repetitions=n_repetitions,
            drawing={
                "memory": device.memory,
                "max_operations": max_operations,
                "random_state": random_state,
            },
        )
        n_before = queue.n_before
        left = None if seconds is None else seconds - (time.monotonic() - start)
        tell = None if progress is None else lambda n: progress(n_before + n, n_samples)
        run = CollectionRun(workers, queue, log, n_repetitions, left, tell)
        run.run()
    return CollectReport(
        path=str(Path(path)),
        device=device,
        n_samples=n_samples,
        n_before=n_before,
        n_measured=run.n_measured,
        n_failed=run.n_failed,
        reasons=dict(run.reasons),
        seconds=time.monotonic() - start,
        is_complete=not run.is_late,
    )


def _make_queue(
    log: CollectionLog,
    is_decided: IsDecided,
    *,
    n_samples: int,
    shapes: str | os.PathLike[str] | Sequence[GemmInput] | None,
    known: bool,
    active: bool,
    n_repetitions: int,
    drawing: dict[str, Any],
) -> Queue:
    """Return what is to be measured; `drawing` holds options of the random inputs."""
    given = read_shapes(shapes) if isinstance(shapes, str | os.PathLike) else shapes
    given = given or ()
    make_plan = partial(plan_inputs, is_decided=is_decided, shapes=given, **drawing)
    if not active:
        plan = make_plan(n_samples=n_samples, n_known=n_samples // 4 if known else 0)
        return PlannedQueue(plan, lambda item: log.is_done(item, n_repetitions))
    n_known = n_samples // 10 if known else 0
    n_first = len(given) + n_known + max(_MIN_RANDOM, n_samples // 10)
    first = make_plan(n_samples=min(n_first, n_samples), n_known=n_known)
    return ActiveQueue(
        first, n_samples, log, is_decided, n_repetitions=n_repetitions, **drawing
    )


def _check_counts(n_samples: int, n_repetitions: int, devices: Sequence[int]) -> None:
    for name, value in (("n_samples", n_samples), ("n_repetitions", n_repetitions)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}.")
    if not devices or len(set(devices)) < len(devices) or min(devices) < 0:
        raise ValueError(f"devices must be different indices, got {list(devices)}.")


@contextmanager
def _open_workers(
    benchmark: PadBenchmark, devices: Sequence[int], isolate: bool, timeout: float
) -> Iterator[list[Worker]]:
    workers = [Worker(benchmark, device, isolate, timeout) for device in devices]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.close()


def _common_device(workers: Sequence[Worker]) -> DeviceDescription:
    first, *others = [worker.describe() for worker in workers]
    for worker, other in zip(workers[1:], others, strict=True):
        if other != first:
            raise ValueError(
                f"device {worker.device} ({other.name}) is not like device "
                f"{workers[0].device} ({first.name}): collect into a log for each."
            )
    return first
