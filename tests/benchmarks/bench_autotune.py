"""Live on a GPU: triton.autotune and fasta_learn.autotune on the same pools.

    python tests/benchmarks/bench_autotune.py --output bench_autotune.json

For each kernel three runs, each with an empty cache of compiled kernels:

* ``triton``: ``triton.autotune`` as it is, except that a config that fails in a way
  which it does not expect counts as failed instead of ending the run;
* ``pool``: all configs measured by ``TritonKernelOracle``, which compiles in threads;
* ``fasta``: ``fasta_learn.autotune`` with its defaults and an empty store.

Then the winners of the first and the last are timed against each other, in turns of
random order. The file is written after each kernel; kernels that it has are left out
when it is named again. ``--list`` names all kernels with the sizes of their pools.
Where the pools are large, ``triton.autotune`` takes very long; ``--skip-triton`` does
without, so that the winner of the whole pool is what is compared with:

    FASTA_LEARN_KERNEL_CONFIGS=1000 python tests/benchmarks/bench_autotune.py \
        --skip-triton --configs 1000 --output bench_large_pools.json \
        --kernels matmul_f16_3072_3072_1024 conv2d_8_56_64_128

``--triton-from FILE`` takes the times and the winners of ``triton.autotune`` from an
earlier run on a machine of the same kind.
"""

import argparse
import json
import math
import os
import random
import statistics
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import kernels
import torch
import triton
from triton.runtime.autotuner import Autotuner

import fasta_learn
from fasta_learn.autotuner._identity import find_jit_function
from fasta_learn.configs import config_key
from fasta_learn.oracles import TritonKernelOracle
from fasta_learn.oracles._cuda_clock import CudaClock

# Kernels that compile quickly, so that measuring a whole pool one by one is bearable.
DEFAULT = (
    "add_rms_norm_2048_8192",
    "bias_gelu_add_8000_3072",
    "causal_softmax_24_1024",
    "column_moments_12000_1536",
    "geglu_3000_11008",
    "layer_norm_6000_2304",
    "quantise_rows_4096_6000",
    "row_argmax_2000_10000",
    "softmax_backward_4096_3000",
    "transpose_quantise_6000_5000",
)
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")


class ForgivingAutotuner(Autotuner):
    """Triton's own, for which an unexpected error is a failed config."""

    def _bench(self, *args, config, **meta):
        try:
            return super()._bench(*args, config=config, **meta)
        except Exception:
            return [float("inf")] * 3


class Bench:
    """One kernel, its pool, and the three ways to tune it."""

    def __init__(self, name, n_configs):
        make, parameters = kernels.POOLS[name]
        self.spec = make(**parameters)
        self.jit = find_jit_function(self.spec.kernel)
        self.configs = sample(list(self.spec.configs), n_configs)
        self.values = self._named_arguments()
        self.pool = [as_triton(config) for config in self.configs]

    def _named_arguments(self):
        spec = self.spec
        if isinstance(spec.args, dict):
            return {**spec.args, **spec.constants}
        taken = {*spec.constants, *self.configs[0]}
        taken |= set(getattr(spec.kernel, "values", ()))  # of heuristics
        free = [name for name in self.jit.arg_names if name not in taken]
        return {**dict(zip(free, spec.args, strict=True)), **spec.constants}

    def by_triton(self):
        kernel = ForgivingAutotuner(
            self.spec.kernel,
            self.jit.arg_names,
            self.pool,
            [],
            list(self.spec.reset_to_zero),
            list(self.spec.restore_value),
        )
        kernel[self.spec.grid](**self.values)
        return kernel.best_config.all_kwargs(), len(kernel.configs_timings)

    def by_pool(self):
        with TritonKernelOracle(
            self.spec.kernel,
            self.spec.args,
            self.spec.grid,
            constants=self.spec.constants,
            reset_to_zero=self.spec.reset_to_zero,
            restore_value=self.spec.restore_value,
            isolate=False,
        ) as oracle:
            oracle.open_pool(self.configs)
            answers = oracle.measure(self.configs)
        best = min(range(len(answers)), key=lambda i: answers[i].duration)
        return self.pool[best].all_kwargs(), sum(answer.ok for answer in answers)

    def by_fasta(self, store):
        kernel = fasta_learn.autotune(
            self.pool,
            key=[],
            reset_to_zero=list(self.spec.reset_to_zero),
            restore_value=list(self.spec.restore_value),
            store=store,
        )(self.spec.kernel)
        kernel[self.spec.grid](**self.values)
        return kernel.best_config.all_kwargs(), len(kernel.configs_timings)

    def launcher(self, config):
        launch = self.spec.kernel[self.spec.grid]
        return lambda: launch(**self.values, **config)

    def prepare(self):
        """Return what puts the arguments back before each launch."""
        zeroed = [self.values[name] for name in self.spec.reset_to_zero]
        kept = [self.values[name] for name in self.spec.restore_value]
        copies = [tensor.clone() for tensor in kept]

        def prepare():
            for tensor in zeroed:
                tensor.zero_()
            for tensor, copy in zip(kept, copies, strict=True):
                tensor.copy_(copy)

        return prepare if zeroed or kept else None


