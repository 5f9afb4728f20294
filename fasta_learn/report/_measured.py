"""From the measurements of a search to its story in facts."""

import math
import re
from collections.abc import Iterable
from typing import Any

from fasta_learn.configs._formats import format_launch
from fasta_learn.report._effects import learn, parameters, predictions
from fasta_learn.report._records import Record, Story, find_winner

_N_FASTEST = 20
_NUMBER = re.compile(r"\d+(\.\d+)?")
_LAUNCH = ("num_warps", "num_stages")


def search_facts(story: Story) -> dict[str, Any]:
    """Return the facts about a search.

    Parameters
    ----------
    story : Story
        What the file tells.

    Returns
    -------
    dict
        Of plain values; durations are in ms.

    Raises
    ------
    ValueError
        There are no measurements.
    """
    records = story.records
    if not records:
        raise ValueError(
            f"{story.name}: the {story.kind} has no measurement yet; run the search "
            "first."
        )
    learned = learn(records)
    n_failed = sum(not record.measurement.ok for record in records)
    return {
        "name": story.name,
        "about": story.about,
        "n_measured": len(records),
        "n_failed": n_failed,
        "n_repeats": sum(len(record.repeats) for record in records),
        "best": _best(records),
        "improvements": _improvements(records),
        "rounds": _rounds(records),
        "predictions": predictions(records, learned),
        "parameters": parameters(records, learned),
        "failures": _failures(records),
        "time": _time(story),
        "finalists": _finalists(records),
        "fastest": _fastest(records),
        "measurements": [_row(records, i) for i in range(len(records))],
    }


def _row(records: list[Record], position: int) -> dict[str, Any]:
    """Return a measurement; its number counts from 1, as people do."""
    record = records[position]
    measurement = record.measurement
    return {
        "position": position + 1,
        "round": record.round,
        "index": record.index,
        "config": record.config,
        "duration_ms": record.duration,
        "p20_ms": measurement.duration_p20,
        "p80_ms": measurement.duration_p80,
        "status": measurement.status,
    }


def _best(records: list[Record]) -> dict[str, Any] | None:
    winner = find_winner(records)
    if winner is None:
        return None
    position, duration = winner
    config = records[position].config
    launch = None
    if config is not None and any(name in config for name in _LAUNCH):
        launch = format_launch(config)
    row = _row(records, position)
    return {**row, "duration_ms": duration, "triton_config": launch}


def _improvements(records: list[Record]) -> list[dict[str, Any]]:
    best, found = math.inf, []
    for position, record in enumerate(records):
        if record.duration < best:
            best = record.duration
            row = _row(records, position)
            found.append({**row, "predicted_ms": record.predicted})
    return found


def _rounds(records: list[Record]) -> list[dict[str, Any]]:
    """Return a fact sheet for each round; none if the file does not know them."""
    if any(record.round is None for record in records):
        return []
    rounds: list[dict[str, Any]] = []
    best, n_failed = math.inf, 0
    for position, record in enumerate(records, start=1):
        best = min(best, record.duration)
        n_failed += not record.measurement.ok
        if not rounds or rounds[-1]["round"] != record.round:
            rounds.append({"round": record.round, "n_new": 0})
        rounds[-1] = {
            "round": record.round,
            "n_new": rounds[-1]["n_new"] + 1,
            "n_measured": position,
            "n_failed": n_failed,
            "best_ms": best,
        }
    return rounds


def _failures(records: list[Record]) -> list[dict[str, Any]]:
    """Count failures by status and reason, the most common first.

    Reasons that differ in numbers only are one: how many bytes were too many.
    """
    groups: dict[tuple[str, str], list[int]] = {}
    for position, record in enumerate(records):
        answer = record.measurement
        if not answer.ok:
            key = answer.status, _NUMBER.sub("#", answer.reason or "")
            groups.setdefault(key, []).append(position)
    ordered = sorted(groups.values(), key=len, reverse=True)
    return [_failure(records, positions) for positions in ordered]


def _failure(records: list[Record], positions: list[int]) -> dict[str, Any]:
    first = records[positions[0]].measurement
    return {
        "status": first.status,
        "reason": first.reason,
        "n_reasons": len({records[i].measurement.reason for i in positions}),
        "count": len(positions),
        "example": _row(records, positions[0]),
    }


def _time(story: Story) -> dict[str, Any]:
    """Add up seconds of compiling and running, as far as they are known."""
    answers = [record.measurement for record in story.records]
    failed = [answer for answer in answers if not answer.ok]
    known = [
        answer
        for answer in answers
        if answer.compile_seconds is not None or answer.run_seconds is not None
    ]
    return {
        "n_known": len(known),
        "compile_seconds": _total(answer.compile_seconds for answer in answers),
        "run_seconds": _total(answer.run_seconds for answer in answers),
        "failed_seconds": _total(
            seconds
            for answer in failed
            for seconds in (answer.compile_seconds, answer.run_seconds)
        ),
        "repeat_seconds": _total(sum(pair) for pair in story.repeat_seconds),
    }


def _total(seconds: Iterable[float | None]) -> float:
    return math.fsum(value or 0.0 for value in seconds)


def _finalists(records: list[Record]) -> list[dict[str, Any]]:
    return [
        {**_row(records, position), "repeats_ms": record.repeats}
        for position, record in enumerate(records)
        if record.repeats
    ]


def _fastest(records: list[Record]) -> list[dict[str, Any]]:
    order = sorted(range(len(records)), key=lambda i: records[i].duration)
    return [_row(records, i) for i in order[:_N_FASTEST] if records[i].measurement.ok]
