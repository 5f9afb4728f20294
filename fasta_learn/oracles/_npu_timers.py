"""What times launches on an Ascend NPU: events, the profiler, or mspti."""

import csv
import importlib
import importlib.util
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fasta_learn._compat import import_extra
from fasta_learn.oracles._npu_clock import import_npu

BACKENDS = ("events", "profiler", "mspti")

_HEURISTICS = "torch_npu._inductor.runtime.triton_heuristics"
_MSPTI = "torch_npu._inductor.profiler"
_US_PER_MS = 1000.0
# As in torch_npu's own tuning. The profiler's schedule: what is before the active
# steps is not recorded, and a few steps after them let it end properly.
_PROFILER_BEFORE, _PROFILER_ACTIVE, _PROFILER_AFTER = 3, 10, 3
_MSPTI_WARMUP, _MSPTI_ACTIVE = 5, 30

Call = Callable[[], None]


class TimerError(RuntimeError):
    """A timer has no duration for each launch; no config is to blame."""


class BatchTimer(Protocol):
    """What times some kernels in one session."""

    name: str

    def time(self, calls: Sequence[Call], kernel: str) -> list[NDArray[np.float64]]:
        """Time each call some times.

        Parameters
        ----------
        calls : sequence of callable
            Each prepares and enqueues one launch.
        kernel : str
            What the name of the launched kernel begins with.

        Returns
        -------
        list of ndarray
            Durations of each call's launches, in ms.

        Raises
        ------
        TimerError
            There are not as many durations as launches, so that it is not known which
            belongs to which.
        Exception
            What a launch fails with.
        """
        ...


class ProfilerTimer:
    """Time by torch_npu's profiler, which writes a table of all kernels.

    Attributes
    ----------
    name : str
        ``"profiler"``.
    """

    name = "profiler"

    def time(self, calls: Sequence[Call], kernel: str) -> list[NDArray[np.float64]]:
        """Time each call ten times; see `BatchTimer`."""
        with tempfile.TemporaryDirectory(prefix="fasta_learn_") as folder:
            self._record(calls, folder)
            rows = read_kernel_details(Path(folder), kernel)
        return split_rows(rows, len(calls), _PROFILER_ACTIVE)

    def _record(self, calls: Sequence[Call], folder: str) -> None:
        npu = import_npu()
        heuristics = import_extra(_HEURISTICS, "npu")
        schedule = {"wait": 1, "warmup": 1, "repeat": 1, "skip_first": 1}
        try:
            with heuristics.create_profiler(
                folder, active=_PROFILER_ACTIVE, **schedule
            ) as profiler:
                for _ in range(_PROFILER_BEFORE + _PROFILER_ACTIVE + _PROFILER_AFTER):
                    for call in calls:
                        call()
                    npu.synchronize()
                    profiler.step()
        except OSError as error:
            raise TimerError(f"the profiler can't write its files: {error}") from error


class MsptiTimer:
    """Time by mspti, which reports each kernel as it ends.

    Attributes
    ----------
    name : str
        ``"mspti"``.
    """

    name = "mspti"

    def time(self, calls: Sequence[Call], kernel: str) -> list[NDArray[np.float64]]:
        """Time each call; one mean of 30 launches each, see `BatchTimer`."""
        benchmark = import_extra(_MSPTI, "npu").mspti_batch_benchmark
        # Its own error for a wrong count is a plain RuntimeError, as is that of a
        # launch. Calls that fail are told apart by what they raise here.
        failed: list[BaseException] = []
        watched = [_watched(call, failed) for call in calls]
        try:
            means = benchmark(
                watched, _MSPTI_WARMUP, _MSPTI_ACTIVE, filter_list=[kernel]
            )
        except (RuntimeError, ImportError) as error:
            if failed:
                raise
            raise TimerError(str(error)) from error
        return split_rows(means, len(calls), 1)


