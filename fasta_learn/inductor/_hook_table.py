"""The names of TorchInductor that are used, and what is expected of them."""

import re
from dataclasses import dataclass

_INDUCTOR = "torch._inductor."
_ASYNC = _INDUCTOR + "async_compile"
_HEURISTICS = _INDUCTOR + "runtime.triton_heuristics"
_SELECT = _INDUCTOR + "select_algorithm"

# The module after whose import a feature can be installed. Those that select_algorithm
# needs import each other, so that for "gemm" it is the one that imports them all.
TRIGGERS = {
    "workers": _ASYNC,
    "pointwise": _HEURISTICS,
    "gemm": _INDUCTOR + "compile_fx",
}


@dataclass(frozen=True)
class Hook:
    """A name of TorchInductor that fasta_learn uses.

    Attributes
    ----------
    feature : str
        What uses it.
    module : str
        Where it is.
    name : str
        The name, with dots inside classes. A class may also have it as an attribute of
        its instances.
    leading : tuple of str
        The parameters that are passed by position, without self or cls.
    keywords : tuple of str
        The parameters that are passed by keyword.
    mentions : tuple of str
        Names that the function reads, in this order: what is patched has no effect if
        they are not looked up there.
    since : tuple of (int, int)
        The first version of torch that has it.
    """

    feature: str
    module: str
    name: str
    leading: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    mentions: tuple[str, ...] = ()
    since: tuple[int, int] = (2, 11)

    def is_in(self, version: tuple[int, int]) -> bool:
        """Return whether a version is expected to have it.

        Parameters
        ----------
        version : tuple of (int, int)
            Of torch.

        Returns
        -------
        bool
            Whether it is.
        """
        return self.since <= version

    def misfit(self, parameters: list[str], accepts_any: bool) -> str | None:
        """Return what is wrong with the parameters of the function.

        Parameters
        ----------
        parameters : list of str
            Those that it has, without self or cls.
        accepts_any : bool
            Whether it also takes ``**kwargs``.

        Returns
        -------
        str or None
            The reason; None if they fit.
        """
        if tuple(parameters[: len(self.leading)]) != self.leading:
            return f"has the parameters {parameters}, not first {list(self.leading)}"
        missing = [name for name in self.keywords if name not in parameters]
        return f"has no parameters {missing}" if missing and not accepts_any else None


_ROW = re.compile(
    r"(?P<name>[\w.]+)(?:\((?P<leading>[\w, ]*)(?:\*, (?P<keywords>[\w, ]+))?\))?"
    r"(?: uses (?P<mentions>[\w, ]+?))?(?: since (?P<since>[\d.]+))?"
)


def parse_row(feature: str, module: str, text: str) -> Hook:
    """Read a row of the table.

    Parameters
    ----------
    feature, module : str
        What uses it, and where it is.
    text : str
        Such as ``"Class.method(first, *, option) uses helper, other since 2.12"``:
        `first` is passed by position, `option` by keyword, and the method calls
        `helper` before `other`.

    Returns
    -------
    Hook
        The row.

    Raises
    ------
    ValueError
        The text is no row.
    """
    found = _ROW.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no row of the table of hooks.")
    lists = (found[part] or "" for part in ("leading", "keywords", "mentions"))
    leading, keywords, mentions = (tuple(re.findall(r"\w+", x)) for x in lists)
    major, minor = map(int, (found["since"] or "2.11").split("."))
    return Hook(
        feature, module, found["name"], leading, keywords, mentions, (major, minor)
    )


def _rows(feature: str, module: str, *texts: str) -> tuple[Hook, ...]:
    return tuple(parse_row(feature, module, " ".join(text.split())) for text in texts)


