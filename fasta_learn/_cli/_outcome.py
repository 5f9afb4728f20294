"""What a search has found, as text and as JSON."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fasta_learn._cli._terminal import paint
from fasta_learn._text import format_duration, format_pairs, format_share, format_table
from fasta_learn.configs import Pool, config_to_dict
from fasta_learn.configs._formats import format_config
from fasta_learn.oracles import BaseOracle, JournaledOracle
from fasta_learn.search import ActiveConfigSearch

_REASONS = {
    "budget": "the budget is used up",
    "rounds": "the rounds of the profile are used up",
    "all": "every config is measured",
    "time": "the time is used up",
    "converged": "nothing better is in sight",
    "confident": "nothing much better is probable",
    "interrupted": "interrupted",
    "broken": "nothing more could be measured",
}


@dataclass(frozen=True)
class Outcome:
    """A search that is finished, or was cut short.

    Attributes
    ----------
    search : ActiveConfigSearch
        The search.
    name : str
        What was searched.
    configs : sequence of configs
        All configs.
    oracle : BaseOracle
        What answered.
    seconds : float
        How long it took.
    stop_reason : str or None
        Why it ended.
    recording : Pool or None
        All durations, if they are known.
    """

    search: ActiveConfigSearch
    name: str
    configs: Sequence[Any]
    oracle: BaseOracle
    seconds: float
    stop_reason: str | None
    recording: Pool | None = None

    def regret_of(self, duration: float) -> float:
        """Return how much slower a duration is than the best of the recording.

        Parameters
        ----------
        duration : float
            In ms.

        Returns
        -------
        float
            The regret; inf if it or the recording has none.
        """
        pool = self.recording
        runs = pool is not None and math.isfinite(pool.best_duration)
        return pool.regret(duration) if pool is not None and runs else math.inf


def to_record(outcome: Outcome) -> dict[str, Any]:
    """Return the result for JSON.

    Parameters
    ----------
    outcome : Outcome
        The outcome.

    Returns
    -------
    dict
        Of plain numbers and text; None for what is unknown or infinite.
    """
    search, pool = outcome.search, outcome.recording
    best, config = search.best_duration_, search.best_config_
    record: dict[str, Any] = {
        "kernel" if pool is None else "pool": outcome.name,
        "n_configs": len(outcome.configs),
        "n_measured": search.n_measured_,
        "budget": search.n_budget_,
        "best_config": None if config is None else config_to_dict(config),
        "best_duration_ms": float(best),
        "stop_reason": outcome.stop_reason,
        "confidence": search.confidence_,
        "confidence_label": search.confidence_label_,
        "seconds": round(outcome.seconds, 3),
    }
    if pool is not None:
        record["regret"] = outcome.regret_of(best)
        record["catch"] = bool(pool.is_catch(best))
    plain: dict[str, Any] = _plain(record)
    return plain


def to_text(outcome: Outcome, more: Sequence[tuple[str, str]] = ()) -> str:
    """Return the result for people.

    Parameters
    ----------
    outcome : Outcome
        The outcome, with a best config.
    more : sequence of (str, str), default=()
        Further names and texts of the summary.

    Returns
    -------
    str
        Lines: the rounds in a table, and the result.
    """
    configs = [config_to_dict(config) for config in outcome.configs]
    n_parameters = len({name for config in configs for name in config})
    headline = (
        f"{outcome.name}: {len(configs)} configs, {n_parameters} parameters, "
        f"budget {outcome.search.n_budget_}"
    )
    summary = format_pairs([*_summary(outcome), *more, *_journal_pairs(outcome)])
    return "\n\n".join((paint(headline, "bold"), _rounds_table(outcome), summary))


def _rounds_table(outcome: Outcome) -> str:
    """Tell of the first round, of those that found a better config, and of the last."""
    results = outcome.search.results_
    rounds, durations = results["round"].to_numpy(), results["duration"].to_numpy()
    predicted = results["predicted"].to_numpy()
    n_failed = (results["status"] != "ok").to_numpy().cumsum()
    best = np.minimum.accumulate(durations)
    rows, previous = [], math.inf
    for last in np.flatnonzero(np.diff(rounds, append=np.inf)):
        better = best[last] < previous
        if not (better or rounds[last] in (rounds[0], rounds[-1])):
            continue
        previous = best[last]
        expected = predicted[durations[: last + 1].argmin()] if better else math.nan
        rows.append(
            (
                str(rounds[last]),
                str(last + 1),
                str(n_failed[last]),
                format_duration(expected),
                format_duration(previous),
                format_share(outcome.regret_of(previous)),
            )
        )
    header = ("round", "measured", "failed", "predicted", "best", "regret")
    # There is no regret without a recording to compare with.
    n_columns = len(header) if outcome.recording is not None else len(header) - 1
    return format_table(header[:n_columns], [row[:n_columns] for row in rows])


def _summary(outcome: Outcome) -> list[tuple[str, str]]:
    search, n_configs = outcome.search, len(outcome.configs)
    share = search.n_measured_ / n_configs
    n_failed = int((search.results_["status"] != "ok").sum())
    pairs = [
        ("best config", format_config(config_to_dict(search.best_config_))),
        ("duration", format_duration(search.best_duration_)),
    ]
    if outcome.recording is not None:
        pairs.append(("regret", _comparison(outcome, outcome.recording)))
    return [
        *pairs,
        (
            "measured",
            f"{search.n_measured_} of {n_configs} configs ({format_share(share)}), "
            f"{n_failed} failed; {format_share(1 - share)} saved",
        ),
        ("stopped", f"{_reason(outcome)}, after {outcome.seconds:.2f} s"),
        ("confidence", _confidence(search)),
    ]


def _journal_pairs(outcome: Outcome) -> list[tuple[str, str]]:
    journal = outcome.oracle
    if not isinstance(journal, JournaledOracle):
        return []
    counts = f"{journal.n_replayed} known before, {journal.n_measured} added"
    return [("journal", f"{counts}: {journal.path}")]


def _confidence(search: ActiveConfigSearch) -> str:
    if search.confidence_ is None:
        return "-"
    return (
        f"{search.confidence_:.0%} to be within 5 % of the fastest, "
        f"{search.confidence_label_} by the rule of the dynamic filter"
    )


def _comparison(outcome: Outcome, pool: Pool) -> str:
    best = outcome.search.best_duration_
    fastest = format_duration(pool.best_duration)
    if best == pool.best_duration:
        verdict = "it is the fastest of the pool"
    elif pool.is_catch(best):
        verdict = f"a catch, within 5 % of the fastest of the pool ({fastest})"
    else:
        verdict = f"no catch, the fastest of the pool takes {fastest}"
    return f"{format_share(pool.regret(best))}: {verdict}"


def _reason(outcome: Outcome) -> str:
    reason = outcome.stop_reason or ""
    if reason == "budget" and outcome.search.n_measured_ < outcome.search.n_budget_:
        reason = "rounds"
    return _REASONS.get(reason, reason)


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
