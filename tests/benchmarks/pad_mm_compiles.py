"""Compiles one product in several ways, and times the compiles and the products."""

import contextlib
import math
import statistics
import time
import types
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from fasta_learn.heuristics import GemmInput, activate
from fasta_learn.heuristics._collect_cuda import _set_precision

MODES = ("default", "learned", "shipped", "never", "always")
# Only their compiles are compared, so only these are repeated.
DECIDING = ("default", "learned", "shipped")
NEEDS_FOLDER = ("learned", "shipped")
N_ROUNDS = 15


@contextlib.contextmanager
def in_mode(mode: str, folders: dict[str, Path]) -> Iterator[None]:
    """Compile in one of the ways, with empty caches.

    Parameters
    ----------
    mode : str
        One of `MODES`.
    folders : dict of str to Path
        Where the artifacts of "learned" and "shipped" are installed.
    """
    import torch._inductor.config as config
    from torch._inductor.utils import fresh_cache

    with contextlib.ExitStack() as stack:
        if mode in folders:
            stack.enter_context(activate(folder=folders[mode]))
        stack.enter_context(config.patch(shape_padding=mode != "never"))
        stack.enter_context(config.patch(force_shape_pad=mode == "always"))
        stack.enter_context(fresh_cache())
        yield


class Spy:
    """Remembers what Inductor decided, how long that took, and what it benchmarked."""

    def __init__(self) -> None:
        from torch._inductor.fx_passes import pad_mm

        self._module = pad_mm
        self._inner, self._get = pad_mm._should_pad, pad_mm.get_do_bench

    def __enter__(self) -> Self:
        self.pads: bool | None = None
        self.n_timed = 0
        self.seconds = 0.0
        self._module._should_pad = self._decide
        self._module.get_do_bench = self._get_counted
        return self

    def __exit__(self, *_: object) -> None:
        self._module._should_pad, self._module.get_do_bench = self._inner, self._get

    def _decide(self, *arguments: Any) -> bool:
        start = time.perf_counter()
        self.pads = bool(self._inner(*arguments))
        self.seconds += time.perf_counter() - start
        return self.pads

    def _get_counted(self) -> Any:
        inner = self._get()

        def time_function(function: Any) -> float:
            self.n_timed += 1
            return inner(function)

        return time_function


def make_product(item: GemmInput, name: str) -> Any:
    """Return a new function with code of its own.

    Dynamo keeps what it compiled with the code object: functions that share it would
    share what was compiled first, in whatever mode.

    Parameters
    ----------
    item : GemmInput
        What is multiplied.
    name : str
        Tells it apart.

    Returns
    -------
    function
        Of two matrices.
    """
    import torch

    left, right = item.prepadded_left, item.prepadded_right

    def product(a: Any, b: Any) -> Any:
        a = a + 1 if left else a
        b = b + 1 if right else b
        return torch.mm(a, b)

    code = product.__code__.replace(co_name=name)
    return types.FunctionType(
        code, product.__globals__, name, None, product.__closure__
    )


def make_matrices(item: GemmInput, device: str) -> list[Any]:
    """Return the two matrices."""
    import torch

    def make(n_rows: int, n_columns: int, transpose: bool) -> Any:
        shape = (n_columns, n_rows) if transpose else (n_rows, n_columns)
        matrix = torch.randn(shape, dtype=getattr(torch, item.dtype), device=device)
        return matrix.t() if transpose else matrix

    return [
        make(item.m, item.k, item.transpose_left),
        make(item.k, item.n, item.transpose_right),
    ]


def compile_shape(
    item: GemmInput,
    *,
    device: str,
    folders: dict[str, Path],
    random: np.random.Generator,
    n_compiles: int,
) -> dict[str, Any]:
    """Compile one product in all ways, and time what came out.

    Parameters
    ----------
    item : GemmInput
        The product.
    device : str
        Of torch.
    folders : dict of str to Path
        As for `in_mode`; ways without a folder that need one are left out.
    random : Generator
        The order of the ways.
    n_compiles : int
        How often each way that decides is compiled.

    Returns
    -------
    dict of str to object
        The input, and by mode the median seconds of the first call and of the
        decision, what was decided, and the median duration in ms.
    """
    import torch

    _set_precision(item)
    torch._dynamo.reset()
    matrices = make_matrices(item, device)
    known = [mode for mode in MODES if mode in folders or mode not in NEEDS_FOLDER]
    functions: dict[str, Any] = {}
    compiles: dict[str, list[dict[str, Any]]] = {mode: [] for mode in known}
    for repetition in range(n_compiles):
        modes = [mode for mode in known if repetition == 0 or mode in DECIDING]
        for mode in random.permutation(modes).tolist():
            product = make_product(item, f"product_{mode}_{repetition}")
            function, found = compile_once(product, matrices, mode, device, folders)
            functions.setdefault(mode, function)
            compiles[mode].append(found)
    durations = time_in_turns(functions, matrices, device, random)
    record: dict[str, Any] = {"input": item.__dict__ | {}}
    for mode in known:
        record[mode] = {
            "compile_s": statistics.median(x["compile_s"] for x in compiles[mode]),
            "decide_s": statistics.median(x["decide_s"] for x in compiles[mode]),
            "pads": compiles[mode][0]["pads"],
            "pads_again": [x["pads"] for x in compiles[mode][1:]],
            "benchmarks": compiles[mode][0]["benchmarks"],
            "run_ms": durations[mode],
        }
    return record


