"""
=====================
When to stop a search
=====================

A budget says how much may be measured, not whether that was needed. ``CertaintyStop``
ends a search as soon as the result is probably good enough. This is what it saves and
what it costs, on pools recorded on an NVIDIA H200.
"""

# %%
# One search
# ----------
#
# ``budget`` becomes the upper limit, here 35 % of the pool.

import matplotlib.pyplot as plt
import pandas as pd

from fasta_learn import ActiveConfigSearch
from fasta_learn.datasets import list_pools, load_pool
from fasta_learn.search import CertaintyStop

plt.style.use("tableau-colorblind10")
pool = load_pool("rmsnorm_8192_5120")
stop = CertaintyStop(probability=0.95)
search = ActiveConfigSearch(budget=0.35, stopping=stop, random_state=0)
search.fit(pool.configs, pool.durations)
print(f"{search.stop_reason_} after {search.n_measured_} of {search.n_budget_}")
print(f"regret {pool.regret(search.best_duration_):.1%}")

# %%
# Many stops from one run
# -----------------------
#
# A stop changes nothing before it happens. So one search that uses up its budget tells
# where each rule would have ended it: at the first round whose probability is high
# enough. ``rounds_`` has all that is needed.

runs = []
for name in list_pools("original"):
    pool = load_pool(name)
    search = ActiveConfigSearch(budget=0.35, random_state=0)
    search.fit(pool.configs, pool.durations)
    run = pd.DataFrame(search.rounds_)[["n_measured", "confidence", "best_duration"]]
    run["regret"] = run["best_duration"] / pool.best_duration - 1
    run["share"] = run["n_measured"] / len(pool)
    runs.append((name, run))


def end(run, reached):
    """The round at which a rule stops: the first that reached it, or the last."""
    return run[reached].iloc[0] if reached.any() else run.iloc[-1]


def outcome(rule):
    stops = pd.DataFrame([end(run, rule(run)) for _, run in runs])
    return {
        "measured": stops["share"].mean(),
        "within 5 %": (stops["regret"] <= 0.05).mean(),
        "mean regret": stops["regret"].mean(),
    }


sure = {
    f"{p}": outcome(lambda run, p=p: run["confidence"] >= p)
    for p in (0.7, 0.8, 0.9, 0.95)
}
fixed = {
    f"{share:.0%}": outcome(lambda run, share=share: run["share"] >= share)
    for share in (0.06, 0.08, 0.12, 0.16, 0.2, 0.35)
}
pd.DataFrame(sure | fixed).T.rename_axis("stop at").round(3)

# %%
# The trade
# ---------

fig, (left, right) = plt.subplots(
    1, 2, figsize=(9, 4.5), width_ratios=[1, 1.1], layout="constrained"
)
for (label, points), style in zip(
    {"CertaintyStop": sure, "fixed share": fixed}.items(), ["o-", "s--"], strict=True
):
    table = 100 * pd.DataFrame(points).T
    left.plot(table["measured"], table["mean regret"], style, label=label)
for p, point in sure.items():
    at = (100 * point["measured"], 100 * point["mean regret"])
    left.annotate(p, at, xytext=(6, 6), textcoords="offset points")
left.set(xlabel="measured share of the pool (%)", ylabel="mean regret (%)")
left.set_ylim(bottom=0)
left.legend()
left.set_title("cost and quality")

stops = {name: 100 * end(run, run["confidence"] >= 0.95)["share"] for name, run in runs}
found = {name: 100 * end(run, run["regret"] <= 0.05)["share"] for name, run in runs}
order = sorted(stops, key=stops.get)
rows = range(len(order))
right.hlines(rows, 0, [stops[name] for name in order], color="0.8")
right.plot(
    [found[name] for name in order],
    rows,
    "|",
    color="#C85200",
    ms=11,
    mew=2,
    label="first config within 5 %",
)
right.plot([stops[name] for name in order], rows, "o", label="stop at 0.95")
right.axvline(35, color="0.3", linewidth=1)
right.set_yticks(rows, order)
right.set(xlim=(0, 36), xlabel="measured share of the pool (%)")
right.set_title("pool by pool; the budget is 35 %")
right.legend(loc="lower right", bbox_to_anchor=(0.95, 0))
plt.show()

# %%
# On average a fixed share does as well, for those who know which. But where to stop
# differs fivefold between the pools, and the probability tells it during the search.
# How it is computed is told in :doc:`/user_guide/stopping`.
