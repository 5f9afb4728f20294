"""The answer to Inductor: finalists measured again, and a time for each choice."""

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass

from fasta_learn.exceptions import AllConfigsFailedError
from fasta_learn.inductor._finals import decide
from fasta_learn.inductor._gemm_search import Contender, Found

# What is slower by more than this share in the search is no finalist.
_SLACK = 0.08
_MOST_CONTENDERS = 4
_MOST_INCUMBENTS = 3
_N_ROUNDS, _N_SLOW_ROUNDS = 15, 5


@dataclass(frozen=True)
class Answer:
    """What Inductor is told.

    Attributes
    ----------
    winner : Contender
        What it is to take.
    durations : dict of Contender to float
        A time in ms for each contender that was measured, the winner's the lowest; inf
        for what failed and is one of Inductor's own.
    stock_ms : float
        Duration of what Inductor would have taken, in ms.
    n_rounds : int
        Rounds of the finals.
    """

    winner: Contender
    durations: dict[Contender, float]
    stock_ms: float
    n_rounds: int


def settle(
    found: Found,
    measure_again: Callable[[Contender], float] | None,
    *,
    margin: float,
    random_state: int,
    is_slow: bool = False,
) -> Answer | None:
    """Choose among what was measured.

    Parameters
    ----------
    found : Found
        What was measured.
    measure_again : callable or None
        Gives one short measurement in ms; None if nothing can be measured any more.
    margin : float
        By which share another choice than Inductor's has to be faster.
    random_state : int
        Seed of the order in the finals.
    is_slow : bool, default=False
        Whether a measurement takes so long that few rounds must do.

    Returns
    -------
    Answer or None
        None if nothing ran.
    """
    durations = found.ok
    if not durations:
        return None
    contenders, incumbents = _finalists(durations)
    winner, final, n_rounds = _by_search(durations, margin), {}, 0
    if measure_again is not None and len(contenders) + len(incumbents) > 1:
        with contextlib.suppress(AllConfigsFailedError):
            verdict = decide(
                contenders,
                incumbents,
                measure_again,
                margin=margin,
                n_rounds=_N_SLOW_ROUNDS if is_slow else _N_ROUNDS,
                random_state=random_state,
            )
            winner, n_rounds = verdict.index, verdict.n_rounds
            final = {c: d for c, d in verdict.durations.items() if d < math.inf}
    measured = {c: m.duration for c, m in found.measurements.items()}
    told = tell_times({**measured, **final}, winner)
    stock = [told[c] for c in told if c.is_stock]
    return Answer(winner, told, min(stock, default=math.nan), n_rounds)


def _by_search(durations: dict[Contender, float], margin: float) -> Contender:
    """Return the winner where only the search has measured; the fastest come first."""
    best = next(iter(durations))
    stock = next((c for c in durations if c.is_stock), best)
    return best if durations[best] < (1 - margin) * durations[stock] else stock


def _finalists(
    durations: dict[Contender, float],
) -> tuple[list[Contender], list[Contender]]:
    """Return who may win, and what Inductor would take; both the fastest first."""
    stock = {c: d for c, d in durations.items() if c.is_stock}
    others = {c: d for c, d in durations.items() if not c.is_stock}
    best_stock = min(stock.values(), default=math.inf)
    best = min(durations.values())
    limit = best * (1 + _SLACK)
    contenders = [c for c, d in others.items() if d <= min(limit, best_stock)]
    stock_limit = best_stock * (1 + _SLACK)
    incumbents = [c for c, d in stock.items() if d <= stock_limit]
    return contenders[:_MOST_CONTENDERS], incumbents[:_MOST_INCUMBENTS]


def tell_times(
    durations: dict[Contender, float], winner: Contender
) -> dict[Contender, float]:
    """Give each measured contender a time by which the winner wins.

    Parameters
    ----------
    durations : dict of Contender to float
        Durations in ms; inf for what failed.
    winner : Contender
        What is to be taken, which ran.

    Returns
    -------
    dict of Contender to float
        Times in ms, without what failed and is none of Inductor's own.
    """
    told = {}
    above = math.nextafter(durations[winner], math.inf)
    for contender, duration in durations.items():
        if contender is winner:
            told[contender] = duration
        elif contender.is_stock or duration < math.inf:
            # What seems faster was so only once, or not by the margin.
            told[contender] = max(duration, above)
    return told
