"""A Triton kernel with its arguments: compiled, loaded and launched per config."""

import contextlib
import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fasta_learn.oracles import _triton_arguments as arguments
from fasta_learn.oracles import _triton_binding as binding
from fasta_learn.oracles import _triton_transfer as transfer
from fasta_learn.oracles._triton_binding import BoundConfig, CompileFacts, Grid
from fasta_learn.oracles._triton_result import ArgumentMemory, ResultCheck
from fasta_learn.oracles._triton_source import hash_kernel, hash_source

Check = Callable[[dict[str, Any]], bool | None] | Mapping[str, Any]


class Workload:
    """A ``triton.jit`` kernel with its arguments.

    Parameters
    ----------
    kernel : triton.JITFunction, or a wrapper around one
        Of ``triton.heuristics`` the values are computed for each config; of
        ``triton.autotune`` the configs are ignored, and its names of tensors to
        reset or restore are used if none are given here.
    args : mapping or sequence
        Arguments by name, or in the kernel's order without those that configs and
        `constants` set.
    grid : sequence of int, or callable
        As at a launch.
    constants : mapping or None, default=None
        Further arguments and launch options that no config sets.
    reset_to_zero : iterable of str, default=()
        Names of tensors to be zeroed before each launch.
    restore_value : iterable of str, default=()
        Names of tensors to be put back before each launch.
    check : callable, mapping or None, default=None
        Takes the arguments by name after the first launch of each config; returns
        False or raises an AssertionError if they are wrong. Or the expected tensors
        by name, see `fasta_learn.oracles._triton_result.compare`.
    pre_hook : callable or None, default=None
        ``pre_hook(arguments, reset_only=False)``, instead of resetting and restoring.
    post_hook : callable or None, default=None
        ``post_hook(arguments, exception=None)``, after each launch.

    Attributes
    ----------
    name : str
        Name of the kernel.
    args : dict
        Arguments by name.
    device : int
        Index of the device of the arguments.
    target : GPUTarget
        What kernels are compiled for.

    Raises
    ------
    TypeError
        The kernel is none.
    ValueError
        Arguments contradict the kernel or each other.

    Notes
    -----
    `compile` may be called from several threads; all else belongs to one thread.
    """

    def __init__(
        self,
        kernel: Any,
        args: Mapping[str, Any] | Sequence[Any],
        grid: Grid,
        *,
        constants: Mapping[str, Any] | None = None,
        reset_to_zero: Iterable[str] = (),
        restore_value: Iterable[str] = (),
        check: Check | None = None,
        pre_hook: Callable[..., Any] | None = None,
        post_hook: Callable[..., Any] | None = None,
    ) -> None:
        self._jit, self._heuristics, tuner = binding.unwrap(kernel)
        reset_to_zero = tuple(reset_to_zero or getattr(tuner, "reset_to_zero", ()))
        restore_value = tuple(restore_value or getattr(tuner, "restore_value", ()))
        self.constants = dict(constants or {})
        self.args = arguments.name_arguments(self._jit.params, args, self.constants)
        self.grid = grid if callable(grid) else tuple(grid)
        self._names = (reset_to_zero, restore_value)
        self._memory = ArgumentMemory(self.args, reset_to_zero, restore_value)
        self._check = dict(check) if isinstance(check, Mapping) else check
        self._pre_hook, self._post_hook = pre_hook, post_hook
        kept = {*reset_to_zero, *restore_value}
        self._result = ResultCheck({**self.constants, **self.args}, check, kept)
        self._bounds: dict[Any, BoundConfig] = {}
        self._current: BoundConfig | None = None
        self._unfinished: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return str(self._jit.__name__)

    @property
    def target(self) -> Any:
        """What kernels are compiled for."""
        return binding.active_driver().get_current_target()

    @functools.cached_property
    def device(self) -> int:
        """Index of the device of the arguments."""
        for value in self.args.values():
            tensor = arguments.tensor_of(value)
            if tensor is not None and tensor.device.index is not None:
                return int(tensor.device.index)
        return int(binding.active_driver().get_current_device())

    def fingerprint(self) -> dict[str, Any]:
        """Say which kernel runs on which arguments.

        Returns
        -------
        dict
            JSON can hold it. The hash covers the source of the kernel and of the
            functions and constants that it uses; of tensors, types and shapes count.
        """
        describe = arguments.describe_argument
        return {
            "kernel": self.name,
            "source": hash_kernel(self._jit),
            "args": {name: describe(value) for name, value in self.args.items()},
            "constants": {k: describe(v) for k, v in self.constants.items()},
            "heuristics": {k: hash_source(v) for k, v in self._heuristics},
            "grid": None if callable(self.grid) else describe(self.grid),
        }

    def fill_tables(self) -> None:
        """Compute what all compiles share, so that forked processes need not."""
        self._select_device()
        binding.fill_tables(self._jit, self.device)

    def compile(self, config: Any) -> CompileFacts:
        """Compile a config, or find it compiled; nothing is loaded on the device.

        Parameters
        ----------
        config : dict or triton.Config
            Constexprs by name; num_warps, num_stages and other options.

        Returns
        -------
        CompileFacts
            Without registers and spills, unless it was loaded before.

        Raises
        ------
        Exception
            What Triton raises; a TypeError if config and arguments don't fit.
        """
        start, started_at = time.perf_counter(), time.time()
        self._select_device()
        bound = self._bound(config)
        if bound.facts is not None:
            return replace(bound.facts, cached=True)
        # The kernel first: who sees the facts takes it for granted.
        bound.kernel = binding.warm_up(self._jit, bound, self.device)
        bound.facts = CompileFacts(
            seconds=time.perf_counter() - start,
            registers=None,
            spills=None,
            shared_bytes=int(bound.kernel.metadata.shared),
            cached=binding.written_before(bound.kernel, started_at),
        )
        return bound.facts

    def load(self, config: Any) -> CompileFacts:
        """Load a config on the device, compiled before if need be.

        Parameters
        ----------
        config : dict or triton.Config
            The config.

        Returns
        -------
        CompileFacts
            With registers and spills.

        Raises
        ------
        Exception
            What Triton raises: OutOfResources if the device has too little.
        """
        facts = self.compile(config)
        bound = self._bound(config)
        bound.kernel._init_handles()
        binding.provide_allocator(bound.kernel)
        facts = replace(
            facts,
            registers=int(bound.kernel.n_regs),
            spills=int(bound.kernel.n_spills),
        )
        bound.facts = facts
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
            Without parameters. It does not reset or restore: see `prepare`. Errors
            are those of `load`.
        """
        self.load(config)
        bound = self._bound(config)
        self._current = bound
        runner = bound.kernel[bound.full_grid(self.grid)]
        return functools.partial(runner, *bound.values.values())

    def launch(self, config: Any) -> None:
        """Enqueue one launch of a config."""
        self.launcher(config)()

    def prepare(self) -> None:
        """Reset, restore and call the hooks, as before each launch.

        It is for the config that `launcher` was last asked for, and is not to be
        timed. The hooks are the config's own, `pre_hook` and the kernel's.
        """
        bound = self._current
        self.finish()
        if bound is None:
            self._memory.put_back()
            return
        if bound.hook is not None:
            bound.hook(dict(bound.hook_arguments))
        if self._pre_hook is not None:
            self._pre_hook(dict(bound.hook_arguments), reset_only=False)
        else:
            self._memory.put_back()
        for hook in self._jit.pre_run_hooks:
            positional, named = bound.split(self.args)
            hook(*positional, **named)
        self._unfinished = dict(bound.hook_arguments)

    def snapshot(self) -> None:
        """Remember what is to be restored; later calls do nothing."""
        self._memory.snapshot()

    def poison(self) -> None:
        """Make the results wrong that `verify` compares, except inputs."""
        self._result.poison()

    def synchronize(self) -> None:
        """Wait for the device; errors of earlier launches come out here."""
        binding.active_driver().get_device_interface().synchronize()

    def verify(self) -> None:
        """Check the result of the last launch.

        Raises
        ------
        WrongResultError
            The result is wrong.
        """
        self._result.verify()

    def first_launch(self, config: Any) -> None:
        """Launch a config once, wait for it, and check its result.

        Parameters
        ----------
        config : dict or triton.Config
            The config.

        Raises
        ------
        Exception
            What goes wrong: WrongResultError if it is the result.
        """
        launch = self.launcher(config)
        self.snapshot()
        self.poison()
        self.prepare()
        try:
            launch()
            self.synchronize()
            self.verify()
        except Exception as error:
            # A hook that fails on a broken device must not hide why it is broken.
            with contextlib.suppress(Exception):
                self.finish(error)
            raise
        self.finish()

    def finish(self, exception: Exception | None = None) -> None:
        """Call the hook that follows the last launch (and what it raised), once."""
        unfinished, self._unfinished = self._unfinished, None
        if unfinished is not None and self._post_hook is not None:
            self._post_hook(unfinished, exception=exception)

    def restore(self) -> None:
        """Put the arguments back after the last launch."""
        self.finish()
        if self._pre_hook is not None:
            self._pre_hook({**self.args, **self.constants}, reset_only=True)
        else:
            self._memory.put_back()

    def release(self, config: Any) -> None:
        """Forget a config that is not to be launched again, and free its memory.

        Parameters
        ----------
        config : dict or triton.Config
            The config; its compiled kernel stays in Triton's cache on disk.
        """
        bound = self._bounds.pop(binding.key_of(config), None)
        if bound is None or bound.kernel is None:
            return
        binding.drop(self._jit, bound.kernel, self.device)

    def renew_locks(self) -> None:
        """Make new locks, in a process that was forked beside other threads."""
        binding.renew_locks(self._jit)

    def close(self) -> None:
        """Free the copies of arguments and forget all configs."""
        self._memory.forget()
        self._bounds.clear()
        self._current = None

    def device_copy(self, device: Any) -> "Workload":
        """Copy the workload, with its tensors on another device.

        Parameters
        ----------
        device : torch.device or str
            Where tensors go that are on a device now.

        Returns
        -------
        Workload
            Views of one memory are views of one memory again.
        """
        fields, buffers = transfer.pack_tensors(self._fields())
        return _rebuild(fields, buffers, device)

    def __reduce__(self) -> tuple[Any, ...]:
        fields = transfer.name_kernels(self._fields(), type(self._jit))
        return _rebuild, (*transfer.pack_tensors(fields), None)

    def _fields(self) -> dict[str, Any]:
        return {
            "kernel": self._jit,
            "heuristics": self._heuristics,
            "args": self.args,
            "grid": self.grid,
            "constants": self.constants,
            "reset_to_zero": self._names[0],
            "restore_value": self._names[1],
            "check": self._check,
            "pre_hook": self._pre_hook,
            "post_hook": self._post_hook,
        }

    def _bound(self, config: Any) -> BoundConfig:
        key = binding.key_of(config)
        bound = self._bounds.get(key)
        if bound is None:
            fixed = {**self.args, **self.constants}
            bound = binding.bind(self._jit, self._heuristics, fixed, config)
            # Of two threads, the second takes what the first made.
            bound = self._bounds.setdefault(key, bound)
        return bound

    def _select_device(self) -> None:
        # Each thread has its own current device.
        driver = binding.active_driver()
        if driver.get_current_device() != self.device:
            driver.set_current_device(self.device)


def _rebuild(fields: dict[str, Any], buffers: list[Any], device: Any) -> Workload:
    """Make a workload from its packed fields."""
    fields = transfer.unpack_tensors(transfer.find_kernels(fields), buffers, device)
    heuristics = fields.pop("heuristics")
    workload = Workload(**fields)
    workload._heuristics = heuristics
    return workload
