"""Live on a GPU: collect, train, compare with what ships, and time whole compiles.

    fasta-learn heuristic collect pad_mm --samples 2000 --seconds 1140 --max-tflop 20 \
        -o pad_mm_h200.txt
    python tests/benchmarks/bench_pad_mm_h200.py compare pad_mm_h200.txt --output DIR
    python tests/benchmarks/bench_pad_mm_h200.py compile pad_mm_h200.txt --output DIR

The first command is run as often as it takes; it goes on where it stopped.

``compare`` needs torch but no GPU. It judges on all inputs: each is decided by a tree
that learned from three quarters of the shape groups, its own not among them. Beside it
stand the artifacts that ship with torch, always padding, never padding, and torch's own
benchmark, which sees the measured medians. Then it learns from all inputs, and writes
``DIR/_PadMM.py`` and ``DIR/compare.json``, and for the other part a copy of what ships
with this torch for the device.

``compile`` compiles 20 products of shapes that are neither in the log nor have a sized
sibling there, with empty caches, in five ways: as torch does by default, which
benchmarks both forms; with the tree of ``DIR``, installed; with the shipped one that
``compare`` found, installed too; without padding; and always padded. It writes the
seconds of the first calls, those of the decisions alone, and the durations of the
compiled products, which are timed in turns, to ``DIR/compile.json``.
"""

import argparse
import importlib.metadata
import json
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pad_mm_compiles import compile_shape, forget_memory, summarise
from sklearn.model_selection import GroupKFold

from fasta_learn.heuristics import (
    CudaPadBenchmark,
    GemmInput,
    InputSampler,
    PadHeuristic,
    durations_of,
    evaluate,
    generate_code,
    install,
    read_device,
    read_log,
)
from fasta_learn.heuristics._install_code import parse_artifact

N_FOLDS, N_SHAPES = 4, 20
OWN, SHIPPED = "_PadMM.py", "_PadMMShipped.py"
# Products that take minutes in float32 would be timed for nothing.
MAX_OPERATIONS = 5e12
MAX_FAILURES = 5
SUMMARY = ["n_inputs", "coverage", "accuracy", "regret", "regret_low", "regret_high"]
SUMMARY += ["slow", "worst", "total_regret"]


def read_inputs(path: Path) -> tuple[Any, pd.DataFrame]:
    """Return a log, and its inputs of which both choices were measured and one ran."""
    log = read_log(path)
    inputs = log.inputs()
    durations = durations_of(inputs)
    whole = ~np.isnan(durations).any(axis=1) & np.isfinite(durations).any(axis=1)
    return log, inputs[whole].reset_index(drop=True)


def compare(args: argparse.Namespace) -> None:
    """Judge trees on groups that they did not see; learn one from all."""
    log, inputs = read_inputs(args.log)
    start = time.perf_counter()
    decided = decide_held_out(inputs, args.seed)
    heuristic = PadHeuristic(random_state=args.seed).fit(inputs)
    seconds = time.perf_counter() - start
    # `evaluate` keeps the rows of `inputs`, which all have both choices.
    policies: dict[str, Any] = {"fasta_learn": lambda frame: decided}
    policies |= {f"shipped{path.stem}": path for path in shipped_artifacts()}
    policies |= {"always pad": "pad", "always orig": "orig", "benchmark": "benchmark"}
    table = evaluate(inputs, policies)
    by_dtype = evaluate(inputs, policies, by="mat1_dtype")
    device = read_device(args.log)
    args.output.mkdir(parents=True, exist_ok=True)
    names = ("coverage", "accuracy", "regret", "slow", "worst")
    code = generate_code(
        heuristic,
        metadata=log.metadata,
        name="PadMM",
        metrics={name: float(table.at["fasta_learn", name]) for name in names},
        device=None if device is None else device.name,
    )
    (args.output / OWN).write_text(code, encoding="utf-8")
    copy_shipped(log.metadata, args.output / SHIPPED)
    record = {
        "part": "compare",
        "rows": len(log),
        "unreadable_lines": len(log.problems),
        "inputs": len(inputs),
        "groups": int(inputs["group"].nunique()),
        "folds": N_FOLDS,
        "seed": args.seed,
        "leaves": heuristic.tree_.n_leaves_,
        "training_seconds": seconds,
        "device": None if device is None else device.to_dict(),
        "versions": find_versions(),
        "policies": json.loads(table.reset_index().to_json(orient="records")),
        "by_dtype": json.loads(by_dtype.reset_index().to_json(orient="records")),
    }
    (args.output / "compare.json").write_text(json.dumps(record, indent=1))
    print(
        f"{record['inputs']} inputs of {record['groups']} groups, {N_FOLDS} folds, "
        f"{record['leaves']} leaves; trained {N_FOLDS + 1} times in {seconds:.0f} s"
    )
    print(table[SUMMARY].round(4).to_string())
    print(by_dtype[SUMMARY].round(4).to_string())


def decide_held_out(inputs: pd.DataFrame, seed: int) -> np.ndarray:
    """Return for each input what a tree decides that never saw its shape group."""
    decided = np.empty(len(inputs), object)
    folds = GroupKFold(N_FOLDS, shuffle=True, random_state=seed)
    for train, test in folds.split(inputs, groups=inputs["group"]):
        heuristic = PadHeuristic(random_state=seed).fit(inputs.iloc[train])
        decided[test] = heuristic.decide(inputs.iloc[test])
    return decided


