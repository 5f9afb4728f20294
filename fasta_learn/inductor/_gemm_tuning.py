"""One call of Inductor's selector: known from before, or searched."""

import logging
import math
import platform
import re
import time
from dataclasses import dataclass
from typing import Any

import fasta_learn
from fasta_learn._compat import import_extra
from fasta_learn.autotuner._identity import identify_device
from fasta_learn.autotuner._store import short_hash
from fasta_learn.configs import config_key
from fasta_learn.inductor._gemm_bench import ChoiceBench
from fasta_learn.inductor._gemm_cache import DecisionCache
from fasta_learn.inductor._gemm_compile import Compiles
from fasta_learn.inductor._gemm_decision import Answer, settle, tell_times
from fasta_learn.inductor._gemm_pool import collect, render
from fasta_learn.inductor._gemm_report import describe_inputs, tell
from fasta_learn.inductor._gemm_search import (
    ChoiceSearch,
    Contender,
    Found,
    count_budget,
)
from fasta_learn.inductor._gemm_timing import ChoiceTimer, runs_in_child
from fasta_learn.inductor._measurements import (
    ConfigStore,
    Measurements,
    Relative,
    StoredPrior,
)
from fasta_learn.inductor._settings import Settings
from fasta_learn.oracles import Measurement
from fasta_learn.transfer import load_default_prior
from fasta_learn.transfer._default import is_triton_pool

logger = logging.getLogger("fasta_learn.inductor")

# So many of what Inductor would not look at are handed to it: fusion tries several.
_MOST_TOLD = 8
# What other shapes tell is worth its while from here on.
_MIN_POOL = 64
_N_HINTS = 3


@dataclass(frozen=True, eq=False)
class Call:
    """The arguments of Inductor's ``do_autotuning``.

    Attributes
    ----------
    name, input_nodes, layout, input_gen_fns, inputs_key, choices, hint : object
        As there; `hint` is ``hint_override``.
    """

    name: str
    input_nodes: Any
    layout: Any
    input_gen_fns: Any
    inputs_key: str
    choices: tuple[Any, ...]
    hint: int | None = None


