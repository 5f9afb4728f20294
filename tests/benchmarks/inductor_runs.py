"""What the benchmarks of ``torch.compile`` share: modes, caches, rows, timing.

Every mode compiles the same source, each from a file of its own, since functions that
share their code share what was compiled for it. Each compile begins with empty caches
and an empty store. What was compiled stays in the process, so that all modes can be
timed in turns of random order.
"""

import contextlib
import importlib
import importlib.util
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

from inductor_rows import log, parse_settings

# Which settings of Inductor a mode has, and whether fasta_learn is on.
GRAPH_MODES = {
    "default": ({}, False),
    "max-autotune": ({"max_autotune": True}, False),
    "coordinate descent": (
        {"max_autotune": True, "coordinate_descent_tuning": True},
        False,
    ),
    "fasta_learn": ({"max_autotune": True}, True),
}
GEMM_MODES = {
    "default": (
        {"max_autotune": True, "max_autotune_gemm_search_space": "DEFAULT"},
        False,
    ),
    "fasta_learn": (
        {"max_autotune": True, "max_autotune_gemm_search_space": "DEFAULT"},
        True,
    ),
    "exhaustive": (
        {"max_autotune": True, "max_autotune_gemm_search_space": "EXHAUSTIVE"},
        False,
    ),
}


class OutOfTimeError(BaseException):
    """A compile took longer than it may; no ``except Exception`` swallows it."""


