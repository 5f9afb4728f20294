"""
=======================
Learn from other shapes
=======================

Whoever has recorded a kernel for some shapes knows something about the next one. A
``PoolPrior`` learns it, and a search begins with it. Six pools of matrix products in
Triton that ship with the package, recorded on an NVIDIA H200, show how much it helps.
"""

# %%
# What one shape tells of another
# -------------------------------
#
# A prior is fitted to each pool alone and predicts the others. From the sizes of the
# problem it knows how the tiles fit into it. How well the order of its predictions
# agrees with that of the recorded durations is the rank correlation: 1 is perfect, 0
# nothing.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from fasta_learn import ActiveConfigSearch
from fasta_learn.datasets import load_pool
from fasta_learn.experiments import regret_curves, replay
from fasta_learn.transfer import PoolPrior

plt.style.use("tableau-colorblind10")
SHAPES = {
    "mm_8_4096_4096": {"m": 8, "n": 4096, "k": 4096},
    "mm_500_512_30000": {"m": 500, "n": 512, "k": 30000},
    "matmul_bf16_1111_1537_2049": {"m": 1111, "n": 1537, "k": 2049},
    "matmul_nt_bf16_8192_768_768": {"m": 8192, "n": 768, "k": 768},
    "matmul_f16_3072_3072_1024": {"m": 3072, "n": 3072, "k": 1024},
    "mm_2048_2048_2048": {"m": 2048, "n": 2048, "k": 2048},
}
pools = {name: load_pool(name) for name in SHAPES}


def learn(names):
    """A prior from these pools."""
    prior = PoolPrior(n_trees=50)
    return prior.fit([pools[name] for name in names], shapes=[SHAPES[n] for n in names])


def agreement(prior, name):
    costs = prior.for_shape(SHAPES[name]).predict(pools[name].configs)
    return spearmanr(costs, pools[name].durations).statistic


correlation = np.full((len(SHAPES) + 1, len(SHAPES)), np.nan)
for row, source in enumerate(SHAPES):
    prior = learn([source])
    for column, name in enumerate(SHAPES):
        if name != source:
            correlation[row, column] = agreement(prior, name)
of_others = {
    name: learn([source for source in SHAPES if source != name]) for name in SHAPES
}
correlation[-1] = [agreement(prior, name) for name, prior in of_others.items()]

# %%
fig, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
image = ax.imshow(correlation, cmap="cividis", vmin=0, vmax=1, aspect="auto")
for (row, column), value in np.ndenumerate(correlation):
    if np.isfinite(value):
        color = "w" if value < 0.55 else "k"
        ax.text(column, row, f"{value:.2f}", ha="center", va="center", color=color)
labels = [" × ".join(map(str, shape.values())) for shape in SHAPES.values()]
ax.set_yticks(range(len(labels) + 1), [*labels, "all others together"])
ax.set_xticks(range(len(labels)), [label.replace(" × ", "\n× ") for label in labels])
ax.set(ylabel="learned from", xlabel="predicted: m × n × k")
ax.axhline(len(labels) - 0.5, color="w", linewidth=4)
fig.colorbar(image, label="rank correlation with the durations")
plt.show()

# %%
# Shapes that keep the device busy in the same way tell much about each other: the two
# with few programs and long sums, and the three large ones. One that is unlike all
# others is not predicted by them, which a search has to find out.
#
# What a search gains
# -------------------
#
# Each pool is searched without a prior; with the one that ships, which has seen other
# kernels and is the default; and with one from the other five shapes.

runs = []
for target, prior in of_others.items():
    searches = {
        "no prior": ActiveConfigSearch(prior=None),
        "prior that ships": ActiveConfigSearch(),
        "five other shapes": ActiveConfigSearch(prior=prior.for_shape(SHAPES[target])),
    }
    runs.append(replay(pools[target], searches, budgets=[16], n_seeds=3, traces=True))
results = pd.concat(runs)
curves = regret_curves(results, against="number")
curves.query("n_measured in (1, 4, 8, 16)").set_index(["search", "n_measured"]).round(3)

# %%
results["first"] = [100 * trace[0] for trace in results["trace"]]
first = results.groupby(["pool", "search"])["first"].mean().unstack().loc[list(SHAPES)]

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4.5), layout="constrained")
styles = ["s", "o", "D"], ["#595959", "#006BA4", "#C85200"], [6, 10, 6]
for name, marker, color, size in zip(searches, *styles, strict=True):
    line = curves[curves["search"] == name]
    regret = 100 * line["mean_regret"]
    left.plot(line["n_measured"], regret, color=color, linewidth=2, label=name)
    right.plot(first[name], range(len(first)), marker, color=color, markersize=size)
left.set(yscale="log", xlabel="measured configs", ylabel="mean regret (%)")
left.set_yticks([2, 5, 10, 20, 50, 100], [2, 5, 10, 20, 50, 100])
left.set_xticks([1, 4, 8, 12, 16])
left.set_title("mean of all pools, 3 seeds")
left.legend()
right.set_yticks(range(len(labels)), labels)
right.invert_yaxis()
right.grid(axis="y", alpha=0.4)
right.set_xlim(left=-3)
right.set(xlabel="mean regret (%)")
right.set_title("first measurement")
plt.show()

# %%
# A prior helps before anything is known. It replaces few measurements: once ten configs
# are measured, these searches differ by little more than chance. What the default prior
# does for 60 pools is in the README, and how it works in :doc:`/user_guide/transfer`.