def as_triton(config):
    values = dict(config)
    options = {name: values.pop(name) for name in OPTIONS if name in values}
    return triton.Config(values, **options)


def sample(configs, n):
    """Return at most n configs, the same ones every time, in random order."""
    return random.Random(0).sample(configs, min(n, len(configs)))


@contextmanager
def fresh_cache(bench):
    """Let nothing that was compiled before be found."""
    bench.jit.device_caches.clear()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        yield Path(folder)
        torch.cuda.synchronize()
    bench.jit.device_caches.clear()


def timed(bench, function):
    """Return the seconds of a run with an empty cache, and what it answers."""
    with fresh_cache(bench) as folder:
        started = time.perf_counter()
        answer = function(folder)
        torch.cuda.synchronize()
        return time.perf_counter() - started, answer


def duel(bench, first, second, n_rounds, n_launches):
    """Time two configs in turns; return medians in ms and the ratio of the second."""
    rng, prepare = random.Random(0), bench.prepare()
    launches = [bench.launcher(config) for config in (first, second)]
    samples = ([], [])
    with fresh_cache(bench), CudaClock() as clock:
        for launch in launches:
            clock.time_batch(launch, 5, prepare)
        for _ in range(n_rounds):
            for i in rng.sample((0, 1), 2):
                samples[i].extend(clock.time_batch(launches[i], n_launches, prepare))
    # Both of a round see the same clock rate of the device.
    parts = [
        [statistics.median(s[i : i + n_launches]) for i in range(0, len(s), n_launches)]
        for s in samples
    ]
    ratios = [b / a for a, b in zip(*parts, strict=True)]
    return [statistics.median(s) for s in samples], statistics.median(ratios)


def run(name, args):
    bench = Bench(name, args.configs)
    print(f"{name}: {len(bench.pool)} configs", file=sys.stderr, flush=True)
    row = {"kernel": name, "n_configs": len(bench.pool), "shape": bench.spec.shape}
    winners = {}
    ways = {
        "fasta": lambda folder: bench.by_fasta(folder / "store"),
        "pool": lambda folder: bench.by_pool(),
        "triton": lambda folder: bench.by_triton(),
    }
    if args.skip_triton or args.triton_from:
        del ways["triton"]
    for way, function in ways.items():
        seconds, (winner, n_measured) = timed(bench, function)
        print(f"  {way}: {seconds:.2f} s", file=sys.stderr, flush=True)
        winners[way] = winner
        row |= {f"{way}_s": seconds, f"{way}_n": n_measured, f"{way}_winner": winner}
    reference = "pool" if args.skip_triton else "triton"
    if args.triton_from and not args.skip_triton:
        row |= earlier(args.triton_from, name, len(bench.pool))
        winners["triton"] = row["triton_winner"]
    for way, key in (("fasta", "slowdown"), ("pool", "pool_slowdown")):
        (ours, theirs), ratio = _compare(bench, winners[way], winners[reference], args)
        row |= {f"{way}_ms": ours, f"{reference}_ms_by_{way}": theirs, key: ratio}
    row["speedup"] = row[f"{reference}_s"] / row["fasta_s"]
    row["pool_speedup"] = row["pool_s"] / row["fasta_s"]
    return row


