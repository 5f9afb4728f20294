"""The decorator."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fasta_learn._compat import import_extra
from fasta_learn.autotuner._autotuner import make_autotuner_class
from fasta_learn.autotuner._tuning import Settings
from fasta_learn.configs import config_to_dict
from fasta_learn.configs._keys import LAUNCH_OPTIONS
from fasta_learn.search import ActiveConfigSearch

if TYPE_CHECKING:
    from fasta_learn.oracles._timing import TimingPlan


def autotune(
    configs: Sequence[Any],
    key: list[str],
    prune_configs_by: dict[str, Any] | None = None,
    reset_to_zero: list[str] | None = None,
    restore_value: list[str] | None = None,
    pre_hook: Callable[..., Any] | None = None,
    post_hook: Callable[..., Any] | None = None,
    warmup: int | None = None,
    rep: int | None = None,
    use_cuda_graph: bool = False,
    do_bench: Callable[..., Any] | None = None,
    cache_results: bool = False,
    *,
    search: ActiveConfigSearch | None = None,
    store: bool | str | os.PathLike[str] = True,
    frozen: bool | None = None,
    isolate: bool = False,
    check: Callable[..., Any] | Mapping[str, Any] | None = None,
    timing: "TimingPlan | None" = None,
) -> Callable[[Any], Any]:
    """Tune a Triton kernel, as ``triton.autotune``, after measuring few configs.

    The first call with a new key searches the pool; later calls, and other processes,
    use what was found. What is returned is an instance of the installed class
    ``triton.runtime.Autotuner`` with its attributes.

    Parameters
    ----------
    configs : sequence of triton.Config or dict
        The pool. In a dict, num_warps, num_stages, num_ctas and maxnreg are options
        of the launch; all else are keywords of the kernel.
    key : list of str
        Names of arguments: each new combination of their values is tuned. So is each
        new combination of the dtypes of all arguments.
    prune_configs_by : dict or None, default=None
        ``"early_config_prune"``, ``"perf_model"`` and ``"top_k"``, as in Triton; the
        search sees what they leave.
    reset_to_zero : list of str or None, default=None
        Names of tensors that are set to zero before each launch of the search.
    restore_value : list of str or None, default=None
        Names of tensors that are restored before each launch, and after the search.
    pre_hook : callable or None, default=None
        Function of ``(kwargs, reset_only)`` called before each launch of the search,
        instead of what `reset_to_zero` and `restore_value` ask for.
    post_hook : callable or None, default=None
        Function of ``(kwargs, exception)`` called after each launch of the search.
    warmup, rep : int or None, default=None
        Times in ms for Triton's benchmark function, which is then used (deprecated).
    use_cuda_graph : bool, default=False
        Whether to use Triton's benchmark by graphs (deprecated).
    do_bench : callable or None, default=None
        Function of ``(kernel_call, quantiles)`` that answers durations in ms, the
        median first. It takes the place of the own timing, and configs are then
        compiled one after the other.
    cache_results : bool, default=False
        Ignored: `store` says what is kept.
    search : ActiveConfigSearch or None, default=None
        The search; each key gets a clone. By default, one that measures 10 %
        of the pool, but 32 to 128 configs, and always chooses the same.
    store : bool or path-like, default=True
        Folder that keeps measurements and decisions. True is ``autotune`` in
        ``FASTA_LEARN_CACHE_DIR``, or else ``fasta_learn/autotune`` in
        ``XDG_CACHE_HOME`` or ``~/.cache``; False keeps nothing.
    frozen : bool or None, default=None
        Whether nothing may be measured. A key that is not known is logged once and
        gets the winner of the nearest known one, or the first config. None asks the
        environment variable ``FASTA_LEARN_FROZEN``.
    isolate : bool, default=False
        Whether to measure in a child process, which an illegal memory access may
        end. The kernel must then be importable there.
    check : callable, dict or None, default=None
        What tells wrong results, as in `fasta_learn.oracles.TritonKernelOracle`.
    timing : TimingPlan or None, default=None
        How precisely to measure.

    Returns
    -------
    callable
        The decorator: it takes a ``triton.jit`` function, or heuristics around one.

    Raises
    ------
    MissingExtraError
        Triton is not installed.
    TypeError
        `search` is no search, or a config is neither a ``triton.Config`` nor a dict.

    See Also
    --------
    fasta_learn.ActiveConfigSearch : The search.

    Notes
    -----
    The tuner has a method ``tune(*args, grid=..., **kwargs)`` that finds the config of
    a call without making it. ``configs_timings`` holds the configs that were measured.

    Examples
    --------
    >>> import fasta_learn
    >>> tuner = fasta_learn.autotune(
    ...     configs=[{"BLOCK": 2**i, "num_warps": w}
    ...              for i in range(6, 12) for w in (1, 2, 4, 8)],
    ...     key=["n"],
    ... )
    >>> # @tuner
    >>> # @triton.jit
    >>> # def kernel(x, y, n, BLOCK: tl.constexpr): ...
    """
    runtime = import_extra("triton.runtime.autotuner", "torch")
    if search is not None and not (
        hasattr(search, "fit") and hasattr(search, "get_params")
    ):
        raise TypeError(
            f"search must be an ActiveConfigSearch or None, got {search!r}."
        )
    settings = Settings(
        search=search,
        store=store,
        frozen=frozen,
        isolate=isolate,
        check=check,
        timing=timing,
    )
    pool = [_as_triton(config, runtime.Config) for config in configs]

    def decorate(fn: Any) -> Any:
        return make_autotuner_class(runtime.Autotuner)(
            fn,
            fn.arg_names,
            pool,
            key,
            reset_to_zero,
            restore_value,
            pre_hook=pre_hook,
            post_hook=post_hook,
            prune_configs_by=prune_configs_by,
            warmup=warmup,
            rep=rep,
            use_cuda_graph=use_cuda_graph,
            do_bench=do_bench,
            cache_results=cache_results,
            settings=settings,
        )

    return decorate


def _as_triton(config: Any, make: Callable[..., Any]) -> Any:
    if not isinstance(config, Mapping):
        if not hasattr(config, "all_kwargs"):
            raise TypeError(
                f"configs must hold triton.Config objects or dicts, got {config!r}."
            )
        return config
    values = config_to_dict(config)
    options = {n: values.pop(n) for n in LAUNCH_OPTIONS if n in values}
    return make(values, **options)
