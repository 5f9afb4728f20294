"""
==================
Compare surrogates
==================

The same search with three surrogates on four recorded pools: the default Gaussian
process, ridge regressions on competing bases, and a random forest. A random choice and
the dynamic filter of torch_npu stand beside them.

The pools ship with the package: Triton kernels that were recorded on an NVIDIA H200
with torch 2.11 and triton 3.6. Nothing is timed here. The searches are replayed on
the recorded durations.
"""

# %%
# The searches
# ------------
#
# The first three propose four configs at a time, so that they differ in the surrogate
# alone, and in what goes with it: the default one knows its uncertainty and learns
# the lost speed, the others choose the best predictions and learn the logarithm of
# the duration.

import matplotlib.pyplot as plt
import numpy as np
import sklearn
from sklearn.ensemble import RandomForestRegressor

import fasta_learn
from fasta_learn import ActiveConfigSearch, ModelSelector
from fasta_learn.experiments import (
    RandomSearch,
    ScaledDynamicFilter,
    compare,
    plot_regret,
    regret_curves,
    replay,
    summarize,
)

plt.style.use("tableau-colorblind10")
forest = RandomForestRegressor(n_estimators=20, random_state=0)
searches = {
    "default": ActiveConfigSearch(batch_size=4),
    "ModelSelector": ActiveConfigSearch(ModelSelector(scoring="press"), batch_size=4),
    "random forest": ActiveConfigSearch(forest, batch_size=4),
    "dynamic filter": ScaledDynamicFilter("production"),
    "random choice": RandomSearch(),
}
pools = ["mm_2048_2048_2048", "attn_16_4096_128", "rmsnorm_8192_5120", "swiglu_8M"]
print(f"fasta_learn {fasta_learn.__version__}, scikit-learn {sklearn.__version__}")

# %%
# The replay
# ----------
#
# Each search runs on each pool with the seeds 0 to 3, and may measure a fifth of it.
# ``traces=True`` keeps the regret after each measurement.

results = replay(pools, searches, budgets=[0.2], n_seeds=4, traces=True)
print(f"{len(results)} runs")

# %%
# Regret curves
# -------------
#
# The regret is how much longer the best config so far takes than the best of the
# pool. Every pool weighs the same. The bands are 95 % bootstrap intervals over pools
# and seeds, drawn for two searches; they are wide, since four pools are few. A line
# that leaves the picture is below 0.1 %.
#
# The dynamic filter, scaled to this budget, chooses at a temperature of at least 0.3
# ms, and most configs of three of these pools take less than that. See
# :doc:`/user_guide/dynamic_filter`.

fig, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
curves = regret_curves(results)
others = ~curves["search"].isin(["default", "random choice"])
curves.loc[others, ["mean_regret_low", "mean_regret_high"]] = np.nan
plot_regret(curves, ax)
ax.set(xlim=(1, 20), ylim=(0.1, 300))
ax.set_yticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
ax.set_xticks([1, 5, 10, 15, 20])
ax.set_title("mean over 4 pools and 4 seeds")
plt.show()

# %%
# In numbers, with 95 % bootstrap intervals. ``catch`` is the share of runs that end
# within 5 % of the best.

columns = ["search", "catch", "catch_low", "catch_high", "mean_regret", "worst_pool"]
summarize(results)[columns].round(3)

# %%
# Pool by pool:

results.groupby(["pool", "search"], sort=False)["regret"].mean().unstack().round(3)

# %%
# Differences
# -----------
#
# Runs of the same pool and seed are compared in pairs. An interval that contains 0
# means that these pools and seeds don't tell which of the two is better.

columns = ["n_pairs", "regret_difference"]
columns += ["regret_difference_low", "regret_difference_high"]
for other in list(searches)[1:]:
    print(f"default less {other}")
    print(compare(results, "default", other)[columns].round(4).to_string(index=False))

# %%
# Four pools are few, and the settings that are the default were chosen with the help
# of these and the other pools of the collection ``original``. A comparison to rely on
# needs recordings of your own kernels, and more seeds. ``fasta-learn replay`` runs such
# comparisons from the command line.
