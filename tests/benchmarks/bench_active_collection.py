"""Inputs chosen where a model is unsure, against inputs at random, at equal numbers.

    python tests/benchmarks/bench_active_collection.py
    python tests/benchmarks/bench_active_collection.py --log pad_mm_a100_data.txt.xz

A collection is replayed on inputs whose durations are known: those of a model of a GPU,
or of a log. A quarter of the shape groups is held out. From the others, inputs are
taken at random, or as `select_inputs` chooses them, in batches of 50 after a first part
at random. After 200, 400, 800 and 1,600 of them models learn from what is known: a
forest; a tree of 100 leaves that the forest has taught, also on the inputs of the pool
that were not measured; and the default, `PadHeuristic`, a tree that boosted trees
teach, also on inputs that it draws. They are judged on the held-out inputs, all of
which they decide: by how much longer than the best choice theirs takes (geometric
mean), and by the share that takes over 10 % longer.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.ensemble import ExtraTreesRegressor

from fasta_learn.heuristics import (
    PAD_CATEGORICAL,
    PAD_NUMERICAL,
    InputSampler,
    PadDecisionTree,
    PadFeatures,
    PadHeuristic,
    SimulatedGPU,
    read_log,
    select_inputs,
)
from fasta_learn.heuristics._collect_shapes import to_frame

SIZES = [200, 400, 800, 1600]
BATCH, N_CANDIDATES = 50, 500
FEATURES = [*PAD_NUMERICAL, *PAD_CATEGORICAL]


class Known:
    """Inputs whose durations are known."""

    def __init__(self, frame: pd.DataFrame, durations: np.ndarray, group: np.ndarray):
        self.frame, self.durations, self.group = frame, durations, group
        self.log_ratios = np.log(durations[:, 0] / durations[:, 1])
        self.matrix = np.asarray(PadFeatures().fit_transform(frame))

    @classmethod
    def of_log(cls, path: Path) -> "Known":
        """Read those of a log."""
        inputs = read_log(path).inputs()
        durations = inputs[["median_orig", "median_pad"]].to_numpy()
        whole = np.isfinite(durations).all(axis=1)
        inputs, durations = inputs[whole].reset_index(drop=True), durations[whole]
        return cls(inputs[FEATURES], durations, inputs["group"].to_numpy())

    @classmethod
    def of_model(cls, n_inputs: int) -> "Known":
        """Compute those of a model, of sizes that torch would ask about on an H200."""
        gpu = SimulatedGPU()
        sampler = InputSampler(gpu.memory, random_state=5)
        items: list = []
        while len(items) < n_inputs:
            item = sampler.draw()
            if min(item.m, item.k, item.n) >= 768:
                items.append(item)
        frame = to_frame(items)
        measured = [dict(gpu.measure(item, 1)) for item in items]
        durations = np.array([[row["orig"], row["pad"]] for row in measured])
        return cls(frame, durations, np.arange(n_inputs))


def choose(known: Known, pool: np.ndarray, active: bool) -> np.ndarray:
    """Return rows of the pool in the order in which they are measured."""
    if not active:
        return pool[: max(SIZES)]
    order, left = list(pool[:BATCH]), list(pool[BATCH:])
    while len(order) < max(SIZES):
        candidates = np.array(left[:N_CANDIDATES])
        chosen = select_inputs(
            known.frame.iloc[candidates],
            known.frame.iloc[order],
            known.log_ratios[order],
            BATCH,
            random_state=len(order),
        )
        taken = set(candidates[chosen].tolist())
        order += sorted(taken)
        # Those that were not chosen wait for their next turn.
        left = left[N_CANDIDATES:] + [row for row in candidates if row not in taken]
    return np.array(order)


def make_forest() -> ExtraTreesRegressor:
    """Return the model that teaches."""
    return ExtraTreesRegressor(100, min_samples_leaf=2, random_state=0)


def pads_by_forest(
    known: Known, rows: np.ndarray, pool: np.ndarray, tested: np.ndarray
) -> np.ndarray:
    """Learn the ratio of the durations."""
    forest = make_forest().fit(known.matrix[rows], known.log_ratios[rows])
    return forest.predict(known.matrix[tested]) > 0


def pads_by_tree(
    known: Known, rows: np.ndarray, pool: np.ndarray, tested: np.ndarray
) -> np.ndarray:
    """Have the forest teach a tree, also on inputs without durations."""
    tree = PadDecisionTree(teacher=make_forest(), random_state=0)
    tree.fit(
        known.matrix[rows],
        known.durations[rows],
        groups=known.group[rows],
        X_drawn=known.matrix[pool],
    )
    return np.asarray(tree.decide(known.matrix[tested])) == "pad"


def pads_by_default(
    known: Known, rows: np.ndarray, pool: np.ndarray, tested: np.ndarray
) -> np.ndarray:
    """Learn as the command line does, with fewer drawn inputs."""
    inputs = known.frame.iloc[rows].assign(group=known.group[rows])
    heuristic = PadHeuristic(n_drawn=10_000, random_state=0)
    heuristic.fit(inputs.reset_index(drop=True), known.durations[rows])
    return heuristic.decide(known.frame.iloc[tested]) == "pad"


MODELS = {"forest": pads_by_forest, "tree": pads_by_tree, "default": pads_by_default}


def run(known: Known, seed: int, active: bool, models: list[str]) -> list[dict]:
    """Replay one collection."""
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.unique(known.group))
    held_out = np.isin(known.group, groups[: len(groups) // 4])
    tested = np.flatnonzero(held_out)
    pool = rng.permutation(np.flatnonzero(~held_out))
    order, truth = choose(known, pool, active), known.log_ratios[tested]
    records = []
    for name in models:
        for size in SIZES:
            pads = MODELS[name](known, order[:size], pool, tested)
            lost = np.where(pads == (truth > 0), 0.0, np.abs(truth))
            records.append(
                {
                    "model": name,
                    "collection": "active" if active else "random",
                    "inputs": size,
                    "regret": 100 * np.expm1(lost.mean()),
                    "slow": 100 * (lost > np.log(1.1)).mean(),
                    "seed": seed,
                }
            )
    return records


def main() -> None:
    """Replay with all seeds, and print means with their standard errors."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--log", type=Path, help="a log of pad_mm (default: the model)")
    parser.add_argument("--inputs", type=int, default=10_000, help="of the model")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    args = parser.parse_args()
    known = Known.of_log(args.log) if args.log else Known.of_model(args.inputs)
    runs = Parallel(args.jobs)(
        delayed(run)(known, seed, active, args.models)
        for seed in range(args.seeds)
        for active in (False, True)
    )
    table = pd.DataFrame([record for records in runs for record in records])
    grouped = table.groupby(["model", "inputs", "collection"], sort=False)
    columns = grouped[["regret", "slow"]].agg(["mean", "sem"]).unstack("collection")
    print(f"{len(known.frame)} inputs, {args.seeds} seeds; regret and slow in %")
    print(columns.round(3).to_string())


if __name__ == "__main__":
    main()
