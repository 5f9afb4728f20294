"""Measuring the whole pool of a kernel, and keeping it in a pool file."""

import errno
import math
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import check_random_state

from fasta_learn.configs import Pool, config_to_dict, write_pool
from fasta_learn.experiments._card import make_card
from fasta_learn.oracles import (
    JournaledOracle,
    KernelSpec,
    Measurement,
    TimingPlan,
    load_kernel_spec,
)


@dataclass(frozen=True, kw_only=True)
class Recording:
    """How far `record_pool` has come.

    Attributes
    ----------
    name : str
        Name of the pool and of its files.
    pool : Pool or None
        The pool; None if the time was up before it was complete.
    path : Path
        The pool file, written once the pool is complete. The card lies next to it.
    journal_path : Path
        The journal.
    n_configs : int
        Number of configs of the pool.
    n_known : int
        How many the journal had before.
    n_measured : int
        How many were measured now.
    """

    name: str
    pool: Pool | None
    path: Path
    journal_path: Path
    n_configs: int
    n_known: int
    n_measured: int


def record_pool(
    spec: KernelSpec | str,
    folder: str | PathLike[str],
    *,
    name: str | None = None,
    n_configs: int | None = None,
    random_state: int | np.random.RandomState | None = 0,
    max_seconds: float | None = None,
    on_measured: Callable[[int, int, float], object] | None = None,
    **options: Any,
) -> Recording:
    """Measure the configs of a kernel and write them to a pool file with a card.

    Each measurement is kept in a journal next to the pool file as soon as it is there.
    Whoever calls again, after a kill or when the time was up, measures only what is
    missing.

    Parameters
    ----------
    spec : KernelSpec or str
        The kernel, or where to load it from, as in `load_kernel_spec`.
    folder : path-like
        Where to write ``NAME.csv``, the card ``NAME.md`` and the journal
        ``NAME.jsonl``; made if need be.
    name : str or None, default=None
        Name of the pool; by default that of the kernel and its sizes.
    n_configs : int or None, default=None
        How many configs to draw at random; by default, and if there are fewer, all.
    random_state : int, RandomState or None, default=0
        Decides which are drawn.
    max_seconds : float or None, default=None
        Seconds after which no further config is measured.
    on_measured : callable or None, default=None
        Called after each measurement with the number that is known, the number of
        configs, and the best duration in ms.
    **options
        Those of `TritonKernelOracle`, such as ``devices`` and ``n_jobs``. The default
        of ``timing`` is a `TimingPlan` that cuts no config off.

    Returns
    -------
    Recording
        The pool and its files.

    Raises
    ------
    FileExistsError
        The pool file is there and its journal is not.
    JournalMismatchError
        The journal is of another kernel, device, version or draw.
    ValueError
        Two configs are equal, or can't be kept in a pool file.

    Examples
    --------
    >>> import tempfile
    >>> from fasta_learn.experiments import record_pool
    >>> from fasta_learn.oracles import CallableOracle, KernelSpec
    >>> class Simulated(KernelSpec):
    ...     def oracle(self, **options):
    ...         return CallableOracle(lambda config: 64 / config["BLOCK"])
    >>> spec = Simulated(
    ...     kernel=None, args=(), grid=(1,), name="add", shape={"x0": 4096},
    ...     configs=[{"BLOCK": 32}, {"BLOCK": 64}],
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     recording = record_pool(spec, folder)
    >>> recording.pool
    Pool(name='add_4096', n_configs=2, n_failed=0, best_duration=1)
    """
    started = time.monotonic()
    if isinstance(spec, str):
        spec = load_kernel_spec(spec)
    name = pool_name(spec) if name is None else name
    folder = Path(folder)
    path, journal_path = folder / f"{name}.csv", folder / f"{name}.jsonl"
    _refuse_overwriting(path, journal_path)
    folder.mkdir(parents=True, exist_ok=True)
    configs = _draw(spec.configs, n_configs, random_state)
    _check_writable(configs)
    # The slow configs belong into a recording as well as the fast ones.
    options.setdefault("timing", TimingPlan(cutoff=None))
    with spec.oracle(**options) as oracle:
        journal = JournaledOracle(oracle, journal_path)
        deadline = started + (math.inf if max_seconds is None else max_seconds)
        answers = _measure(journal, configs, deadline, on_measured)
        fingerprint = oracle.fingerprint()
    pool = None
    if len(answers) == len(configs):
        pool = _as_pool(name, configs, answers)
        write_pool(pool, path)
        path.with_suffix(".md").write_text(
            make_card(spec, pool, fingerprint), encoding="utf-8"
        )
    return Recording(
        name=name,
        pool=pool,
        path=path,
        journal_path=journal_path,
        n_configs=len(configs),
        n_known=journal.n_replayed,
        n_measured=journal.n_measured,
    )