class Tuning:
    """Find out how long the choices of one call take.

    Parameters
    ----------
    selector : AlgorithmSelectorCache
        Inductor's selector.
    settings : Settings
        How to search.
    call : Call
        What is asked.
    compiles : Compiles or None, default=None
        Has begun to compile Inductor's choices.
    """

    def __init__(
        self,
        selector: Any,
        settings: Settings,
        call: Call,
        compiles: Compiles | None = None,
    ) -> None:
        self._selector, self._settings, self._call = selector, settings, call
        self._compiles = compiles
        self._cache = DecisionCache(selector, settings)
        self._key = self._cache.key(call)
        self._kept: list[str] | None = None
        self._started = time.perf_counter()
        self.seconds: dict[str, float] = {}

    def run(self) -> dict[Any, float] | None:
        """Return times in ms by choice.

        Returns
        -------
        dict of ChoiceCaller to float, or None
            The winner's is the lowest. None if it is to be left to Inductor.
        """
        pool = collect(self._call.choices, self._call.hint)
        answers = self._recall(pool)
        if answers is None:
            about = self._open_store(pool)
            answers = self._from_store(pool, *about)
            if answers is None and self._settings.is_frozen:
                self._tell(pool, "frozen", stop_reason="not known")
            elif answers is None:
                return self._search(pool, *about)
        if answers is not None and self._compiles is not None:
            self._compiles.close()
        return answers

    def keep(self) -> None:
        """Note the decision beside the times, once Inductor has kept those."""
        if self._kept is not None:
            self._cache.save(self._key, self._kept)

    # -- known from before ---------------------------------------------------------

    def _recall(self, pool: list[Contender]) -> dict[Any, float] | None:
        """Return what Inductor's cache has of a former search."""
        wanted = self._cache.load(self._key)
        by_key = {contender.key: contender for contender in pool}
        if wanted is None or not set(wanted) <= by_key.keys():
            return None
        made = {by_key[key]: render(by_key[key]) for key in wanted}
        if None in made.values():
            return None
        call = self._call
        known = self._selector.lookup(
            list(made.values()), call.name, call.inputs_key, None, call.hint
        )
        if len(known) < len(made):
            return None
        self._tell_known(pool, {c: known[choice] for c, choice in made.items()})
        return dict(known)

    def _open_store(
        self, pool: list[Contender]
    ) -> tuple[ConfigStore, dict[str, Any], str]:
        call, settings = self._call, self._settings
        shapes, dtypes, device = describe_inputs(call.inputs_key)
        stock = sorted(c.key.partition("(")[0] for c in pool if not c.is_stock)
        family = [call.name, dtypes, device, sorted(set(stock))]
        if not stock:  # nothing but the choices themselves says what is computed
            family.append(sorted(c.key for c in pool))
        identity = {
            "key": [int(n) for n in re.findall(r"\d+", shapes)] or [0],
            "inputs": [call.inputs_key, call.hint],
            "device": _identify(device),
            "torch": str(import_extra("torch", "torch").__version__),
            "timing": "graph" if self._has_clock else "inductor",
        }
        choice = [settings.cache_key(), fasta_learn.__version__, self._key]
        store = ConfigStore(settings, call.name, family)
        return store, identity, short_hash([choice, sorted(c.key for c in pool)])

    def _from_store(
        self,
        pool: list[Contender],
        store: ConfigStore,
        identity: dict[str, Any],
        choice: str,
    ) -> dict[Any, float] | None:
        """Return what the store has of a former search, whatever Inductor's has."""
        winner = store.winner(identity, choice)
        if winner is None:
            return None
        known = _in_pool(pool, store.measurements(identity))
        best = next((c for c in known if _store_key(c) == winner), None)
        if best is None or any(c.is_stock and c not in known for c in pool):
            return None
        durations = tell_times({c: m.duration for c, m in known.items()}, best)
        answers = self._make(durations, {})
        self._tell_known(pool, durations)
        return answers

    # -- the search ----------------------------------------------------------------

    def _search(
        self,
        pool: list[Contender],
        store: ConfigStore,
        identity: dict[str, Any],
        choice: str,
    ) -> dict[Any, float] | None:
        compiles = self._compiles or Compiles(self._settings.n_jobs)
        try:
            timer = self._make_timer()
            try:
                bench = ChoiceBench(timer, compiles)
                found = self._make_search(pool, bench, store, identity).run()
                answer = self._settle(found, bench)
            finally:
                timer.close()
        finally:
            compiles.close()
        self.seconds.update(
            render=bench.render_seconds,
            compile=compiles.seconds,
            timing=timer.seconds,
            search=found.search_seconds,
        )
        if answer is None:
            self._tell(pool, "search", found=found)
            return None
        self._tell(pool, "search", found=found, answer=answer)
        told = {
            c: (_store_config(c), _as_measurement(d))
            for c, d in answer.durations.items()
        }
        store.keep(
            identity,
            choice,
            _store_config(answer.winner),
            {config_key(config): (config, m) for config, m in told.values()},
        )
        return self._make(answer.durations, bench.choices)

    def _make_search(
        self,
        pool: list[Contender],
        bench: ChoiceBench,
        store: ConfigStore,
        identity: dict[str, Any],
    ) -> ChoiceSearch:
        settings = self._settings
        n_stock = sum(contender.is_stock for contender in pool)
        return ChoiceSearch(
            pool,
            bench,
            count_budget(settings.gemm_budget, len(pool), n_stock),
            time_budget=settings.time_budget,
            random_state=settings.random_state,
            confidence=settings.gemm_confidence,
            margin=settings.margin,
            **_from_relatives(pool, store.relatives(identity)),
        )

    def _settle(self, found: Found, bench: ChoiceBench) -> Answer | None:
        started = time.perf_counter()
        answer = settle(
            found,
            None if bench.is_lost else bench.measure_again,
            margin=self._settings.margin,
            random_state=self._settings.random_state,
            is_slow=not self._has_clock,
        )
        self.seconds["finals"] = time.perf_counter() - started
        return answer

    def _make_timer(self) -> ChoiceTimer:
        call, clock = self._call, None
        if self._has_clock:
            module = import_extra("fasta_learn.inductor._graph_clock", "torch")
            clock = module.GraphClock(call.layout.device)
        return ChoiceTimer(
            self._selector,
            call.choices,
            call.input_nodes,
            call.layout,
            call.input_gen_fns,
            hint_override=call.hint,
            clock=clock,
        )

    @property
    def _has_clock(self) -> bool:
        torch = import_extra("torch", "torch")
        is_cuda = self._call.layout.device.type == "cuda" and not torch.version.hip
        return bool(
            is_cuda
            and torch.cuda.is_available()
            and not runs_in_child(self._call.choices)
        )

    def _make(
        self, durations: dict[Contender, float], made: dict[Contender, Any]
    ) -> dict[Any, float]:
        """Return times by choice: all of Inductor's own, and the best of the others."""
        others = sorted(
            (d, i, c) for i, (c, d) in enumerate(durations.items()) if not c.is_stock
        )
        told = [c for c in durations if c.is_stock]
        told += [c for _, _, c in others[:_MOST_TOLD]]
        choices = {c: made.get(c) or render(c) for c in told}
        self._kept = [c.key for c in told]
        return {choices[c]: durations[c] for c in told}

    # -- what is told --------------------------------------------------------------

    def _tell_known(
        self, pool: list[Contender], durations: dict[Contender, float]
    ) -> None:
        winner = min(durations, key=lambda contender: durations[contender])
        stock = [d for c, d in durations.items() if c.is_stock]
        self._tell(
            pool,
            "store",
            winner=winner.label,
            best_ms=durations[winner],
            stock_ms=min(stock, default=math.nan),
        )

    def _tell(
        self,
        pool: list[Contender],
        source: str,
        *,
        found: Found | None = None,
        answer: Answer | None = None,
        **facts: Any,
    ) -> None:
        if found is not None:
            facts["n_measured"] = len(found.measurements)
            facts["n_failed"] = sum(not m.ok for m in found.measurements.values())
            facts["stop_reason"] = found.stop_reason
        if answer is not None:
            facts["winner"] = answer.winner.label
            facts["best_ms"] = answer.durations[answer.winner]
            facts["stock_ms"] = answer.stock_ms
        choices = self._call.choices
        if any(getattr(c, "decomposition", None) is not None for c in choices):
            facts["kind"] = "custom_op"
        parts = ", ".join(f"{name} {s:.2f} s" for name, s in self.seconds.items())
        logger.debug("%s took: %s", self._call.name, parts)
        tell(
            self._call.name,
            self._call.inputs_key,
            n_pool=len(pool),
            source=source,
            seconds=time.perf_counter() - self._started,
            compile_seconds=self.seconds.get("compile", 0.0),
            **facts,
        )


