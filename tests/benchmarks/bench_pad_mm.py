"""Learned decisions of pad_mm on a log of torch, against PyTorch's own recipe.

    python tests/benchmarks/bench_pad_mm.py LOG [--seeds 0 1 2] [--quick] [--output F]

Prints what PyTorch's trainers would get, how the default does on PyTorch's random
split and on splits by shape, the coverage under bounds of the regret, and whether
generated code decides as the estimators do on every input of the log. All of it, with
versions, seeds and the hash of the log, is also written to F as JSON.
"""

import argparse
import hashlib
import importlib.metadata
import json
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupShuffleSplit, train_test_split

from fasta_learn.heuristics import (
    PadDecisionTree,
    PadFeatures,
    PadHeuristic,
    PadScoreTree,
    durations_of,
    evaluate,
    generate_code,
    group_inputs,
    read_log,
    stable_inputs,
)
from fasta_learn.heuristics._evaluate_policies import ask_heuristic, load_artifact
from fasta_learn.heuristics._trees_upstream import order_columns

COLUMNS = ["coverage", "accuracy", "regret", "regret_low", "regret_high"]
COLUMNS += ["slow", "slow_low", "slow_high", "worst", "total_regret"]


# What is written to --output, by title.
RECORD: dict[str, Any] = {}


def show(title: str, table: pd.DataFrame) -> None:
    text = table[COLUMNS].to_string(float_format="{:.4f}".format)
    print(f"\n{title}\n{text}", flush=True)
    RECORD[title] = json.loads(table.reset_index().to_json(orient="records"))


def fit_upstream(inputs: pd.DataFrame, train: np.ndarray, tree):
    """Fit on columns in the order that all inputs give, as PyTorch's trainer does."""
    features = PadFeatures().fit(inputs)
    order = order_columns(features, inputs)
    matrix = features.transform(inputs)[:, order]
    return tree.fit(matrix[train], durations_of(inputs)[train]), matrix


def show_counts(name: str, tree, decided: np.ndarray, inputs: pd.DataFrame) -> None:
    sure = np.array([choice is not None for choice in decided])
    right = decided == inputs["winner"].astype(object).to_numpy()
    found = {
        "threshold": float(tree.threshold_),
        "leaves": tree.n_leaves_,
        "inputs": len(inputs),
        "right": int((sure & right).sum()),
        "wrong": int((sure & ~right).sum()),
        "unsure": int((~sure).sum()),
    }
    print(f"{name}: {found}", flush=True)
    RECORD[f"PyTorch's {name}"] = found


def reproduce(inputs: pd.DataFrame) -> None:
    print("\nPyTorch's recipes, on the inputs that test them")
    train, test = train_test_split(
        np.arange(len(inputs)), test_size=0.15, random_state=42
    )
    tree, matrix = fit_upstream(inputs, train, PadDecisionTree("upstream"))
    show_counts("decision", tree, tree.decide(matrix[test]), inputs.iloc[test])
    forced = {"upstream, always decided": lambda frame: tree.predict(matrix[test])}
    show("its tree on that split", evaluate(inputs.iloc[test], forced))
    stable = stable_inputs(inputs)
    train, test = train_test_split(
        np.arange(len(stable)), test_size=0.2, random_state=42
    )
    tree, matrix = fit_upstream(stable, train, PadScoreTree("upstream"))
    show_counts("regression", tree, tree.decide(matrix[test]), stable.iloc[test])


def compare(title, inputs, train, test, seeds) -> list[PadHeuristic]:
    policies = {"always orig": "orig", "always pad": "pad", "benchmark": "benchmark"}
    fitted = []
    for seed in seeds:
        start = time.perf_counter()
        heuristic = PadHeuristic(random_state=seed).fit(inputs.iloc[train])
        seconds = time.perf_counter() - start
        name = f"default, seed {seed}, {heuristic.tree_.n_leaves_} leaves"
        policies[name] = heuristic
        fitted.append(heuristic)
        print(f"learned in {seconds:.0f} s", flush=True)
    alone = PadHeuristic(PadDecisionTree(), random_state=0).fit(inputs.iloc[train])
    policies["without a teacher"] = alone
    scores = PadHeuristic(PadScoreTree(), random_state=0).fit(inputs.iloc[train])
    policies["scores"] = scores
    held_out = inputs.iloc[test]
    show(title, evaluate(held_out, policies))
    by_dtype = evaluate(held_out, {"default": fitted[0]}, by="mat1_dtype")
    show(f"{title}: by data type", by_dtype)
    return [*fitted, alone, scores]


