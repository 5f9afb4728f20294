"""
====================================
Learn when to pad a matrix product
====================================

TorchInductor can pad the matrices of a product whose sizes are not aligned. Whether
that pays depends on the device and the sizes. Here a small tree learns it: inputs are
collected into a log, the tree is judged on shapes that it has not seen, and written as
a Python module that ``torch.compile`` loads.

Nothing here needs a GPU: the durations are those of a model of one,
:class:`~fasta_learn.heuristics.SimulatedGPU`. On a real GPU, leave out ``benchmark``.
"""

# %%
# Collect
# -------
#
# Two logs of 500 inputs each, of which each form is measured three times: one of
# random inputs, and one of inputs that are chosen where a decision would lose most
# time. A log can be gone on with; the second call finds that nothing is left to do.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import ExtraTreesRegressor

from fasta_learn.heuristics import (
    GemmInput,
    InputSampler,
    PadDecisionTree,
    PadHeuristic,
    SimulatedGPU,
    collect,
    evaluate,
    generate_code,
    group_inputs,
    install,
    list_installed,
    plot_decisions,
    plot_evaluation,
    read_log,
)

folder = Path(tempfile.mkdtemp())
gpu = SimulatedGPU()
for kind in ("random", "active"):
    for _ in range(2):
        report = collect(
            folder / f"{kind}.txt",
            n_samples=500,
            active=kind == "active",
            benchmark=gpu,
            isolate=False,
        )
        print(f"{kind}: {report.n_before} inputs before, {report.n_measured} measured")

# %%
# A log has the form that torch's own collector writes: two lines of description, then
# a line for each measurement.

log = read_log(folder / "random.txt")
print(log.metadata.header_line()[:80], "...")
log.frame.iloc[:4, [0, 1, 2, 12, 14, 16, 17, 18]]

# %%
# Each input has a row with the medians of its durations, the winner, and how much
# slower the other form is.

inputs = group_inputs(log)
inputs[["m", "k", "n", "median_orig", "median_pad", "winner", "gap"]].head()

# %%
# Train
# -----
#
# A heuristic is one tree of at most 100 leaves. What it minimises is the time that
# wrong decisions lose. A forest teaches it: the forest is smoother than the few
# measurements, and can be asked about inputs that were never measured. The default
# teacher, boosted trees, is better on logs of thousands of inputs and takes longer.


def make_heuristic():
    forest = ExtraTreesRegressor(100, min_samples_leaf=2, random_state=0)
    tree = PadDecisionTree(teacher=forest, max_leaf_nodes=60)
    return PadHeuristic(tree, n_drawn=5000, random_state=0)


heuristics = {
    kind: make_heuristic().fit(group_inputs(read_log(folder / f"{kind}.txt")))
    for kind in ("random", "active")
}

# %%
# Evaluate
# --------
#
# On 2,000 further inputs: ``regret`` is the geometric mean of the duration over that
# of the better form, ``slow`` the share that takes over 10 % longer than it. Always
# padding and never padding stand beside, and the benchmark that torch makes by default,
# at each compile, which pads if that is 10 % faster.

sampler = InputSampler(gpu.memory, random_state=1)
items = [sampler.draw() for _ in range(2000)]
durations = pd.DataFrame([gpu.durations(item) for item in items])
unseen = pd.DataFrame([item.features() for item in items])
unseen["median_orig"], unseen["median_pad"] = durations["orig"], durations["pad"]

policies = {
    "tree, random inputs": heuristics["random"],
    "tree, chosen inputs": heuristics["active"],
    "torch's benchmark": "benchmark",
    "always pad": "pad",
    "never pad": "orig",
}
table = evaluate(unseen, policies)
table[["coverage", "accuracy", "regret", "slow", "worst"]].round(4)

# %%
fig, ax = plt.subplots(figsize=(8, 3), layout="constrained")
plot_evaluation(table, ax=ax)
plt.show()

# %%
# The decision map
# ----------------
#
# Which form is faster for float16 products with k = 255, by the other two sizes, all
# of them odd; and what the tree decides. Products that are bound by the memory are not
# worth the copies that padding takes.


def faster_form(frame):
    names = ("m", "k", "n")
    rows = frame[list(names)].itertuples(index=False)
    products = (GemmInput(*map(int, row), "float16") for row in rows)
    found = (gpu.durations(product) for product in products)
    return ["pad" if ms["pad"] < ms["orig"] else "orig" for ms in found]


sizes = np.geomspace(33, 30001, 50).astype(int) | 1
product = GemmInput(1001, 255, 1001, "float16").features()
fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for ax, name, policy in zip(
    axes,
    ("faster form", "decision of the tree"),
    (faster_form, heuristics["active"]),
    strict=True,
):
    plot_decisions(policy, product, sizes=sizes, ax=ax)
    ax.set_title(name)
plt.show()

# %%
# Generate and install
# --------------------
#
# The tree becomes Python code, which decides exactly as the estimator does.

code = generate_code(
    heuristics["active"], metadata=log.metadata, name="PadMMSimulated", device="none"
)
print(*code.splitlines()[:6], sep="\n")
print("...")
print(*code.splitlines()[-12:], sep="\n")

# %%
# Installed, it waits in a folder of yours until it is switched on: by
# ``fasta_learn.heuristics.activate()``, or by ``FASTA_LEARN_HEURISTICS=1`` in the
# environment of a program. Nothing is written into torch.

install(code, folder=folder / "installed", device_name="simulated")
for artifact in list_installed(folder=folder / "installed"):
    print(artifact.class_name, artifact.hash, artifact.device_name)
