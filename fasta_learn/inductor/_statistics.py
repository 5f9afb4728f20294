"""What the searches of this process found, also appended to a CSV file."""

import contextlib
import csv
import dataclasses
import io
import logging
import math
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO, get_type_hints

try:
    import fcntl
except ImportError:  # Windows has no locks of this kind
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger("fasta_learn.inductor")


@dataclass(frozen=True, kw_only=True)
class SearchRecord:
    """One search, or one that was not needed.

    Attributes
    ----------
    kind : str
        "mm", "addmm", "bmm", "pointwise", "reduction", "persistent_reduction",
        "user_triton", "custom_op", or another kind of kernel.
    name : str
        Name of the kernel.
    shape, dtype, device : str
        What it was tuned for.
    n_pool, n_measured, n_failed : int
        Number of configs in the pool, of those measured, and of those that failed.
    stock_ms, best_ms : float
        Durations in ms of what Inductor would have taken and of what was taken; NaN
        if unknown.
    seconds, compile_seconds : float
        How long it took in all, and how much of it was spent on compiles.
    source : str
        "search", "store", "frozen", or "stock".
    stop_reason : str
        Why the search ended.
    winner : str
        What was taken.
    pid : int
        Number of the process.
    """

    kind: str
    name: str
    shape: str = ""
    dtype: str = ""
    device: str = ""
    n_pool: int = 0
    n_measured: int = 0
    n_failed: int = 0
    stock_ms: float = math.nan
    best_ms: float = math.nan
    seconds: float = 0.0
    compile_seconds: float = 0.0
    source: str = "search"
    stop_reason: str = ""
    winner: str = ""
    pid: int = field(default_factory=os.getpid)


FIELDS = tuple(field.name for field in dataclasses.fields(SearchRecord))

_records: list[SearchRecord] = []
_lock = threading.Lock()

# Set by the switch while it is on.
_path: Path | None = None
_told: set[Path] = set()


def record(search: SearchRecord) -> None:
    """Keep the record of a search, log it, and append it to the CSV file.

    Parameters
    ----------
    search : SearchRecord
        The record.
    """
    with _lock:
        _records.append(search)
    logger.info("%s", _to_line(search))
    if _path is not None:
        _append(_path, search)


def statistics() -> list[dict[str, Any]]:
    """Return what the searches of this process found.

    Returns
    -------
    list of dict
        One for each search, in order. Durations are in ms, and NaN if unknown.

    Examples
    --------
    >>> from fasta_learn.inductor import statistics
    >>> records = statistics()
    """
    with _lock:
        return [dataclasses.asdict(search) for search in _records]


def summary() -> str:
    """Return one line on all searches of this process.

    Returns
    -------
    str
        Counts, times, and how the kernels compare with Inductor's own choices.

    Examples
    --------
    >>> from fasta_learn.inductor import summary
    >>> line = summary()
    """
    with _lock:
        searches = list(_records)
    return summarize([dataclasses.asdict(search) for search in searches])


def summarize(records: list[dict[str, Any]]) -> str:
    """Return one line on searches.

    Parameters
    ----------
    records : list of dict
        As `statistics` gives them.

    Returns
    -------
    str
        The line.
    """
    searches = [entry for entry in records if entry["source"] == "search"]
    known = len(records) - len(searches)
    totals = {
        name: sum(entry[name] for entry in searches)
        for name in ("n_pool", "n_measured", "n_failed", "seconds", "compile_seconds")
    }
    line = (
        f"{len(searches)} searches: {totals['n_measured']} of {totals['n_pool']} "
        f"configs measured ({totals['n_failed']} failed) in {totals['seconds']:.1f} s, "
        f"{totals['compile_seconds']:.1f} s of it compiling; {known} without a search"
    )
    ratio = mean_ratio(records)
    if math.isfinite(ratio):
        line += f"; kernels take {ratio:.3f} of the time of Inductor's own choice"
    return line


def mean_ratio(records: list[dict[str, Any]]) -> float:
    """Return how long kernels take, compared with what Inductor would have taken.

    Parameters
    ----------
    records : list of dict
        As `statistics` gives them.

    Returns
    -------
    float
        Geometric mean of best_ms / stock_ms; NaN if there is none.
    """
    ratios = [
        entry["best_ms"] / entry["stock_ms"]
        for entry in records
        if entry["best_ms"] > 0 and 0 < entry["stock_ms"] < math.inf
    ]
    if not ratios:
        return math.nan
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def _to_line(search: SearchRecord) -> str:
    about = (search.kind, search.name, search.shape, search.dtype)
    parts = [
        search.source,
        f"{search.n_measured} of {search.n_pool} measured, {search.n_failed} failed",
    ]
    if math.isfinite(search.best_ms):
        parts.append(f"{search.best_ms:.4f} ms")
    if math.isfinite(ratio := mean_ratio([dataclasses.asdict(search)])):
        parts[-1] += f" ({ratio:.3f} of Inductor's choice)"
    parts.append(
        f"{search.seconds:.2f} s ({search.compile_seconds:.2f} s compiling)",
    )
    parts += [search.stop_reason] if search.stop_reason else []
    line = f"{' '.join(filter(None, about))}: {', '.join(parts)}"
    return f"{line}: {search.winner}" if search.winner else line


def read_records(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Read a CSV file of statistics.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    list of dict
        As `statistics` gives them, of all processes that wrote to the file.

    Raises
    ------
    OSError
        The file can't be read.
    ValueError
        It is no such file; the message says which line is wrong.
    """
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        if tuple(next(reader, ())) != FIELDS:
            raise ValueError(
                f"{path} does not begin with the columns {','.join(FIELDS)}, so it is "
                "no file of FASTA_LEARN_STATISTICS of this version."
            )
        return [_from_row(row, f"{path}, line {reader.line_num}") for row in reader]


def _from_row(row: list[str], place: str) -> dict[str, Any]:
    if len(row) != len(FIELDS):
        raise ValueError(
            f"{place} has {len(row)} values; there are {len(FIELDS)} columns."
        )
    kinds = get_type_hints(SearchRecord)
    try:
        return {name: kinds[name](text) for name, text in zip(FIELDS, row, strict=True)}
    except ValueError as error:
        raise ValueError(f"{place} has a value that is no number: {error}.") from None


def _append(path: Path, search: SearchRecord) -> None:
    """Append a line under a lock; a file that can't be written is told once."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a+", encoding="utf-8", newline="") as file, _locked(file):
            file.seek(0)
            header = next(csv.reader(file), None)
            if header not in (None, list(FIELDS)):
                raise ValueError("it has other columns")
            text = io.StringIO()
            rows = [dataclasses.astuple(search)]
            csv.writer(text).writerows(rows if header else [FIELDS, *rows])
            file.write(text.getvalue())
            file.flush()
    except (OSError, ValueError) as error:
        if path not in _told:
            _told.add(path)
            logger.warning(
                "statistics can't be written to %s (%s); tuning goes on.", path, error
            )


@contextlib.contextmanager
def _locked(file: TextIO) -> Iterator[None]:
    if fcntl is None:
        yield
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)
