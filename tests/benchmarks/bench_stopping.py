"""How well the probability of being near the best is calibrated, and what it saves.

    python tests/benchmarks/bench_stopping.py --pools FOLDER [FOLDER] --plot FILE

replays the default search on the original pools that ship and on those of the folders
with 200 configs or more, to 35 % of each pool but at most 200 measurements. After every
round it notes what `confidence_` is computed from and whether the best so far is within
5 % of the best of the pool. The logistic model is fitted on every second pool and
judged on the others, and the other way round: expected calibration error (ten bins,
each pool of the same weight), reliability table, and what `CertaintyStop` saves.

``--fit`` prints the constants of fasta_learn/search/_certainty.py, fitted on all pools.
They were made with the original pools that ship, those of validation_pools and
confirmation_pools and 13 public ones of 210 to 17,956 configs, ``--min-configs 100
--seeds 4``; those for surrogates without standard deviations without the recorded ones
and with ``--searches selector reference production forest --seeds 3``.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from common import find_pools
from joblib import Parallel, delayed
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.ensemble import RandomForestRegressor

from fasta_learn import ActiveConfigSearch, ModelSelector, dynamic_filter_search
from fasta_learn.datasets import list_pools
from fasta_learn.search._certainty import (
    WITH_DEVIATIONS,
    WITHOUT_DEVIATIONS,
    certainty_covariates,
)

NAMES = ["independent", "comonotone", "log_ratio"]
TARGETS = [0.02, 0.05, 0.1]
SHARE, LIMIT = 0.35, 200
PROBABILITIES = [0.8, 0.9, 0.95, 0.99]
# Keeps the weights of a fit finite; in units of a standardised covariate.
PENALTY = 0.01


class Recorder:
    """A stopping rule that notes the covariates and ends at a number of configs."""

    def __init__(self, limit):
        self.limit, self.rows = limit, []

    def __call__(self, state, rounds):
        if state.surrogate is not None and np.isfinite(state.durations).any():
            for target in TARGETS:
                row = [target, len(state.measured), rounds[-1]["best_duration"]]
                self.rows.append([*row, *certainty_covariates(state, target)])
        return "enough" if len(state.measured) >= self.limit else None


def forest(**settings):
    model = RandomForestRegressor(50, min_samples_leaf=2, random_state=0)
    return ActiveConfigSearch(model, batch_size=8, **settings)


SEARCHES = {
    "default": ActiveConfigSearch,
    "selector": lambda **settings: ActiveConfigSearch(ModelSelector(), **settings),
    "production": lambda **settings: dynamic_filter_search("production", **settings),
    "reference": lambda **settings: dynamic_filter_search("reference", **settings),
    "forest": forest,
}


def record(name, pool, seed):
    """Run one search; a row for each of its rounds and each target."""
    limit = max(1, min(int(SHARE * len(pool)), LIMIT))
    recorder = Recorder(limit)
    # Half as much again, so that the rule is asked at the limit too.
    budget = min(len(pool), limit + limit // 2 + 1)
    search = SEARCHES[name](budget=budget, stopping=recorder, random_state=seed)
    search.fit(pool.configs, pool.durations)
    frame = pd.DataFrame(recorder.rows, columns=["target", "n", "best", *NAMES])
    frame.insert(0, "run", f"{name} {seed}")
    frame.insert(0, "pool", pool.name)
    frame["n_pool"] = len(pool)
    frame["regret"] = frame.pop("best") / pool.best_duration - 1
    frame["near"] = frame["regret"] <= frame["target"]
    return frame


def pool_weights(frame):
    """Each pool the same weight, within it each round the same."""
    sizes = frame.groupby("pool")["near"].transform("size")
    return 1 / (sizes * frame["pool"].nunique()).to_numpy(float)


def fit(frame):
    """Intercept and weights of a logistic regression, no weight below zero."""
    X, y = frame[NAMES].to_numpy(), frame["near"].to_numpy(float)
    weights = pool_weights(frame)
    centre = weights @ X
    spread = np.sqrt(weights @ (X - centre) ** 2)
    Z = np.column_stack([np.ones(len(X)), (X - centre) / spread])

    def loss(beta):
        odds = Z @ beta
        value = weights @ (np.logaddexp(0, odds) - y * odds)
        slope = Z.T @ (weights * (expit(odds) - y))
        slope[1:] += PENALTY * beta[1:]
        return value + PENALTY / 2 * beta[1:] @ beta[1:], slope

    bounds = [(None, None)] + [(0, None)] * len(NAMES)
    start = np.zeros(len(bounds))
    beta = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    slopes = beta[1:] / spread
    return np.array([beta[0] - slopes @ centre, *slopes])


def predict(frame, constants):
    return expit(constants[0] + frame[NAMES].to_numpy() @ constants[1:])


def cross_fit(frame, group_of):
    """Probabilities from fits on all pools but those of the own group."""
    groups = frame["pool"].map(group_of).to_numpy()
    probability = np.empty(len(frame))
    for group in np.unique(groups):
        inside = groups == group
        probability[inside] = predict(frame[inside], fit(frame[~inside]))
    return probability, groups


def reliability(probability, near, weights):
    """Share of the weight, mean probability and frequency in ten equal bins."""
    bins = np.minimum((probability * 10).astype(int), 9)
    share = np.bincount(bins, weights, minlength=10)
    with np.errstate(invalid="ignore"):
        told = np.bincount(bins, weights * probability, minlength=10) / share
        seen = np.bincount(bins, weights * near, minlength=10) / share
    return share / share.sum(), told, seen


def calibration_error(probability, frame):
    weights = pool_weights(frame)
    share, told, seen = reliability(probability, frame["near"].to_numpy(), weights)
    return float(np.nansum(share * np.abs(told - seen)))


def log_loss(probability, frame):
    right = np.where(frame["near"], probability, 1 - probability)
    return float(-pool_weights(frame) @ np.log(right))


def print_calibration(frame, probability, groups):
    print(f"{frame['pool'].nunique()} pools, {frame['run'].nunique()} runs each")
    print("\n| judged on | fitted on | calibration error | log loss | of a constant |")
    print("|---|---|---|---|---|")
    names = ["even pools", "odd pools"]
    for group in (0, 1):
        _print_error(frame[groups == group], probability[groups == group],
                     names[group], names[1 - group])  # fmt: skip
    _print_error(frame, probability, "all pools", "the other half")
    pools = list(dict.fromkeys(frame["pool"]))
    alone, _ = cross_fit(frame, {pool: i for i, pool in enumerate(pools)})
    _print_error(frame, alone, "all pools", "all other pools")
    errors = []
    for seed in range(20):
        halves = np.random.default_rng(seed).permutation(len(pools)) % 2
        split, own = cross_fit(frame, dict(zip(pools, halves, strict=True)))
        errors += [calibration_error(split[own == i], frame[own == i]) for i in (0, 1)]
    print(f"\n40 random halves: calibration error {np.mean(errors):.3f} on average, "
          f"{np.quantile(errors, 0.9):.3f} at the 90 % quantile")  # fmt: skip
    share, told, seen = reliability(probability, frame["near"], pool_weights(frame))
    print("\n| probability | share of rounds | mean probability | frequency |")
    print("|---|---|---|---|")
    for i, row in enumerate(zip(share, told, seen, strict=True)):
        print(f"| {i / 10:.1f}-{i / 10 + 0.1:.1f} | " + " | ".join(
            f"{value:.2f}" for value in row) + " |")  # fmt: skip


def _print_error(frame, probability, judged, fitted):
    rate = pool_weights(frame) @ frame["near"]
    constant = log_loss(np.full(len(frame), rate), frame)
    print(f"| {judged} | {fitted} | {calibration_error(probability, frame):.3f} "
          f"| {log_loss(probability, frame):.3f} | {constant:.3f} |")  # fmt: skip


def stopped(frame, reached):
    """Rows at which each run stops: the first that is reached, else its last."""
    frame = frame.assign(reached=reached)
    order = np.arange(len(frame))
    first = frame.assign(at=np.where(reached, order, len(frame))).groupby(
        ["pool", "run"], sort=False)["at"].min()  # fmt: skip
    last = frame.assign(at=order).groupby(["pool", "run"], sort=False)["at"].max()
    return frame.iloc[np.minimum(first, last)]


def outcome(frame, reached):
    """Means over pools of what the runs come to if they stop there."""
    end = stopped(frame, np.asarray(reached))
    end = end.assign(
        share=end["n"] / end["n_pool"],
        of_limit=end["n"] / measurable(end),
        regret=end["regret"].clip(upper=10),
    )
    columns = ["share", "of_limit", "near", "regret", "reached"]
    return end[["pool", *columns]].groupby("pool").mean().mean()


def measurable(frame):
    return np.minimum((SHARE * frame["n_pool"]).astype(int), LIMIT)


def at_equal_cost(frame, costs):
    """Catch of fixed budgets that measure as much on average: a share, a number."""
    limit = measurable(frame)
    rules = (
        [frame["n"] >= share * limit for share in np.linspace(0.05, 1, 40)],
        [frame["n"] >= np.minimum(n, limit) for n in range(5, LIMIT + 1, 5)],
    )
    answers = []
    for sweep in rules:
        ends = pd.DataFrame([outcome(frame, reached) for reached in sweep])
        ends = ends.sort_values("of_limit")
        answers.append(np.interp(costs, ends["of_limit"], ends["near"]))
    return np.transpose(answers)


def print_savings(frame, probability):
    limit = measurable(frame)
    rules = {
        f"budget {share:.0%}": frame["n"] >= np.minimum(share * frame["n_pool"], limit)
        for share in (0.1, 0.2, SHARE)
    }
    rules |= {f"probability {p}": probability >= p for p in PROBABILITIES}
    ends = [outcome(frame, reached) for reached in rules.values()]
    equal = at_equal_cost(frame, [end["of_limit"] for end in ends])
    print("\n| stop | measured | of the limit | catch | mean regret | reached "
          "| catch of a fixed share / number that costs as much |")  # fmt: skip
    print("|---|---|---|---|---|---|---|")
    for name, end, (share, number) in zip(rules, ends, equal, strict=True):
        print(f"| {name} | {end['share']:.1%} | {end['of_limit']:.0%} "
              f"| {end['near']:.3f} | {end['regret']:.2%} | {end['reached']:.2f} "
              f"| {share:.3f} / {number:.3f} |")  # fmt: skip


def plot(file, frame, probability):
    import matplotlib.pyplot as plt

    share, told, seen = reliability(probability, frame["near"], pool_weights(frame))
    figure, axes = plt.subplots(figsize=(4, 4), layout="constrained")
    axes.plot([0, 1], [0, 1], color="grey", linewidth=1)
    axes.scatter(told, seen, s=20 + 400 * share)
    axes.plot(told, seen)
    axes.set(xlabel="probability that was told", ylabel="share of rounds near the best",
             xlim=(0, 1), ylim=(0, 1))  # fmt: skip
    figure.savefig(file, dpi=100)


def collect(args):
    folders = [None, *(args.pools or [])]
    pools = {}
    for folder in folders:
        few = argparse.Namespace(**vars(args) | {"pools": folder})
        few.collection = "original"
        few.min_configs = 1 if folder is None else args.min_configs
        pools |= find_pools(few)
    tasks = [
        delayed(record)(name, pool, seed)
        for pool in pools.values()
        for name in args.searches
        for seed in range(args.seeds)
    ]
    started = time.perf_counter()
    frame = pd.concat(Parallel(n_jobs=args.jobs)(tasks), ignore_index=True)
    print(f"{time.perf_counter() - started:.0f} s", file=sys.stderr)
    return frame


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--pools", type=Path, nargs="+", metavar="DIR", help="folders of more pools")
    add("--only", nargs="+", metavar="NAME", help="take only these pools")
    add("--min-configs", type=int, default=200, help="leave out smaller pools of DIR")
    add("--max-configs", type=int, default=20_000, help="leave out larger pools")
    add("--searches", nargs="+", choices=SEARCHES, default=["default"])
    add("--seeds", type=int, default=20)
    add("--jobs", type=int, default=-1)
    add("--fit", action="store_true", help="print constants fitted on all pools")
    add("--keep", type=Path, metavar="FILE", help="keep the rounds there, reuse them")
    add("--plot", metavar="FILE", help="draw the reliability curve")
    args = parser.parse_args()
    if args.keep and args.keep.exists():
        everything = pd.read_pickle(args.keep)
    else:
        everything = collect(args)
        if args.keep:
            everything.to_pickle(args.keep)
    report(everything, args)


def report(everything, args) -> None:
    frame = everything[everything["target"] == 0.05].reset_index(drop=True)
    half = {pool: i % 2 for i, pool in enumerate(dict.fromkeys(frame["pool"]))}
    probability, groups = cross_fit(frame, half)
    print_calibration(frame, probability, groups)
    shipped = list_pools("original")
    for title, own in (
        ("original pools", frame["pool"].isin(shipped)),
        ("other pools", ~frame["pool"].isin(shipped)),
        ("all pools", np.ones(len(frame), dtype=bool)),
    ):
        if own.any():
            print(f"\n{title}, probabilities from the other half:")
            print_savings(frame[own].reset_index(drop=True), probability[own])
    known = WITH_DEVIATIONS if args.searches == ["default"] else WITHOUT_DEVIATIONS
    constants = np.array([known.intercept, *known.weights])
    # The original pools had a part in the constants.
    other = everything[~everything["pool"].isin(shipped)]
    print("\nconstants in the code, on the other pools:")
    for target, rows in other.groupby("target"):
        rows = rows.reset_index(drop=True)
        error = calibration_error(predict(rows, constants), rows)
        print(f"  target {target:.0%}: calibration error {error:.3f}")
    rows = frame[~frame["pool"].isin(shipped)].reset_index(drop=True)
    if len(rows):
        print_savings(rows, predict(rows, constants))
    if args.plot:
        plot(args.plot, frame, probability)
    if args.fit:
        print("\nfitted:", ", ".join(f"{value:.4g}" for value in fit(frame)))


if __name__ == "__main__":
    main()
