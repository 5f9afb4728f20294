"""An oracle that compiles and times configs of a Triton kernel."""

import math
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self

from fasta_learn._compat import import_extra
from fasta_learn.oracles._base import BaseOracle
from fasta_learn.oracles._device_group import DeviceGroup
from fasta_learn.oracles._in_process import InProcessDevice
from fasta_learn.oracles._kernel_spec import KernelSpec
from fasta_learn.oracles._measurement import Measurement
from fasta_learn.oracles._timing import TimingPlan
from fasta_learn.oracles._triton_child import DeviceServer, SpecSource, workload_of
from fasta_learn.oracles._triton_device import count_cores
from fasta_learn.oracles._triton_options import check_options, device_of

if TYPE_CHECKING:
    from fasta_learn.oracles._triton_kernel import Workload

_END = object()


class TritonKernelOracle(BaseOracle):
    """Measure configs of a Triton kernel on GPUs.

    Configs are compiled in forked processes, the next ones while one is timed. Each is
    loaded, run once and checked, then timed with a cold L2 cache until its median is
    precise enough; one that is much slower than the best so far is cut off. Whatever a
    config does wrong is a failed measurement: it does not compile, needs more shared
    memory than there is, reads out of bounds, computes something else, crashes, or
    hangs.

    Parameters
    ----------
    kernel : object
        The function decorated by ``triton.jit``, or by ``triton.heuristics`` and
        ``triton.autotune`` on top of it; the configs of the latter are not used.
    args : sequence or mapping of str to object
        Arguments of the kernel that neither configs nor `constants` set, in the order
        of its parameters or by name.
    grid : tuple of int or callable
        The grid, or a function that takes all parameters as a dict and returns it.
    constants : mapping of str to object, default=None
        Further keyword arguments of the kernel, the same for every config.
    reset_to_zero, restore_value : sequence of str, default=()
        Names of tensors that are filled with zeros, or get back their value, before
        each launch.
    check : mapping of str to tensor, callable or None, default=None
        The right results by the name of the argument, or a function that takes the
        arguments as a dict and raises an AssertionError or returns False if results
        are wrong.
    pre_hook, post_hook : callable or None, default=None
        Called before and after each launch, as in ``triton.autotune``.
    timing : TimingPlan or None, default=None
        How precisely configs are timed; None is ``TimingPlan()``.
    isolate : bool, default=True
        Whether each device belongs to a child process. A crash, a hang or an error that
        makes the device unusable then costs that process only, and the config that
        caused it fails. With False, all happens in this process: it can't survive a
        crash, `run_timeout` has no effect, and after an error that breaks the device
        every further measurement raises.
    devices : sequence of int or None, default=None
        Indices of equal devices that measure side by side; more than one needs
        `isolate`. None is the device of the arguments.
    n_jobs : int or None, default=None
        Configs that are compiled at a time on all devices together. None takes the
        cores of this process, less one for each device.
    compile_timeout, run_timeout : float, default=60.0 and 10.0
        The most time that compiling a config, and running it with all repeats, may
        take, in s.
    lookahead : int or "auto", default="auto"
        How many configs a search guesses ahead, so that they compile while others are
        timed. ``"auto"`` is twice the number that a device compiles at a time.

    Attributes
    ----------
    timing : TimingPlan
        How precisely configs are timed.
    devices : list of int or None
        The parameter.
    lookahead : int
        How many configs a search chooses ahead.
    n_parallel : int
        Number of devices.

    Raises
    ------
    MissingExtraError
        Torch or triton is not installed.
    ValueError
        A parameter is not valid; a child process can't import the kernel.

    See Also
    --------
    KernelSpec : The same as a function that a child process can call.
    JournaledOracle : Keeps the measurements on disk.

    Notes
    -----
    A child process imports the kernel from its module and gets copies of the arguments.
    Kernels of a notebook or of the main script need `isolate=False`, or a file of their
    own. A config that has cost a child process is not run again before `close`.

    Examples
    --------
    >>> from fasta_learn import ActiveConfigSearch
    >>> from fasta_learn.oracles import TritonKernelOracle
    >>> def tune(kernel, args, grid, configs):
    ...     with TritonKernelOracle(kernel, args, grid) as oracle:
    ...         return ActiveConfigSearch().fit(configs, oracle=oracle).best_config_
    """

    def __init__(
        self,
        kernel: Any,
        args: Sequence[Any] | Mapping[str, Any],
        grid: tuple[int, ...] | Callable[[dict[str, Any]], tuple[int, ...]],
        *,
        constants: Mapping[str, Any] | None = None,
        reset_to_zero: Sequence[str] = (),
        restore_value: Sequence[str] = (),
        check: Any = None,
        pre_hook: Callable[..., Any] | None = None,
        post_hook: Callable[..., Any] | None = None,
        timing: TimingPlan | None = None,
        isolate: bool = True,
        devices: Sequence[int] | None = None,
        n_jobs: int | None = None,
        compile_timeout: float = 60.0,
        run_timeout: float = 10.0,
        lookahead: int | str = "auto",
    ) -> None:
        import_extra("torch", "torch")
        import_extra("triton", "torch")
        from fasta_learn.oracles._triton_kernel import Workload

        workload = Workload(
            kernel,
            args,
            grid,
            constants=constants,
            reset_to_zero=reset_to_zero,
            restore_value=restore_value,
            check=check,
            pre_hook=pre_hook,
            post_hook=post_hook,
        )
        self._set_up(
            workload,
            device_of(args),
            timing=timing,
            isolate=isolate,
            devices=devices,
            n_jobs=n_jobs,
            compile_timeout=compile_timeout,
            run_timeout=run_timeout,
            lookahead=lookahead,
        )

    @classmethod
    def from_spec(
        cls,
        spec: KernelSpec | str,
        parameters: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Self:
        """Make an oracle of a kernel spec.

        Parameters
        ----------
        spec : KernelSpec or str
            The spec, or ``"module:function"`` or ``"path/to/file.py:function"``. Of a
            text, or a spec that was loaded from one, each child process makes
            the arguments by itself: nothing is copied, and with `isolate` a text uses
            no device memory in this process.
        parameters : mapping of str to object, default=None
            Keyword arguments of the function that a text names.
        **options
            Timing, isolate, devices, n_jobs, compile_timeout, run_timeout, lookahead
            of the constructor.

        Returns
        -------
        TritonKernelOracle
            The oracle.

        Raises
        ------
        MissingExtraError
            Torch or triton is not installed.
        ValueError
            An option is not valid; parameters are given for a spec that is no text.
        """
        import_extra("torch", "torch")
        import_extra("triton", "torch")
        oracle = cls.__new__(cls)
        if isinstance(spec, str):
            source = SpecSource(spec, dict(parameters or {}))
            oracle._set_up(source, None, **options)
            return oracle
        if parameters is not None:
            raise ValueError(
                "parameters are for a spec that is named by a text; a KernelSpec has "
                "its arguments already."
            )
        if spec.source is not None and options.get("isolate", True):
            source = SpecSource(*spec.source)
            oracle._set_up(source, device_of(spec.args), **options)
        else:
            oracle._set_up(workload_of(spec), device_of(spec.args), **options)
        return oracle

    def _set_up(
        self,
        source: "SpecSource | Workload",
        own_device: int | None,
        *,
        timing: TimingPlan | None = None,
        isolate: bool = True,
        devices: Sequence[int] | None = None,
        n_jobs: int | None = None,
        compile_timeout: float = 60.0,
        run_timeout: float = 10.0,
        lookahead: int | str = "auto",
    ) -> None:
        check_options(
            isolate,
            devices,
            n_jobs,
            lookahead,
            compile_timeout=compile_timeout,
            run_timeout=run_timeout,
        )
        self.timing = TimingPlan() if timing is None else timing
        self.devices = None if devices is None else list(devices)
        self.n_parallel = 1 if devices is None else len(devices)
        n_jobs = n_jobs or count_cores() - self.n_parallel
        self._n_threads = max(1, n_jobs // self.n_parallel)
        ahead = 2 * self._n_threads if lookahead == "auto" else lookahead
        self.lookahead = int(ahead)
        self._best = math.inf
        chosen = [own_device] if self.devices is None else self.devices
        self._backend: DeviceGroup | InProcessDevice
        if isolate:
            server = DeviceServer(source, self._n_threads, self.timing)
            self._backend = DeviceGroup(
                server.to_bytes,
                [device or 0 for device in chosen],
                n_threads=self._n_threads,
                compile_timeout=float(compile_timeout),
                run_timeout=float(run_timeout),
            )
        else:
            self._backend = InProcessDevice(
                source.load if isinstance(source, SpecSource) else lambda: source,
                chosen[0],
                n_threads=self._n_threads,
                plan=self.timing,
                compile_timeout=float(compile_timeout),
            )
        weakref.finalize(self, self._backend.close)

    def open_pool(self, configs: Iterable[Any]) -> None:
        """Begin with another pool: configs are cut off by the best one of it.

        Parameters
        ----------
        configs : iterable of length N
            All configs of the pool.
        """
        self._best = math.inf

    def prepare(self, configs: Iterable[Any]) -> None:
        """Start to compile configs that may be measured soon; returns soon.

        Parameters
        ----------
        configs : iterable of length n
            The most urgent first.

        Raises
        ------
        ValueError
            The kernel can't be measured here, such as without a GPU.
        RuntimeError
            No child process can be started.
        """
        self._backend.prepare(configs)

    def measure(self, configs: Iterable[Any]) -> list[Measurement]:
        """Measure configs.

        Parameters
        ----------
        configs : iterable of length n
            Dicts, or ``triton.Config``: num_warps, num_stages, num_ctas and maxnreg are
            options, the rest are parameters of the kernel.

        Returns
        -------
        list of Measurement, length n
            In the order of the configs.

        Raises
        ------
        ValueError
            The kernel can't be measured here, such as without a GPU.
        RuntimeError
            No child process can be started; or, without `isolate`, an earlier config
            has broken the device.
        """
        return list(self.measure_each(configs))

    def measure_each(self, configs: Iterable[Any]) -> Iterator[Measurement]:
        """Measure configs and give each measurement as soon as it is there.

        Parameters
        ----------
        configs : iterable of length n
            The configs. So many are taken ahead that all devices are busy and, with a
            look-ahead, all compile threads.

        Yields
        ------
        Measurement
            In the order of the configs.

        Raises
        ------
        ValueError
            The kernel can't be measured here, such as without a GPU.
        RuntimeError
            No child process can be started; or, without `isolate`, an earlier config
            has broken the device.
        """
        source = iter(configs)
        n_open = self.n_parallel * (1 + self.lookahead)
        numbers: deque[int] = deque()
        config: Any = None
        try:
            while True:
                while len(numbers) < n_open and config is not _END:
                    config = next(source, _END)
                    if config is not _END:
                        numbers.append(self._backend.submit(config))
                if not numbers:
                    return
                answer = self._backend.result(numbers[0], self._best_or_none())
                numbers.popleft()
                # What failed is inf, and what was cut off is slower than the best.
                self._best = min(self._best, answer.duration)
                yield answer
        finally:
            self._backend.forget(numbers)

    def fingerprint(self) -> dict[str, Any]:
        """Say what is measured; with `isolate` this starts the first child process.

        Returns
        -------
        dict
            The kernel with its source, the signature of its arguments, the device, the
            versions of torch, triton and the driver, and the timing plan.

        Raises
        ------
        ValueError
            The kernel can't be measured here, such as without a GPU.
        RuntimeError
            No child process can be started.
        """
        facts = self._backend.facts()
        return {**super().fingerprint(), **facts, "timing": asdict(self.timing)}

    def close(self) -> None:
        """End the child processes and threads; measuring again starts new ones."""
        self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _best_or_none(self) -> float | None:
        return None if math.isinf(self._best) else self._best
