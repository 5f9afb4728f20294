"""
==================
Compare surrogates
==================

The same search with three surrogates, and a random choice, on four recorded pools:
the default Gaussian process, ridge regressions on competing bases, and a random
forest.

The pools ship with the package: Triton kernels that were recorded on an NVIDIA H200
with torch 2.11 and triton 3.6. Nothing is timed here. The searches are replayed on
the recorded durations.
"""

# %%
# The searches
# ------------
#
# All three propose four configs at a time, so that they differ in the surrogate
# alone, and in what goes with it: the default one knows its uncertainty and learns
# the lost speed, the others choose the best predictions and learn the logarithm of
# the duration.

import matplotlib.pyplot as plt
import sklearn
from sklearn.ensemble import RandomForestRegressor

import fasta_learn
from fasta_learn import ActiveConfigSearch, ModelSelector
from fasta_learn.experiments import (
    RandomSearch,
    compare,
    plot_regret,
    replay,
    summarize,
)

forest = RandomForestRegressor(n_estimators=30, random_state=0)
searches = {
    "default": ActiveConfigSearch(batch_size=4),
    "ModelSelector": ActiveConfigSearch(ModelSelector(scoring="press"), batch_size=4),
    "random forest": ActiveConfigSearch(forest, batch_size=4),
    "random choice": RandomSearch(),
}
pools = ["mm_2048_2048_2048", "attn_16_4096_128", "rmsnorm_8192_5120", "swiglu_8M"]
print(f"fasta_learn {fasta_learn.__version__}, scikit-learn {sklearn.__version__}")

# %%
# The replay
# ----------
#
# Each search runs on each pool with the seeds 0 to 5, and may measure a fifth of it.
# ``traces=True`` keeps the regret after each measurement.

results = replay(pools, searches, budgets=[0.2], n_seeds=6, traces=True)
print(f"{len(results)} runs")

# %%
# Regret curves
# -------------
#
# The regret is how much longer the best config so far takes than the best of the
# pool. Every pool weighs the same.

fig, ax = plt.subplots(layout="constrained")
plot_regret(results, ax)
ax.set_title("mean over 4 pools and 6 seeds")
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
for other in ("ModelSelector", "random forest", "random choice"):
    print(f"default less {other}")
    print(compare(results, "default", other)[columns].round(4).to_string(index=False))

# %%
# Four pools are few, and the settings that are the default were chosen with the help
# of these and the other pools of the collection ``original``. A comparison to rely on
# needs recordings of your own kernels, and more seeds. ``fasta-learn replay`` runs such
# comparisons from the command line.
