"""Live on a GPU: collect, train, compare with what ships, and time whole compiles.

    fasta-learn heuristic collect pad_mm --samples 2000 --seconds 1140 --max-tflop 20 \
        -o pad_mm_h200.txt
    python tests/benchmarks/bench_pad_mm_h200.py compare pad_mm_h200.txt --output DIR
    python tests/benchmarks/bench_pad_mm_h200.py compile pad_mm_h200.txt --output DIR

The first command is run as often as it takes; it goes on where it stopped.

``compare`` needs no GPU. It holds out a quarter of the shape groups, learns from the
others, writes ``DIR/_PadMM.py`` and ``DIR/compare.json``, and judges the new tree, the
artifacts that ship with torch, always padding and never padding on what was held out.

``compile`` compiles 20 products of shapes that are neither in the log nor have a sized
sibling there, with empty caches, in three ways: as torch does by default, which
benchmarks both forms; with the tree of ``DIR``, installed; and without padding. It
writes the seconds of the first calls and the durations of the compiled products, which
are timed in turns, to ``DIR/compile.json``.
"""

import argparse
import contextlib
import json
import math
import random
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fasta_learn.heuristics import (
    CudaPadBenchmark,
    GemmInput,
    InputSampler,
    PadHeuristic,
    activate,
    evaluate,
    generate_code,
    install,
    read_device,
    read_log,
)

N_SHAPES, N_ROUNDS = 20, 15
# Products that take minutes in float32 would be timed for nothing.
MAX_OPERATIONS = 5e12
MODES = ("default", "heuristic", "no padding")


