"""Racing: near-tied finalists are measured again before the winner is named."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from fasta_learn.oracles import Measurement
from fasta_learn.search._budget import BudgetPlan
from fasta_learn.search._ledger import check_results


@dataclass(frozen=True)
class Racing:
    """Measure the finalists of a search again, for oracles whose answers scatter.

    Of many configs that were measured once, the fastest owes its place to luck as
    well. When nothing else is left to measure, those close to it are therefore
    measured again, in rounds: each finalist once, in random order, so that drift of
    the device meets all of them. From the third round on a finalist leaves when the
    differences to the leader, paired by round, are surely positive. The best config is
    then the finalist with the smallest median over the rounds.

    Parameters
    ----------
    n_repeats : int, default=8
        Measurements kept back for it out of the budget of the search.
    n_finalists : int, default=4
        How many configs take part at most, the fastest ones.
    tolerance : float, default=1.05
        A config takes part if its duration is within this factor of the best.
    confidence : float, default=0.95
        How sure a difference must be for a finalist to leave: the level of a one-sided
        paired t test on the logarithms.

    Raises
    ------
    ValueError
        A parameter is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> from fasta_learn import ActiveConfigSearch
    >>> from fasta_learn.oracles import CallableOracle
    >>> from fasta_learn.search import Racing
    >>> rng = np.random.default_rng(0)
    >>> def noisy(config):
    ...     return (1 + abs(config["BLOCK"] - 40) / 400) * rng.uniform(0.99, 1.01)
    >>> search = ActiveConfigSearch(budget=40, racing=Racing(), random_state=0)
    >>> configs = [{"BLOCK": block} for block in range(1, 101)]
    >>> _ = search.fit(configs, oracle=CallableOracle(noisy))
    >>> search.n_measured_, len(search.replicates_)
    (32, 8)
    """

    n_repeats: int = 8
    n_finalists: int = 4
    tolerance: float = 1.05
    confidence: float = 0.95

    def __post_init__(self) -> None:
        for name, least in (("n_repeats", 2), ("n_finalists", 2), ("tolerance", 1)):
            if not getattr(self, name) >= least:
                raise ValueError(
                    f"{name} must be at least {least}, got {getattr(self, name)!r}."
                )
        if not 0.5 < self.confidence < 1:
            raise ValueError(
                f"confidence must be between 0.5 and 1, got {self.confidence!r}."
            )

    def reserve(self, plan: BudgetPlan) -> BudgetPlan:
        """Return what a plan leaves for ordinary measurements.

        Parameters
        ----------
        plan : BudgetPlan
            The plan of the whole search.

        Returns
        -------
        BudgetPlan
            The plan without the repeats.

        Raises
        ------
        ValueError
            The budget is not larger than the repeats.
        """
        n_budget = plan.n_budget - self.n_repeats
        if n_budget < 1:
            raise ValueError(
                f"the budget allows {plan.n_budget} measurements, of which racing "
                f"keeps {self.n_repeats}; raise `budget` or lower `n_repeats`."
            )
        return replace(
            plan,
            n_budget=n_budget,
            n_initial=min(plan.n_initial, n_budget),
            n_coverage=max(n_budget, plan.n_coverage - self.n_repeats),
        )

    def finalists(
        self, indices: NDArray[np.intp], durations: NDArray[np.float64]
    ) -> list[int]:
        """Return the pool indices that take part, the fastest first.

        Parameters
        ----------
        indices : ndarray of shape (n_measured,)
            Measured pool indices.
        durations : ndarray of shape (n_measured,)
            Their durations in ms, inf where a config failed.

        Returns
        -------
        list of int
            At most `n_finalists`.
        """
        fastest = np.argsort(durations, kind="stable")[: self.n_finalists]
        near = durations[fastest] <= self.tolerance * durations.min()
        ok = np.isfinite(durations[fastest])
        chosen: list[int] = indices[fastest[near & ok]].tolist()
        return chosen


class Race:
    """One race: its open round, its measurements and who is still in it.

    Parameters
    ----------
    rules : Racing
        The rules.
    finalists : list of int
        Pool indices that take part.
    rng : numpy.random.RandomState
        Draws the order of each round.

    Attributes
    ----------
    alive : list of int
        Finalists that may still win.
    pending : list of int
        Proposed and not yet measured.
    log : list of tuple of (index, round, Measurement)
        What was measured, in order.
    """

    def __init__(self, rules: Racing, finalists: list[int], rng: np.random.RandomState):
        self.rules, self.alive, self._rng = rules, list(finalists), rng
        self.pending: list[int] = []
        self.log: list[tuple[int, int, Measurement]] = []
        self.n_rounds = 0
        self._queue: list[int] = []
        self._n_left = rules.n_repeats
        self._open_round()

    @property
    def is_over(self) -> bool:
        """Whether no round is open and none can follow."""
        return not self._queue and not self.pending

    def _open_round(self) -> None:
        # Only whole rounds are fair: an odd rest of the repeats is not used.
        if 2 <= len(self.alive) <= self._n_left:
            self.n_rounds += 1
            self._n_left -= len(self.alive)
            self._queue = self._rng.permutation(self.alive).tolist()

    def propose(self, n_configs: int | None) -> NDArray[np.intp]:
        """Return the next finalists of the open round, by default all of them."""
        chosen = self._queue[:n_configs]
        self._queue = self._queue[len(chosen) :]
        self.pending += chosen
        return np.array(chosen, dtype=np.intp)

    def check_batch(
        self, indices: NDArray[np.intp], results: Sequence[Any]
    ) -> list[Measurement]:
        """Return the batch as measurements, or say what is wrong with it."""
        told = indices.tolist()
        if len(told) != len(results):
            raise ValueError(
                f"X names {len(told)} configs and y holds {len(results)} durations; "
                "give one duration for each config."
            )
        for index in told:
            if index not in self.pending or told.count(index) > 1:
                raise ValueError(
                    f"config {index} is no open proposal: the finalists are being "
                    "measured again; tell each that propose() answered once."
                )
        return check_results(results)

    def record(
        self, indices: NDArray[np.intp], measurements: Sequence[Measurement]
    ) -> None:
        """Enter a checked batch; with the last answer of a round the next one opens."""
        for index, measurement in zip(indices.tolist(), measurements, strict=True):
            self.pending.remove(index)
            self.log.append((index, self.n_rounds, measurement))
            if not measurement.ok:
                # A winner must run every time.
                self.alive.remove(index)
        self._go_on()

    def release(self, indices: NDArray[np.intp], *, drop: bool) -> None:
        """Take proposals back; they come again unless they are dropped."""
        for index in indices.tolist():
            self.pending.remove(index)
            if drop:
                self.alive.remove(index)
            else:
                self._queue.append(index)
        self._go_on()

    def _go_on(self) -> None:
        if self.is_over:
            self._eliminate()
            self._open_round()

    def _eliminate(self) -> None:
        """Drop who is surely slower than the leader."""
        if self.n_rounds < 3 or len(self.alive) < 2:
            return
        tiny = np.finfo(np.float64).tiny
        logs = {
            index: np.log(np.maximum(self.durations(index), tiny))
            for index in self.alive
        }
        leader = min(self.alive, key=lambda index: np.median(logs[index]))
        limit = student.ppf(self.rules.confidence, self.n_rounds - 1)
        for index in [index for index in self.alive if index != leader]:
            differences = logs[index] - logs[leader]
            error = differences.std(ddof=1) / np.sqrt(self.n_rounds)
            if differences.mean() > limit * error:
                self.alive.remove(index)

    def durations(self, index: int) -> NDArray[np.float64]:
        """Durations in ms of the repeats of a config, by round."""
        return np.array([m.duration for i, _, m in self.log if i == index])

    @property
    def winner(self) -> tuple[int, float] | None:
        """Pool index and median in ms of the best finalist that was repeated."""
        medians = [
            (float(np.median(repeats)), index)
            for index in self.alive
            if len(repeats := self.durations(index))
        ]
        if not medians:
            return None
        duration, index = min(medians, key=lambda pair: pair[0])
        return index, duration
