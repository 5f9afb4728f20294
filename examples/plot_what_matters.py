"""
=======================
Which parameters matter
=======================

After a search its surrogate can be asked which parameters of the config made the
difference, and which values are good: by the relevances of its Gaussian process, and by
the model-agnostic tools of ``sklearn.inspection``, since a fitted search is a regressor
that predicts durations.

The pool is a layer norm in Triton, recorded on an NVIDIA H200. Its config also limits
the registers of a thread (``maxnreg``).
"""

# %%
# The search
# ----------
#
# A pool may be a data frame, whose columns give the names of the parameters.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.inspection import partial_dependence, permutation_importance

from fasta_learn import ActiveConfigSearch
from fasta_learn.datasets import load_pool

plt.style.use("tableau-colorblind10")
pool = load_pool("layer_norm_6000_2304")
configs = pd.DataFrame(pool.configs)
search = ActiveConfigSearch(budget=0.35, random_state=0)
search.fit(configs, pool.durations)
print(f"{search.n_measured_} of {len(pool)} measured, best: {search.best_config_}")

# %%
# Three answers
# -------------
#
# 1. ``relevance_`` of the Gaussian process, from 0 to 1: how much of its correlation
#    between two configs is lost when they differ in this parameter alone.
# 2. The permutation importance of the surrogate: how much worse the measured durations
#    are predicted when the values of one parameter are shuffled. It asks the measured
#    configs only, as one would with a live kernel.
# 3. For comparison, what the whole recording says: the same importance of the true
#    durations, by a surrogate that has measured everything.


def log_r2(model, X, durations):
    """Share of the variance of the log durations that is explained."""
    truth, guess = np.log(durations), np.log(model.predict(X))
    return 1 - np.mean((truth - guess) ** 2) / np.var(truth)


def importance(model, rows):
    found = permutation_importance(
        model,
        configs.iloc[rows],
        pool.durations[rows],
        scoring=log_r2,
        n_repeats=20,
        random_state=0,
    )
    return found.importances_mean


names = search.vectorizer_.get_feature_names_out()
measured = search.results_["index"].to_numpy()
everything = ActiveConfigSearch(budget=1.0, n_initial=1.0, random_state=0)
everything.fit(configs, pool.durations)
answers = pd.DataFrame(
    {
        "relevance": pd.Series(search.best_estimator_.relevance_, index=names),
        "importance": pd.Series(importance(search, measured), index=configs.columns),
        "importance, all measured": pd.Series(
            importance(everything, np.arange(len(pool))), index=configs.columns
        ),
    }
).sort_values("importance", ascending=False)
answers.round(2)

# %%
fig, axes = plt.subplots(1, 3, figsize=(9, 3), sharey=True, layout="constrained")
for ax, (label, values) in zip(axes, answers.items(), strict=True):
    ax.barh(answers.index[::-1], values[::-1])
    ax.set_title(label)
    ax.grid(axis="x", alpha=0.4)
axes[0].set_xlabel("share of the correlation")
axes[1].set_xlabel("loss of R² of log durations")
axes[2].set_xlabel("loss of R² of log durations")
plt.show()

# %%
# Which values
# ------------
#
# The partial dependence is the mean predicted duration if one parameter had a certain
# value in all configs.

fig, axes = plt.subplots(1, 5, figsize=(9, 2.8), sharey=True, layout="constrained")
for ax, name in zip(axes, answers.index, strict=True):
    curve = partial_dependence(search, configs, [name], categorical_features=[name])
    values = curve["grid_values"][0]
    ax.plot(1e3 * curve["average"][0], "o-", color="C0")
    ax.set_xticks(range(len(values)), values, rotation=90 if len(values) > 5 else 0)
    ax.set_xlim(-0.5, len(values) - 0.5)
    ax.set_xlabel(name)
    ax.grid(axis="y", alpha=0.4)
axes[0].set_ylabel("mean predicted\nduration (µs)")
plt.show()

# %%
# These means show tendencies. The best config is a matter of the combination: it has a
# single warp, which is not the best value on average. The surrogate itself is described
# in :doc:`/user_guide/surrogates`.
