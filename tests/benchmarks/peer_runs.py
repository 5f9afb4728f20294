"""Runs of searches in child processes, kept in a file so that a long series can be cut.

Each run has a limit of processor time. A search that goes beyond it on a pool is
skipped there, for all seeds.
"""

import csv
import itertools
import math
import multiprocessing
import resource
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, fields
from multiprocessing.connection import Connection, wait
from pathlib import Path

from fasta_learn._blas import one_blas_thread
from fasta_learn.configs import Pool
from fasta_learn.experiments._one_run import run_search


@dataclass(frozen=True)
class Task:
    """One run: names of pool and search, how much may be measured, and the seed."""

    pool: str
    search: str
    n_budget: int
    seed: int


class RunBook:
    """Finished runs, and the searches that were skipped on a pool.

    Parameters
    ----------
    path : Path or None
        CSV file that is read and appended to; None keeps nothing.
    """

    header = (*(field.name for field in fields(Task)), "seconds", "order", "skipped")

    def __init__(self, path: Path | None):
        self.path = path
        self.orders: dict[Task, list[int]] = {}
        self.skipped: dict[tuple[str, str, int], str] = {}
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._read()

    def _read(self) -> None:
        text = self.path.read_text() if self.path.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        if len(whole) < len(text) or not whole:
            # The last line was cut in writing, or the file is new.
            self.path.write_text(whole or ",".join(self.header) + "\n")
        for row in csv.DictReader(whole.splitlines()):
            key = row["pool"], row["search"], int(row["n_budget"])
            if row["skipped"]:
                self.skipped[key] = row["skipped"]
            else:
                order = [int(index) for index in row["order"].split()]
                self.orders[Task(*key, int(row["seed"]))] = order

    def add(self, task: Task, seconds: float, order: list[int], skipped: str) -> None:
        """Enter a run that ended, or the reason why the search is skipped."""
        if skipped:
            self.skipped[task.pool, task.search, task.n_budget] = skipped
        else:
            self.orders[task] = order
        if self.path is not None:
            indices = " ".join(map(str, order))
            with self.path.open("a", newline="") as file:
                row = (*astuple(task), f"{seconds:.3f}", indices, skipped)
                csv.writer(file, lineterminator="\n").writerow(row)

    def is_open(self, task: Task) -> bool:
        """Whether a task is still to be run."""
        key = task.pool, task.search, task.n_budget
        return task not in self.orders and key not in self.skipped

    def n_seeds(self, pool: str, search: str, n_budgets: Iterable[int]) -> int:
        """Return how many seeds, from 0 on, were run at all of the budgets."""
        return next(
            seed
            for seed in itertools.count()
            if any(Task(pool, search, n, seed) not in self.orders for n in n_budgets)
        )


def run_tasks(
    tasks: Iterable[Task],
    pools: dict[str, Pool],
    searches: dict,
    book: RunBook,
    n_jobs: int,
    limit: float,
) -> None:
    """Run the tasks that are open, and enter them in the book.

    Parameters
    ----------
    tasks : iterable of Task
        In the order in which they start.
    pools, searches : dict
        What their names stand for.
    book : RunBook
        Where finished runs are.
    n_jobs : int
        How many run at a time.
    limit : float
        Most seconds of processor time for each measurement of a run, on average.
    """
    fork = multiprocessing.get_context("fork")
    running: dict[Connection, tuple] = {}
    waiting = iter(tasks)
    try:
        while True:
            for task in _next_open(waiting, book, n_jobs - len(running)):
                receiver, sender = fork.Pipe(duplex=False)
                search, pool = searches[task.search], pools[task.pool]
                process = fork.Process(
                    target=_run, args=(task, search, pool, limit, sender)
                )
                process.start()
                sender.close()
                running[receiver] = task, process
            if not running:
                return
            for receiver in wait(list(running)):
                _enter(receiver, *running.pop(receiver), book, limit, pools)
    finally:
        for _, process in running.values():
            process.kill()


def _next_open(tasks: Iterator[Task], book: RunBook, n_free: int) -> Iterator[Task]:
    return itertools.islice((task for task in tasks if book.is_open(task)), n_free)


def _run(task: Task, search, pool: Pool, limit: float, sender: Connection) -> None:
    if math.isfinite(limit):
        most = math.ceil(limit * task.n_budget)
        resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1))
    with one_blas_thread():
        order = run_search(search, pool, task.n_budget, task.seed).order
    sender.send((time.process_time(), order.tolist()))


def _enter(receiver, task, process, book, limit, pools) -> None:
    try:
        seconds, order = receiver.recv()
    except EOFError:
        seconds, order = math.ceil(limit * task.n_budget), []
    process.join()
    if order:
        book.add(task, seconds, order, "")
        return
    if process.exitcode != -signal.SIGXCPU:
        raise SystemExit(f"{task} ended with {process.exitcode}; see above.")
    reason = (
        f"more than {limit:g} s a measurement ({seconds} s for {task.n_budget} of "
        f"{len(pools[task.pool])} configs)"
    )
    print(f"skipped: {task.search} on {task.pool}: {reason}", file=sys.stderr)
    book.add(task, seconds, [], reason)
