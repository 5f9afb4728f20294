"""The search itself: which configs next, what they tell, when to stop."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from fasta_learn.oracles import Measurement
from fasta_learn.search._budget import BudgetPlan
from fasta_learn.search._certainty import estimate_certainty
from fasta_learn.search._feasibility import FeasibilityModel
from fasta_learn.search._guesses import guess_next
from fasta_learn.search._initial import RandomDesign
from fasta_learn.search._ledger import Ledger
from fasta_learn.search._policies import Policies, checked_choice
from fasta_learn.search._prior import lean_surrogate
from fasta_learn.search._space import PoolSpace
from fasta_learn.search._state import SearchState
from fasta_learn.search._stopping import label_confidence
from fasta_learn.search._subset import open_surrogate
from fasta_learn.search._target import from_target, to_target

_NONE = np.empty(0, dtype=np.intp)


class SearchEngine:
    """A search over one pool.

    Parameters
    ----------
    space : PoolSpace
        The pool.
    plan : BudgetPlan
        How much may be measured.
    policies : Policies
        What it decides by.
    rng : numpy.random.RandomState
        The only source of chance.
    init_indices : ndarray of shape (n_init,)
        Pool indices to measure first.

    Attributes
    ----------
    ledger : Ledger
        Proposals and measurements.
    is_racing : bool
        Whether what is proposed was measured before.
    rounds : list of dict
        A record for each round. A round ends when all that one call of `propose` gave
        is answered, or no proposal is open.
    n_budget : int
        Measurements that may be made in all.
    stop_reason : str or None
        Why nothing more is proposed; None while the search goes on.
    covers : bool
        Whether configs were drawn at random for want of a surrogate.
    overhead_seconds : float
        Time spent on decisions; nothing depends on it.
    """

    is_racing = False

    def __init__(
        self,
        space: PoolSpace,
        plan: BudgetPlan,
        policies: Policies,
        rng: np.random.RandomState,
        init_indices: NDArray[np.intp] = _NONE,
    ):
        self.space, self.plan, self.policies = space, plan, policies
        self.ledger = Ledger(len(space))
        self.rounds: list[dict[str, Any]] = []
        self.n_budget = plan.n_budget
        self.stop_reason: str | None = None
        self.overhead_seconds = 0.0
        self.covers = False
        surrogate = open_surrogate(policies.estimator, space.features, rng)
        self.surrogate = lean_surrogate(surrogate, policies)
        self._feasibility = FeasibilityModel(space.features)
        self._rng = rng
        self._n_fitted = 0
        self._fitted: tuple[int, Any] = (0, None)
        self._started = time.monotonic()
        self._queue = self._first_sample(init_indices)

    def _first_sample(self, init_indices: NDArray[np.intp]) -> list[int]:
        chosen: list[int] = init_indices.tolist()
        n_blind = self.plan.n_initial - len(chosen)
        if n_blind > 0:
            self.ledger.discarded.update(chosen)
            blind = checked_choice(
                self.policies.initial_design, self.state("initial"), n_blind
            )
            self.ledger.discarded.difference_update(chosen)
            chosen += blind.tolist()
        return chosen

    def state(self, path: str) -> SearchState:
        """Return what the policies see now."""
        return SearchState(
            features=self.space.features,
            measured=np.array(self.ledger.order, dtype=np.intp),
            durations=np.array(self.ledger.durations),
            pending=np.array(list(self.ledger.pending), dtype=np.intp),
            available=self.ledger.available(),
            n_budget=self.n_budget,
            round=len(self.rounds) + 1,
            path=path,
            surrogate=self.surrogate if path == "model" else None,
            rng=self._rng,
            predicted=np.array(self.ledger.predicted),
            target_transform=self.policies.target_transform,
            seconds=np.array(self.ledger.seconds),
            feasibility=self._feasibility if path == "model" else None,
        )

    @property
    def is_over(self) -> bool:
        """Whether no further measurement may be started."""
        return self.stop_reason is not None or self._out_of_time

    @property
    def confidence(self) -> float | None:
        """Probability that the best is near the best of the pool; None at first."""
        return self.rounds[-1]["confidence"] if self.rounds else None

    @property
    def confidence_label(self) -> str | None:
        """Trust in the result by the rule of the dynamic filter; None at first."""
        return self.rounds[-1]["confidence_label"] if self.rounds else None

    @property
    def _out_of_time(self) -> bool:
        limit = self.policies.time_budget
        return limit is not None and time.monotonic() - self._started >= limit

    def __getstate__(self) -> dict[str, Any]:
        """Keep the seconds that were used: other processes have other clocks."""
        state = self.__dict__.copy()
        if self.policies.time_budget is not None:
            state["_started"] -= time.monotonic()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Go on counting from the seconds that were used."""
        self.__dict__.update(state)
        if self.policies.time_budget is not None:
            self._started += time.monotonic()

    def propose(self, n_configs: int | None = None) -> NDArray[np.intp]:
        """Choose what to measure next; nothing once the search is over."""
        with self._overhead():
            return self._propose(n_configs)

    @contextmanager
    def _overhead(self) -> Iterator[None]:
        """Count the seconds that the search spends on its decisions."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.overhead_seconds += time.perf_counter() - started

    def _propose(self, n_configs: int | None) -> NDArray[np.intp]:
        if self.stop_reason is None and self._out_of_time:
            self.stop("time")
        if self.stop_reason is not None:
            return _NONE
        path = self._path()
        state = self.state(path)
        if n_configs is None:
            n_blind = len(self._blind_left())
            n_configs = n_blind or self.policies.batch_size(state)
        n_configs = min(max(1, int(n_configs)), state.n_left)
        if not n_configs:
            if not len(state.available) and not len(state.pending):
                self.stop("all")
            return _NONE
        chosen = self._choose(state, n_configs)
        predicted = np.full(len(chosen), np.nan)
        if path == "model":
            predicted = self._predicted(chosen)
        self.ledger.propose(chosen, predicted)
        return chosen

    def guess(self, n_configs: int) -> NDArray[np.intp]:
        """Return what may be proposed soon, most likely first.

        It changes no decision, and no chance is drawn from.
        """
        with self._overhead():
            is_blind = bool(self._blind_left()) or not self._n_fitted
            rng = np.random.RandomState()
            rng.set_state(self._rng.get_state())
            state = self.state("initial" if is_blind else "model")
            available = np.setdiff1d(state.available, self._queue)
            state = replace(state, available=available, rng=rng)
            return guess_next(state, self.policies, n_configs)

    @property
    def may_look_ahead(self) -> bool:
        """Whether more may be proposed while proposals are open."""
        return not self._queue and self.ledger.n_ok >= self.plan.min_samples

    def _blind_left(self) -> list[int]:
        """Configs of the first sample that are still to be proposed."""
        return [index for index in self._queue if index not in self.ledger.pending]

    def _path(self) -> str:
        if self._blind_left():
            return "initial"
        return "model" if self._refresh() else "coverage"

    def _choose(self, state: SearchState, n_configs: int) -> NDArray[np.intp]:
        if state.path == "initial":
            return np.array(self._blind_left()[:n_configs], dtype=np.intp)
        if state.path == "coverage":
            self.covers = True
            return RandomDesign()(state, n_configs)
        return checked_choice(self.policies.acquisition, state, n_configs)

    def _refresh(self) -> bool:
        """Fit the surrogate to all that is known; False if that is too little."""
        if self.ledger.n_ok < self.plan.min_samples:
            return False
        if self._n_fitted < len(self.ledger.order):
            self.surrogate.fit(*self._samples())
            self._n_fitted = len(self.ledger.order)
        return True

    def _samples(self) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Pool indices and targets that a surrogate learns from."""
        durations = np.array(self.ledger.durations)
        target = to_target(durations, self.policies.target_transform)
        known = ~np.isnan(target)
        return np.array(self.ledger.order, dtype=np.intp)[known], target[known]

    def _predicted(self, indices: NDArray[np.intp]) -> NDArray[np.float64]:
        """Predicted durations in ms of pool indices."""
        return self.to_durations(self.surrogate.mean[indices])

    def to_durations(self, target: NDArray[np.float64]) -> NDArray[np.float64]:
        """Durations in ms of predicted targets."""
        best = min(self.ledger.durations)
        return from_target(target, best, self.policies.target_transform)

    @property
    def result(self) -> tuple[int, float] | None:
        """Pool index and duration in ms of the best config; None while none ran."""
        best = self.ledger.best
        if best is None:
            return None
        return self.ledger.order[best], self.ledger.durations[best]

    @property
    def n_total(self) -> int:
        """Measurements that may be made in all."""
        return self.n_budget

    @property
    def open_proposals(self) -> list[int]:
        """Pool indices that were proposed and not answered."""
        return list(self.ledger.pending)

    def check_batch(
        self, indices: NDArray[np.intp], results: Sequence[Any]
    ) -> list[Measurement]:
        """Return the batch as measurements, or say what is wrong with it."""
        return self.ledger.check_batch(indices, results)

    def fitted_estimator(self) -> Any:
        """Return the surrogate as a regressor fitted to all measurements."""
        n_measured = len(self.ledger.order)
        if not self.ledger.n_ok or not self.space.features.shape[1]:
            why = "have no features" if self.ledger.n_ok else "all failed"
            raise NotFittedError(
                f"There is no surrogate: the {n_measured} measured configs {why}."
            )
        if self._fitted[0] != n_measured:
            model = self.surrogate.fitted_estimator(*self._samples())
            self._fitted = (n_measured, model)
        return self._fitted[1]

    def record(
        self, indices: NDArray[np.intp], measurements: Sequence[Measurement]
    ) -> None:
        """Enter a checked batch; with the last open proposal the round ends."""
        with self._overhead():
            self._record(indices, measurements)

    def _record(
        self, indices: NDArray[np.intp], measurements: Sequence[Measurement]
    ) -> None:
        self.ledger.add(indices, measurements, len(self.rounds) + 1)
        self._take_from_queue(indices)
        if self.ledger.close(indices):
            self._end_round()

    def close_batch(
        self, batch: NDArray[np.intp], measurements: Sequence[Measurement]
    ) -> None:
        """Enter what was measured of a batch; the rest may be proposed again."""
        self.release(batch[len(measurements) :])
        if len(measurements):
            self.record(batch[: len(measurements)], measurements)

    def release(self, indices: NDArray[np.intp]) -> bool:
        """Take open proposals back; True if that closes all of one call, or all."""
        for index in indices.tolist():
            del self.ledger.pending[index]
        return self.ledger.close(indices)

    def discard(self, indices: NDArray[np.intp]) -> None:
        """Release open proposals; they are not proposed again."""
        closes = self.release(indices)
        self.ledger.discarded.update(indices.tolist())
        self._take_from_queue(indices)
        measured_in_round = len(self.rounds) + 1 in self.ledger.rounds[-1:]
        if closes and measured_in_round:
            self._end_round()

    def _take_from_queue(self, indices: NDArray[np.intp]) -> None:
        gone = set(indices.tolist())
        self._queue = [index for index in self._queue if index not in gone]

    def _end_round(self) -> None:
        modelled = self._refresh()
        if not modelled and not self._queue:
            self.n_budget = max(self.n_budget, self.plan.n_coverage)
        state = self.state("model" if modelled else "coverage")
        record = self._record_of(state)
        self.rounds.append(record)
        if self.ledger.n_ok:
            record["confidence"] = estimate_certainty(state)
            record["confidence_label"] = label_confidence(
                record["margin"], record["r2"], record["n_near_optimal"]
            )
        self._check_stop(state)

    def _record_of(self, state: SearchState) -> dict[str, Any]:
        record: dict[str, Any] = {
            "round": state.round,
            "basis": None,
            "r2": 0.0,
            "margin": np.nan,
            "n_near_optimal": state.count_near_optimal(),
            "n_measured": len(state.measured),
            "best_duration": float(state.durations.min()),
            "confidence": None,
            "confidence_label": None,
        }
        if state.surrogate is not None:
            record["basis"] = state.surrogate.basis
            record["r2"] = state.surrogate.r2
            unmeasured = state.unmeasured
            record["margin"] = np.inf
            if len(unmeasured) and record["best_duration"] > 0:
                best_unmeasured = float(self._predicted(unmeasured).min())
                record["margin"] = best_unmeasured / record["best_duration"]
        return record

    def _check_stop(self, state: SearchState) -> None:
        if self.stop_reason is not None:
            return
        if not len(state.available) and not len(state.pending):
            self.stop("all")
        elif len(state.measured) >= self.n_budget:
            self.stop("budget")
        elif self.policies.stopping is not None and not self._queue:
            self._stop_early(self.policies.stopping(state, self.rounds))

    def _stop_early(self, reason: str | None) -> None:
        """Stop for a reason and take back what is open; None goes on."""
        if reason is not None:
            self.release(np.array(self.open_proposals, dtype=np.intp))
            self.stop(reason)

    def stop(self, reason: str | None) -> None:
        """End the search for a reason; None goes on."""
        self.stop_reason = reason
