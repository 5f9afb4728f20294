"""The search for the config of a kernel, at its first run."""

import logging
import math
import time
from collections.abc import Mapping
from typing import Any

from fasta_learn import ActiveConfigSearch
from fasta_learn._compat import import_extra
from fasta_learn.configs import config_key
from fasta_learn.exceptions import AllConfigsFailedError
from fasta_learn.inductor._finals import decide
from fasta_learn.inductor._graph_clock import GraphClock
from fasta_learn.inductor._pointwise_compile import Compiler
from fasta_learn.inductor._pointwise_explore import explore
from fasta_learn.inductor._pointwise_launch import Launches
from fasta_learn.inductor._pointwise_task import make_task
from fasta_learn.inductor._settings import Settings
from fasta_learn.inductor._statistics import SearchRecord, record
from fasta_learn.oracles import Measurement
from fasta_learn.oracles._triton_failures import classify, is_sticky

logger = logging.getLogger("fasta_learn.inductor")

# Configs of the first sample, Inductor's own included, and how many of them are blind
# at least. On recorded pools more of them only left the model less to propose.
_N_FIRST, _FEWEST_BLIND = 8, 3
# Proposals that are open at a time: more would be made knowing less.
_MOST_OPEN = 16
# Of so many finalists one is the best, whatever the noise of a single timing.
_N_FINALISTS = 4
# Stock's configs and finalists that are slower than this are out of the question.
_NEAR = 1.1


