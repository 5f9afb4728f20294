"""A Triton kernel for Ascend NPUs with its arguments, for old and new Tritons."""

import copy
import functools
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from fasta_learn._compat import import_extra
from fasta_learn.oracles import _triton_binding as binding
from fasta_learn.oracles._triton_binding import BoundConfig, CompileFacts
from fasta_learn.oracles._triton_kernel import Workload

# The runtime takes the number of programs as 16 bits.
_MOST_PROGRAMS = 65535
_TABLES = threading.Lock()


@dataclass(frozen=True)
class NPUFacts(CompileFacts):
    """What is known of a kernel that was compiled for an Ascend NPU.

    Parameters
    ----------
    required_bits : int or None
        What it takes of a core's unified buffer, in bits, if the compiler tells.
    changed : dict
        Options that compiling has changed, as they make the kernel another one.
    """

    required_bits: int | None = None
    changed: dict[str, Any] = field(default_factory=dict)


class NPUWorkload(Workload):
    """A ``triton.jit`` kernel with its arguments on an Ascend NPU.

    Parameters are those of `Workload`. Triton-Ascend follows Triton with some delay:
    what differs between Triton 3.2 and later ones is in this class.
    """

    @property
    def recorded_name(self) -> str:
        """What the names of its launches begin with where a profiler records them."""
        return self.name

    def variant(self, config: Any) -> dict[str, Any]:
        """Give what is compiled for a config.

        Parameters
        ----------
        config : dict or triton.Config
            The config.

        Returns
        -------
        dict
            Equal for configs that differ only in arguments that are read at run time.
            Such arguments have another value in it, of the same kind.
        """
        chosen = binding._parameters(config)
        if self._heuristics:  # they may make a constexpr of any argument
            return chosen
        runtime = {p.name for p in self._jit.params if not p.is_constexpr}
        return {k: _alike(v) if k in runtime else v for k, v in chosen.items()}

    def rescue(self, variant: dict[str, Any]) -> dict[str, Any] | None:
        """Give options under which a variant may compile that did not: none are known.

        Parameters
        ----------
        variant : dict
            The variant.

        Returns
        -------
        None
            Options are the user's choice.
        """
        return None

    def fill_tables(self) -> None:
        """Compute what all compiles share, so that threads need not."""
        self._select_device()
        if hasattr(self._jit, "device_caches"):
            super().fill_tables()
            return
        with _TABLES:
            _ = self._jit.cache_key
            if self._jit.binder is None:
                target = binding.active_driver().get_current_target()
                compiler = import_extra("triton.compiler.compiler", "npu")
                self._jit.create_binder(compiler.make_backend(target))

    def compile(self, config: Any) -> NPUFacts:
        """Compile a config, or find it compiled; nothing is loaded on the device.

        Parameters
        ----------
        config : dict or triton.Config
            Constexprs by name; num_warps, multibuffer and other options.

        Returns
        -------
        NPUFacts
            What is known of it.

        Raises
        ------
        Exception
            What Triton raises; a TypeError if config and arguments don't fit.
        """
        start, started_at = time.perf_counter(), time.time()
        self.fill_tables()
        bound = self._bound(config)
        if isinstance(bound.facts, NPUFacts):
            return replace(bound.facts, cached=True)
        bound.kernel = self._warm_up(bound)
        bound.facts = NPUFacts(
            seconds=time.perf_counter() - start,
            registers=None,
            spills=None,
            shared_bytes=int(bound.kernel.metadata.shared),
            cached=_was_there(bound.kernel, started_at),
            required_bits=required_bits(bound.kernel),
        )
        return bound.facts

    def load(self, config: Any) -> NPUFacts:
        """Load a config on the device, compiled before if need be.

        Parameters
        ----------
        config : dict or triton.Config
            The config.

        Returns
        -------
        NPUFacts
            What is known of it.

        Raises
        ------
        Exception
            What Triton raises.
        """
        facts = self.compile(config)
        self._bound(config).kernel._init_handles()
        return facts

    def launcher(self, config: Any) -> Callable[[], None]:
        """Give a function that enqueues one launch, with its arguments bound.

        Parameters
        ----------
        config : dict or triton.Config
            The config.

        Returns
        -------
        callable
            Without parameters. It does not reset or restore: see `prepare`.

        Raises
        ------
        RuntimeError
            The grid has more programs than the device takes.
        Exception
            What `load` raises.
        """
        self.load(config)
        bound = self._bound(config)
        grid = bound.full_grid(self.grid)
        _check_grid(grid)
        self._current = bound
        return functools.partial(bound.kernel[grid], *self._launch_values(bound))

    def caller(self, config: Any) -> Callable[[], None]:
        """Give a function that prepares and enqueues one launch.

        Unlike `launcher` and `prepare`, those of several configs may be called in turn.

        Parameters
        ----------
        config : dict or triton.Config
            The config.

        Returns
        -------
        callable
            Without parameters.
        """
        launch, bound = self.launcher(config), self._current

        def call() -> None:
            self._current = bound
            self.prepare()
            launch()

        return call

    def _warm_up(self, bound: BoundConfig) -> Any:
        if hasattr(self._jit, "device_caches"):
            return binding.warm_up(self._jit, bound, self.device)
        jit = self._jit
        if jit.pre_run_hooks:
            # They belong to launches; here they could change what another one reads.
            jit = copy.copy(jit)
            jit.pre_run_hooks = []
        kernel = jit.warmup(grid=(1,), **bound.values, **bound.options)
        if kernel is None:
            raise RuntimeError("a hook (cache_hook) has kept Triton from compiling.")
        return kernel

    def _launch_values(self, bound: BoundConfig) -> list[Any]:
        if hasattr(self._jit, "device_caches"):
            return list(bound.values.values())
        # Before Triton 3.3, a compiled kernel is launched without its constexprs.
        fixed = {p.name for p in self._jit.params if p.is_constexpr}
        return [value for name, value in bound.values.items() if name not in fixed]


def _was_there(kernel: Any, moment: float) -> bool:
    # Triton 3.2 does not say which files a kernel comes from.
    return hasattr(kernel, "metadata_group") and binding.written_before(kernel, moment)


def required_bits(kernel: Any) -> int | None:
    """Tell what a compiled kernel takes of the unified buffer.

    Parameters
    ----------
    kernel : CompiledKernel
        The kernel.

    Returns
    -------
    int or None
        In bits; None where the compiler does not tell.
    """
    bits = getattr(kernel.metadata, "required_ub_bits", None)
    return int(bits) if bits else None


def _alike(value: Any) -> Any:
    """Give the value that stands for all that Triton compiles the same code for."""
    if isinstance(value, bool) or not isinstance(value, int) or value == 1:
        return value
    if -(2**31) <= value < 2**31:
        return 16 if value % 16 == 0 else 3
    if value >= 2**63:
        return value  # seen as unsigned, and too rare to care
    return 2**40 if value % 16 == 0 else 2**40 + 1


def _check_grid(grid: tuple[int, int, int]) -> None:
    n_programs = grid[0] * grid[1] * grid[2]
    in_parallel = os.environ.get("TRITON_ALL_BLOCKS_PARALLEL", "0") != "0"
    if n_programs > _MOST_PROGRAMS and not in_parallel:
        raise RuntimeError(
            f"the grid has {n_programs} programs, and a launch may have "
            f"{_MOST_PROGRAMS}; use larger blocks, or set TRITON_ALL_BLOCKS_PARALLEL=1."
        )
