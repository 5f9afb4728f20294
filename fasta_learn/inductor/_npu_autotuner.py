"""The autotuner of torch_npu's kernels, with a search in it.

torch_npu compiles all variants of a kernel while the model is compiled, and times all
candidates when the kernel is first run. In here the first round of a search is compiled
then, and the others when the kernel is first run.
"""

import functools
import importlib
import math
import sys
import threading
import time
from typing import Any

from fasta_learn.autotuner._store import KernelStore, find_folder, short_hash
from fasta_learn.inductor import _guard
from fasta_learn.inductor._npu_search import NPUSearch, logger
from fasta_learn.inductor._npu_settings import NPUSettings
from fasta_learn.inductor._npu_stages import Stages
from fasta_learn.inductor._settings import Settings
from fasta_learn.inductor._statistics import SearchRecord, record
from fasta_learn.oracles import BaseOracle, Measurement

HEURISTICS = "torch_npu._inductor.runtime.triton_heuristics"

# Compiling a variant may take so long; a hung compiler must not hang the model.
_COMPILE_TIMEOUT = 600.0
_DEFAULT_CORES = 48
_MARK = "_fasta_learn"

# Two searches at the same time would disturb each other's timing.
_searching = threading.RLock()


def find_stock() -> type:
    """Return torch_npu's own class, also while another one stands in its place.

    Returns
    -------
    type
        ``NPUCachingAutotuner``.
    """
    found: Any = importlib.import_module(HEURISTICS).NPUCachingAutotuner
    while _MARK in vars(found):
        found = found.__bases__[-1]
    original: type = found
    return original


@functools.cache
def make_autotuner(stock: Any, settings: Settings, npu: NPUSettings) -> type:
    """Return a subclass of torch_npu's autotuner that searches.

    Parameters
    ----------
    stock : type
        ``NPUCachingAutotuner``.
    settings : Settings
        Budget, time and seed.
    npu : NPUSettings
        What the environment says.

    Returns
    -------
    type
        The class; equal arguments give the same one.
    """

    # The mark is what the first round leaves behind; None where there was none.
    content = {_MARK: None, "fasta_learn_settings": (settings, npu)}
    return type("SearchingNPUAutotuner", (_Searching, stock), content)


