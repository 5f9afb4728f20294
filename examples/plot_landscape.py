"""
==================================
Watch a search cross the landscape
==================================

Where the fast configs of a pool are, and which of them the search measured when. The
picture is that of a row-wise layer norm: 210 configs of a Triton kernel for 6000 rows
of 2304 elements, recorded on an NVIDIA H200, which ship with the package.
"""

# %%
# A landscape of two tile sizes
# -----------------------------
#
# A config has five parameters. Two of them span the map: the rows and the columns that
# a program takes at a time. Each cell has all configs that share these two.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LogNorm

from fasta_learn import ActiveConfigSearch
from fasta_learn.datasets import load_pool

plt.style.use("tableau-colorblind10")
pool = load_pool("layer_norm_6000_2304")
print(pool)
print(pool.configs[0])

frame = pool.to_frame()
slowdown = frame["duration_ms"] / pool.best_duration
cells = frame.assign(slowdown=slowdown).pivot_table(
    index="X0BLOCK", columns="R0BLOCK", values="slowdown", aggfunc="min"
)
cells.round(2)

# %%
# The search
# ----------
#
# A fifth of the pool may be measured. ``results_`` has a row for each measurement in
# order; ``round`` is 1 for the blind sample.

search = ActiveConfigSearch(budget=0.2, random_state=0)
search.fit(pool.configs, pool.durations)
order = np.full(len(pool), -1)
order[search.results_["index"]] = np.arange(search.n_measured_)
n_blind = search.rounds_[0]["n_measured"]
found = int(np.argmin(search.results_["duration"])) + 1
print(f"regret {pool.regret(search.best_duration_):.1%}, found as number {found}")

# %%
# The map
# -------
#
# The shade of a cell is the fastest of its configs: the darker, the faster. A dot is a
# config. Grey ones were never measured, white ones belong to the blind sample, and
# orange ones were chosen by the surrogate; the numbers tell when. The thick edge marks
# the fastest one.


def place(group):
    """Offsets that spread the configs of one cell over it."""
    side = int(np.ceil(np.sqrt(len(group))))
    rows, columns = np.divmod(np.arange(len(group)), side)
    return 0.8 * ((np.column_stack([columns, rows]) + 0.5) / side - 0.5)


fig, ax = plt.subplots(figsize=(9, 6), layout="constrained")
image = ax.imshow(
    cells, cmap="Blues_r", norm=LogNorm(0.9, 2.5), origin="lower", aspect="auto"
)
for (x, r), group in frame.groupby(["X0BLOCK", "R0BLOCK"]):
    centre = [cells.columns.get_loc(r), cells.index.get_loc(x)]
    for index, (at_x, at_y) in zip(group.index, centre + place(group), strict=True):
        if order[index] < 0:
            ax.plot(at_x, at_y, ".", color="0.75", markersize=4)
            continue
        chosen = order[index] >= n_blind
        color = "#FFBC79" if chosen else "white"
        edge = {"markeredgecolor": "k", "markeredgewidth": 0.7}
        if index == search.best_index_:
            edge["markeredgewidth"] = 3
        ax.plot(at_x, at_y, "o", color=color, markersize=13, **edge)
        label = str(order[index] + 1)
        ax.text(at_x, at_y - 0.01, label, ha="center", va="center", fontsize=7)
ax.set_xticks(range(cells.shape[1]), cells.columns)
ax.set_yticks(range(cells.shape[0]), cells.index)
ax.set_xlabel("R0BLOCK: columns at a time")
ax.set_ylabel("X0BLOCK: rows of a program")
ax.set_title(f"{pool.name}: {search.n_measured_} of {len(pool)} configs measured")
bar = fig.colorbar(image, label="fastest of the cell over fastest of the pool")
bar.set_ticks([1, 1.25, 1.5, 2], labels=["1 ×", "1.25 ×", "1.5 ×", "2 ×"])
bar.minorticks_off()
plt.show()

# %%
# The blind sample is spread out and avoids the corners. What comes after it is mostly
# in a few fast cells, where the other three parameters decide.