def pool_name(spec: KernelSpec) -> str:
    """Return the name of the pool of a kernel: its own, its sizes, what else was set.

    Parameters
    ----------
    spec : KernelSpec
        The kernel.

    Returns
    -------
    str
        Such as "softmax_4096_1024"; it can be the name of a file.
    """
    name = str(spec.name).removesuffix("_kernel")
    sizes = [str(size) for size in spec.shape.values()]
    parameters = {} if spec.source is None else spec.source[1]
    others = [str(value) for value in parameters.values() if str(value) not in sizes]
    ending = "_".join([*sizes, *others])
    whole = name if not ending or name.endswith(ending) else f"{name}_{ending}"
    return re.sub(r"[^\w.-]+", "-", whole)


def _refuse_overwriting(path: Path, journal_path: Path) -> None:
    if path.exists() and not journal_path.exists():
        raise FileExistsError(
            errno.EEXIST,
            "this pool was recorded before and its journal is gone; move it away to "
            "record it anew",
            str(path),
        )


def _draw(
    configs: Sequence[Any], n_configs: int | None, random_state: Any
) -> list[Any]:
    if n_configs is None or n_configs >= len(configs):
        return list(configs)
    generator = check_random_state(random_state)
    chosen = generator.choice(len(configs), size=n_configs, replace=False)
    return [configs[int(index)] for index in np.sort(chosen)]


def _check_writable(configs: list[Any]) -> None:
    """Refuse before the measurements what would fail after them."""
    pool = _as_pool("", configs, [Measurement(1.0)] * len(configs))
    with tempfile.TemporaryDirectory() as folder:
        write_pool(pool, Path(folder) / "pool.csv")


def _measure(
    journal: JournaledOracle,
    configs: list[Any],
    deadline: float,
    on_measured: Callable[[int, int, float], object] | None,
) -> list[Measurement]:
    """Measure until the deadline, with so many configs made ready as the oracle can."""
    journal.open_pool(configs)
    n_ready = journal.n_parallel + journal.lookahead
    journal.prepare(configs[:n_ready])
    answers: list[Measurement] = []
    best = math.inf
    for answer in journal.measure_each(configs):
        answers.append(answer)
        best = min(best, answer.duration)
        if on_measured is not None:
            on_measured(len(answers), len(configs), best)
        if time.monotonic() >= deadline:
            break
        last = len(answers) + n_ready
        if configs[last - 1 : last]:
            journal.prepare(configs[last - 1 : last])
    return answers


def _as_pool(name: str, configs: Sequence[Any], answers: Sequence[Measurement]) -> Pool:
    status = [
        answer.status if answer.reason is None else f"{answer.status}: {answer.reason}"
        for answer in answers
    ]
    columns: dict[str, list[Any]] = {
        "duration_p20_ms": [answer.duration_p20 for answer in answers],
        "duration_p80_ms": [answer.duration_p80 for answer in answers],
        "compile_seconds": [_rounded(answer.compile_seconds) for answer in answers],
    }
    for key in ("registers", "spills", "shared_bytes"):
        columns[key] = [answer.info.get(key) for answer in answers]
    known = {
        column: pd.Series(values, dtype=object)
        for column, values in columns.items()
        if any(value is not None for value in values)
    }
    return Pool(
        [config_to_dict(config) for config in configs],
        np.array([answer.duration for answer in answers]),
        status,
        name,
        pd.DataFrame(known, index=range(len(answers))),
    )


def _rounded(seconds: float | None) -> float | None:
    # Further digits are noise, and make the files larger.
    return None if seconds is None else round(seconds, 4)