class _Searching:
    """Compiles and times few candidates; else it is torch_npu's own autotuner."""

    fasta_learn_settings: tuple[Settings, NPUSettings]

    def _precompile_current_configs(self, compile_fn: Any) -> None:
        if not self._compile_first_round():
            super()._precompile_current_configs(compile_fn)  # type: ignore[misc]

    def autotune_to_one_config(self, *args: Any, **kwargs: Any) -> None:
        """Search, and let torch_npu tune what is compiled if that is not possible."""
        if self._search(args, kwargs):
            return
        try:
            super().autotune_to_one_config(*args, **kwargs)  # type: ignore[misc]
        except Exception as error:
            if getattr(self, _MARK) is None or not run_any(self, args, kwargs):
                raise
            logger.warning(
                "no config could be timed (%s); one that runs is taken.", error
            )

    def _compile_first_round(self) -> bool:
        settings, npu = self.fasta_learn_settings
        try:
            if refusal(self, type(self), settings) is not None:
                return False
            return compile_first_round(self, settings, npu)
        except Exception as error:
            _guard.warn_once("npu", error)
            return False

    def _search(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        if getattr(self, _MARK) is None:
            return False
        try:
            with _searching:
                return search(self, args, kwargs, *self.fasta_learn_settings)
        except Exception as error:
            _guard.warn_once("npu", error)
            return False

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _restore, self.fasta_learn_settings, self.__getstate__()


def _restore(settings: Settings, npu: NPUSettings) -> Any:
    """Make the empty autotuner that an unpickled state goes into."""
    cls: Any = make_autotuner(find_stock(), settings, npu)
    return cls.__new__(cls)


def refusal(tuner: Any, own: type, settings: Settings) -> str | None:
    """Say why a kernel is left to torch_npu.

    Parameters
    ----------
    tuner : NPUCachingAutotuner
        The kernel's autotuner.
    own : type
        The class that `make_autotuner` has made.
    settings : Settings
        The settings.

    Returns
    -------
    str or None
        The reason; None if it is searched.
    """
    if _MARK not in vars(own):
        return "it has an autotuner of its own"
    if settings.is_frozen:
        return "nothing may be measured"
    if tuner._should_skip_autotune_for_determinism():
        return "its result has to be the same for all configs"
    if getattr(tuner, "triton_interpret", False):
        return "it is interpreted"
    return None


def _make_search(tuner: Any, settings: Settings, npu: NPUSettings) -> NPUSearch:
    config = getattr(sys.modules[HEURISTICS], "npu_config", None)
    n_cores = getattr(config, "num_vector_core", None) or _DEFAULT_CORES
    return NPUSearch(
        tuner.candidate_plan, tuner.size_hints, int(n_cores), settings, npu
    )


def compile_first_round(tuner: Any, settings: Settings, npu: NPUSettings) -> bool:
    """Compile what the first round of a search needs.

    Parameters
    ----------
    tuner : NPUCachingAutotuner
        The kernel's autotuner, before it compiles.
    settings : Settings
        Budget and seed.
    npu : NPUSettings
        What the environment says.

    Returns
    -------
    bool
        False if torch_npu is to compile all: there is but one candidate, or all of the
        first round failed.
    """
    if len(tuner.candidate_plan["candidate_entries"]) < 2:
        return False
    chosen = set(_make_search(tuner, settings, npu).first_variants())
    # Marked with their names, by which torch_npu finds them again.
    configs = [
        config
        for config in tuner._precompile_variant_configs(tuner.configs)
        if config._runtime_variant_id in chosen
    ]
    stages, failed, results = Stages(), {}, []
    with stages.stage("R1_COMPILE", len(configs)):
        for config, outcome in zip(configs, _compile(tuner, configs), strict=True):
            if isinstance(outcome, Measurement):
                failed[config._runtime_variant_id] = outcome
            else:
                results.append(outcome)
    if not results:
        return False
    tuner.compile_results = results
    setattr(tuner, _MARK, (failed, stages.done))
    return True


def _compile(tuner: Any, configs: list[Any]) -> list[Any]:
    """Compile variants in torch_npu's own threads; failures become measurements."""
    from fasta_learn.oracles._npu_failures import classify_npu, is_transient

    parallel = getattr(sys.modules[HEURISTICS].npu_config, "precompile_thread_num", 1)
    compile_once = (
        tuner._precompile_configs_parallel_once
        if parallel > 1
        else tuner._precompile_configs_once
    )
    outcomes, errors, _ = compile_once(configs)
    for index, error in enumerate(errors):
        if error is not None and is_transient(error):
            try:
                outcomes[index], error = tuner._precompile_config(configs[index]), None
            except Exception as again:
                error = again
        if error is not None:
            failure = classify_npu(error, "compile")
            outcomes[index] = Measurement.failed(
                failure.status, failure.reason, info=failure.info
            )
    return list(outcomes)


def search(
    tuner: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    settings: Settings,
    npu: NPUSettings,
) -> bool:
    """Make the fastest candidate that a search finds the choice of an autotuner.

    Parameters
    ----------
    tuner : NPUCachingAutotuner
        The kernel's autotuner, with the first round compiled.
    args, kwargs : tuple, dict
        Arguments of the kernel's first call.
    settings : Settings
        Budget, time and seed.
    npu : NPUSettings
        What the environment says.

    Returns
    -------
    bool
        False if no candidate ran.
    """
    started = time.perf_counter()
    failed, done = getattr(tuner, _MARK)
    found = _make_search(tuner, settings, npu)
    found.stages.done.extend(done)
    with _make_oracle(tuner, args, kwargs, settings, npu) as oracle:
        keeping = _keeping(tuner, oracle, settings)
        ranked = found.run(keeping, failed)
        winner = _adopt(oracle, found, ranked)
    is_known = getattr(keeping, "n_measured", None) == 0
    logger.info("%s", found.summary(tuner.get_fn_name()))
    _record(tuner, found, winner, time.perf_counter() - started, is_known)
    found.stages.write(tuner.get_fn_name(), npu.stages, len(found.measured))
    return winner is not None


def _keeping(tuner: Any, oracle: BaseOracle, settings: Settings) -> BaseOracle:
    """Return an oracle that keeps a journal, so that a killed process loses little."""
    is_off = tuner.inductor_meta.get("force_disable_caches")
    folder = None if is_off else find_folder(settings.store)
    if folder is None:
        return oracle
    identity = oracle.fingerprint()
    store = KernelStore(
        folder / "npu", tuner.get_fn_name(), short_hash(identity["kernel"]["source"])
    )
    return store.journal(oracle, identity)


def _adopt(oracle: Any, found: NPUSearch, ranked: list[int]) -> int | None:
    """Make the fastest candidate that runs in this process the autotuner's choice."""
    for index in ranked:
        config, seconds = found.candidates.full[index], found.stages.seconds
        try:
            oracle.adopt(config, seconds)
            return index
        except (LookupError, ValueError):  # an earlier process has compiled it
            if oracle.measure([config])[0].ok:
                oracle.adopt(config, seconds)
                return index
    return None


def _make_oracle(
    tuner: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    settings: Settings,
    npu: NPUSettings,
) -> Any:
    from fasta_learn.oracles import NPUKernelOracle
    from fasta_learn.oracles._npu_timers import choose_backend

    timer = npu.timer
    try:
        choose_backend(timer)
    except ValueError as error:
        _guard.warn_once(f"npu by {timer}", error)
        timer = "events"
    threads = getattr(sys.modules[HEURISTICS].npu_config, "precompile_thread_num", 1)
    return NPUKernelOracle.from_autotuner(
        tuner,
        args,
        kwargs,
        timer=timer,
        n_jobs=settings.n_jobs or max(1, int(threads)),
        compile_timeout=_COMPILE_TIMEOUT,
        lookahead=0,
    )


def run_any(tuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Make the first compiled candidate that runs the choice, without storing it.

    Parameters
    ----------
    tuner : NPUCachingAutotuner
        The kernel's autotuner.
    args, kwargs : tuple, dict
        Arguments of the kernel's first call.

    Returns
    -------
    bool
        Whether one runs.
    """
    device = tuner.get_device_interface()
    stream = device.get_raw_stream(device.current_device())
    for entry in tuner.compiled_candidate_entries:
        blocks = tuple(value for _, value in entry["candidate"]["runtime_blocks"])
        launch_args = tuner._build_runtime_launch_args(args, blocks)
        try:
            own_args, own_kwargs = tuner.clone_args(*launch_args, **kwargs)
            entry["launcher"](*own_args, **own_kwargs, stream=stream)
            device.synchronize(device.current_device())
        except Exception as error:
            logger.debug("%s does not run: %s", entry["candidate"], error)
            continue
        tuner._set_best_candidate(entry["candidate"], entry["launcher"])
        tuner.launchers = [entry["launcher"]]
        return True
    return False


def _record(
    tuner: Any, found: NPUSearch, best: int | None, seconds: float, is_known: bool
) -> None:
    measured = {} if is_known else found.measured
    duration = math.nan if best is None else found.measured[best].duration
    sizes = tuner.size_hints if isinstance(tuner.size_hints, dict) else {}
    record(
        SearchRecord(
            kind=tuner.heuristic_type.name.lower(),
            name=tuner.get_fn_name(),
            shape="x".join(str(size) for size in sizes.values()),
            device="npu",
            n_pool=len(found.candidates),
            n_measured=len(measured),
            n_failed=sum(not m.ok for m in measured.values()),
            best_ms=duration,
            seconds=seconds,
            compile_seconds=sum(m.compile_seconds or 0.0 for m in measured.values()),
            source="store" if is_known else "search",
            stop_reason=found.stop_reason,
            winner="" if best is None else found.candidates.keys[best],
        )
    )