def shipped_artifacts() -> list[Path]:
    """Return the modules for pad_mm that come with torch."""
    import torch._inductor.autoheuristic.artifacts as artifacts

    return sorted(Path(artifacts.__path__[-1]).glob("_PadMM*.py"))


def copy_shipped(metadata: Any, path: Path) -> None:
    """Keep what ships with this torch for the device; older ones ship less."""
    path.unlink(missing_ok=True)
    for file in shipped_artifacts():
        code = parse_artifact(file.read_text(encoding="utf-8"))
        if (code.shared_memory, code.device_capa) == key_of(metadata):
            path.write_text(code.text, encoding="utf-8")


def key_of(thing: Any) -> tuple[int, tuple[int, ...]]:
    """Return by what torch tells devices apart."""
    return thing.shared_memory, tuple(thing.device_capa)


def find_versions() -> dict[str, str]:
    """Return the versions that the figures depend on."""
    names = ("fasta-learn", "scikit-learn", "numpy", "torch", "triton")
    found = {"python": platform.python_version()}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def unseen_shapes(args: argparse.Namespace) -> list[GemmInput]:
    """Draw shapes whose sizes, in whatever order, are not in the log."""
    log = read_log(args.log)
    sizes = log.frame[["m", "k", "n"]].drop_duplicates().to_numpy()
    seen = {tuple(sorted(row)) for row in sizes.tolist()}
    device = read_device(args.log)
    sampler = InputSampler(
        device.memory if device is not None else 16 * 2**30,
        random_state=args.seed + 1_000_003,
        max_operations=args.max_operations,
    )
    benchmark, found = CudaPadBenchmark(all_inputs=args.device == "cpu"), []
    while len(found) < args.shapes:
        item = sampler.draw()
        sizes_of_item = tuple(sorted((item.m, item.k, item.n)))
        if sizes_of_item not in seen and benchmark.is_decided([item])[0]:
            seen.add(sizes_of_item)
            found.append(item)
    return found


def install_trees(args: argparse.Namespace) -> dict[str, Path]:
    """Install what ``compare`` wrote; an error if it is for another device."""
    folders = {}
    for mode, file in {"learned": OWN, "shipped": SHIPPED}.items():
        if mode == "shipped" and not (args.output / file).exists():
            continue
        folder = folders[mode] = args.output / "installed" / mode
        artifact = install(args.output / file, folder=folder, replace=True)
        if args.device == "cpu":
            continue
        if key_of(artifact) != (here := key_of(CudaPadBenchmark().describe())):
            raise SystemExit(f"{file} is for {key_of(artifact)}, but here is {here}.")
    return folders


def compile_all(args: argparse.Namespace) -> None:
    """Compile unseen shapes, and write what each way cost and gained."""
    folders = install_trees(args)
    shapes = unseen_shapes(args)
    random = np.random.default_rng(args.seed)
    options = {"device": args.device, "folders": folders, "random": random}
    # Imports, libraries and compile workers are started before the first shape counts.
    compile_shape(GemmInput(1001, 1003, 1005, "float16"), n_compiles=1, **options)
    record: dict[str, Any] = {
        "part": "compile",
        "seed": args.seed,
        "compiles": args.compiles,
        "versions": find_versions(),
        "device": None,
        "shapes": [],
        "failed": [],
    }
    if args.device != "cpu":
        record["device"] = CudaPadBenchmark().describe().to_dict()
    for item in shapes:
        try:
            found = compile_shape(item, n_compiles=args.compiles, **options)
        except Exception as error:  # one shape that fails must not cost the others
            found = {"input": item.__dict__, "error": f"{error!r}"[:500]}
            record["failed"].append(found)
            if len(record["failed"]) == MAX_FAILURES:
                raise
        else:
            record["shapes"].append(found)
        forget_memory(args.device)
        print(json.dumps(found), flush=True)
        (args.output / "compile.json").write_text(json.dumps(record, indent=1))
    if record["shapes"]:
        record["summary"] = summarise(record["shapes"])
        (args.output / "compile.json").write_text(json.dumps(record, indent=1))
        print_summary(record["summary"])


def print_summary(summary: dict[str, dict[str, float]]) -> None:
    """Print a line for each way of compiling."""
    for mode, found in summary.items():
        print(
            f"{mode:10} compile {found['compile_s']:7.2f} s, saves "
            f"{found['saved_s']:.2f} s; decides in {found['decide_s']:.3f} s, "
            f"{found['benchmarks']:.0f} benchmarks; pads {found['pads']:.0f}; run "
            f"{found['regret']:.4f} of the faster form in geometric mean, "
            f"{found['worst']:.3f} at worst, {found['over_default']:.4f} of default"
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
    parser.add_argument("--compiles", type=int, default=3, help="of each, a median")
    parser.add_argument("--max-operations", type=float, default=MAX_OPERATIONS)
    parser.add_argument("--device", default="cuda", help="cpu tries the script")
    args = parser.parse_args()
    {"compare": compare, "compile": compile_all}[args.part](args)


if __name__ == "__main__":
    main()
