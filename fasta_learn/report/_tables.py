"""CSV files with the measurements of a search, or with the runs of a replay."""

import math
import os
from typing import Any

import pandas as pd

from fasta_learn.experiments import summarize
from fasta_learn.oracles import Measurement
from fasta_learn.report._records import Record, Story

_SECONDS = ("compile_seconds", "run_seconds")
_RESULTS = {
    "index", "duration", "status", "round", "predicted", "reason", *_SECONDS
}  # fmt: skip
RESULTS_MUST = {"duration", "status", "round"}
REPLAY_MUST = {
    "pool", "search", "budget", "seed", "n_configs", "n_measured", "regret", "catch",
    "n_near",
}  # fmt: skip


def read_results(path: str | os.PathLike[str], name: str) -> Story:
    """Read the table ``results_`` of a search, written by ``to_csv``.

    Parameters
    ----------
    path : path-like
        The file. Columns besides those of ``results_`` are parameters of the config,
        except for ``compile_seconds`` and ``run_seconds``.
    name : str
        What was searched.

    Returns
    -------
    Story
        Its measurements.

    Raises
    ------
    OSError
        The file can't be read.
    ValueError
        A line is wrong; the message says which.
    """
    table = read_table(path)
    # The index of a frame that was written with it.
    table = table.drop(columns=[c for c in table if str(c).startswith("Unnamed: ")])
    records = []
    for number, row in enumerate(table.to_dict("records"), start=2):
        values = {str(column): value for column, value in row.items()}
        try:
            records.append(_to_record(values))
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"{path}, line {number} is no measurement: {error} Write the table "
                "anew by search.results_.to_csv(file, index=False)."
            ) from error
    return Story("results", name, {}, records)


def read_table(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read a CSV file.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    DataFrame
        The table.

    Raises
    ------
    OSError
        The file can't be read.
    ValueError
        It is no table.
    """
    try:
        return pd.read_csv(path)
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise ValueError(
            f"{path} is no table of comma-separated values ({error}); write it anew."
        ) from error


def _to_record(row: dict[str, Any]) -> Record:
    known = {name: value for name, value in row.items() if not pd.isna(value)}
    reason = known.get("reason")
    measurement = Measurement(
        _duration(known),
        known.get("status", ""),
        None if reason is None else str(reason),
        **{name: known[name] for name in _SECONDS if name in known},
    )
    config = {
        name: _whole(value) for name, value in known.items() if name not in _RESULTS
    }
    number, index = known.get("round"), known.get("index")
    predicted = float(known["predicted"]) if "predicted" in known else None
    return Record(
        config or None,
        measurement,
        None if index is None else int(index),
        None if number is None else int(number),
        predicted if predicted is not None and math.isfinite(predicted) else None,
    )


def _duration(known: dict[str, Any]) -> float:
    if "duration" not in known:
        raise ValueError("it has no duration.")
    return float(known["duration"])


def _whole(value: Any) -> Any:
    """Return 64.0 as 64: a column with gaps holds floats."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def replay_facts(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the facts in a file of ``fasta-learn replay --csv``.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    dict
        Of plain values.

    Raises
    ------
    OSError
        The file can't be read.
    ValueError
        It has no runs, or a value is wrong.
    """
    runs = read_table(path)
    try:
        summary = summarize(runs).to_dict("records")
        by_pool = summarize(runs, ("pool", "search", "budget")).to_dict("records")
        missed = runs[~runs["catch"].astype(bool)].sort_values(
            "regret", ascending=False, kind="stable"
        )
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{path} holds no complete runs of a replay ({error}) Write it anew by "
            "fasta-learn replay --csv."
        ) from error
    columns = ["pool", "search", "budget", "seed", "n_measured", "regret"]
    return {
        "n_runs": len(runs),
        "n_pools": int(runs["pool"].nunique()),
        "n_seeds": int(runs["seed"].nunique()),
        "searches": summary,
        "pools": [
            {name: row[name] for name in (*columns[:3], "catch", "mean_regret")}
            for row in by_pool
        ],
        "n_missed": len(missed),
        "worst_runs": missed[columns].head(10).to_dict("records"),
    }


def to_plain(value: Any) -> Any:
    """Return a value as strict JSON can hold it.

    Parameters
    ----------
    value : object
        Dicts and lists of scalars.

    Returns
    -------
    object
        Without scalars of numpy; None for what is not finite.
    """
    if isinstance(value, dict):
        return {str(name): to_plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
