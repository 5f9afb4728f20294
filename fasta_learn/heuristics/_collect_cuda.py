"""Times a matrix product as it is and padded, in the way that Inductor does."""

import os
from collections.abc import Callable, Sequence
from typing import Any

from fasta_learn._compat import import_extra
from fasta_learn.heuristics._collect_benchmark import (
    CHOICES,
    DeviceDescription,
    PadBenchmark,
)
from fasta_learn.heuristics._collect_shapes import GemmInput

# After six calls torch repeats a kernel for 25 ms. A single call of one that takes long
# is steady enough, and far sooner done.
_SLOW_MS = 10.0


class CudaPadBenchmark(PadBenchmark):
    """Measures on an NVIDIA GPU, without compiling: needs the extra ``torch``.

    The products and their padded forms are made from the functions of Inductor's own
    padding pass, with real tensors in place of compiled graphs, and timed by its
    benchmarker: minima of repeated calls over about 25 ms with a cold L2 cache. Of
    products that take more than 10 ms, each repetition is a single call.

    Parameters
    ----------
    all_inputs : bool, default=False
        Measure also those inputs about which torch never asks a heuristic: small ones
        by its precondition, and those that are bound by the memory's bandwidth.

    Examples
    --------
    >>> from fasta_learn.heuristics import CudaPadBenchmark, collect
    >>> collect("pad_mm.txt", benchmark=CudaPadBenchmark())  # doctest: +SKIP
    """

    def __init__(self, *, all_inputs: bool = False) -> None:
        self.all_inputs = all_inputs

    def select_device(self, device: int) -> None:
        """Make a device the only one that this process sees.

        Parameters
        ----------
        device : int
            The index among those that were visible.

        Raises
        ------
        ValueError
            There are fewer.
        """
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        names = None if visible is None else visible.split(",")
        if names is not None and device >= len(names):
            raise ValueError(f"CUDA_VISIBLE_DEVICES={visible} has no device {device}.")
        # Torch asks for the shared memory of device 0, whichever is current.
        os.environ["CUDA_VISIBLE_DEVICES"] = (
            str(device) if names is None else names[device]
        )

    def describe(self) -> DeviceDescription:
        """Return what is measured on.

        Returns
        -------
        DeviceDescription
            The device.

        Raises
        ------
        MissingExtraError
            Torch or Triton is not installed.
        RuntimeError
            There is no GPU.
        """
        torch = import_extra("torch", "torch")
        import_extra("triton", "torch")
        if not torch.cuda.is_available():
            raise RuntimeError("torch finds no CUDA device; see 'fasta-learn doctor'.")
        utils = import_extra("torch._inductor.utils", "torch")
        device = torch.cuda.get_device_properties(0)
        return DeviceDescription(
            name=device.name,
            memory=device.total_memory,
            shared_memory=utils.get_gpu_shared_memory(),
            device_capa=(device.major, device.minor),
            versions={"torch": torch.__version__, "cuda": str(torch.version.cuda)},
        )

    def is_decided(self, items: Sequence[GemmInput]) -> list[bool]:
        """Return for which inputs torch would ask a heuristic.

        Parameters
        ----------
        items : sequence of GemmInput
            The inputs.

        Returns
        -------
        list of bool
            Those that fulfil its precondition and are not bound by the bandwidth; all
            if `all_inputs`.
        """
        if self.all_inputs:
            return [True] * len(items)
        device = self.describe()
        found = [False] * len(items)
        # By precision, which changes cost time.
        for index in sorted(range(len(items)), key=lambda index: items[index].tf32):
            _set_precision(items[index])
            found[index] = self._is_decided(items[index], device)
        return found

    @staticmethod
    def _is_decided(item: GemmInput, device: DeviceDescription) -> bool:
        import torch
        from torch._inductor.autoheuristic import autoheuristic_utils as utils
        from torch._inductor.fx_passes import pad_mm

        dtype = getattr(torch, item.dtype)
        if not pad_mm.is_mm_compute_bound(item.m, item.k, item.n, dtype):
            return False
        context = utils.AHContext()
        for name in ("m", "k", "n"):
            context.add_feature(name, getattr(item, name))
        metadata = utils.AHMetadata(
            device.shared_memory, device.device_capa, list(CHOICES), "pad_mm"
        )
        return bool(utils.pad_mm_precondition(metadata, context))

    def measure(self, item: GemmInput, n_repetitions: int) -> list[tuple[str, float]]:
        """Measure an input.

        Parameters
        ----------
        item : GemmInput
            The input.
        n_repetitions : int
            How often each choice is measured.

        Returns
        -------
        list of (str, float)
            Choice and duration in ms.
        """
        import torch

        _set_precision(item)
        try:
            found = self._measure(make_functions(item, "cuda"), n_repetitions)
        except torch.OutOfMemoryError:
            found = {choice: [] for choice in CHOICES}
        finally:
            torch.cuda.empty_cache()
        return _to_rows(found, n_repetitions)

    def _measure(
        self, functions: dict[str, Callable[[], Any]], n_repetitions: int
    ) -> dict[str, list[float]]:
        """Return durations, a warm call first; none of a choice that can't run."""
        found = {
            choice: self._warm_up(function) for choice, function in functions.items()
        }
        for _ in range(n_repetitions):
            for choice, function in functions.items():
                if found[choice]:
                    found[choice].append(self._time(function, found[choice][0]))
        return found

    def _warm_up(self, function: Callable[[], Any]) -> list[float]:
        """Call a function twice, and return how long it takes; nothing if it can't."""
        import torch

        try:
            function()
            return [self._time_once(function)]
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            return []

    def _time(self, function: Callable[[], Any], expected: float) -> float:
        if expected > _SLOW_MS:
            return self._time_once(function)
        from torch._inductor.fx_passes import pad_mm

        return float(pad_mm.get_do_bench()(function))

    @staticmethod
    def _time_once(function: Callable[[], Any]) -> float:
        import torch

        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        function()
        end.record()
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end))