def compare(args: argparse.Namespace) -> None:
    """Learn from three quarters of the groups, and judge on the last."""
    log = read_log(args.log)
    inputs = log.inputs()
    groups = np.random.default_rng(args.seed).permutation(inputs["group"].unique())
    held_out = inputs["group"].isin(groups[: len(groups) // 4]).to_numpy()
    start = time.perf_counter()
    heuristic = PadHeuristic(random_state=args.seed).fit(inputs[~held_out])
    seconds = time.perf_counter() - start
    args.output.mkdir(parents=True, exist_ok=True)
    code = generate_code(heuristic, metadata=log.metadata, class_name="PadMM")
    (args.output / "_PadMM.py").write_text(code)
    policies: dict[str, Any] = {"fasta_learn": heuristic}
    policies |= {path.stem: path for path in shipped_artifacts()}
    policies |= {"always pad": "pad", "always orig": "orig"}
    table = evaluate(inputs[held_out], policies)
    print(
        f"{len(inputs)} inputs, {held_out.sum()} held out; {seconds:.1f} s of training"
    )
    print(table.round(4).to_string())
    (args.output / "compare.json").write_text(table.to_json(orient="records", indent=1))


def shipped_artifacts() -> list[Path]:
    """Return the modules for pad_mm that come with torch."""
    import torch._inductor.autoheuristic.artifacts as artifacts

    return sorted(Path(artifacts.__path__[0]).glob("_PadMM*.py"))


def unseen_shapes(args: argparse.Namespace) -> list[GemmInput]:
    """Draw shapes whose sizes, in whatever order, are not in the log."""
    log = read_log(args.log)
    sizes = log.frame[["m", "k", "n"]].drop_duplicates().to_numpy()
    seen = {tuple(sorted(row)) for row in sizes.tolist()}
    device = read_device(args.log)
    sampler = InputSampler(
        device.memory if device is not None else 16 * 2**30,
        random_state=args.seed + 1_000_003,
        max_operations=MAX_OPERATIONS,
    )
    benchmark, found = CudaPadBenchmark(), []
    while len(found) < args.shapes:
        item = sampler.draw()
        if tuple(sorted((item.m, item.k, item.n))) in seen:
            continue
        if args.device == "cpu" or benchmark.is_decided([item])[0]:
            found.append(item)
    return found


@contextlib.contextmanager
def in_mode(mode: str, folder: Path) -> Iterator[None]:
    """Compile in one of the three ways, with empty caches."""
    import torch._inductor.config as config
    from torch._inductor.utils import fresh_cache

    with contextlib.ExitStack() as stack:
        if mode == "heuristic":
            stack.enter_context(activate(folder=folder))
        stack.enter_context(config.patch(shape_padding=mode != "no padding"))
        stack.enter_context(fresh_cache())
        yield


class Spy:
    """Remembers what Inductor decided, and how often it benchmarked for that."""

    def __init__(self) -> None:
        from torch._inductor.fx_passes import pad_mm

        self._module = pad_mm
        self._inner, self._get = pad_mm._should_pad, pad_mm.get_do_bench

    def __enter__(self) -> "Spy":
        self.pads: bool | None = None
        self.n_timed = 0
        self._module._should_pad = self._decide
        self._module.get_do_bench = self._get_counted
        return self

    def __exit__(self, *_: object) -> None:
        self._module._should_pad, self._module.get_do_bench = self._inner, self._get

    def _decide(self, *arguments: Any) -> bool:
        self.pads = bool(self._inner(*arguments))
        return self.pads

    def _get_counted(self) -> Any:
        inner = self._get()

        def time_function(function: Any) -> float:
            self.n_timed += 1
            return inner(function)

        return time_function


def make_product(item: GemmInput) -> Any:
    """Return a new function, so that each is compiled by itself."""

    def product(a: Any, b: Any) -> Any:
        import torch

        a = a + 1 if item.prepadded_left else a
        b = b + 1 if item.prepadded_right else b
        return torch.mm(a, b)

    return product


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


def compile_shape(item: GemmInput, args: argparse.Namespace, folder: Path) -> dict:
    """Compile one product in all ways, and time what came out."""
    import torch

    precision = "high" if item.tf32 or item.dtype != "float32" else "highest"
    torch.set_float32_matmul_precision(precision)
    matrices = make_matrices(item, args.device)
    record: dict[str, Any] = {"input": item.__dict__ | {}}
    functions = {}
    for mode in random.sample(MODES, len(MODES)):
        torch._dynamo.reset()
        function = torch.compile(make_product(item))
        with in_mode(mode, folder), Spy() as spy:
            start = time.perf_counter()
            function(*matrices)
            synchronize(args.device)
            seconds = time.perf_counter() - start
        functions[mode] = function
        record[mode] = {
            "compile_s": seconds,
            "pads": spy.pads,
            "benchmarks": spy.n_timed,
            "run_ms": [],
        }
    for _ in range(N_ROUNDS):
        for mode in random.sample(MODES, len(MODES)):
            duration = time_call(functions[mode], matrices, args.device)
            record[mode]["run_ms"].append(duration)
    for mode in MODES:
        record[mode]["run_ms"] = statistics.median(record[mode]["run_ms"])
    return record


def synchronize(device: str) -> None:
    """Wait for the GPU."""
    if device != "cpu":
        import torch

        torch.cuda.synchronize()


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


def compile_all(args: argparse.Namespace) -> None:
    """Compile unseen shapes, and write what each way cost and gained."""
    random.seed(args.seed)
    folder = args.output / "installed"
    install(args.output / "_PadMM.py", folder=folder, replace=True)
    # Imports, libraries and compile workers are started before the first shape counts.
    compile_shape(GemmInput(1001, 1003, 1005, "float16"), args, folder)
    records = []
    for item in unseen_shapes(args):
        records.append(compile_shape(item, args, folder))
        (args.output / "compile.json").write_text(json.dumps(records, indent=1))
        print(json.dumps(records[-1]), flush=True)
    print_summary(records)


def print_summary(records: list[dict]) -> None:
    """Print a line for each way of compiling."""
    for mode in MODES:
        seconds = [record[mode]["compile_s"] for record in records]
        best = [min(record[other]["run_ms"] for other in MODES) for record in records]
        ratios = [
            record[mode]["run_ms"] / fastest
            for record, fastest in zip(records, best, strict=True)
        ]
        loss = math.exp(statistics.fmean(map(math.log, ratios)))
        n_benchmarks = sum(record[mode]["benchmarks"] for record in records)
        print(
            f"{mode:12} compile {sum(seconds):7.2f} s, median "
            f"{statistics.median(seconds):.3f} s, {n_benchmarks} benchmarks; run "
            f"{loss:.4f} of the fastest in geometric mean, {max(ratios):.3f} at worst"
        )


def main() -> None:
    """Run one of the two parts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=["compare", "compile"])
    parser.add_argument("log", type=Path)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shapes", type=int, default=N_SHAPES)
    parser.add_argument("--device", default="cuda", help="cpu tries the script")
    args = parser.parse_args()
    {"compare": compare, "compile": compile_all}[args.part](args)


if __name__ == "__main__":
    main()
