"""
======================
Which basis wins, when
======================

``ModelSelector`` lets five expansions of the features compete: each is judged by how
well it predicts measurements that it has not seen. Here the competition is followed
through whole searches. The pools are Triton kernels recorded on an NVIDIA H200.
"""

# %%
# One search, step by step
# ------------------------
#
# In the loop of ``propose`` and ``partial_fit`` the surrogate can be looked at after
# every step: ``scores_`` of the fitted ``ModelSelector`` has a row for each basis. The
# score ``"press"`` is the squared error of leave-one-out predictions. The target is the
# logarithm of the duration, so an error of 0.1 is about 10 %.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import ListedColormap

from fasta_learn import ActiveConfigSearch, ModelSelector
from fasta_learn.datasets import load_pool

plt.style.use("tableau-colorblind10")


def new_search():
    """Two configs at a time, up to 35 % of the pool."""
    surrogate = ModelSelector(scoring="press")
    return ActiveConfigSearch(surrogate, budget=0.35, batch_size=2, random_state=0)


pool = load_pool("softmax_backward_4096_3000")
search, rows = new_search(), []
while len(batch := search.propose(pool.configs)):
    search.partial_fit(batch, pool.durations[batch])
    for row in search.best_estimator_.scores_:
        rows.append({"n_measured": search.n_measured_, **row})
scores = pd.DataFrame(rows)
scores["error"] = np.sqrt(-scores["neg_press"])
scores[scores["n_measured"] == search.n_measured_]

# %%
# A basis that is skipped has no score: the cubic one has too many terms for few
# measurements.

scores.groupby("basis", sort=False)["skipped"].agg(lambda reason: reason.ne("").sum())

# %%
# Ten searches
# ------------
#
# ``rounds_`` names the winner of each round.

pools = [
    "swiglu_8M",
    "attn_16_4096_128",
    "softmax_backward_4096_3000",
    "bias_gelu_add_8000_3072",
    "decode_attention_32_8_6000_128",
    "conv2d_8_56_64_128",
    "histogram_16M",
    "layer_norm_6000_2304",
    "rmsnorm_8192_5120",
    "mm_2048_2048_2048",
]
bases = ["linear", "quadratic", "full", "fourier", "cubic"]
winners = np.full((len(pools), 90), np.nan)
for line, name in zip(winners, pools, strict=True):
    other = load_pool(name)
    search = new_search().fit(other.configs, other.durations)
    for record in search.rounds_:
        line[record["n_measured"] - 1 : search.n_measured_] = bases.index(
            record["basis"]
        )

# %%
# The picture
# -----------

colors = ["#ABABAB", "#FFBC79", "#5F9ED1", "#006BA4", "#C85200"]
fig, (above, below) = plt.subplots(
    2, 1, figsize=(8, 7), height_ratios=[1, 1.2], sharex=True, layout="constrained"
)
for basis, color in zip(bases, colors, strict=True):
    line = scores[scores["basis"] == basis]
    above.plot(line["n_measured"], line["error"], ".-", color=color, label=basis)
above.set_ylim(0, 0.3)
above.set_ylabel("leave-one-out error\n(log of duration)")
above.set_title(f"{pool.name}: the smallest error wins")
below.imshow(
    winners,
    cmap=ListedColormap(colors),
    vmin=-0.5,
    vmax=4.5,
    aspect="auto",
    interpolation="none",
    extent=(0.5, 90.5, len(pools) - 0.5, -0.5),
)
below.set_yticks(range(len(pools)), pools)
below.set_xlabel("measured configs")
below.set_title("winner after each round")
below.set_xlim(8, 84)
fig.legend(loc="outside lower center", ncols=5)
plt.show()

# %%
# No basis is best for all kernels or at all times. With a dozen measurements the winner
# often changes from round to round; later it is mostly one with products of features or
# periodic terms. See :doc:`/user_guide/surrogates` for what the bases are.