def earlier(path, name, n_configs):
    """Return what triton.autotune did with a pool in an earlier run."""
    for row in json.loads(path.read_text()):
        if (row["kernel"], row["n_configs"]) == (name, n_configs):
            return {key: row[key] for key in ("triton_s", "triton_n", "triton_winner")}
    raise SystemExit(f"{path} has no row of {name} with {n_configs} configs.")


def _compare(bench, ours, theirs, args):
    if config_key(ours) == config_key(theirs):
        # One config can't be slower than itself.
        (first, _), _ = duel(bench, theirs, theirs, 3, args.launches)
        return (first, first), 1.0
    medians, ratio = duel(bench, theirs, ours, args.rounds, args.launches)
    return medians[::-1], ratio


def table(rows):
    lines = [
        f"{'kernel':32}{'configs':>8}{'triton s':>10}{'pool s':>8}{'fasta s':>9}"
        f"{'measured':>9}{'triton/':>9}{'pool/':>7}{'ms':>9}{'slowdown':>9}"
        f"{'pool':>7}"
    ]
    for row in rows:
        lines.append(
            f"{row['kernel']:32}{row['n_configs']:8d}"
            f"{row.get('triton_s', math.nan):10.1f}"
            f"{row['pool_s']:8.1f}{row['fasta_s']:9.2f}{row['fasta_n']:9d}"
            f"{row['speedup']:9.1f}{row['pool_speedup']:7.1f}{row['fasta_ms']:9.4f}"
            f"{row['slowdown']:9.3f}{row['pool_slowdown']:7.3f}"
        )
    mean = statistics.geometric_mean
    lines.append(
        f"{'geometric mean of ' + str(len(rows)):76}"
        f"{mean([r['speedup'] for r in rows]):9.1f}"
        f"{mean([r['pool_speedup'] for r in rows]):7.1f}"
        f"{'':9}{mean([r['slowdown'] for r in rows]):9.3f}"
        f"{mean([r['pool_slowdown'] for r in rows]):7.3f}"
    )
    worst = max(rows, key=lambda row: row["slowdown"])
    lines.append(f"worst slowdown: {worst['slowdown']:.3f} ({worst['kernel']})")
    return "\n".join(lines)


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--kernels", nargs="+", default=list(DEFAULT), choices=list(kernels.POOLS))
    add("--configs", type=int, default=160, help="most configs of a pool")
    add("--rounds", type=int, default=40, help="turns of the final comparison")
    add("--launches", type=int, default=10, help="launches in a turn")
    add("--output", type=Path, default=Path("bench_autotune.json"))
    add("--skip-triton", action="store_true", help="compare with the whole pool alone")
    add("--triton-from", type=Path, help="take triton.autotune from an earlier file")
    add("--list", action="store_true", help="name the kernels and end")
    return parser.parse_args()


def main():
    args = parse()
    if args.list:
        for name, (make, parameters) in kernels.POOLS.items():
            print(f"{name:36}{len(make(**parameters).configs):6d}")
        return
    rows = json.loads(args.output.read_text()) if args.output.exists() else []
    known = {row["kernel"] for row in rows}
    warm_up()
    for name in args.kernels:
        if name in known:
            continue
        rows.append(run(name, args))
        args.output.write_text(json.dumps(rows, indent=1) + "\n")
        torch.cuda.empty_cache()
    print(table(rows))


def warm_up():
    """Pay for the start of the device and of the compiler before anything is timed."""
    bench = Bench("transpose_quantise_6000_5000", 2)
    timed(bench, lambda folder: bench.by_triton())
    timed(bench, lambda folder: bench.by_fasta(folder / "store"))


if __name__ == "__main__":
    main()