class KernelSearch:
    """The search for one kernel.

    Parameters
    ----------
    tuner : CachingAutotuner
        Inductor's tuner of the kernel.
    args : tuple
        Arguments of the first call.
    kwargs : mapping
        Its other arguments.
    settings : Settings
        How to search.

    Attributes
    ----------
    seconds : dict of str to float
        How long it took, by part: "start", "timing", "finals", "compile" (waited for).
    """

    def __init__(
        self,
        tuner: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        settings: Settings,
    ) -> None:
        self._tuner, self._args, self._kwargs = tuner, args, kwargs
        self._settings = settings
        self._started = time.perf_counter()
        self.seconds = dict.fromkeys(("start", "timing", "finals", "compile"), 0.0)
        self._task = make_task(tuner, tuner.launchers, args, settings)
        self._keys = [config_key(config) for config in self._task.pool]
        self._launchers: dict[int, Any] = dict(self._stock_launchers())
        self._compiler = Compiler(tuner, settings.n_jobs)
        self._measured: dict[int, Measurement] = {}
        self._finals: dict[int, float] = {}
        self._n_measured = 0
        self._stop_reason = ""

    def run(self) -> Any | None:
        """Find the launcher that the kernel is to be run with.

        Returns
        -------
        callable or None
            The launcher; None if nothing is known and nothing may be measured.
        """
        launcher = self._known_winner()
        if launcher is not None:
            return launcher
        if self._settings.is_frozen:
            self._record("frozen", None)
            return None
        if len(self._task.pool) == 1:
            return self._settle(0, "stock")
        clock = make_clock(self._tuner)
        try:
            launches = Launches(self._tuner, self._args, self._kwargs, clock)
            self.seconds["start"] = time.perf_counter() - self._started
            try:
                self._explore(launches)
                winner = self._decide(launches)
            finally:
                launches.close()
        finally:
            clock.close()
        return self._settle(winner, "search")

    def _known_winner(self) -> Any | None:
        task = self._task
        key = task.store.winner(task.identity, task.choice)
        if key is None or key not in self._keys:
            return None
        index = self._keys.index(key)
        try:
            self._get_launcher(index)
        except Exception as error:
            if is_sticky(error):
                raise
            logger.debug("the stored config of %s does not run: %s", task.name, error)
            return None
        return self._settle(index, "store")

    def _stock_launchers(self) -> list[tuple[int, Any]]:
        heuristics = import_extra("torch._inductor.runtime.triton_heuristics", "torch")
        pairs: dict[int, Any] = {}
        for launcher in self._tuner.launchers:
            key = config_key(heuristics.config_to_dict(launcher.config))
            pairs.setdefault(self._keys.index(key), launcher)
        return list(pairs.items())

    # -- the search --------------------------------------------------------------

    def _explore(self, launches: Launches) -> None:
        task, settings = self._task, self._settings
        budget = settings.pointwise_budget
        n_budget = budget if isinstance(budget, int) else int(budget * len(task.pool))
        n_first = len(task.first)
        n_budget = min(max(n_budget, n_first + 1), len(task.pool))
        search = ActiveConfigSearch(
            budget=n_budget,
            n_initial=first_sample(n_first, n_budget),
            init_configs=task.first,
            prior=task.prior,
            time_budget=settings.time_budget,
            random_state=settings.random_state,
        )
        known = task.store.measurements(task.identity)
        explore(
            search,
            task.pool,
            window=min(self._compiler.n_jobs, _MOST_OPEN),
            announce=lambda indices: self._announce(indices, known),
            measure=lambda index: self._measure(index, launches, known),
        )
        self._stop_reason = search.stop_reason_ or ""

    def _announce(self, indices: list[int], known: Mapping[str, Any]) -> None:
        for index in indices:
            if index not in self._launchers and self._keys[index] not in known:
                self._compiler.announce(self._task.pool[index])

    def _measure(
        self, index: int, launches: Launches, known: Mapping[str, Any]
    ) -> Measurement:
        key = self._keys[index]
        if key in known:
            measurement: Measurement = known[key][1]
        else:
            measurement = self._measure_now(index, launches)
        self._measured[index] = measurement
        return measurement

    def _measure_now(self, index: int, launches: Launches) -> Measurement:
        self._n_measured += 1
        waited = self._compiler.seconds
        try:
            launcher = self._get_launcher(index)
        except Exception as error:
            if is_sticky(error):
                raise
            failure = classify(_plain(error), "compile")
            return Measurement.failed(failure.status, failure.reason, info=failure.info)
        started = time.perf_counter()
        measurement = launches.measure(launcher)
        self.seconds["timing"] += time.perf_counter() - started
        logger.debug(
            "%s %s: %.5f ms, waited %.3f s for its compile",
            self._task.name,
            self._keys[index],
            measurement.duration,
            self._compiler.seconds - waited,
        )
        return measurement

    def _get_launcher(self, index: int) -> Any:
        if index not in self._launchers:
            config = self._task.pool[index]
            self._launchers[index] = self._compiler.launcher(config)
        return self._launchers[index]

    def _decide(self, launches: Launches) -> int:
        """Compare the fastest with those that Inductor would have chosen from."""
        started = time.perf_counter()
        stock = self._fastest(index < self._task.n_stock for index in self._indices)
        found = self._fastest(index >= self._task.n_stock for index in self._indices)
        if not stock and not found:
            reasons = {m.reason for m in self._measured.values()}
            raise AllConfigsFailedError(
                f"each of the {len(self._measured)} configs of {self._task.name} "
                f"failed: {'; '.join(sorted(map(str, reasons)))}"
            )
        if stock and found:
            # What was not faster than stock's best by now has hardly a chance.
            limit = self._measured[stock[0]].duration
            found = [i for i in found if self._measured[i].duration < limit]
        finalists = self._near(found, _N_FINALISTS)
        incumbents = self._near(stock, 2)
        if len(finalists) + len(incumbents) == 1 or not finalists:
            return [*finalists, *incumbents][0]
        verdict = decide(
            finalists,
            incumbents,
            lambda index: launches.measure_once(self._get_launcher(index)),
            margin=self._settings.margin,
            random_state=self._settings.random_state,
        )
        self._finals = {i: d for i, d in verdict.durations.items() if math.isfinite(d)}
        self.seconds["finals"] = time.perf_counter() - started
        return int(verdict.index)

    @property
    def _indices(self) -> list[int]:
        return [index for index, m in self._measured.items() if m.ok]

    def _fastest(self, chosen: Any) -> list[int]:
        indices = [i for i, take in zip(self._indices, chosen, strict=True) if take]
        return sorted(indices, key=lambda index: self._measured[index].duration)

    def _near(self, indices: list[int], n_most: int) -> list[int]:
        if not indices:
            return []
        limit = _NEAR * self._measured[indices[0]].duration
        near = [i for i in indices if self._measured[i].duration <= limit]
        return near[:n_most]

    # -- the end -----------------------------------------------------------------

    def _settle(self, winner: int, source: str) -> Any:
        """Make the tuner use a config from now on, in other processes too."""
        tuner, launcher = self._tuner, self._get_launcher(winner)
        # Else Inductor would go on to tune from there.
        launcher.config.found_by_coordesc = True
        result = self._compiler.results.get(id(launcher))
        if result is None:
            same = [r for r in tuner.compile_results if r.config is launcher.config]
            result = same[0] if same else None
        if result is not None:
            tuner.compile_results = [result]
        close = getattr(tuner, "_close_static_launcher", None)  # since torch 2.13
        for index, other in self._launchers.items():
            if index != winner and close is not None:
                close(other)
        seconds = time.perf_counter() - self._started
        tuner.autotune_time_taken_ns = tuner.precompile_time_taken_ns + int(
            seconds * 1e9
        )
        if tuner.save_cache_hook:
            tuner.save_cache_hook(
                launcher.config,
                tuner.autotune_time_taken_ns,
                found_by_coordesc=True,
                triton_cache_hash=launcher.cache_hash,
            )
        if source == "search":
            self._keep(winner)
        self.seconds["compile"] = self._compiler.seconds
        self._record(source, winner)
        return launcher

    def _keep(self, winner: int) -> None:
        pool = self._task.pool
        measured = {
            self._keys[index]: (pool[index], measurement)
            for index, measurement in self._measured.items()
        }
        task = self._task
        task.store.keep(task.identity, task.choice, pool[winner], measured)

    def _record(self, source: str, winner: int | None) -> None:
        task = self._task
        stock = self._fastest(index < task.n_stock for index in self._indices)
        record(
            SearchRecord(
                kind=task.kind,
                name=task.name,
                shape=task.shape,
                dtype=task.dtype,
                device=str(task.identity["device"].get("device", "")),
                n_pool=len(task.pool),
                n_measured=self._n_measured,
                n_failed=sum(not m.ok for m in self._measured.values()),
                stock_ms=self._duration(stock[0]) if stock else math.nan,
                best_ms=math.nan if winner is None else self._duration(winner),
                seconds=time.perf_counter() - self._started,
                compile_seconds=self.seconds["compile"],
                source=source,
                stop_reason=self._stop_reason,
                winner="" if winner is None else self._keys[winner],
            )
        )
        logger.debug("%s seconds: %s", task.name, self.seconds)

    def _duration(self, index: int) -> float:
        """Give the duration of a config, as the finals have it if it was in them."""
        if index in self._finals:
            return self._finals[index]
        measurement = self._measured.get(index)
        return math.nan if measurement is None else measurement.duration


def first_sample(n_known: int, n_budget: int) -> int:
    """Return how many configs are measured before the model proposes.

    Parameters
    ----------
    n_known : int
        How many of them are given.
    n_budget : int
        How many are measured in all.

    Returns
    -------
    int
        With some that are drawn blind.
    """
    return min(max(n_known + _FEWEST_BLIND, _N_FIRST), n_budget)


def make_clock(tuner: Any) -> Any:
    """Return the clock that times the configs of a kernel.

    Parameters
    ----------
    tuner : CachingAutotuner
        Inductor's tuner of the kernel.

    Returns
    -------
    GraphClock
        To be closed.
    """
    return GraphClock(tuner.triton_meta["device"])


def _plain(error: Exception) -> Exception:
    """Give an error of a worker process in the words of its last line."""
    details = getattr(error, "details", None)
    if not isinstance(details, str):
        return error
    lines = [line.strip() for line in details.splitlines() if line.strip()]
    return RuntimeError(lines[-1] if lines else details)
