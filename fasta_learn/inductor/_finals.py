"""The last decision of a search: finalists against what stock would take."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from fasta_learn.exceptions import AllConfigsFailedError

_FEWEST_ROUNDS = 4
# How many standard errors apart two are before a round more can't turn it around.
_CLEAR = 3.0


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Which of the finalists is taken.

    Attributes
    ----------
    index : hashable
        The one that is taken.
    incumbent : hashable or None
        The fastest incumbent, which the ratios refer to; None if each of them failed.
    ratios : dict
        Median ratio of each finalist's duration to the incumbent's of the same round;
        inf for one that failed, NaN where no incumbent ran.
    durations : dict
        Median duration of each finalist, in ms; inf for one that failed.
    n_rounds : int
        Rounds that were measured.
    """

    index: Any
    incumbent: Any
    ratios: dict[Any, float]
    durations: dict[Any, float]
    n_rounds: int


def decide(
    contenders: Sequence[Hashable],
    incumbents: Sequence[Hashable],
    measure: Callable[[Any], float],
    *,
    margin: float = 0.02,
    n_rounds: int = 15,
    random_state: Any = None,
) -> Verdict:
    """Measure finalists in turns, and leave the incumbent only for a clear winner.

    In each round all that are still in the race are measured once, in random order, and
    compared with the fastest incumbent of the same round. So what slows the device down
    for a while slows all of them down, and no place in the order is the better one.

    Parameters
    ----------
    contenders : sequence of hashables
        The finalists. Those that are incumbents, too, count as incumbents.
    incumbents : sequence of hashables
        What would be taken without a search; may be empty.
    measure : callable
        Gives one short measurement of a finalist, in ms; inf if it failed.
    margin : float, default=0.02
        A contender is taken if it is faster than the fastest incumbent by this share,
        with one standard error to spare.
    n_rounds : int, default=15
        Most rounds. Fewer are measured where the outcome is clear before.
    random_state : int, RandomState instance or None, default=None
        Decides the order within the rounds.

    Returns
    -------
    Verdict
        The one that is taken, with ratios and durations of all.

    Raises
    ------
    ValueError
        There is no finalist, `margin` is not in [0, 1) or `n_rounds` not positive.
    AllConfigsFailedError
        Each of the finalists failed.

    Examples
    --------
    >>> from fasta_learn.inductor._finals import decide
    >>> durations = {"extern": 0.050, "close": 0.0495, "fast": 0.045}
    >>> decide(["close", "fast"], ["extern"], durations.get, random_state=0).index
    'fast'
    >>> decide(["close"], ["extern"], durations.get, random_state=0).index
    'extern'
    """
    players = list(dict.fromkeys([*incumbents, *contenders]))
    _check(players, margin, n_rounds)
    random = check_random_state(random_state)
    race = _Race(players, set(incumbents), 1.0 - margin)
    while race.n_rounds < n_rounds and len(race.running) > 1:
        running = race.running
        order = [running[place] for place in random.permutation(len(running))]
        race.add({player: measure(player) for player in order})
    if not race.n_rounds:  # a single finalist
        race.add({player: measure(player) for player in players})
    return race.judge()