def _from_relatives(pool: list[Contender], relatives: list[Relative]) -> dict[str, Any]:
    """Return what other shapes tell a search: what to begin with, and a prior."""
    configs = [c.config for c in pool if c.config]
    if not relatives or len(configs) < _MIN_POOL:
        return {}
    by_key = {_store_key(c): c for c in pool if not c.is_stock}
    winners = [by_key.get(relative.winner) for relative in relatives[:_N_HINTS]]
    base = load_default_prior() if is_triton_pool(configs) else None
    return {
        "hints": list(dict.fromkeys(c for c in winners if c is not None)),
        "prior": StoredPrior(relatives, base),
    }


def _in_pool(
    pool: list[Contender], known: Measurements
) -> dict[Contender, Measurement]:
    found = {c: known.get(_store_key(c)) for c in pool}
    return {c: entry[1] for c, entry in found.items() if entry is not None}


def _store_config(contender: Contender) -> dict[str, Any]:
    return contender.config or {"choice": contender.key}


def _store_key(contender: Contender) -> str:
    return config_key(_store_config(contender))


def _as_measurement(duration: float) -> Measurement:
    if duration < math.inf:
        return Measurement(duration)
    return Measurement(math.inf, "launch_error", "failed in a search")


def _identify(device: str) -> Any:
    if device == "cuda":
        return identify_device()
    torch = import_extra("torch", "torch")
    return [device, platform.machine(), platform.processor(), torch.get_num_threads()]
