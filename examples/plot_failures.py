"""
==========================
Configs that cannot be run
==========================

On a device with less shared memory many configs of a pool don't run. The search learns
which ones, and stays away from them while they are many.
"""

# %%
# A smaller device
# ----------------
#
# The pool is a float16 matrix product in Triton, recorded on an NVIDIA H200 along with
# the shared memory that each config takes. Suppose a device that has no more than 64
# KiB of it for a program; its speed is left as it was recorded.

import matplotlib.pyplot as plt
import numpy as np

from fasta_learn import ActiveConfigSearch
from fasta_learn.datasets import load_pool
from fasta_learn.oracles import CallableOracle, Measurement
from fasta_learn.search import ExpectedImprovement

plt.style.use("tableau-colorblind10")
LIMIT = 64
pool = load_pool("matmul_f16_3072_3072_1024")
shared_kib = pool.extra["shared_bytes"].to_numpy() / 1024
fails = ~(shared_kib <= LIMIT)  # also where it is unknown, as no device could run it


def launch(config):
    index = pool.configs.index(config)
    if fails[index]:
        reason = f"needs more than {LIMIT} KiB of shared memory"
        return Measurement.failed("out_of_resources", reason)
    return pool.durations[index]


best = pool.durations[~fails].min()
print(f"{fails.sum()} of {len(pool)} configs fail")

# %%
# A search
# --------
#
# A failed config is a measurement: it costs budget, and has an infinite duration, a
# status and a reason.

search = ActiveConfigSearch(budget=0.2, random_state=0)
search.fit(pool.configs, oracle=CallableOracle(launch))
print(f"regret {search.best_duration_ / best - 1:.1%}: {search.best_config_}")
search.results_.query("status != 'ok'")[["index", "status", "reason"]].head()

# %%
# How careful to be
# -----------------
#
# ``ExpectedImprovement(tolerated_failures=...)`` is the share of failures up to which
# the search does not mind: 0.2 by default; 0 avoids them from the first one on, and 1
# never. The fastest configs often stand beside those that fail, so on other pools
# caution has its price.

policies = {"never avoid": 1, "default": 0.2, "always avoid": 0}
failures = {}
for label, tolerated in policies.items():
    acquisition = ExpectedImprovement(tolerated_failures=tolerated)
    for seed in range(4):
        run = ActiveConfigSearch(budget=0.2, acquisition=acquisition, random_state=seed)
        run.fit(pool.configs, np.where(fails, np.inf, pool.durations))
        failed = np.cumsum(np.isinf(run.results_["duration"]))
        failures.setdefault(label, []).append(failed)
        print(
            f"{label:12} seed {seed}: {failed.iloc[-1]:2} failed, "
            f"regret {run.best_duration_ / best - 1:.1%}"
        )

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4.5), layout="constrained")
numbers = np.arange(1, search.n_measured_ + 1)
for (label, runs), color in zip(
    failures.items(), ["#C85200", "#006BA4", "#595959"], strict=True
):
    left.plot(numbers, np.mean(runs, axis=0), color=color, linewidth=2, label=label)
    low, high = np.min(runs, axis=0), np.max(runs, axis=0)
    left.fill_between(numbers, low, high, alpha=0.15, color=color)
left.plot(numbers, fails.mean() * numbers, "k:", label="random choice")
left.set(xlabel="measured configs", ylabel="failed so far")
left.set_title("mean and range of 4 seeds")
left.legend()

# Where the pool has no duration because it failed on the H200 too, there is no dot.
measured = np.isin(np.arange(len(pool)), search.results_["index"])
right.axvspan(LIMIT, 300, color="0.93")
for rows, label, style in (
    (~measured, "not measured", {"color": "0.7", "marker": "."}),
    (measured & fails, "failed", {"color": "#C85200", "marker": "x"}),
    (measured & ~fails, "measured", {"color": "#006BA4", "marker": "o"}),
):
    right.plot(
        shared_kib[rows], 1e3 * pool.durations[rows], linestyle="", label=label, **style
    )
right.set(xscale="log", yscale="log", xlim=(3, 300))
right.set_xticks([4, 8, 16, 32, 64, 128, 256], [4, 8, 16, 32, 64, 128, 256])
right.set_yticks([50, 100, 200, 400], [50, 100, 200, 400])
right.minorticks_off()
right.set(xlabel="shared memory (KiB)", ylabel="duration on the H200 (µs)")
right.set_title(f"the search of seed 0; above {LIMIT} KiB all fail")
right.legend()
plt.show()

# %%
# The fastest config that runs stands right at the limit, next to those that fail. See
# :doc:`/user_guide/failures_and_costs` for other pools.
