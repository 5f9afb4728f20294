"""
=========================
Tune a kernel of your own
=========================

The kernel is a matrix product in blocks, written in NumPy, and what is tuned are
the sizes of its blocks. It runs on the CPU and its timings are real: they are those
of the machine that built this page, and differ from machine to machine and from run
to run. The same steps apply to any kernel that a Python function can launch and
time.
"""

# %%
# The kernel
# ----------
#
# A block of the result is accumulated in a buffer of its own, from a strip of A and a
# strip of B. Small blocks cost many calls; large ones leave the cache.

import platform
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from threadpoolctl import threadpool_limits

from fasta_learn import ActiveConfigSearch
from fasta_learn.oracles import CallableOracle, JournaledOracle, Measurement

SIZE = 512
rng = np.random.default_rng(0)
A = rng.standard_normal((SIZE, SIZE), dtype=np.float32)
B = rng.standard_normal((SIZE, SIZE), dtype=np.float32)
EXPECTED = A @ B


def blocked_product(block_m, block_n, block_k):
    result = np.empty((SIZE, SIZE), dtype=np.float32)
    for m in range(0, SIZE, block_m):
        for n in range(0, SIZE, block_n):
            part = np.zeros((block_m, block_n), dtype=np.float32)
            for k in range(0, SIZE, block_k):
                strip = slice(k, k + block_k)
                part += A[m : m + block_m, strip] @ B[strip, n : n + block_n]
            result[m : m + block_m, n : n + block_n] = part
    return result


configs = [
    {"BLOCK_M": 2**i, "BLOCK_N": 2**j, "BLOCK_K": 2**k}
    for i in range(5, 10)
    for j in range(5, 10)
    for k in range(5, 10)
]
print(f"{len(configs)} configs, the first is {configs[0]}")

# %%
# The oracle
# ----------
#
# The function takes a config and answers its duration in milliseconds, or a failure:
# a wrong result is one, and not a fast config. Blocks that a program could not keep
# in its fast memory are refused by a simulated limit of 512 KiB, to show what
# failures look like: the exception becomes a failed measurement.
#
# Other programs on the same CPU only ever slow a run down, so the shortest of seven
# runs is taken. On a device that nobody else uses, the median is the better choice.

LIMIT = 512 * 1024


def run_once(m, n, k):
    start = time.perf_counter()
    blocked_product(m, n, k)
    return time.perf_counter() - start


def measure(config):
    m, n, k = config["BLOCK_M"], config["BLOCK_N"], config["BLOCK_K"]
    n_bytes = 4 * (m * n + m * k + k * n)
    if n_bytes > LIMIT:
        raise MemoryError(f"the blocks take {n_bytes} bytes, the limit is {LIMIT}")
    with threadpool_limits(1, user_api="blas"):
        if not np.allclose(blocked_product(m, n, k), EXPECTED, atol=1e-3):
            return Measurement.failed("wrong_result", "differs from A @ B")
        times = [run_once(m, n, k) for _ in range(7)]
    return 1e3 * min(times)


fingerprint = {
    "kernel": f"blocked product of {SIZE} x {SIZE}, float32",
    "machine": platform.machine(),
    "python": platform.python_version(),
    "numpy": np.__version__,
}
print(fingerprint)

# %%
# Search with a journal
# ---------------------
#
# The journal writes each measurement to a file. The first search may measure 15
# configs.

folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "product.jsonl"

oracle = JournaledOracle(CallableOracle(measure, fingerprint=fingerprint), path)
search = ActiveConfigSearch(budget=15, random_state=0).fit(configs, oracle=oracle)
print(f"measured {oracle.n_measured}, best {search.best_duration_:.3f} ms")

# %%
# Resume
# ------
#
# Now suppose that the process ended there. A new one starts the same search from the
# beginning, with the same seed and, this time, a larger budget. It asks for the same
# 15 configs, gets their durations from the journal, and goes on.

oracle = JournaledOracle(CallableOracle(measure, fingerprint=fingerprint), path)
search = ActiveConfigSearch(budget=30, random_state=0).fit(configs, oracle=oracle)
print(f"from the journal: {oracle.n_replayed}, measured now: {oracle.n_measured}")
print(f"best {search.best_duration_:.3f} ms: {search.best_config_}")

# %%
# What was measured, in order. Failed configs have an infinite duration and a reason.

search.results_.loc[:, ["index", "duration", "status", "reason"]].head(12)

# %%
# Was it good?
# ------------
#
# The pool is small enough to measure all of it, which one would not do otherwise. The
# journal still holds what the search has measured, so only the others are timed.

everything = np.array([answer.duration for answer in oracle.measure(configs)])
regret = search.best_duration_ / everything.min() - 1
print(f"fastest of all: {everything.min():.3f} ms; regret of the search: {regret:.1%}")
print(f"failed: {np.sum(np.isinf(everything))} of {len(configs)}")

# %%
# Timings on a CPU that does other things too scatter, and the fastest of many noisy
# timings is fast partly by luck. So both winners are timed again, in turns.

winners = {
    "found by the search": search.best_config_,
    "fastest of all": configs[int(np.argmin(everything))],
}
again = {name: [] for name in winners}
with threadpool_limits(1, user_api="blas"):
    for _ in range(31):
        for name, config in winners.items():
            again[name].append(1e3 * run_once(*config.values()))
for name, times in again.items():
    print(f"{name}: shortest {min(times):.3f} ms, median {np.median(times):.3f} ms")
    print(f"    {winners[name]}")

# %%
# Each dot is a measurement of the search.

durations = search.results_["duration"].to_numpy()
number = np.arange(1, len(durations) + 1)
ran = np.isfinite(durations)

fig, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
ax.plot(number[ran], durations[ran], "C0o", label="measured")
best = np.minimum.accumulate(durations)
ax.plot(number, best, "C0", drawstyle="steps-post", label="best so far")
if not ran.all():
    top = np.full(np.sum(~ran), durations[ran].max())
    ax.plot(number[~ran], top, "kx", label="failed")
ax.axhline(everything.min(), color="0.3", linewidth=1, label="fastest of all")
ax.axvline(15.5, color="0.7", linestyle=":", label="resumed here")
ax.set_yscale("log")
for set_formatter in (ax.yaxis.set_major_formatter, ax.yaxis.set_minor_formatter):
    set_formatter("{x:g}")
ax.set_xlabel("measured configs")
ax.set_ylabel("duration (ms)")
ax.set_title(f"blocked product of {SIZE} x {SIZE} on a CPU, real timings")
fig.legend(loc="outside lower center", ncols=3)
plt.show()

# %%
folder.cleanup()
