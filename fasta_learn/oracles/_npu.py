"""An oracle that compiles and times configs of a Triton kernel on an Ascend NPU."""

import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

from fasta_learn._compat import import_extra
from fasta_learn.oracles._base import BaseOracle
from fasta_learn.oracles._measurement import Measurement
from fasta_learn.oracles._npu_options import check_npu_options, describe_npu
from fasta_learn.oracles._timing import Clock, TimingPlan
from fasta_learn.oracles._triton_device import count_cores

if TYPE_CHECKING:
    from fasta_learn.oracles._npu_compiling import NPUTask
    from fasta_learn.oracles._npu_device import NPUDevice


class NPUKernelOracle(BaseOracle):
    """Measure configs of a Triton kernel on an Ascend NPU.

    What configs have in common is compiled once: those that differ only in arguments
    that the kernel reads at run time, such as ``X0BLOCK``, are candidates of one
    compiled variant. Variants are compiled some at a time, the next ones while one is
    timed. Whatever a config does wrong is a failed measurement: it needs more of the
    unified buffer than there is, does not compile otherwise, fails at its launch, or
    computes something else.

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
    timer : {"auto", "events", "profiler", "mspti"}, default="auto"
        What times launches: events of the stream, torch_npu's profiler, or mspti, which
        comes with CANN and must be in ``LD_PRELOAD``. ``"auto"`` is mspti where it is
        ready, and events elsewhere. It is chosen once for each pool: durations of two
        timers don't compare.
    timing : TimingPlan or None, default=None
        How precisely events time configs; None is ``TimingPlan()``. Profiler and mspti
        launch each config as often as torch_npu does, 10 and 30 times.
    n_jobs : int or None, default=None
        Variants that are compiled at a time. None takes the cores of this process, less
        one.
    compile_timeout : float, default=120.0
        The most time that compiling a variant may take, in s.
    batch_size : int, default=16
        Configs that profiler or mspti time in one session, as starting one is slow.
    lookahead : int or "auto", default="auto"
        How many configs a search guesses ahead, so that they compile while others are
        timed. ``"auto"`` is twice `n_jobs`.

    Attributes
    ----------
    configs : list of dict
        With `from_autotuner`, its candidates, without what only repeats their other
        parameters. Otherwise empty.
    backend : str or None
        What times launches; None before that is chosen.
    timing : TimingPlan
        How precisely events time configs.
    lookahead : int
        How many configs a search chooses ahead.

    Raises
    ------
    MissingExtraError
        Torch, torch_npu or triton-ascend is not installed.
    ValueError
        A parameter is not valid.

    See Also
    --------
    TritonKernelOracle : The same on GPUs.
    fasta_learn.configs.TileSpace.ascend : Makes pools of tiles.

    Notes
    -----
    Configs are measured in this process. `info` of a measurement has what a config
    takes of the unified buffer, ``"required_bits"`` (and, if that was too much,
    ``"available_bits"``); the number of its compiled ``"variant"``; and options that
    had to be ``"changed"`` to compile it. The time of compiling a variant counts for
    the first of its candidates. A timer that has not a duration for each launch of a
    batch is not trusted: the batch is measured again, one config at a time.

    Examples
    --------
    >>> from fasta_learn import ActiveConfigSearch
    >>> from fasta_learn.oracles import NPUKernelOracle
    >>> def tune(kernel, args, grid, configs):
    ...     with NPUKernelOracle(kernel, args, grid) as oracle:
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
        timer: str = "auto",
        timing: TimingPlan | None = None,
        n_jobs: int | None = None,
        compile_timeout: float = 120.0,
        batch_size: int = 16,
        lookahead: int | str = "auto",
    ) -> None:
        for module in ("torch", "torch_npu", "triton"):
            import_extra(module, "npu")
        from fasta_learn.oracles._npu_kernel import NPUWorkload

        task = NPUWorkload(
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
            task,
            timer=timer,
            timing=timing,
            n_jobs=n_jobs,
            compile_timeout=compile_timeout,
            batch_size=batch_size,
            lookahead=lookahead,
        )

    @classmethod
    def from_autotuner(
        cls,
        autotuner: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any] | None = None,
        *,
        stream: int | None = None,
        clock: Clock | None = None,
        **options: Any,
    ) -> Self:
        """Make an oracle of a live autotuner of torch_npu's Inductor.

        Parameters
        ----------
        autotuner : NPUCachingAutotuner
            The autotuner. What it has compiled is used; it is left as it is until
            `adopt`.
        args : sequence
            Arguments of the call that it is tuned for.
        kwargs : mapping of str to object, default=None
            Keyword arguments of the call.
        stream : int or None, default=None
            The raw stream; None is the current one.
        clock : Clock or None, default=None
            What takes the place of events.
        **options
            Timer, timing, n_jobs, compile_timeout, batch_size, lookahead of the
            constructor.

        Returns
        -------
        NPUKernelOracle
            The oracle. It measures the autotuner's configs, or those of `configs`.

        Raises
        ------
        TypeError
            The object lacks what an ``NPUCachingAutotuner`` has.
        ValueError
            An option is not valid.
        """
        from fasta_learn.oracles._npu_autotuner import AutotunerWorkload

        task = AutotunerWorkload(autotuner, args, kwargs, stream)
        oracle = cls.__new__(cls)
        oracle._set_up(task, clock=clock, **options)
        oracle.configs = task.configs
        return oracle

    def _set_up(
        self,
        task: "NPUTask",
        *,
        timer: str = "auto",
        timing: TimingPlan | None = None,
        n_jobs: int | None = None,
        compile_timeout: float = 120.0,
        batch_size: int = 16,
        lookahead: int | str = "auto",
        clock: Clock | None = None,
    ) -> None:
        check_npu_options(timer, n_jobs, compile_timeout, batch_size, lookahead)
        self.configs: list[dict[str, Any]] = []
        self.timing = TimingPlan() if timing is None else timing
        self._task = task
        n_threads = n_jobs or max(1, count_cores() - 1)
        self.lookahead = int(2 * n_threads if lookahead == "auto" else lookahead)
        self._batch_size = batch_size
        self._options: dict[str, Any] = {
            "timer": timer,
            "plan": self.timing,
            "n_threads": n_threads,
            "compile_timeout": float(compile_timeout),
            "clock": clock,
        }
        self._device: NPUDevice | None = None
        self._broken: str | None = None
        self._best = math.inf

    @property
    def backend(self) -> str | None:
        """What times launches; None before that is chosen."""
        return None if self._device is None else self._device.backend

    def open_pool(self, configs: Iterable[Any]) -> None:
        """Begin with another pool: its timer is chosen anew.

        Parameters
        ----------
        configs : iterable of length N
            All configs of the pool.
        """
        self._best = math.inf
        if self._device is not None:
            self._device.end()

    def prepare(self, configs: Iterable[Any]) -> None:
        """Start to compile configs that may be measured soon; returns soon.

        Parameters
        ----------
        configs : iterable of length n
            The most urgent first.
        """
        self._open().prepare(configs)

    def measure(self, configs: Iterable[Any]) -> list[Measurement]:
        """Measure configs.

        Parameters
        ----------
        configs : iterable of length n
            Dicts, or ``triton.Config``. Of an autotuner, its configs.

        Returns
        -------
        list of Measurement, length n
            In the order of the configs.

        Raises
        ------
        ValueError
            The timer can't be used here.
        RuntimeError
            An earlier config has broken the device.
        """
        configs = list(configs)
        self.prepare(configs)
        return list(self.measure_each(configs))

    def measure_each(self, configs: Iterable[Any]) -> Iterator[Measurement]:
        """Measure configs and give each measurement as soon as it is there.

        Parameters
        ----------
        configs : iterable of length n
            The configs. With events each is taken only when it is due, and with other
            timers as many as a session times.

        Yields
        ------
        Measurement
            In the order of the configs.

        Raises
        ------
        ValueError
            The timer can't be used here.
        RuntimeError
            An earlier config has broken the device.
        """
        device, source = self._open(), iter(configs)
        while True:
            n_next = 1 if device.begin() == "events" else self._batch_size
            batch = list(islice(source, n_next))
            if not batch:
                return
            try:
                answers = device.measure(batch, self._best)
            finally:
                self._broken = device.broken
            # What failed is inf, and what was cut off is slower than the best.
            self._best = min(self._best, *(answer.duration for answer in answers))
            yield from answers

    def adopt(self, config: Any, seconds: float = 0.0) -> None:
        """Make a config the choice of the autotuner that the oracle was made of.

        It is stored in Inductor's cache, as if the autotuner had found it.

        Parameters
        ----------
        config : dict or triton.Config
            A config that was measured and has run.
        seconds : float, default=0.0
            How long tuning took.

        Raises
        ------
        ValueError
            The oracle was not made of an autotuner, or the config is none of its
            candidates or was not compiled.
        """
        adopt = getattr(self._task, "adopt", None)
        if adopt is None:
            raise ValueError("adopt needs an oracle that from_autotuner has made.")
        adopt(config, seconds)

    def fingerprint(self) -> dict[str, Any]:
        """Say what is measured.

        Returns
        -------
        dict
            The kernel with its source, its arguments, the device, the versions of
            torch, torch_npu and triton-ascend, the timer and the timing plan.

        Raises
        ------
        ValueError
            The timer can't be used here.
        """
        return {
            **super().fingerprint(),
            **describe_npu(),
            "kernel": self._task.fingerprint(),
            "timer": self._open().begin(),
            "timing": asdict(self.timing),
        }

    def close(self) -> None:
        """End the threads and put the arguments back; measuring again starts anew."""
        device, self._device = self._device, None
        if device is not None:
            device.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _open(self) -> "NPUDevice":
        if self._device is None:
            from fasta_learn.oracles._npu_device import NPUDevice

            self._device = NPUDevice(self._task, **self._options)
            self._device.broken = self._broken
            weakref.finalize(self, self._device.close)
        return self._device