def compile_once(
    product: Any, matrices: list[Any], mode: str, device: str, folders: dict[str, Path]
) -> tuple[Any, dict[str, Any]]:
    """Compile a product by its first call."""
    import torch

    # Sizes that may vary would be another product.
    function = torch.compile(product, dynamic=False)
    with in_mode(mode, folders), Spy() as spy:
        start = time.perf_counter()
        function(*matrices)
        synchronize(device)
        seconds = time.perf_counter() - start
    return function, {
        "compile_s": seconds,
        "decide_s": spy.seconds,
        "pads": spy.pads,
        "benchmarks": spy.n_timed,
    }


def time_in_turns(
    functions: dict[str, Any],
    matrices: list[Any],
    device: str,
    random: np.random.Generator,
) -> dict[str, float]:
    """Return the median duration of each function in ms.

    Raises
    ------
    RuntimeError
        Something was compiled again: then it is not what was compiled in its mode.
    """
    from torch._dynamo.utils import counters

    n_graphs = counters["stats"]["unique_graphs"]
    found: dict[str, list[float]] = {mode: [] for mode in functions}
    for _ in range(N_ROUNDS):
        for mode in random.permutation(list(functions)).tolist():
            found[mode].append(time_call(functions[mode], matrices, device))
    if counters["stats"]["unique_graphs"] != n_graphs:
        raise RuntimeError("a product was compiled again while it was timed.")
    return {mode: statistics.median(values) for mode, values in found.items()}


def synchronize(device: str) -> None:
    """Wait for the GPU."""
    if device != "cpu":
        import torch

        torch.cuda.synchronize()


def forget_memory(device: str) -> None:
    """Give memory of the last shape back, of which the next may need a large part."""
    if device != "cpu":
        import torch

        torch._dynamo.reset()
        torch.cuda.empty_cache()


def time_call(function: Any, matrices: list[Any], device: str) -> float:
    """Return the duration of a call in ms, the mean of several quick ones."""
    synchronize(device)
    n_calls, elapsed = 0, 0.0
    start = time.perf_counter()
    while n_calls < 3 or elapsed < 0.005:
        function(*matrices)
        n_calls += 1
        if n_calls % 3 == 0:
            synchronize(device)
            elapsed = time.perf_counter() - start
    return 1e3 * elapsed / n_calls


def summarise(records: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return sums and means over shapes by mode.

    A mode that decides is charged with the duration of the form that it took, measured
    in the modes "never" and "always": so two modes that took the same form are equal.

    Parameters
    ----------
    records : list of dict
        What `compile_shape` returned.

    Returns
    -------
    dict of str to dict of str to float
        ``compile_s``, ``decide_s`` and ``benchmarks``, summed; ``saved_s``, the compile
        seconds of "default" less those of the mode; ``pads``, how many were padded;
        ``regret`` and ``worst``, durations over those of the faster form in geometric
        mean and at most; ``over_default``, the geometric mean over those of "default".
    """
    pairs = partial(zip, strict=True)
    known = [mode for mode in MODES if mode in records[0]]
    charged = {mode: [charge(record, mode) for record in records] for mode in known}
    best = [min(forms) for forms in pairs(charged["never"], charged["always"])]
    base = sum(record["default"]["compile_s"] for record in records)
    found = {}
    for mode in known:
        part = [record[mode] for record in records]
        seconds = sum(entry["compile_s"] for entry in part)
        ratios = [ms / least for ms, least in pairs(charged[mode], best)]
        found[mode] = {
            "compile_s": seconds,
            "saved_s": base - seconds,
            "decide_s": sum(entry["decide_s"] for entry in part),
            "benchmarks": sum(entry["benchmarks"] for entry in part),
            "pads": sum(bool(entry["pads"]) for entry in part),
            "regret": geometric_mean(ratios),
            "worst": max(ratios),
            "over_default": geometric_mean(
                ms / other for ms, other in pairs(charged[mode], charged["default"])
            ),
        }
    return found


def charge(record: dict[str, Any], mode: str) -> float:
    """Return the duration in ms of the form that a mode took."""
    if mode in DECIDING:
        mode = "always" if record[mode]["pads"] else "never"
    return record[mode]["run_ms"]


def geometric_mean(ratios: Any) -> float:
    """Return the geometric mean of positive numbers."""
    return math.exp(statistics.fmean(map(math.log, ratios)))
