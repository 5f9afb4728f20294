"""What a search has found, as text and as JSON."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fasta_learn._cli._text import (
    format_config,
    format_duration,
    format_pairs,
    format_share,
    format_table,
)
from fasta_learn.configs import Pool, config_to_dict
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
}


@dataclass(frozen=True)
class Outcome:
    """A search over a recorded pool, finished or interrupted.

    Attributes
    ----------
    search : ActiveConfigSearch
        The search.
    pool : Pool
        The whole recording.
    oracle : BaseOracle
        What answered.
    seconds : float
        How long it took.
    stop_reason : str or None
        Why it ended.
    """

    search: ActiveConfigSearch
    pool: Pool
    oracle: BaseOracle
    seconds: float
    stop_reason: str | None

    def regret_of(self, duration: float) -> float:
        """Return how much slower a duration is than the best of the pool.

        Parameters
        ----------
        duration : float
            In ms.

        Returns
        -------
        float
            The regret; inf if it or the pool has none.
        """
        runs = math.isfinite(self.pool.best_duration)
        return self.pool.regret(duration) if runs else math.inf


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
    search = outcome.search
    best, config = search.best_duration_, search.best_config_
    return _plain(
        {
            "pool": outcome.pool.name,
            "n_configs": len(outcome.pool),
            "n_measured": search.n_measured_,
            "budget": search.n_budget_,
            "best_config": None if config is None else config_to_dict(config),
            "best_duration_ms": float(best),
            "stop_reason": outcome.stop_reason,
            "confidence": search.confidence_,
            "confidence_label": search.confidence_label_,
            "seconds": round(outcome.seconds, 3),
            "regret": outcome.regret_of(best),
            "catch": bool(outcome.pool.is_catch(best)),
        }
    )


def to_text(outcome: Outcome) -> str:
    """Return the result for people.

    Parameters
    ----------
    outcome : Outcome
        The outcome, with a best config.

    Returns
    -------
    str
        Lines: the rounds in a table, and the result.
    """
    search, pool = outcome.search, outcome.pool
    headline = (
        f"{pool.name}: {len(pool)} configs, {_count_parameters(pool)} parameters, "
        f"budget {search.n_budget_}"
    )
    return "\n\n".join(
        (headline, _rounds_table(outcome), format_pairs(_summary(outcome)))
    )


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
    return format_table(
        ("round", "measured", "failed", "predicted", "best", "regret"), rows
    )


def _summary(outcome: Outcome) -> list[tuple[str, str]]:
    search, pool = outcome.search, outcome.pool
    share = search.n_measured_ / len(pool)
    n_failed = int((search.results_["status"] != "ok").sum())
    pairs = [
        ("best config", format_config(config_to_dict(search.best_config_))),
        ("duration", format_duration(search.best_duration_)),
        ("regret", _comparison(outcome)),
        (
            "measured",
            f"{search.n_measured_} of {len(pool)} configs ({format_share(share)}), "
            f"{n_failed} failed; {format_share(1 - share)} saved",
        ),
        ("stopped", f"{_reason(outcome)}, after {outcome.seconds:.2f} s"),
        ("confidence", _confidence(search)),
    ]
    if isinstance(outcome.oracle, JournaledOracle):
        journal = outcome.oracle
        counts = f"{journal.n_replayed} known before, {journal.n_measured} added"
        pairs.append(("journal", f"{counts}: {journal.path}"))
    return pairs


def _confidence(search: ActiveConfigSearch) -> str:
    if search.confidence_ is None:
        return "-"
    return (
        f"{search.confidence_:.0%} to be within 5 % of the fastest, "
        f"{search.confidence_label_} by the rule of the dynamic filter"
    )


def _comparison(outcome: Outcome) -> str:
    pool, best = outcome.pool, outcome.search.best_duration_
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


def _count_parameters(pool: Pool) -> int:
    return len({name for config in pool.configs for name in config})


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