class _Race:
    """Rounds of measurements, and who is still in the race."""

    def __init__(self, players: list[Any], incumbents: set[Any], limit: float) -> None:
        self.players = players
        self.incumbents = incumbents
        self.limit = limit
        self.running = list(players)
        self.n_rounds = 0
        # Those that left keep what they have; rounds they missed are NaN.
        self._rounds: dict[Any, list[float]] = {player: [] for player in players}

    def add(self, durations: dict[Any, Any]) -> None:
        """Add a round; let go of those that can't win any more."""
        self.n_rounds += 1
        for player in self.players:
            duration = durations.get(player, math.nan)
            self._rounds[player].append(float(duration))
        self.running = [p for p in self.running if math.isfinite(self._rounds[p][-1])]
        if self.n_rounds >= _FEWEST_ROUNDS:
            self._let_go()

    def judge(self) -> Verdict:
        """Take the fastest incumbent, or the fastest contender beyond the margin."""
        alive = [player for player in self.players if not self._has_failed(player)]
        if not alive:
            raise AllConfigsFailedError(
                f"each of the {len(self.players)} finalists failed when it was "
                "measured again."
            )
        incumbent = self._fastest([p for p in alive if p in self.incumbents])
        winners = [p for p in alive if p not in self.incumbents]
        if incumbent is not None:
            winners = [p for p in winners if self._is_faster(p, incumbent)]
        best = self._fastest(winners)
        return Verdict(
            index=incumbent if best is None else best,
            incumbent=incumbent,
            ratios={p: self._final_ratio(p, incumbent) for p in self.players},
            durations={p: self._duration(p) for p in self.players},
            n_rounds=self.n_rounds,
        )

    def _let_go(self) -> None:
        """Drop who is clearly too slow; drop all once a single winner is clear."""
        incumbent = self._fastest([p for p in self.running if p in self.incumbents])
        contenders = [p for p in self.running if p not in self.incumbents]
        if incumbent is not None:
            contenders = [
                p for p in contenders if self._bound(p, incumbent, -1) < self.limit
            ]
        best = self._fastest(contenders)
        contenders = [p for p in contenders if self._bound(p, best, -1) <= 1.0]
        rivals = [
            p
            for p in self.running
            if p in self.incumbents and self._bound(p, incumbent, -1) <= 1.0
        ]
        if not contenders:
            # What stock would have taken by one timing may be the slower incumbent.
            self.running = rivals if len(rivals) > 1 else []
        elif len(contenders) == 1 and (
            incumbent is None or self._bound(best, incumbent, +1) < self.limit
        ):
            self.running = []
        else:
            self.running = [*rivals, *contenders]

    def _is_faster(self, player: Any, incumbent: Any) -> bool:
        ratios = self._ratios(player, incumbent)
        if not len(ratios):
            return False
        return float(np.median(ratios)) + _error(ratios) < self.limit

    def _bound(self, player: Any, other: Any, sign: int) -> float:
        """Median ratio, or what it can hardly get below (-1) or above (+1)."""
        ratios = self._ratios(player, other)
        if player == other or not len(ratios):
            return 1.0
        return float(np.median(ratios) + sign * _CLEAR * _error(ratios))

    def _fastest(self, players: list[Any]) -> Any:
        """Give the one with the lowest ratio to one of them; None if there is none."""
        if not players:
            return None
        # All are compared with the one that most rounds have in common with others.
        common = max(players, key=self._n_measured)

        return min(players, key=lambda player: self._bound(player, common, 0))

    def _ratios(self, player: Any, other: Any) -> NDArray[np.float64]:
        """Ratios of the rounds in which both were measured."""
        rounds = zip(self._rounds[player], self._rounds[other], strict=True)
        pairs = [(a, b) for a, b in rounds if math.isfinite(a) and math.isfinite(b)]
        return np.array([a / b for a, b in pairs if b > 0])

    def _final_ratio(self, player: Any, incumbent: Any) -> float:
        if self._has_failed(player):
            return math.inf
        return math.nan if incumbent is None else self._bound(player, incumbent, 0)

    def _duration(self, player: Any) -> float:
        if self._has_failed(player):
            return math.inf
        return float(np.nanmedian(self._rounds[player]))

    def _n_measured(self, player: Any) -> int:
        return int(np.isfinite(self._rounds[player]).sum())

    def _has_failed(self, player: Any) -> bool:
        return any(math.isinf(duration) for duration in self._rounds[player])


def _error(ratios: NDArray[np.float64]) -> float:
    """Standard error of the median, from the middle of the sample alone.

    Half of what lies between the quantiles that are a standard deviation of a binomial
    away from the median, so that disturbed rounds don't count, be they a third.
    """
    share = 0.5 / math.sqrt(len(ratios))
    low, high = np.quantile(ratios, [0.5 - share, 0.5 + share])
    return float(high - low) / 2


def _check(players: list[Any], margin: float, n_rounds: int) -> None:
    if not players:
        raise ValueError("there is neither a contender nor an incumbent to decide on.")
    if not 0 <= margin < 1:
        raise ValueError(f"margin must be in [0, 1), got {margin!r}.")
    if n_rounds < 1:
        raise ValueError(f"n_rounds must be at least 1, got {n_rounds!r}.")
