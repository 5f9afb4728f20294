"""A live autotuner of torch_npu with its call arguments, as a workload."""

import copy
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fasta_learn.configs import config_key, config_to_dict
from fasta_learn.oracles import _triton_arguments as arguments
from fasta_learn.oracles._npu_kernel import NPUFacts, required_bits

# They repeat other parameters of a config, or are the same in all of them.
_BOOKKEEPING = ("split_axis", "split_blocks")
_FUSION = "enable_vf_fusion"


class AutotunerWorkload:
    """The kernel of an ``NPUCachingAutotuner``, and the arguments of a call of it.

    The autotuner's candidates are its configs; what is compiled for one, its variant,
    is the config without the blocks that are arguments at run time. The autotuner
    itself is left as it is, until `adopt`.

    Parameters
    ----------
    autotuner : NPUCachingAutotuner
        The autotuner.
    args : sequence
        Arguments of the call.
    kwargs : mapping or None, default=None
        Keyword arguments of the call.
    stream : int or None, default=None
        The raw stream; None is the current one.

    Attributes
    ----------
    name : str
        Name of the kernel.
    device : None
        It runs on the device that is current, as torch_npu's own tuning.
    configs : list of dict
        The candidates, without what only repeats their other parameters.

    Raises
    ------
    TypeError
        The object lacks what an ``NPUCachingAutotuner`` has.
    """

    device: int | None = None

    def __init__(
        self,
        autotuner: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any] | None = None,
        stream: int | None = None,
    ) -> None:
        _check_autotuner(autotuner)
        self._tuner = autotuner
        self._args, self._kwargs = tuple(args), dict(kwargs or {})
        self._stream = stream
        plan = autotuner.candidate_plan or autotuner._build_candidate_plan(
            autotuner.configs
        )
        self._plan = plan
        made = autotuner._precompile_variant_configs(autotuner.configs)
        self._variants = dict(zip(plan["variant_order"], made, strict=True))
        self._candidates: dict[str, dict[str, Any]] = {}
        self.configs = self._name_candidates(plan["candidate_entries"])
        self._results: dict[str, Any] = {}
        self._launchers: dict[str, Any] = {}
        self._current: tuple[Any, tuple[Any, ...]]
        self._ready: tuple[Any, Any] | None = None
        self._adopt_results(autotuner.compile_results)

    @property
    def name(self) -> str:
        """Name of the kernel."""
        meta = self._tuner.inductor_meta
        return str(meta.get("kernel_name") or self._tuner.fn.__name__)

    @property
    def recorded_name(self) -> str:
        """What the names of its launches begin with where a profiler records them."""
        # Of names that Inductor makes, torch_npu counts on this part only.
        return "triton" if self.name.startswith("triton") else self.name

    def fingerprint(self) -> dict[str, Any]:
        """Say which kernel runs on which arguments.

        Returns
        -------
        dict
            JSON can hold it.
        """
        describe = arguments.describe_argument
        source = str(getattr(self._tuner.fn, "src", self.name))
        return {
            "kernel": self.name,
            "source": hashlib.sha256(source.encode()).hexdigest(),
            "args": [describe(value) for value in self._args],
            "kwargs": {name: describe(value) for name, value in self._kwargs.items()},
        }

    def fill_tables(self) -> None:
        """Load the kernel, which a worker process may have left out."""
        if getattr(self._tuner.fn, "fn", self) is None:
            self._tuner.fn = self._tuner._reload_kernel().fn

    def variant(self, config: Any) -> dict[str, Any]:
        """Give what is compiled for a candidate.

        Parameters
        ----------
        config : dict or triton.Config
            One of the autotuner's configs.

        Returns
        -------
        dict
            The name of the variant.

        Raises
        ------
        ValueError
            The config is no candidate.
        """
        return {"variant": self._candidate(config)["variant_id"]}

    def rescue(self, variant: Mapping[str, Any]) -> dict[str, Any] | None:
        """Give options under which a variant may compile that did not.

        Parameters
        ----------
        variant : mapping
            The variant.

        Returns
        -------
        dict or None
            With fusion of vector functions, as torch_npu tries it after all variants
            have failed; None if this compiler has no such option or it is on.
        """
        config = self._variants[variant["variant"]]
        known = self._tuner.parse_triton_ascend_options({_FUSION: True}, {})
        if _FUSION in variant or config.kwargs.get(_FUSION) or not known:
            return None
        return {**variant, _FUSION: True}

    def compile(self, variant: Mapping[str, Any]) -> NPUFacts:
        """Compile a variant, or find it compiled.

        Parameters
        ----------
        variant : mapping
            From `variant` or `rescue`.

        Returns
        -------
        NPUFacts
            What is known of it.

        Raises
        ------
        Exception
            What the autotuner raises.
        """
        name, start = variant["variant"], time.perf_counter()
        config, known = self._variants[name], self._results.get(name)
        if known is not None:
            return _facts(known, config, 0.0, cached=True)
        if _FUSION in variant:
            config = copy.copy(config)
            config.kwargs = {**config.kwargs, _FUSION: True}
        result = self._tuner._precompile_config(config)
        self._results[name] = result
        return _facts(result, self._variants[name], time.perf_counter() - start)

    def launcher(self, config: Any) -> Callable[[], None]:
        """Give a function that enqueues one launch of a candidate.

        Parameters
        ----------
        config : dict or triton.Config
            The candidate, whose variant is compiled.

        Returns
        -------
        callable
            Without parameters. It runs on what `prepare` has made ready.
        """
        candidate = self._candidate(config)
        launcher = self._launcher(candidate["variant_id"])
        blocks = tuple(value for _, value in candidate["runtime_blocks"])
        self._current = (
            launcher,
            self._tuner._build_runtime_launch_args(self._args, blocks),
        )
        stream = self._raw_stream()

        def launch() -> None:
            if self._ready is None:
                self.prepare()
            assert self._ready is not None
            args, kwargs = self._ready
            launcher(*args, **kwargs, stream=stream)

        return launch

    def caller(self, config: Any) -> Callable[[], None]:
        """Give a function that prepares and enqueues one launch.

        Those of several candidates may be called in turn.

        Parameters
        ----------
        config : dict or triton.Config
            The candidate.

        Returns
        -------
        callable
            Without parameters.
        """
        launch, current = self.launcher(config), self._current

        def call() -> None:
            self._current = current
            self.prepare()
            launch()

        return call

    def prepare(self) -> None:
        """Call the config's hook, copy arguments that the kernel changes, reset others.

        It is for the candidate that `launcher` was last asked for.
        """
        tuner, (launcher, args) = self._tuner, self._current
        if launcher.config.pre_hook is not None:
            named = dict(zip(tuner.arg_names, args, strict=False))
            launcher.config.pre_hook({**named, **launcher.config.kwargs})
        self._ready = tuner.clone_args(*args, **self._kwargs)
        tuner.reset_to_zero_args(*self._args, **self._kwargs)

    def first_launch(self, config: Any) -> None:
        """Launch a candidate once and wait for it.

        Parameters
        ----------
        config : dict or triton.Config
            The candidate.

        Raises
        ------
        Exception
            What goes wrong.
        """
        launch = self.launcher(config)
        self.prepare()
        launch()
        self.synchronize()

    def finish(self) -> None:
        """Free the copies of arguments."""
        self._ready = None

    restore = close = finish

    def synchronize(self) -> None:
        """Wait for the device; errors of earlier launches come out here."""
        device = self._tuner.get_device_interface()
        device.synchronize(device.current_device())

    def adopt(self, config: Any, seconds: float = 0.0) -> None:
        """Make a candidate the autotuner's choice, as its own tuning would.

        It is stored in Inductor's cache, with what compiling has changed.

        Parameters
        ----------
        config : dict or triton.Config
            A candidate that has run.
        seconds : float, default=0.0
            How long tuning took, for Inductor's statistics.

        Raises
        ------
        ValueError
            The config is no candidate, or was not compiled.
        """
        tuner, candidate = self._tuner, self._candidate(config)
        name = candidate["variant_id"]
        launcher = self._launcher(name)
        result = self._results[name]
        if fused := result.config.kwargs.get(_FUSION):
            full = {**candidate["full_config"], _FUSION: fused}
            candidate = {**candidate, "full_config": full}
        tuner.candidate_plan = self._plan
        tuner.compile_results, tuner.launchers = [result], [launcher]
        tuner._refresh_variant_launchers()
        tuner._set_best_candidate(candidate, launcher)
        tuner.autotune_time_taken_ns = int(1e9 * seconds)
        if tuner.save_cache_hook:
            chosen = tuner.best_candidate_config or launcher.config
            tuner.save_cache_hook(chosen, tuner.autotune_time_taken_ns)

    def _candidate(self, config: Any) -> dict[str, Any]:
        found = self._candidates.get(config_key(config))
        if found is None:
            raise ValueError(
                f"{config_to_dict(config)} is no candidate of the autotuner of "
                f"{self.name}; measure configs of `oracle.configs`."
            )
        return found

    def _name_candidates(
        self, entries: Iterable[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Remember each candidate by all ways to write it; give the short ones."""
        short: dict[str, dict[str, Any]] = {}
        for config, entry in zip(self._tuner.configs, entries, strict=True):
            own = config_to_dict(config)
            plain = {k: v for k, v in own.items() if k not in _BOOKKEEPING}
            for way in (own, entry["full_config"], plain):
                self._candidates.setdefault(config_key(way), entry)
            short.setdefault(config_key(plain), plain)
        return list(short.values())

    def _adopt_results(self, results: Iterable[Any]) -> None:
        """Take what the autotuner has compiled already."""
        names = {config_key(config): k for k, config in self._variants.items()}
        for result in results or ():
            name = getattr(result.config, "_runtime_variant_id", None)
            name = name or names.get(config_key(result.config), "")
            if name in self._variants and hasattr(result, "make_launcher"):
                self._results[name] = result

    def _launcher(self, name: str) -> Any:
        result = self._results.get(name)
        if result is None:
            raise ValueError(
                f"variant {name} of {self.name} is not compiled; measure the config."
            )
        known = self._launchers.get(name)
        if known is None or known[0] is not result:
            known = self._launchers[name] = (result, result.make_launcher())
        return known[1]

    def _raw_stream(self) -> int:
        if self._stream is not None:
            return self._stream
        device = self._tuner.get_device_interface()
        return int(device.get_raw_stream(device.current_device()))


def _facts(
    result: Any, wanted: Any, seconds: float, *, cached: bool = False
) -> NPUFacts:
    is_fused = result.config.kwargs.get(_FUSION) and not wanted.kwargs.get(_FUSION)
    return NPUFacts(
        seconds=seconds,
        registers=None,
        spills=None,
        shared_bytes=int(getattr(result.kernel.metadata, "shared", 0) or 0),
        cached=cached,
        required_bits=required_bits(result.kernel),
        changed={_FUSION: True} if is_fused else {},
    )


_NEEDED = (
    "candidate_plan",
    "_build_candidate_plan",
    "_precompile_variant_configs",
    "_precompile_config",
    "_build_runtime_launch_args",
    "_refresh_variant_launchers",
    "_set_best_candidate",
    "clone_args",
    "reset_to_zero_args",
)


def _check_autotuner(autotuner: Any) -> None:
    if missing := [name for name in _NEEDED if not hasattr(autotuner, name)]:
        raise TypeError(
            f"autotuner must be an NPUCachingAutotuner of torch_npu 2.13 or later; the "
            f"{type(autotuner).__name__} has no {', '.join(missing)}."
        )
