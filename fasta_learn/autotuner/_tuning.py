"""How a tuner decides which config a key gets."""

import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sklearn.base import clone

import fasta_learn
from fasta_learn._compat import import_extra
from fasta_learn.autotuner._identity import (
    NOT_ARGUMENTS,
    describe,
    find_jit_function,
    identify_arguments,
    identify_device,
    identify_kernel,
    key_distance,
)
from fasta_learn.autotuner._measuring import (
    BenchmarkOracle,
    LaunchHook,
    WatchedOracle,
    timings_of,
)
from fasta_learn.autotuner._store import (
    KernelStore,
    find_folder,
    pool_hash,
    short_hash,
)
from fasta_learn.configs import config_key
from fasta_learn.exceptions import AllConfigsFailedError
from fasta_learn.oracles import BaseOracle, Measurement
from fasta_learn.search import ActiveConfigSearch

if TYPE_CHECKING:
    from fasta_learn.autotuner._autotuner import SearchingAutotuner

logger = logging.getLogger("fasta_learn.autotune")

# So many configs are worth measuring, however small a share of the pool would be.
_MIN_MEASURED = 32
_SHARE = 0.1
# In most pools of thousands that were measured whole, more brought less than 1 %.
_MAX_MEASURED = 128
# Winners of another device are the last resort.
_OTHER_DEVICE = 1000.0


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What `autotune` adds to the arguments of ``triton.autotune``.

    Attributes
    ----------
    search, store, frozen, isolate, check, timing : object
        The parameters of `autotune`.
    """

    search: Any = None
    store: bool | str | os.PathLike[str] = True
    frozen: bool | None = None
    isolate: bool = False
    check: Any = None
    timing: Any = None

    @property
    def is_frozen(self) -> bool:
        """Whether nothing may be measured."""
        if self.frozen is not None:
            return self.frozen
        wish = os.environ.get("FASTA_LEARN_FROZEN", "").strip().lower()
        return wish not in ("", "0", "false", "no", "off")


def default_search(n_pool: int) -> ActiveConfigSearch:
    """Return the search that is made if the user gives none.

    Parameters
    ----------
    n_pool : int
        Number of configs of the pool.

    Returns
    -------
    ActiveConfigSearch
        It is repeatable, and measures small pools whole.
    """
    n_budget = min(max(_MIN_MEASURED, int(_SHARE * n_pool)), _MAX_MEASURED, n_pool)
    return ActiveConfigSearch(budget=n_budget, random_state=0)


def is_capturing() -> bool:
    """Tell whether a CUDA graph is being captured.

    Returns
    -------
    bool
        True if nothing can be measured now.
    """
    cuda = import_extra("torch", "torch").cuda
    return bool(cuda.is_available() and cuda.is_current_stream_capturing())


class Tuning:
    """The decision about one key.

    Parameters
    ----------
    tuner : SearchingAutotuner
        The tuner, whose cache gets the decision.
    key : tuple
        The key.
    configs : list of triton.Config
        The pool.
    args : tuple
        Positional arguments of the call.
    kwargs : dict
        Its other arguments, with ``grid``.
    """

    def __init__(
        self,
        tuner: "SearchingAutotuner",
        key: tuple[Any, ...],
        configs: Sequence[Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self._tuner, self._settings = tuner, tuner.settings
        self._name = tuner.base_fn.__name__
        self._key, self._args, self._kwargs = key, args, kwargs
        self._values = {**dict(zip(tuner.arg_names, args, strict=False)), **kwargs}
        # Triton allows configs to be repeated; a search does not.
        self._pool: dict[str, Any] = {}
        for config in configs:
            self._pool.setdefault(config_key(config), config)
        self._configs = list(self._pool.values())

    def decide(self) -> bool:
        """Put a config for the key into the cache of the tuner.

        Returns
        -------
        bool
            Whether nothing was measured.
        """
        cache = self._tuner.cache
        if len(self._configs) == 1:
            cache[self._key] = self._configs[0]
            return True
        self._check()
        store, identity = self._open_store()
        search, choice = self._make_search()
        decision = store.load(identity, choice)
        if decision is not None and decision["winner"] in self._pool:
            cache[self._key] = self._pool[decision["winner"]]
            self._tuner.guessed.discard(self._key)
            self._set_timings(store.measurements(identity))
            return True
        if self._may_not_measure():
            cache[self._key] = self._nearest(store, identity)
            return True
        cache[self._key] = self._search(search, store, identity, choice)
        self._tuner.guessed.discard(self._key)
        return False

    def _check(self) -> None:
        if not self._configs:
            raise ValueError(f"no config of {self._name} is left after pruning.")
        tuned = {name for config in self._configs for name in config.kwargs}
        if conflicts := sorted(tuned & set(self._kwargs)):
            raise ValueError(
                f"Conflicting meta-parameters: {', '.join(conflicts)}. They are set by "
                f"the configs of {self._name} and by the call; leave them to one."
            )

    def _make_search(self) -> tuple[Any, str]:
        given = self._settings.search
        n_pool = len(self._configs)
        search = default_search(n_pool) if given is None else clone(given)
        settings = [pool_hash(self._configs), describe(search)]
        return search, short_hash([*settings, fasta_learn.__version__])

    def _may_not_measure(self) -> bool:
        if is_capturing():
            if self._tuner.pass_once(self._key):
                logger.warning(
                    "%s has no tuned config for the key %s, and nothing can be "
                    "measured while a CUDA graph is captured; call it or its tune() "
                    "before.",
                    self._name,
                    self._key,
                )
            return True
        if self._settings.is_frozen:
            self._tuner.guessed.add(self._key)
            logger.warning(
                "%s has no tuned config for the key %s, and tuning is frozen; the "
                "nearest known config is used.",
                self._name,
                self._key,
            )
            return True
        return False

    # -- the store ---------------------------------------------------------------

    def _open_store(self) -> tuple[KernelStore, dict[str, Any]]:
        nothing = KernelStore(None, self._name, "")
        folder = find_folder(self._settings.store)
        if folder is None:
            return nothing, {}
        try:
            kernel = identify_kernel(self._tuner.fn)
            store = KernelStore(folder, self._name, short_hash(kernel))
            return store, {"kernel": kernel, **self._identify()}
        except Exception as error:
            # It takes the word of the driver and of the user's functions.
            nothing.tell(folder, error)
            return nothing, {}

    def _identify(self) -> dict[str, Any]:
        tuner, settings = self._tuner, self._settings
        hooks = {describe_hook(config) for config in self._configs} - {""}
        if tuner.user_defined_pre_hook:
            hooks.add(f"pre_hook: {describe(tuner.pre_hook)}")
        if tuner.user_defined_post_hook:
            hooks.add(f"post_hook: {describe(tuner.post_hook)}")
        timing = self._plan if tuner._do_bench is None else tuner._do_bench
        return {
            "key": describe(list(self._key)),
            **identify_arguments(self._arguments, self._constants),
            "device": identify_device(),
            "timing": describe(timing),
            "check": describe(settings.check),
            "hooks": sorted(hooks),
        }

    @property
    def _plan(self) -> Any:
        from fasta_learn.oracles._timing import TimingPlan

        return TimingPlan() if self._settings.timing is None else self._settings.timing

    def _nearest(self, store: KernelStore, identity: dict[str, Any]) -> Any:
        """Return the winner of the key that is nearest; else the first config."""
        key = describe(list(self._key))
        known = [
            (key_distance(key, describe(list(other))), config_key(config))
            for other, config in self._tuner.cache.items()
            if other not in self._tuner.guessed
        ]
        for decision in store.decisions():
            distance = key_distance(key, decision["identity"].get("key", ()))
            if decision["identity"].get("device") != identity.get("device"):
                distance += _OTHER_DEVICE
            known.append((distance, decision["winner"]))
        usable = [(distance, key) for distance, key in known if key in self._pool]
        return self._pool[min(usable)[1]] if usable else self._configs[0]

    # -- the search --------------------------------------------------------------

    def _search(
        self, search: Any, store: KernelStore, identity: dict[str, Any], choice: str
    ) -> Any:
        started = time.perf_counter()
        known = store.measurements(identity)
        with self._make_oracle() as oracle:
            watched = WatchedOracle(store.journal(oracle, identity))
            is_whole = self._fit(search, watched)
        known.update(watched.seen)
        # Earlier searches may have met a faster config than this one: it is free.
        known = {key: value for key, value in known.items() if key in self._pool}
        winner = self._pool[min(known, key=lambda key: known[key].duration)]
        if is_whole:
            store.save(identity, choice, winner)
        self._set_timings(known)
        self._tuner.bench_time = time.perf_counter() - started
        values = {**self._values, **winner.all_kwargs()}
        self._tuner.pre_hook(values, reset_only=True)
        return winner

    def _fit(self, search: Any, oracle: WatchedOracle) -> bool:
        """Search, and tell whether the search came to its end."""
        try:
            search.fit(self._configs, oracle=oracle)
        except AllConfigsFailedError as error:
            raise AllConfigsFailedError(f"{self._name}: {error}") from None
        except Exception as error:
            if not any(measurement.ok for measurement in oracle.seen.values()):
                raise
            logger.warning(
                "the search for a config of %s broke off after %d of %d configs (%s: "
                "%s); the best so far is used.",
                self._name,
                len(oracle.seen),
                len(self._configs),
                type(error).__name__,
                error,
            )
            return False
        return True

    def _set_timings(self, measurements: Mapping[str, Measurement]) -> None:
        self._tuner.configs_timings = {
            config: timings_of(measurements[key])
            for config in self._configs
            if (key := config_key(config)) in measurements
        }

    @contextmanager
    def _make_oracle(self) -> Iterator[BaseOracle]:
        if self._tuner._do_bench is not None:
            yield BenchmarkOracle(self._bench)
            return
        oracle = self._make_device_oracle()
        try:
            announce = self._announce if self._tuner.knobs.autotuning.print else None
            yield WatchedOracle(oracle, announce)
        finally:
            oracle.close()

    def _make_device_oracle(self) -> Any:
        from fasta_learn.oracles import TritonKernelOracle

        tuner, settings = self._tuner, self._settings
        own_pre, own_post = tuner.user_defined_pre_hook, tuner.user_defined_post_hook
        return TritonKernelOracle(
            tuner.fn,
            self._arguments,
            self._kwargs["grid"],
            constants=self._constants,
            # As in Triton, a hook of the user's takes the place of both.
            reset_to_zero=() if own_pre else tuple(tuner.reset_to_zero),
            restore_value=() if own_pre else tuple(tuner.restore_value),
            check=settings.check,
            pre_hook=LaunchHook(tuner.pre_hook) if own_pre else None,
            post_hook=tuner.post_hook if own_post else None,
            timing=self._plan,
            isolate=settings.isolate,
        )

    def _bench(self, config: Any) -> Any:
        self._tuner.nargs = dict(zip(self._tuner.arg_names, self._args, strict=False))
        return self._tuner._bench(*self._args, config=config, **self._kwargs)

    def _announce(self, config: Any) -> None:
        print(f"Autotuning kernel {self._name} with config {config}")  # noqa: T201

    @property
    def _constant_names(self) -> set[str]:
        parameters = find_jit_function(self._tuner.fn).params
        return {item.name for item in parameters if item.is_constexpr}

    @property
    def _arguments(self) -> dict[str, Any]:
        constants = self._constant_names
        names = [n for n in self._tuner.arg_names if n not in constants]
        return {name: self._values[name] for name in names if name in self._values}

    @property
    def _constants(self) -> dict[str, Any]:
        others = {*self._arguments, *NOT_ARGUMENTS}
        return {name: v for name, v in self._values.items() if name not in others}


def describe_hook(config: Any) -> str:
    """Return a text that tells the hooks of configs apart.

    Parameters
    ----------
    config : triton.Config
        The config.

    Returns
    -------
    str
        Empty if it has none.
    """
    hook = getattr(config, "pre_hook", None)
    return "" if hook is None else str(describe(hook))
