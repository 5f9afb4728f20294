"""
================================
Several devices share one search
================================

While one config is measured, others may be: ``propose`` can be called again before the
last answer is there. This example simulates it, and looks at what is gained in time and
lost in knowledge.
"""

# %%
# The simulation
# --------------
#
# The pool, the backward pass of a layer norm in Triton, was recorded on an NVIDIA H200
# along with the seconds that each config took to compile. Here a measurement takes as
# long. Whichever worker is free asks for one config; whichever is done answers.

import heapq

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import LogNorm

from fasta_learn import ActiveConfigSearch
from fasta_learn.datasets import load_pool

plt.style.use("tableau-colorblind10")
pool = load_pool("layer_norm_backward_8192_1024")
seconds = pool.extra["compile_seconds"].to_numpy()


def run_workers(n_workers, seed):
    """A row for each measurement: worker, start and end in seconds, regret."""
    search = ActiveConfigSearch(budget=48, prior=None, random_state=seed)
    clock, free, running, rows = 0.0, list(range(n_workers)), [], []
    while True:
        while free and len(batch := search.propose(pool.configs, n_configs=1)):
            index = int(batch[0])
            heapq.heappush(running, (clock + seconds[index], clock, free.pop(), index))
        if not running:
            return pd.DataFrame(rows, columns=["worker", "start", "end", "regret"])
        clock, start, worker, index = heapq.heappop(running)
        search.partial_fit([index], [pool.durations[index]])
        free.append(worker)
        rows.append((worker, start, clock, pool.regret(search.best_duration_)))


runs = {
    (n_workers, seed): run_workers(n_workers, seed)
    for n_workers in (1, 4, 16)
    for seed in range(5)
}
runs[4, 0].round(3).head()

# %%
# The schedule of four workers
# ----------------------------
#
# No worker waits for another. A bar is a measurement; the darker, the closer the best
# config was to the best of the pool when it ended.

fig, ax = plt.subplots(figsize=(8, 2.6), layout="constrained")
run = runs[4, 0]
norm = LogNorm(0.01, 1)
bars = ax.barh(
    run["worker"] + 1,
    run["end"] - run["start"],
    left=run["start"],
    height=0.8,
    color=plt.get_cmap("Blues_r")(norm(run["regret"].clip(lower=0.01))),
    edgecolor="0.3",
)
ax.set(xlabel="time (s)", ylabel="worker", yticks=[1, 2, 3, 4])
scale = plt.cm.ScalarMappable(norm, "Blues_r")
bar = fig.colorbar(scale, ax=ax, label="regret of the best so far")
bar.set_ticks([0.01, 0.1, 1], labels=["≤ 1 %", "10 %", "100 %"])
plt.show()

# %%
# Time and knowledge
# ------------------
#
# With more workers each choice is made knowing less. So it takes more measurements
# until a config within 5 % of the best is found, and less time.

rows = []
for (n_workers, seed), run in runs.items():
    first = int((run["regret"] > 0.05).sum())
    row = {"workers": n_workers, "seed": seed, "measured": first + 1}
    rows.append({**row, "seconds": run["end"].iloc[min(first, len(run) - 1)]})
needed = pd.DataFrame(rows).groupby("workers")[["measured", "seconds"]].mean()
needed.round(1)

# %%
fig, (left, right) = plt.subplots(
    1, 2, figsize=(9, 4.2), sharey=True, layout="constrained"
)
for n_workers, color in zip((1, 4, 16), ["#595959", "#FF800E", "#006BA4"], strict=True):
    curves = [run for (n, _), run in runs.items() if n == n_workers]
    regret = 100 * np.mean([run["regret"] for run in curves], axis=0)
    end = np.mean([run["end"] for run in curves], axis=0)
    style = {"color": color, "linewidth": 2, "drawstyle": "steps-post"}
    label = f"{n_workers} worker" + ("s" if n_workers > 1 else "")
    left.plot(np.arange(1, len(regret) + 1), regret, label=label, **style)
    right.plot(end, regret, label=label, **style)
for ax in (left, right):
    ax.axhspan(0, 5, color="0.9", zorder=0)
    ax.set_ylim(0, 60)
left.set(xlabel="measured configs", ylabel="mean regret of 5 seeds (%)")
right.set(xlabel="time (s)", xticks=range(0, 21, 4))
right.legend()
plt.show()

# %%
# In a program, ``CallableOracle(measure, n_jobs=4)`` makes four measurements at a time
# and ``batch_size=4`` proposes four. Where they are answered one by one, as here,
# nobody waits for the slowest. See :doc:`/user_guide/search`.
