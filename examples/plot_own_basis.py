"""
==============================
Features and bases of your own
==============================

A vectorizer, a scaler and a surrogate are a pipeline of scikit-learn. So features that
come from knowing the kernel, and a basis of one's own, are compared like any other
model: by ``GridSearchCV`` on recorded durations.

The pool is a matrix product of 2048³ in Triton, recorded on an NVIDIA H200.
"""

# %%
# Features from knowing the kernel
# --------------------------------
#
# The function sees all configs and answers a matrix. Beside the logarithms of the
# parameters it has what a tile means for the device: elements for each thread, bytes in
# shared memory, arithmetic for each byte that is loaded, and how many of the H200's 132
# multiprocessors sit idle while the last tiles are worked on.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, SplineTransformer

from fasta_learn import ActiveConfigSearch, ConfigVectorizer, ModelSelector
from fasta_learn.bases import BaseBasis, FourierBasis, LinearBasis, PolynomialBasis
from fasta_learn.datasets import load_pool
from fasta_learn.experiments import replay, summarize

plt.style.use("tableau-colorblind10")
pool = load_pool("mm_2048_2048_2048")


def device_features(configs):
    c = pd.DataFrame(list(configs))
    area, sides = c["BLOCK_M"] * c["BLOCK_N"], c["BLOCK_M"] + c["BLOCK_N"]
    tiles = 2048**2 / area
    logs = np.log2(c.drop(columns="num_stages"))
    return np.column_stack(
        [
            *(logs[name] for name in logs),
            c["num_stages"],
            np.log2(area / (32 * c["num_warps"])),
            np.log2(2 * sides * c["BLOCK_K"] * c["num_stages"]),
            np.log2(area / sides),
            tiles / (132 * np.ceil(tiles / 132)),
        ]
    )


# %%
# A basis
# -------
#
# A basis has three methods. This one gives each feature a bend in the middle of its
# range. Transformers of scikit-learn do as well, such as splines.


class BentBasis(BaseBasis):
    def n_terms(self, n_features):
        return 1 + 2 * n_features

    def _expand(self, X):
        return np.hstack([np.ones((len(X), 1)), X, np.maximum(X - 0.5, 0)])

    def _term_names(self, names):
        return ["1", *names, *(f"bent {name}" for name in names)]


# %%
# The comparison
# --------------

vectorizers = {
    "numbers as they are": ConfigVectorizer(),
    "logarithms": ConfigVectorizer(log2="auto"),
    "what they mean": FunctionTransformer(device_features),
}
bases = {
    "linear": LinearBasis(),
    "bent": BentBasis(),
    "splines": SplineTransformer(n_knots=4),
    "fourier": FourierBasis(),
    "full": PolynomialBasis(),
}
pipeline = make_pipeline(ConfigVectorizer(), MinMaxScaler(), ModelSelector())
grid = {
    "configvectorizer": list(vectorizers.values()),
    "modelselector__bases": [[(name, basis)] for name, basis in bases.items()]
    + [list(bases.items())],
}
folds = KFold(5, shuffle=True, random_state=0)
grid_search = GridSearchCV(pipeline, grid, cv=folds, scoring="r2")
grid_search.fit(pool.configs, np.log(pool.durations))
scores = pd.DataFrame(
    grid_search.cv_results_["mean_test_score"].reshape(len(vectorizers), -1),
    index=list(vectorizers),
    columns=[*bases, "all compete"],
)
scores.round(2)

# %%
fig, ax = plt.subplots(figsize=(8, 3), layout="constrained")
image = ax.imshow(scores, cmap="cividis", vmin=0, vmax=1, aspect="auto")
for (row, column), value in np.ndenumerate(scores):
    color = "w" if value < 0.55 else "k"
    ax.text(column, row, f"{value:.2f}", ha="center", va="center", color=color)
ax.set_xticks(range(scores.shape[1]), scores.columns)
ax.set_yticks(range(scores.shape[0]), scores.index)
ax.set(xlabel="basis", ylabel="features")
fig.colorbar(image, label="R² of log durations\n(5 folds)")
plt.show()

# %%
# Does the search find more?
# --------------------------
#
# A model of the whole pool is one thing, a search that has measured 20 configs is
# another. The search takes both: the vectorizer, and the surrogate.

surrogate = ModelSelector(list(bases.items()), scoring="press")
searches = {
    features: ActiveConfigSearch(surrogate, vectorizer=vectorizer)
    for features, vectorizer in vectorizers.items()
}
searches["default"] = ActiveConfigSearch(prior=None)
results = replay(pool, searches, budgets=[20], n_seeds=10)
columns = ["search", "catch", "mean_regret", "mean_regret_low", "mean_regret_high"]
summarize(results)[columns].round(3)

# %%
# Ten seeds on one pool don't tell these searches apart: the intervals overlap. To rely
# on features of your own, replay recordings of several kernels. More on surrogates is
# in :doc:`/user_guide/surrogates`.