def _set_precision(item: GemmInput) -> None:
    """Let float32 products be computed as an input says."""
    import torch
    from torch._inductor import utils

    precision = "high" if item.tf32 else "highest"
    if item.dtype == "float32" and torch.get_float32_matmul_precision() != precision:
        torch.set_float32_matmul_precision(precision)
        # Torch remembers the peak at the precision that it was first asked at.
        getattr(utils.get_device_tflops, "cache_clear", int)()


def make_functions(item: GemmInput, device: str) -> dict[str, Callable[[], Any]]:
    """Return the product and the padded product that torch would compare.

    Parameters
    ----------
    item : GemmInput
        The input.
    device : str
        Where the matrices are made.

    Returns
    -------
    dict of str to callable
        By choice; each computes the product once. Of a prepadded matrix only the
        padding itself is written each time, as torch does.
    """
    import torch
    from torch._inductor.fx_passes import pad_mm

    dtype, values = getattr(torch, item.dtype), item.features()
    lengths = {f"{d}_padded_length": values[f"{d}_padded_length"] for d in "mkn"}
    m, k, n = lengths.values()
    left = _make_matrix(item.m, item.k, item.transpose_left, dtype, device)
    right = _make_matrix(item.k, item.n, item.transpose_right, dtype, device)
    prepadded = values["prepadded_mat1"], values["prepadded_mat2"]
    padded: list[Any] = [left, right]
    steps: list[Callable[[], Any]] = []
    if prepadded[0] and (m or k):
        padded[0] = pad_mm.pad_mat1(left, m_padded_length=m, k_padded_length=k)
        steps.append(lambda: padded[0][-m:, -k:].fill_(0))
    if prepadded[1] and (k or n):
        padded[1] = pad_mm.pad_mat2(right, k_padded_length=k, n_padded_length=n)
        steps.append(lambda: padded[1][-k:, -n:].fill_(0))

    def pad() -> Any:
        for step in steps:
            step()
        return pad_mm.pad_mm(
            *padded,
            **lengths,
            mat1_pre_padded=prepadded[0],
            mat2_pre_padded=prepadded[1],
        )

    return {"orig": lambda: torch.ops.aten.mm(left, right), "pad": pad}


def _make_matrix(
    n_rows: int, n_columns: int, transpose: bool, dtype: Any, device: str
) -> Any:
    import torch

    shape = (n_columns, n_rows) if transpose else (n_rows, n_columns)
    matrix = torch.randn(shape, dtype=dtype, device=device)
    return matrix.t() if transpose else matrix


def _to_rows(
    found: dict[str, list[float]], n_repetitions: int
) -> list[tuple[str, float]]:
    """Drop the first call of each choice, and put the repetitions in their order."""
    return [
        (choice, found[choice][1:][index] if found[choice] else float("inf"))
        for index in range(n_repetitions)
        for choice in CHOICES
    ]