class Session:
    """What compiles and times in one process.

    Parameters
    ----------
    args : argparse.Namespace
        The options.
    modes : dict
        Name to a pair of Inductor's settings and whether fasta_learn is on.
    folder : Path or None, default=None
        Where sources and caches are; None for a new one, which is left behind.
    """

    def __init__(self, args, modes, folder=None):
        self.args = args
        self.modes = {name: modes[name] for name in args.modes}
        self.settings = parse_settings(args.set)
        self.folder = folder or Path(tempfile.mkdtemp(prefix="bench_inductor_"))
        sys.dont_write_bytecode = True
        log("importing torch")
        import torch

        import fasta_learn.inductor

        self.torch, self.inductor = torch, fasta_learn.inductor
        self._begin()

    def about(self):
        """Return what the rows are measured with."""
        import triton

        import fasta_learn

        torch = self.torch
        cuda = self.args.device == "cuda"
        return {
            "torch": torch.__version__,
            "triton": triton.__version__,
            "fasta_learn": fasta_learn.__version__,
            "device": torch.cuda.get_device_name() if cuda else "cpu",
            "n_cpus": os.cpu_count(),
            "parent_cache_fixed": not self.args.stock_parent,
            "settings": self.settings,
        }

    def _begin(self):
        """Pay for what is only paid once a process, outside of all that is timed."""
        torch = self.torch
        importlib.import_module("torch._inductor.select_algorithm")
        if self.args.device == "cpu":
            torch.set_num_threads(1)
        else:
            ones = torch.ones(256, 256, device="cuda", dtype=torch.float16)
            torch.mm(ones, ones)
            torch.cuda.synchronize()
        if not self.args.stock_parent:
            self.inductor.fix_parent_cache()
        if "fasta_learn" in self.modes:
            # Workers that are started now load what they need of fasta_learn, too.
            with self.inductor.enable():
                self.start_workers()
        self.start_workers()
        log("workers are ready; first compile")
        source = "import torch\n\n\ndef run(x):\n    return torch.sin(x) + 1\n"
        ones = torch.ones(1000, device=self.args.device)
        compiled = self.wrap(self.write("warm_up", source).run)
        with self.caches():
            compiled(ones)
        self.synchronize()
        log("ready")

    def start_workers(self):
        """Wait until Inductor's compile workers run, so that no mode waits for them."""
        if self.args.device == "cpu":
            return
        from torch._inductor.async_compile import AsyncCompile

        AsyncCompile.warm_pool()
        AsyncCompile.wait_pool_ready()
        AsyncCompile.wakeup()

    def synchronize(self):
        if self.args.device == "cuda":
            self.torch.cuda.synchronize()

    def compile(self, name, mode, source, inputs, expected):
        """Compile a source in a mode; return the function, or None, and a record."""
        compiled = self.wrap(self.write(f"{name} {mode}", source).run)
        try:
            with self.caches():
                record = self.first_call(mode, lambda: compiled(*inputs))
            record["error"] = largest_error(compiled(*inputs), expected)
        except Exception as error:
            log(f"{name}: {mode} failed with {error!r}")
            return None, {"failed": repr(error)[:1000]}
        log(f"{name}: {mode} in {record['seconds']:.1f} s, {describe(record)}")
        return compiled, record

    def write(self, name, source):
        """Write a source to a file of its own and import it."""
        name = "".join(c if c.isalnum() else "_" for c in name)
        path = self.folder / f"{name}.py"
        path.write_text(source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(f"bench_{name}", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module

    def wrap(self, function):
        return self.torch.compile(function, dynamic=False)

    @contextlib.contextmanager
    def caches(self, path=None):
        """Caches in a folder: an empty one, or one that a process before has filled.

        The folder is kept, since what was compiled may still need it.
        """
        from torch._inductor.utils import clear_caches

        path = path or tempfile.mkdtemp(dir=self.folder)
        variables = {
            "TORCHINDUCTOR_CACHE_DIR": str(path),
            "TRITON_CACHE_DIR": os.path.join(path, "triton"),
        }
        before = {name: os.environ.get(name) for name in variables}
        clear_caches()
        os.environ.update(variables)
        try:
            yield
        finally:
            clear_caches()
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

    @contextlib.contextmanager
    def mode(self, name, store=None):
        """Inductor with the settings of a mode, and fasta_learn where it belongs."""
        from torch._inductor import config

        patch, is_ours = self.modes[name]
        if self.args.device == "cpu":
            patch = {**patch, "max_autotune_gemm_backends": "ATEN"}
        with contextlib.ExitStack() as stack:
            stack.enter_context(config.patch(patch))
            if is_ours:
                store = store or tempfile.mkdtemp(dir=self.folder)
                given = {"store": store, **self.settings}
                stack.enter_context(self.inductor.enable(**given))
            yield

    def first_call(self, name, call, store=None):
        """Call what compiles, with the settings of a mode; return a record of it."""
        self.start_workers()
        choices = watch_choices() if not self.modes[name][1] else []
        n_before = len(self.inductor.statistics())
        with self.mode(name, store):
            started = time.perf_counter()
            with stop_after(self.args.mode_limit):
                call()
                self.synchronize()
            seconds = time.perf_counter() - started
            # Once more, so that nothing is left to load when it is timed.
            call()
            self.synchronize()
        searches = self.inductor.statistics()[n_before:]
        return {"seconds": seconds, "choices": choices, "searches": searches}

    def interleave(self, functions, inputs):
        """Time compiled functions in turns; return durations in ms, by name.

        On a GPU each is captured into a CUDA graph. Every round has all of them, in an
        order of its own, with a cold cache; a second race is run with a warm one.
        """
        launches = {name: _bind(f, inputs) for name, f in functions.items()}
        if self.args.device == "cpu":
            with self.no_recompile():
                return {"cold": self._race(launches, _time_on_cpu)}
        from fasta_learn.inductor._graph_clock import GraphClock

        races = {}
        for kind, flush in (("cold", True), ("warm", False)):
            with GraphClock(0, flush=flush) as clock, self.no_recompile():

                def time_it(launch, clock=clock):
                    return statistics.median(clock.time_batch(launch, 3))

                races[kind] = self._race(launches, time_it)
                races["n_not_captured"] = clock._n_failures
        return races

    def no_recompile(self):
        """Refuse what would time another kernel than the one that was tuned."""
        return self.torch._dynamo.config.patch(error_on_recompile=True)

    def _race(self, launches, time_it):
        names = list(launches)
        order = random.Random(0)
        rounds = {name: [] for name in names}
        for name in names:
            time_it(launches[name])  # captures and warms up
        for _ in range(self.args.rounds):
            for name in order.sample(names, len(names)):
                rounds[name].append(float(time_it(launches[name])))
        return rounds


def _bind(function, inputs):
    return lambda: function(*inputs)


def _time_on_cpu(launch):
    started = time.perf_counter()
    launch()
    return (time.perf_counter() - started) * 1e3


def watch_choices():
    """Let Inductor's selector tell its timings; return the list that it fills."""
    from torch._inductor.select_algorithm import get_algorithm_selector_cache

    told = []

    def save(timings, name, *rest, **keywords):
        finite = {choice: t for choice, t in timings.items() if t < float("inf")}
        best = min(finite, key=finite.get) if finite else None
        told.append(
            {
                "name": name,
                "n_choices": len(timings),
                "n_failed": len(timings) - len(finite),
                "best": str(getattr(best, "name", best)),
                "description": str(getattr(best, "description", "")),
                "best_ms": finite.get(best),
            }
        )

    selector = get_algorithm_selector_cache()
    selector.clear_feedback_savers()
    selector.add_feedback_saver(save)
    return told


@contextlib.contextmanager
def stop_after(seconds):
    """Raise `OutOfTimeError` in the main thread after a while."""

    def stop(number, frame):
        raise OutOfTimeError(f"stopped after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def describe(record):
    """Say what was measured to choose what a mode chose."""
    if record["searches"]:
        last = record["searches"][-1]
        return f"{last['n_measured']} of {last['n_pool']} measured, {last['winner']}"
    if record["choices"]:
        last = record["choices"][-1]
        return f"{last['n_choices']} choices, {last['best']} {last['description']}"
    return "no choice told"


def compare(rounds, name, other):
    """Median ratio of two modes by rounds, with its standard error."""
    import numpy as np

    from fasta_learn.oracles._timing import Timing

    timing = Timing(np.array(rounds[name]) / np.array(rounds[other]))
    return timing.median, timing.standard_error


def log_races(name, races):
    for kind in ("cold", "warm"):
        if kind in races:
            race = races[kind]
            times = ", ".join(f"{mode} {median_us(race, mode):.2f}" for mode in race)
            log(f"{name}: {times} us, {kind} cache")


def median_us(rounds, name):
    return statistics.median(rounds[name]) * 1e3 if name in rounds else float("nan")


def geometric_mean(values):
    values = [value for value in values if value == value and value > 0]
    return statistics.geometric_mean(values) if values else float("nan")


def largest_error(result, expected):
    """Largest difference of two tensors, as a share of the largest value."""
    difference = (result.float() - expected.float()).abs().max()
    return float(difference / expected.float().abs().max().clamp(min=1e-6))
