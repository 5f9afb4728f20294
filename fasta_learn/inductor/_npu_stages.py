"""How long the stages of tuning took, as the dynamic filter of torch_npu tells it."""

import csv
import dataclasses
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fasta_learn.autotuner._store import find_folder
from fasta_learn.inductor._settings import is_true
from fasta_learn.inductor._statistics import _locked

logger = logging.getLogger("fasta_learn.inductor")

HEADER = ("Kernel", "Stage", "Duration(ms)", "Configs", "Start TS", "End TS")

_RUN = "FASTA_LEARN_RUN"
_told: set[Path] = set()


@dataclass(frozen=True)
class Stage:
    """A stage of the tuning of a kernel.

    Attributes
    ----------
    name : str
        "R1_COMPILE", "R1_BENCHMARK", "R2" and so on, and "DONE" for all of it.
    n_configs : int
        How many configs were compiled, or measured.
    start, end : float
        In seconds since the epoch.
    """

    name: str
    n_configs: int
    start: float
    end: float


@dataclass
class Stages:
    """The stages of the tuning of a kernel so far.

    Attributes
    ----------
    done : list of Stage
        In order.
    """

    done: list[Stage] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str, n_configs: int) -> Iterator[None]:
        """Note when a stage begins and ends, also if it fails.

        Parameters
        ----------
        name : str
            Name of the stage.
        n_configs : int
            How many configs it is about.
        """
        start = time.time()
        try:
            yield
        finally:
            self.done.append(Stage(name, n_configs, start, time.time()))

    @property
    def seconds(self) -> float:
        """Time of all stages, in s."""
        return sum(stage.end - stage.start for stage in self.done)

    def write(self, kernel: str, wish: str | None, n_measured: int) -> None:
        """Append the stages to the file of this run; a failure is told once.

        Parameters
        ----------
        kernel : str
            Name of the kernel.
        wish : str or None
            "1" for the folder of the user, or a folder; None writes nothing.
        n_measured : int
            How many configs were measured in all.
        """
        if wish is None or not self.done:
            return
        path = stages_file(wish)
        end = Stage("DONE", n_measured, self.done[0].start, self.done[-1].end)
        try:
            _append(path, kernel, [*self.done, end])
        except OSError as error:
            if path not in _told:
                _told.add(path)
                logger.warning(
                    "stages can't be written to %s (%s); tuning goes on.", path, error
                )


def stages_file(wish: str) -> Path:
    """Return the file that all processes of this run write to.

    Parameters
    ----------
    wish : str
        As for `Stages.write`.

    Returns
    -------
    Path
        ``duration-stats-<run>.csv`` in a folder that is the user's own.
    """
    if is_true(wish):
        caches = find_folder(True)
        assert caches is not None
        folder = caches.parent / "npu"
    else:
        folder = Path(wish).expanduser().absolute()
    return folder / f"duration-stats-{run_name()}.csv"


def run_name() -> str:
    """Return the name of this run, which the children of this process share.

    Returns
    -------
    str
        ``FASTA_LEARN_RUN``; the run of torchrun, so that all of its ranks write to one
        file; or else the time and the number of the first process that asks.
    """
    if not os.environ.get(_RUN):
        elastic = os.environ.get("TORCHELASTIC_RUN_ID", "none")
        own = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        os.environ[_RUN] = own if elastic == "none" else elastic
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in os.environ[_RUN])


def _append(path: Path, kernel: str, stages: list[Stage]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8", newline="") as file, _locked(file):
        file.seek(0, os.SEEK_END)
        writer = csv.writer(file)
        if file.tell() == 0:
            writer.writerow(HEADER)
        for stage in stages:
            name, n_configs, start, end = dataclasses.astuple(stage)
            duration = f"{1e3 * (end - start):.3f}"
            writer.writerow(
                (kernel, name, duration, n_configs, f"{start:.6f}", f"{end:.6f}")
            )
