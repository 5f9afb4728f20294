"""Cache files of Kernel Tuner.

A cache is a JSON object: names of device and kernel, the tuned parameters, and one
entry a config on a line of its own. Kernel Tuner appends to it while it runs, so a
cache of an interrupted run lacks the closing braces and may end within a line.
"""

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from fasta_learn.configs._pool_formats import decode
from fasta_learn.configs._pool_table import PoolParts, refuse_duplicates
from fasta_learn.exceptions import PoolFormatError

_STATUS = {
    "CompilationFailedConfig": "compile_error",
    "RuntimeFailedConfig": "launch_error",
}
# Older versions of Kernel Tuner write this for a config that failed.
_FAILED_TIME = 1e20


def read_kernel_tuner(data: bytes, file: str) -> PoolParts:
    """Interpret the content of a Kernel Tuner cache.

    Parameters
    ----------
    data : bytes
        Content of the file.
    file : str
        Its path.

    Returns
    -------
    PoolParts
        The parts of the pool; if the entries hold repeated times, their 20 and
        80 % quantiles in ms and their relative standard deviation are among them.

    Raises
    ------
    PoolFormatError
        The content is no such cache, or an entry is wrong; the message names it.
    """
    text = decode(data, file)
    cache = _load(text, file)
    names = _parameter_names(cache, file)
    entries = cache["cache"]
    if not entries:
        raise PoolFormatError(f"{file}: the cache has no configs.")
    rows = [_row_name(text, key) for key in entries]
    configs, durations, status = [], [], []
    for row, entry in zip(rows, entries.values(), strict=True):
        where = f"{file}, {row}"
        configs.append(_config(entry, names, where))
        duration, outcome = _measured(entry, where)
        durations.append(duration)
        status.append(outcome)
    refuse_duplicates(configs, rows, file)
    description = (
        f"{cache.get('kernel_name', 'unknown kernel')} on "
        f"{cache.get('device_name', 'unknown device')}, recorded by Kernel Tuner"
    )
    extra = _spread_of_times(list(entries.values()), status)
    return PoolParts(configs, np.array(durations), status, extra, description)


def _load(text: str, file: str) -> dict[str, Any]:
    first_error: json.JSONDecodeError | None = None
    for candidate in _completions(text):
        try:
            cache = json.loads(candidate)
        except json.JSONDecodeError as error:
            first_error = first_error or error
            continue
        if isinstance(cache, dict) and isinstance(cache.get("cache"), dict):
            return cache
        raise PoolFormatError(
            f"{file}: the JSON holds no object 'cache'; of JSON files only caches of "
            "Kernel Tuner are known."
        )
    raise PoolFormatError(
        f"{file}, line {getattr(first_error, 'lineno', 1)}: no JSON, also if it is "
        f"closed: {first_error}."
    )


def _completions(text: str) -> Iterator[str]:
    """Yield the text, then the text as if its run had been closed properly."""
    yield text
    whole = text.rstrip().removesuffix(",")
    yield whole + "}}"
    yield whole + "}"
    without_torn_line = whole.rpartition("\n")[0].rstrip().removesuffix(",")
    yield without_torn_line + "}}"


def _parameter_names(cache: dict[str, Any], file: str) -> list[str]:
    names = cache.get("tune_params_keys") or list(cache.get("tune_params") or {})
    if not names:
        raise PoolFormatError(
            f"{file}: neither 'tune_params_keys' nor 'tune_params' names parameters."
        )
    return names


def _row_name(text: str, key: str) -> str:
    start = text.find(json.dumps(key), text.find('"cache"'))
    line = text.count("\n", 0, start) + 1 if start >= 0 else "unknown"
    return f"line {line}, entry {key!r}"


def _config(entry: Any, names: list[str], where: str) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise PoolFormatError(f"{where}: it is no object, but {entry!r}.")
    for name in names:
        if name not in entry:
            raise PoolFormatError(f"{where}, column {name!r}: it is missing.")
    return {name: entry[name] for name in names}


def _measured(entry: dict[str, Any], where: str) -> tuple[float, str]:
    """Return duration in ms and status of an entry."""
    time = entry.get("__error__", entry.get("time"))
    if isinstance(time, str):
        return math.inf, _STATUS.get(time, "error")
    if isinstance(time, bool) or not isinstance(time, (int, float)) or not time > 0:
        raise PoolFormatError(
            f"{where}, column 'time': it is {time!r}; expected a positive number of "
            "ms, or the name of an error."
        )
    if time >= _FAILED_TIME:
        return math.inf, "error"
    return float(time), "ok"


def _spread_of_times(entries: list[dict[str, Any]], status: list[str]) -> pd.DataFrame:
    times = [
        entry.get("times") if outcome == "ok" else None
        for entry, outcome in zip(entries, status, strict=True)
    ]
    if not any(isinstance(row, list) and len(row) > 1 for row in times):
        return pd.DataFrame(index=range(len(entries)))
    names = ["duration_p20_ms", "duration_p80_ms", "duration_rel_sd"]
    return pd.DataFrame([_spread(row) for row in times], columns=names)


def _spread(times: Any) -> list[float]:
    if not isinstance(times, list) or len(times) < 2:
        return [math.nan] * 3
    low, high = np.quantile(times, [0.2, 0.8])
    return [float(low), float(high), float(np.std(times, ddof=1) / np.mean(times))]
