"""Which choices are measured: compiles run ahead, and answers are told in order."""

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from fasta_learn.oracles import Measurement
from fasta_learn.search import ActiveConfigSearch
from fasta_learn.search._certainty import estimate_certainty
from fasta_learn.search._state import SearchState

# No search ends early with fewer measurements: the model knows too little by then.
_FEWEST = 30


@dataclass(frozen=True, eq=False, kw_only=True)
class Contender:
    """A choice, or what it takes to make one.

    Attributes
    ----------
    key : str
        Tells it from all others of its pool, in every process.
    make : callable
        Gives the choice; rendered the first time, the same object from then on.
    config : dict or None
        Its parameters, by which a search can tell what to expect of it; None if it has
        none.
    is_stock : bool
        Whether it is among the choices that Inductor itself would measure.
    name : str
        What to call it before people; by default its key.
    """

    key: str
    make: Callable[[], Any]
    config: dict[str, Any] | None = None
    is_stock: bool = True
    name: str = ""

    @property
    def label(self) -> str:
        """What people are told it is."""
        return self.name or self.key


class Bench(Protocol):
    """What makes contenders ready and measures them."""

    n_parallel: int

    def start(self, contender: Contender) -> None:
        """Begin to make a contender ready, and do not wait."""

    def is_ready(self, contender: Contender) -> bool:
        """Tell whether a contender that was started can be measured without a wait."""

    def wait(self, contenders: Sequence[Contender]) -> None:
        """Wait until one of some started contenders is ready."""

    def measure(self, contender: Contender, best: float) -> Measurement:
        """Measure a contender; `best` is the best duration so far, in ms, or inf."""

    @property
    def is_lost(self) -> bool:
        """Whether nothing can be measured any more."""


@dataclass(frozen=True)
class Found:
    """What a search has found.

    Attributes
    ----------
    measurements : dict of Contender to Measurement
        What was measured, in the order of proposals.
    stop_reason : str
        Why it ended.
    search_seconds : float
        Time spent on its decisions.
    """

    measurements: dict[Contender, Measurement]
    stop_reason: str
    search_seconds: float = 0.0

    @property
    def ok(self) -> dict[Contender, float]:
        """Durations in ms of all that ran, the fastest first."""
        ran = [(m.duration, c) for c, m in self.measurements.items() if m.ok]
        return {c: duration for duration, c in sorted(ran, key=lambda pair: pair[0])}


def count_budget(budget: int | float, n_pool: int, n_stock: int) -> int:
    """Return how many contenders are measured.

    Parameters
    ----------
    budget : int or float
        A count, or a share of the pool.
    n_pool : int
        Size of the pool.
    n_stock : int
        How many of it Inductor would measure.

    Returns
    -------
    int
        At least as many as Inductor's own where the pool is larger than those.
    """
    wanted = budget if isinstance(budget, int) else math.ceil(budget * n_pool)
    if n_stock < n_pool:
        wanted = max(wanted, n_stock)
    return min(max(1, wanted), n_pool)


@dataclass(eq=False)
class NothingLeft:
    """Stop when what is not measured can hardly win any more.

    A choice wins if it is faster by a margin than all that was measured, so a library
    kernel that is far ahead ends a search soon.

    Parameters
    ----------
    confidence : float
        How probable it has to be that no choice would win.
    margin : float
        By which share another choice has to be faster.
    fewest : int
        How many are measured in any case: on recorded products an earlier end lost
        more than it saved.
    """

    confidence: float
    margin: float
    fewest: int
    rival: float = math.inf

    def __call__(self, state: SearchState, rounds: list[dict[str, Any]]) -> str | None:
        """Return why to stop, or None to go on.

        Parameters
        ----------
        state : SearchState
            The search after a round.
        rounds : list of dict
            Records of the rounds so far.

        Returns
        -------
        str or None
            "confident".
        """
        best = float(state.durations.min(initial=math.inf))
        if len(state.measured) < self.fewest or not 0 < best < math.inf:
            return None
        to_beat = (1.0 - self.margin) * min(best, self.rival)
        certainty = estimate_certainty(state, best / to_beat - 1.0)
        return "confident" if (certainty or 0.0) >= self.confidence else None


