"""
======================================
How far the predictions can be trusted
======================================

A search predicts the duration of each config that it chooses, and after each round the
probability that the best config so far is within 5 % of the best of the pool. Both are
compared here with what was recorded on an NVIDIA H200.
"""

# %%
# Replays
# -------
#
# Every third of the 45 pools of the collection ``kernels``, which had no part in the
# calibration. ``rounds_`` has the probability as it was after each round; what it is a
# probability of can be looked up in the recording.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from fasta_learn import ActiveConfigSearch
from fasta_learn.datasets import list_pools, load_pool

plt.style.use("tableau-colorblind10")
chosen, rounds = [], []
for name in list_pools("kernels")[::3]:
    pool = load_pool(name)
    search = ActiveConfigSearch(budget=0.25, random_state=0)
    search.fit(pool.configs, pool.durations)
    results = search.results_[["duration", "predicted"]] / pool.best_duration
    chosen.append(results.assign(pool=name, number=np.arange(1, len(results) + 1)))
    table = pd.DataFrame(search.rounds_)
    table["good"] = table["best_duration"] <= 1.05 * pool.best_duration
    rounds.append(table.assign(pool=name))
chosen, rounds = pd.concat(chosen).dropna(), pd.concat(rounds)
chosen = chosen[np.isfinite(chosen["duration"])]  # without those that failed
print(f"{chosen['pool'].nunique()} pools, {len(chosen)} predictions")

# %%
# Predicted against measured
# --------------------------
#
# Of each config that the surrogate chose there is the prediction from before it was
# measured; both are multiples of the fastest config of the pool.

error = np.abs(np.log(chosen["predicted"] / chosen["duration"]))
speed = pd.cut(
    chosen["duration"], [0, 1.1, 1.5, np.inf], labels=["fast", "fair", "slow"]
)
print(np.expm1(error.groupby(speed, observed=True).median()).round(3).to_string())
halves = {"first 20 measurements": chosen["number"] <= 20}
halves["later"] = ~halves["first 20 measurements"]

# %%
# Probability against frequency
# -----------------------------
#
# The rounds are sorted into bins of the probability. In a bin around 0.8, the search
# should be within 5 % of the best in 80 % of the rounds.

edges = [0, 0.5, 0.7, 0.8, 0.9, 0.95, 1]
rounds["bin"] = pd.cut(rounds["confidence"], edges)
bins = rounds.groupby("bin", observed=False).agg(
    confidence=("confidence", "mean"),
    frequency=("good", "mean"),
    rounds=("good", "size"),
    pools=("pool", "nunique"),
)

# %%
# The rounds of one search go together. So for the 95 % intervals whole pools are drawn
# with replacement.

by_pool = rounds.pivot_table(
    index="pool", columns="bin", values="good", aggfunc=["sum", "size"], observed=False
).fillna(0)
rng = np.random.default_rng(0)
draws = rng.integers(len(by_pool), size=(1000, len(by_pool)))
n_good, n_all = (
    by_pool[part].to_numpy()[draws].sum(axis=1) for part in ("sum", "size")
)
with np.errstate(invalid="ignore"):
    bins["low"], bins["high"] = np.nanquantile(n_good / n_all, [0.025, 0.975], axis=0)
bins.round(2)

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4.5), layout="constrained")
for (label, rows), color in zip(halves.items(), ["#FF800E", "#006BA4"], strict=True):
    dots = chosen[rows]
    left.plot(
        *(dots["predicted"], dots["duration"], "o"),
        **{"color": color, "markersize": 4, "alpha": 0.5, "label": label},
    )
left.plot([0.8, 8], [0.8, 8], color="0.3", linewidth=1)
left.set(xscale="log", yscale="log", xlim=(0.8, 8), ylim=(0.9, 9))
ticks = [1, 1.5, 2, 3, 5]
for axis in (left.xaxis, left.yaxis):
    axis.set_ticks(ticks, labels=[f"{tick} ×" for tick in ticks])
    axis.set_ticks([], minor=True)
left.set_xlabel("predicted duration / fastest of the pool")
left.set_ylabel("measured duration / fastest of the pool")
left.legend(loc="lower right")
left.set_title("predictions of chosen configs")

right.plot([0, 1], [0, 1], color="0.3", linewidth=1)
right.fill_between(bins["confidence"], bins["low"], bins["high"], alpha=0.2)
right.plot(bins["confidence"], bins["frequency"], "o-", color="#006BA4")
for _, row in bins.iterrows():
    at = (row["confidence"], row["frequency"])
    right.annotate(f"{row['rounds']:.0f}", at, (3, -15), textcoords="offset points")
right.set(xlim=(0.3, 1.05), ylim=(0, 1.05))
right.set_xlabel("confidence_ after a round")
right.set_ylabel("share within 5 % of the best")
right.set_title("probability, and number of rounds")
plt.show()

# %%
# What turned out fast had been predicted closely; what turned out slow was often slower
# than expected, and a search has little reason to learn how slow exactly. The error of
# the probability over all 45 pools is in :doc:`/user_guide/stopping`.