def show_coverage(inputs: pd.DataFrame, train, test) -> None:
    policies = {}
    for bound in (1.0005, 1.001, 1.002):
        tree = PadDecisionTree(max_regret=bound)
        policies[f"max_regret={bound}"] = PadHeuristic(tree, random_state=0).fit(
            inputs.iloc[train]
        )
    show(
        "coverage under a bound, without a teacher",
        evaluate(inputs.iloc[test], policies),
    )


def show_parity(inputs: pd.DataFrame, metadata, heuristics) -> None:
    wrong = 0
    for heuristic in heuristics:
        code = generate_code(heuristic, metadata=metadata, name="PadMMBenchmark")
        answers = ask_heuristic(load_artifact(code), inputs)
        decided = heuristic.decide(inputs)
        wrong += sum(a != b for a, b in zip(answers, decided, strict=True))
    RECORD["parity"] = {
        "artifacts": len(heuristics),
        "inputs": len(inputs),
        "differences": wrong,
    }
    print(f"\ngenerated code and estimator: {RECORD['parity']}", flush=True)


def show_shipped(inputs: pd.DataFrame, metadata) -> None:
    from torch._inductor.autoheuristic.artifacts import _PadMMA100, _PadMMH200

    shipped = {(8, 0): _PadMMA100.PadMMA100, (9, 0): _PadMMH200.PadMMH200}
    if tuple(metadata.device_capa) in shipped:
        policy = shipped[tuple(metadata.device_capa)]()
        show("shipped with torch, all inputs", evaluate(inputs, {"shipped": policy}))


def describe(log, inputs: pd.DataFrame, options) -> dict[str, Any]:
    """Return what the figures depend on."""
    packages = ("fasta-learn", "scikit-learn", "numpy", "pandas", "torch")
    versions = {name: importlib.metadata.version(name) for name in packages}
    return {
        "log": Path(options.log).name,
        "sha256": hashlib.sha256(Path(options.log).read_bytes()).hexdigest(),
        "rows": len(log),
        "inputs": len(inputs),
        "groups": int(inputs["group"].nunique()),
        "device_capa": list(log.metadata.device_capa),
        "shared_memory": log.metadata.shared_memory,
        "seeds": options.seeds,
        "versions": {"python": platform.python_version(), **versions},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--quick", action="store_true", help="one seed and split only")
    parser.add_argument("--output", type=Path, metavar="F", help="JSON of all rows")
    options = parser.parse_args()
    if options.quick:
        options.seeds = options.seeds[:1]
    start = time.perf_counter()
    log = read_log(options.log)
    inputs = group_inputs(log)
    medians = inputs[["median_orig", "median_pad"]]
    inputs = inputs[medians.notna().all(axis=1)].reset_index(drop=True)
    print(f"{len(log)} rows, {len(inputs)} inputs with both choices", end="; ")
    print(f"read in {time.perf_counter() - start:.1f} s")
    RECORD["about"] = describe(log, inputs, options)
    measure(log, inputs, options)
    if options.output is not None:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(RECORD, indent=1) + "\n")


def measure(log, inputs: pd.DataFrame, options) -> None:
    reproduce(inputs)
    rows = np.arange(len(inputs))
    train, test = train_test_split(rows, test_size=0.15, random_state=42)
    fitted = compare("PyTorch's random split", inputs, train, test, options.seeds)
    show_parity(inputs, log.metadata, fitted)
    show_shipped(inputs, log.metadata)
    if options.quick:
        return
    splitter = GroupShuffleSplit(1, test_size=0.15, random_state=42)
    train_groups, test_groups = next(splitter.split(rows, groups=inputs["group"]))
    compare("split by shape", inputs, train_groups, test_groups, options.seeds)
    show_coverage(inputs, train, test)


if __name__ == "__main__":
    main()