@dataclass(eq=False)
class ChoiceSearch:
    """Search a pool of contenders.

    What Inductor would measure comes first, unless that is the whole pool. While the
    first of the proposals are still compiled, others are proposed, so that the
    compilers are always busy. They are measured as they become ready, but told to the
    search in the order in which they were proposed: so its decisions depend on
    durations and on the seed, and not on how long a compile took.

    Parameters
    ----------
    contenders : list of Contender
        The pool.
    bench : Bench
        What measures.
    budget : int
        How many contenders to measure in all.
    time_budget : float or None
        Seconds after which nothing more is proposed.
    random_state : int
        Seed of the search.
    prior : object
        Prior of `ActiveConfigSearch`.
    hints : sequence of Contender
        What is measured right after Inductor's own, as far as the budget allows.
    confidence : float or None
        The search ends before its budget, but not before half of it and 30
        measurements, when this probably nothing else would win; None for never.
    margin : float
        By which share a choice has to be faster than those before it to win.
    """

    contenders: list[Contender]
    bench: Bench
    budget: int
    time_budget: float | None = None
    random_state: int = 0
    prior: Any = "auto"
    hints: Sequence[Contender] = ()
    confidence: float | None = None
    margin: float = 0.0
    _open: deque[Contender] = field(default_factory=deque, init=False)
    _done: dict[Contender, Measurement] = field(default_factory=dict, init=False)
    _proposed: list[Contender] = field(default_factory=list, init=False)
    _n_ok: int = field(default=0, init=False)
    _search: Any = field(default=None, init=False)
    _started: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        whole = self.budget >= len(self.contenders)
        has_more = not all(c.is_stock for c in self.contenders)
        self._pool = [] if whole else [c for c in self.contenders if c.config]
        self._position = {c: i for i, c in enumerate(self._pool)}
        must = [c for c in self.contenders if c not in self._position]
        n_search = min(self.budget - len(must), len(self._pool))
        stock = [c for c in self._pool if c.is_stock and has_more]
        hints = [c for c in self.hints if c in self._position and c not in stock]
        known = [*stock, *hints][: max(n_search, len(stock))]
        # What needs no compile can be measured while the others are compiled.
        self._first = [*must, *known]
        self._stop: NothingLeft | None = None
        if self.confidence is not None:
            fewest = max(self.budget // 2, _FEWEST) - len(must)
            self._stop = NothingLeft(self.confidence, self.margin, fewest)
        if n_search > 0:
            self._search = self._make_search(known, n_search)

    def run(self) -> Found:
        """Measure until the search is over.

        Returns
        -------
        Found
            What was measured.
        """
        self._started = time.monotonic()
        self._open_first()
        while True:
            self._tell()
            if self._is_sure:
                self._drop_open()
            left = [c for c in self._open if c not in self._done]
            if not left or self.bench.is_lost:
                break
            ready = next((c for c in left if self.bench.is_ready(c)), None)
            if ready is None:
                self.bench.wait(left)
            else:
                self._done[ready] = self.bench.measure(ready, self._best())
        measurements = {c: self._done[c] for c in self._proposed if c in self._done}
        return Found(measurements, self._reason(), self._overhead())

    def _make_search(self, known: list[Contender], budget: int) -> ActiveConfigSearch:
        return ActiveConfigSearch(
            budget=budget,
            init_configs=[self._position[c] for c in known] or None,
            random_state=self.random_state,
            prior=self.prior,
            stopping=self._stop,
        )

    def _open_first(self) -> None:
        if self._search is None:
            self._start(self._first)
            return
        fixed = [c for c in self._first if c not in self._position]
        # What is known to be good, and a blind sample where that is too little.
        chosen = self._search.propose([c.config for c in self._pool])
        self._start([*fixed, *(self._pool[i] for i in chosen.tolist())])

    def _refill(self) -> None:
        """Propose until as many are open as can be made ready at a time."""
        if self._search is None or self._is_late:
            return
        while len(self._open) < self.bench.n_parallel and self._knows_enough():
            chosen = self._search.propose(n_configs=1).tolist()
            if not chosen:
                return
            self._start([self._pool[i] for i in chosen])

    @property
    def _is_late(self) -> bool:
        limit = self.time_budget
        return limit is not None and time.monotonic() - self._started >= limit

    def _knows_enough(self) -> bool:
        """Whether a proposal would be better than a guess."""
        return not self._open or self._n_ok >= self._search._engine.plan.min_samples

    def _start(self, contenders: Sequence[Contender]) -> None:
        for contender in contenders:
            self._open.append(contender)
            self._proposed.append(contender)
            self.bench.start(contender)

    def _tell(self) -> None:
        """Tell the search all answers before the first that is not there yet.

        After each it proposes again, so that what it knew for a proposal does not
        depend on which answers came together.
        """
        self._refill()
        while self._open and self._open[0] in self._done and not self._is_sure:
            contender = self._open.popleft()
            measurement = self._done[contender]
            if contender in self._position:
                self._n_ok += measurement.ok
                index = self._position[contender]
                self._search.partial_fit([index], [measurement])
            elif self._stop is not None:
                self._stop.rival = min(self._stop.rival, measurement.duration)
            self._refill()

    @property
    def _is_sure(self) -> bool:
        return self._search is not None and self._search.stop_reason_ == "confident"

    def _drop_open(self) -> None:
        """Wait no longer for what is open, and forget which of it was ready by now."""
        for contender in self._open:
            self._done.pop(contender, None)
        self._open.clear()

    def _best(self) -> float:
        return min((m.duration for m in self._done.values()), default=math.inf)

    def _reason(self) -> str:
        if self.bench.is_lost:
            return "device lost"
        if self._search is None:
            return "all"
        reason = self._search.stop_reason_ or ("time" if self._is_late else "budget")
        return str(reason)

    def _overhead(self) -> float:
        if self._search is None:
            return 0.0
        return float(self._search._engine.overhead_seconds)