def choose_backend(wish: str) -> str:
    """Choose what a search is timed by.

    Parameters
    ----------
    wish : {"auto", "events", "profiler", "mspti"}
        ``"auto"`` is mspti where it is preloaded and no profiler is recording, and
        events elsewhere.

    Returns
    -------
    str
        One of the last three.

    Raises
    ------
    ValueError
        What is wished for can't be used here; the message says why.
    """
    if wish == "events":
        return wish
    reason = _why_not(wish if wish != "auto" else "mspti")
    if reason is None:
        return wish if wish != "auto" else "mspti"
    if wish == "auto":
        return "events"
    raise ValueError(f"timer={wish!r} can't be used here: {reason}")


def make_timer(backend: str) -> BatchTimer:
    """Give the timer of a backend other than events."""
    return ProfilerTimer() if backend == "profiler" else MsptiTimer()


def read_kernel_details(folder: Path, kernel: str) -> list[float]:
    """Read the durations of a kernel from what the profiler has written.

    Parameters
    ----------
    folder : Path
        Where it has written.
    kernel : str
        What the names of the kernel's rows begin with.

    Returns
    -------
    list of float
        In us, in the order of the launches.

    Raises
    ------
    TimerError
        There is no table, or not one alone; or a row has no number.
    """
    tables = sorted(folder.rglob("kernel_details.csv"))
    if len(tables) != 1:
        raise TimerError(f"the profiler has written {len(tables)} tables of kernels")
    with tables[0].open(newline="") as file:
        rows = list(csv.DictReader(file))
    try:
        # Tables are sorted by stream and type, too; the time decides.
        if rows and "Start Time(us)" in rows[0]:
            rows.sort(key=lambda row: float(row["Start Time(us)"]))
        chosen = [row for row in rows if (row["Name"] or "").startswith(kernel)]
        return [float(row["Duration(us)"]) for row in chosen]
    except (KeyError, TypeError, ValueError) as error:
        raise TimerError(f"the profiler's table can't be read: {error!r}") from error


def split_rows(
    rows: Sequence[float], n_calls: int, n_rounds: int
) -> list[NDArray[np.float64]]:
    """Give each call its durations.

    Parameters
    ----------
    rows : sequence of float
        Durations in us, of all calls of the first round, then the second, ...
    n_calls, n_rounds : int
        How many there should be.

    Returns
    -------
    list of ndarray of shape (n_rounds,), length n_calls
        In ms.

    Raises
    ------
    TimerError
        There are more or fewer, or one is no positive number.
    """
    if len(rows) != n_calls * n_rounds:
        raise TimerError(
            f"{len(rows)} durations of {n_calls * n_rounds} launches, so that it is "
            "not known which belongs to which"
        )
    durations = np.array(rows, dtype=np.float64).reshape(n_rounds, n_calls) / _US_PER_MS
    if not (np.isfinite(durations).all() and (durations >= 0).all()):
        raise TimerError("a duration is negative or no number")
    return list(durations.T)


def profiler_is_active() -> bool:
    """Tell whether a profiler of torch_npu is recording in this process.

    Returns
    -------
    bool
        True if so; another profiler would then spoil its data.
    """
    try:
        paths = importlib.import_module("torch_npu.profiler._profiler_path_creator")
        return bool(paths.ProfPathCreator().is_prof_inited)
    except (ImportError, AttributeError):
        return False


def _why_not(backend: str) -> str | None:
    """Give the reason why a backend can't be used now, if there is one."""
    if profiler_is_active():
        return "a profiler is recording in this process, whose data it would spoil."
    if backend == "mspti":
        if importlib.util.find_spec("mspti") is None:
            return "the package mspti, which comes with CANN, is not installed."
        if "libmspti.so" not in os.environ.get("LD_PRELOAD", ""):
            return "libmspti.so is not in LD_PRELOAD."
    return None


def _watched(call: Call, failed: list[BaseException]) -> Call:
    def run() -> None:
        try:
            call()
        except BaseException as error:
            failed.append(error)
            raise

    return run
