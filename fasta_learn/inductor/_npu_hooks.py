"""Whether the installed torch_npu is as the integration expects it.

One table serves three: at run time torch_npu is left alone where it does not fit
(`require`), ``fasta-learn doctor`` shows what does not (`probe`), and the tests look
the names up in the sources of other versions.
"""

import ast
import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable, Mapping
from typing import Any

from fasta_learn.inductor._hook_sources import misfit, read_installed
from fasta_learn.inductor._hook_table import Hook, parse_row
from fasta_learn.inductor._hooks import HookMismatchError, _misfit, parse_version

PACKAGES: Mapping[str, str] = {"torch_npu": "torch_npu", "triton_ascend": "triton"}
"""Distributions that a kernel for an Ascend NPU needs, and what each is imported as."""

OLDEST = (2, 13)
"""The first version of torch_npu whose autotuner can be extended."""

_INDUCTOR = "torch_npu._inductor."
HEURISTICS = _INDUCTOR + "runtime.triton_heuristics"

_TEXTS: Mapping[str, tuple[str, ...]] = {
    HEURISTICS: (
        # -- where the autotuner comes from ------------------------------------------
        "cached_autotune uses read_best, NPUCachingAutotuner, autotuner_cls",
        "pointwise uses triton_config_npu_index, cached_autotune",
        "reduction uses triton_config_npu_index, cached_autotune",
        "persistent_reduction uses triton_config_npu_index, cached_autotune",
        "triton_config_npu_index(size_hints, inductor_meta) uses get",
        "_triton_config_npu_index_legacy uses fasta_autotune, FastATileGenerator",
        "npu_config",
        # -- what is compiled --------------------------------------------------------
        """NPUCachingAutotuner._precompile_worker
        uses _prepare_precompile, _precompile_worker_parallel""",
        "NPUCachingAutotuner._prepare_precompile uses candidate_plan",
        """NPUCachingAutotuner._precompile_worker_with(compile_fn)
        uses compile_results, _precompile_current_configs""",
        """NPUCachingAutotuner._precompile_current_configs(compile_fn)
        uses _precompile_variant_configs, compile_results""",
        """NPUCachingAutotuner._precompile_variant_configs(configs)
        uses candidate_plan, config_from_dict, _runtime_variant_id""",
        """NPUCachingAutotuner._precompile_configs_once(configs)
        uses compile_results, compile_exceptions""",
        """NPUCachingAutotuner._precompile_configs_parallel_once(configs)
        uses compile_thread_pool, compile_results, compile_exceptions""",
        "NPUCachingAutotuner._precompile_config(cfg) uses compile",
        "NPUCachingAutotuner._configs_with_vf_fusion(configs)",
        "NPUCachingAutotuner._build_candidate_plan(configs)",
        "NPUCachingAutotuner.parse_triton_ascend_options(tiling_kwargs, options)",
        "TritonCompileResultNpu.make_launcher uses config",
        "build_candidate_plan(configs, runtime_block_arg_names)",
        "NoTritonConfigsError",
        # -- what is run -------------------------------------------------------------
        """NPUCachingAutotuner.run(*, stream)
        uses autotuner, best_launcher, best_runtime_blocks, launcher""",
        """NPUCachingAutotuner.autotuner(*, stream) uses best_launcher, precompile,
        _should_skip_autotune_for_determinism, autotune_to_one_config""",
        """NPUCachingAutotuner.autotune_to_one_config uses _benchmark_candidate_entries,
        _set_best_candidate, launchers, save_cache_hook""",
        "NPUCachingAutotuner._should_skip_autotune_for_determinism",
        "NPUCachingAutotuner._build_runtime_launch_args(args, runtime_blocks)",
        """NPUCachingAutotuner._refresh_variant_launchers
        uses variant_launcher_map, launchers, compiled_candidate_entries""",
        "NPUCachingAutotuner._set_best_candidate(candidate, launcher)",
        "NPUCachingAutotuner.get_fn_name",
        "NPUCachingAutotuner.candidate_plan",
        "NPUCachingAutotuner.variant_launcher_map",
        "NPUCachingAutotuner.compiled_candidate_entries",
        "NPUCachingAutotuner.best_candidate_config",
        "NPUCachingAutotuner.best_launcher",
        # -- timing ------------------------------------------------------------------
        "create_profiler(torch_path, *, wait, warmup, active, repeat, skip_first)",
    ),
    _INDUCTOR + "profiler": (
        "mspti_batch_benchmark(kernel_funcs, warmup, active, *, filter_list)",
    ),
    _INDUCTOR + "config": (
        "precompile_thread_num",
        "fasta_autotune",
    ),
    _INDUCTOR + "runtime.fasta_autotune": (
        "FastATileGenerator.descend_split_tiling uses from_expert, circle_num",
    ),
    _INDUCTOR + "runtime.autotune_cache": (
        """_load_cached_autotuning(best_config, configs_hash, configs, inductor_meta)
        uses pop, Config""",
    ),
    "torch_npu.profiler._profiler_path_creator": ("ProfPathCreator",),
}

NPU_HOOKS: tuple[Hook, ...] = tuple(
    parse_row("npu", module, " ".join(text.split()))
    for module, texts in _TEXTS.items()
    for text in texts
)
"""The names of torch_npu that are used, and what is expected of them."""


def require() -> None:
    """Check the hooks, as far as their modules are imported.

    Raises
    ------
    HookMismatchError
        A hook does not fit the installed torch_npu.
    """
    version = importlib.metadata.version("torch_npu")
    for hook in NPU_HOOKS:
        module: Any = sys.modules.get(hook.module)
        if module is not None and (reason := _misfit(hook, module)) is not None:
            raise HookMismatchError(
                f"{hook.module}.{hook.name} of torch_npu {version} {reason}"
            )


def unsupported() -> str | None:
    """Say why the installed torch_npu is not supported.

    Returns
    -------
    str or None
        With what to do; None if it is.

    Raises
    ------
    PackageNotFoundError
        torch_npu is not installed.
    """
    version = importlib.metadata.version("torch_npu")
    if parse_version(version) >= OLDEST:
        return None
    oldest = ".".join(map(str, OLDEST))
    return (
        f"torch_npu {version} is not supported: its autotuner has no candidates that "
        f"could be left out. Use torch_npu {oldest} or later."
    )


def probe() -> list[str]:
    """Return what does not fit the installed torch_npu, which is not imported.

    Returns
    -------
    list of str
        One line for each; empty if all fit.

    Raises
    ------
    PackageNotFoundError
        torch_npu is not installed.
    """
    reason = unsupported()
    return check(read_installed) if reason is None else [reason]


def check(read: Callable[[str], str | None]) -> list[str]:
    """Return what does not fit a version of torch_npu.

    Parameters
    ----------
    read : callable
        Function of the name of a module; returns its source, or None.

    Returns
    -------
    list of str
        As `probe` returns it.
    """
    trees: dict[str, ast.Module | None] = {}
    found = []
    for hook in NPU_HOOKS:
        if hook.module not in trees:
            text = read(hook.module)
            trees[hook.module] = None if text is None else ast.parse(text)
        tree = trees[hook.module]
        reason = "has no module" if tree is None else misfit(hook, tree)
        if reason is not None:
            found.append(f"{hook.module}.{hook.name} {reason}")
    return found


def versions() -> dict[str, str | None]:
    """Return the versions of the packages that an Ascend NPU needs.

    Returns
    -------
    dict of str to (str or None)
        None for what is not installed.
    """
    found: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found