HOOKS: tuple[Hook, ...] = (
    # -- caches: the tag tells kernels that were chosen with other settings ----------
    *_rows("caches", "torch.compiler.config", "cache_key_tag"),
    *_rows(
        "caches",
        _INDUCTOR + "codecache",
        "FxGraphHashDetails.__init__ uses cache_key_tag",
    ),
    *_rows(
        "caches",
        _INDUCTOR + "runtime.autotune_cache",
        "AutotuneCache._prepare_key(filename) uses cache_key_tag",
    ),
    # -- ptxas ----------------------------------------------------------------------
    *_rows(
        "ptxas",
        _INDUCTOR + "runtime.compile_tasks",
        "_set_triton_ptxas_path uses environ, ptxas, environ",
    ),
    # -- workers --------------------------------------------------------------------
    *_rows(
        "workers",
        _INDUCTOR + "runtime.compile_tasks",
        """_worker_compile_triton(load_kernel, extra_env, extra_config)
        uses _set_triton_ptxas_path, load_kernel, precompile, prepare_for_pickle""",
    ),
    *_rows(
        "workers",
        _ASYNC,
        "_worker_compile_triton",
        """AsyncCompile.triton(kernel_name, source_code) uses use_process_pool,
        _worker_compile_triton, restore_after_unpickle, precompile""",
    ),
    *_rows(
        "workers",
        _INDUCTOR + "compile_worker.subproc_pool",
        "python_subprocess_env",
        "SubprocPool.__init__ uses Popen, python_subprocess_env",
    ),
    # -- gemm -----------------------------------------------------------------------
    *_rows(
        "gemm",
        _SELECT,
        "_ALGORITHM_SELECTOR_CACHE",
        """get_algorithm_selector_cache
        uses _ALGORITHM_SELECTOR_CACHE, AlgorithmSelectorCache""",
        """AlgorithmSelectorCache.__call__(name, choices, input_nodes, layout,
        *, return_multi_template, best_config_future, is_collective)
        uses make_precompile_fn, do_autotuning""",
        "AlgorithmSelectorCache.make_precompile_fn(choices, name, inputs_key)",
        """AlgorithmSelectorCache.do_autotuning(name, input_nodes, layout,
        input_gen_fns, inputs_key, choices, precompile_fn,
        *, hint_override, best_config_future, is_collective)
        uses precompile_fn, prescreen_choices, lookup, autotune, lookup,
        feedback_saver_fns""",
        """AlgorithmSelectorCache.autotune(name, input_nodes, layout, input_gen_fns,
        choices, *, hint_override) uses benchmark""",
        """AlgorithmSelectorCache.get_inputs(choices, input_nodes, layout,
        input_gen_fns, *, hint_override)""",
        "AlgorithmSelectorCache.benchmark_choice(choice, autotune_args) uses benchmark",
        "AlgorithmSelectorCache._is_extern(choice)",
        """AlgorithmSelectorCache.make_benchmark_fn(choices, input_nodes, layout,
        input_gen_fns, *, hint_override)""",
        "AutotuneArgs.get_benchmark_tensors(extern)",
        "AutotuneArgs.expected",
        "TritonTemplate",
        "TritonTemplateCaller.precompile",
        "TritonTemplateCaller.bmreq",
        "NoValidChoicesError",
        "get_num_workers",
    ),
    *_rows(
        "gemm",
        _INDUCTOR + "codecache",
        "CacheBase.get_local_cache",
        "CacheBase.update_local_cache(local_cache)",
        "PersistentCache.lookup(choices, op, inputs, benchmark, hint_override)",
    ),
    *_rows(
        "gemm",
        _INDUCTOR + "choices",
        """InductorChoices._finalize_template_configs(template_choices, kernel_inputs,
        templates, op_name, kwarg_overrides)""",
        """InductorChoices.get_template_configs(kernel_inputs, templates, op_name)
        uses get_ktc, _finalize_template_configs, choice""",
        """InductorChoices.get_ktc(kernel_inputs, template, op_name, kwarg_overrides)
        uses make_ktc_generator""",
    ),
    *_rows(
        "gemm",
        _INDUCTOR + "kernel_template_choice",
        "KernelTemplateChoice.choice uses _choice, choice_or_none, layout, inputs",
        "KernelTemplateChoice.template",
        "KernelTemplateChoice.params",
        "KernelTemplateChoice.annotations",
    ),
    *_rows("gemm", _INDUCTOR + "kernel_inputs", "KernelInputs.dtype(idx)"),
    *_rows(
        "gemm",
        _INDUCTOR + "autotune_process",
        "BenchmarkRequest.make_run_fn(*, out)",
        "BenchmarkRequest.cleanup_run_fn",
        "TritonBenchmarkRequest",
        "TritonGPUBenchmarkRequest",
        "ExternKernelBenchmarkRequest",
    ),
    *_rows(
        "gemm",
        _INDUCTOR + "runtime.benchmarking",
        "benchmarker",
        "Benchmarker.benchmark_cpu",
        "Benchmarker.benchmark_gpu",
    ),
    *_rows(
        "gemm",
        _ASYNC,
        "AsyncCompile.wait_pool_ready(timeout)",
        "AsyncCompile.use_process_pool",
        "CompiledTritonKernels.remove_future(kernel_src)",
        "get_compile_threads",
    ),
    *_rows(
        "gemm",
        _INDUCTOR + "config",
        "max_autotune",
        "max_autotune_gemm",
        "max_autotune_gemm_search_space",
        "max_autotune_prune_choices_based_on_shared_mem",
        "pipeline_max_autotune_gemm",
        "distributed_max_autotune_gemm",
        "remote_gemm_autotune_cache",
        "autotune_in_subproc",
        "deterministic",
        "autotune_local_cache",
        "profile_bandwidth_with_do_bench_using_profiling",
    ),
    # -- pointwise ------------------------------------------------------------------
    *_rows(
        "pointwise",
        _HEURISTICS,
        """cached_autotune(size_hints, configs, *, triton_meta, heuristic_type,
        filename, inductor_meta, custom_kernel)
        uses check_autotune_cache, caching_autotuner_cls""",
        "pointwise uses cached_autotune",
        "reduction uses cached_autotune",
        "persistent_reduction uses cached_autotune",
        "user_autotune uses cached_autotune",
        "fixed_config(config, *, filename, triton_meta, inductor_meta)",
        "CachingAutotuner.run(*, stream) uses launchers, autotune_to_one_config",
        "CachingAutotuner.autotune_to_one_config uses benchmark_all_configs, launchers",
        "CachingAutotuner.coordinate_descent_tuning(launcher)",
        "CachingAutotuner.recheck_autotune_cache(reload_kernel_from_src)",
        "CachingAutotuner._precompile_config(cfg)",
        "CachingAutotuner._reload_kernel",
        "CachingAutotuner.launchers",
        "CachingAutotuner.compile_results",
        "CachingAutotuner.configs",
        "CachingAutotuner.save_cache_hook",
        "CachingAutotuner.inductor_meta",
        "CachingAutotuner.triton_meta",
        "CachingAutotuner.device_props",
        "CachingAutotuner.heuristic_type",
        "CachingAutotuner.size_hints",
        "CachingAutotuner.lock",
        "CachingAutotuner.filename",
        "CachingAutotuner.autotune_time_taken_ns",
        "CachingAutotuner.precompile_time_taken_ns",
        "CachingAutotuner.autotune_cache_info",
        "CachingAutotuner.reset_to_zero_arg_names",
        "CachingAutotuner.get_device_interface",
        "CachingAutotuner.copy_args_to_cpu_if_needed",
        "CachingAutotuner.maybe_clone_args(exclude)",
        "CachingAutotuner.restore_args_from_cpu(cpu_copies)",
        "CachingAutotuner.reset_to_zero_args",
        "CachingAutotuner.restore_after_unpickle(*, old_values)",
        "CachingAutotuner._close_static_launcher since 2.13",
        "TritonCompileResult.make_launcher",
        "StaticTritonCompileResult.make_launcher",
        "config_to_dict(config)",
        "config_from_dict(config)",
        "triton_config_to_hashable",
    ),
    *_rows(
        "pointwise",
        _INDUCTOR + "runtime.hints",
        "HeuristicType.USER_AUTOTUNE",
        "HeuristicType.PERSISTENT_REDUCTION",
        "TRITON_MAX_BLOCK",
    ),
    *_rows(
        "pointwise",
        _INDUCTOR + "runtime.autotune_cache",
        """AutotuneCache.save(config, time_taken_ns,
        *, found_by_coordesc, triton_cache_hash)""",
        "AutotuneCache.read_best(inductor_meta, configs)",
    ),
    *_rows(
        "pointwise",
        _INDUCTOR + "codegen.triton",
        "TritonKernel.inductor_meta_common",
    ),
    *_rows(
        "pointwise",
        _INDUCTOR + "codecache",
        "_load_triton_kernel_from_source(kernel_name, source_code)",
    ),
    *_rows(
        "pointwise",
        _INDUCTOR + "triton_bundler",
        "TritonBundler.put(kernel_hash, device)",
        "TritonBundler.put_winner(kernel_hash) since 2.12",
    ),
    *_rows(
        "pointwise",
        _ASYNC,
        "AsyncCompile.process_pool",
        "AsyncCompile.use_process_pool",
        "get_compile_threads",
    ),
)
