"""Live on a GPU: matrix products by ``torch.compile``, tuned in three ways.

    python tests/benchmarks/bench_inductor_gemm.py --output gemm.json

For each shape three compiles with ``max_autotune``, each with empty caches:

* ``default``: Inductor's own search space;
* ``fasta_learn``: ``fasta_learn.inductor.enable()`` with an empty store;
* ``exhaustive``: Inductor's exhaustive search space, all of it measured.

All three have ``fix_parent_cache()``, without which the two of Inductor compile each
kernel twice (``--stock-parent`` leaves it out). What they chose is then timed from CUDA
graphs, in turns of random order. The file is written after each step of a shape;
shapes that it has are left out when it is named again. Seconds are those of the first
call: all of the compile, not only the tuning.

The exhaustive compile of a shape takes one to two minutes on 16 cores; it is left out
where ``--deadline`` would not be kept.
"""

import itertools
import json

import inductor_rows
import inductor_runs
from inductor_rows import Rows, log
from inductor_runs import (
    GEMM_MODES,
    OutOfTimeError,
    Session,
    compare,
    geometric_mean,
    median_us,
)

# Name to: kind, dtype, and the sizes (batch,) m, n, k.
SHAPES = {
    "mm 1000x777x3000 f16": ("mm", "float16", (1000, 777, 3000)),
    "mm 16x4096x4096 f16": ("mm", "float16", (16, 4096, 4096)),
    "mm 2048x2048x2048 bf16": ("mm", "bfloat16", (2048, 2048, 2048)),
    "bmm 256x128x128x64 f16": ("bmm", "float16", (256, 128, 128, 64)),
    "addmm 32x3072x1024 bf16": ("addmm", "bfloat16", (32, 3072, 1024)),
    "mm 64x11008x4096 bf16": ("mm", "bfloat16", (64, 11008, 4096)),
    "mm 4096x4096x4096 f16": ("mm", "float16", (4096, 4096, 4096)),
    "addmm 8192x96x384 f16": ("addmm", "float16", (8192, 96, 384)),
}
ORDER = ("default", "exhaustive", "fasta_learn")
DEFAULT = list(SHAPES)[:6]
QUICK = ["mm 16x4096x4096 f16"]
CPU = {
    "mm 64x48x32 f32": ("mm", "float32", (64, 48, 32)),
    "addmm 33x20x10 f32": ("addmm", "float32", (33, 20, 10)),
    "bmm 2x8x8x8 f32": ("bmm", "float32", (2, 8, 8, 8)),
}
# About what one of Inductor's exhaustive choices costs, in s, on 16 cores.
CHOICE_SECONDS = 0.07
ARGUMENTS = {"mm": "a, b", "bmm": "a, b", "addmm": "bias, a, b"}


def make_source(kind):
    arguments = ARGUMENTS[kind]
    return (
        "import torch\n\n\n"
        f"def run({arguments}):\n    return torch.{kind}({arguments})\n"
    )


def make_inputs(session, kind, dtype, sizes):
    torch = session.torch
    *batch, m, n, k = sizes
    generator = torch.Generator(device=session.args.device).manual_seed(0)

    def random(*shape):
        return torch.randn(
            *batch,
            *shape,
            device=session.args.device,
            dtype=getattr(torch, dtype),
            generator=generator,
        )

    inputs = [random(m, k), random(k, n)]
    return [random(n), *inputs] if kind == "addmm" else inputs


def count_exhaustive(sizes):
    """Count the choices of the exhaustive space, as Inductor prunes it."""
    limits = [max(1 << (size - 1).bit_length(), 16) for size in sizes[-3:]]
    found = set()
    for blocks in itertools.product([16, 32, 64, 128, 256], repeat=3):
        m, n, k = (min(pair) for pair in zip(blocks, limits, strict=True))
        for n_warps in (2, 4, 8):
            if m * n <= 255 * 32 * n_warps:
                found.add((m, n, k, min(n_warps, m * n // 256)))
    return 5 * len(found)  # as many stages


def run_shape(session, rows, name, shape):
    """Compile a shape in each mode, timing what there is before the longest one."""
    kind, dtype, sizes = shape
    inputs = make_inputs(session, kind, dtype, sizes)
    expected = getattr(session.torch, kind)(*inputs)
    functions = {}
    row = {"status": "running", "modes": {}, "sizes": sizes, "dtype": dtype}
    rows.write(name, row)
    for mode in session.modes:
        if mode == "exhaustive":
            if functions:
                row["races"] = session.interleave(functions, inputs)
                rows.write()
            if not has_time(session, sizes):
                log(f"{name}: no time left for {mode}")
                break
        source = make_source(kind)
        try:
            compiled, record = session.compile(name, mode, source, inputs, expected)
        except OutOfTimeError as error:
            log(f"{name}: {mode} {error}")
            row["modes"][mode] = {"failed": str(error)}
            finish(rows, name, row)
            raise
        row["modes"][mode] = record
        if compiled is not None:
            functions[mode] = compiled
        rows.write()
    if set(functions) != set(row.get("races", {}).get("cold", {})):
        row["races"] = session.interleave(functions, inputs)
    finish(rows, name, row)


def has_time(session, sizes):
    left = session.args.deadline - inductor_rows.seconds_since_start()
    needed = count_exhaustive(sizes) * CHOICE_SECONDS
    return session.args.device == "cpu" or left > needed


def finish(rows, name, row):
    row["status"] = "done"
    rows.write()
    inductor_runs.log_races(name, row.get("races", {}))


def run_child(args, shapes):
    rows = Rows(args.output)
    session = Session(args, GEMM_MODES)
    rows.data["about"] = session.about()
    for name, shape in shapes.items():
        if rows.is_done(name):
            continue
        if inductor_rows.seconds_since_start() > args.deadline:
            log("the deadline is met")
            return
        run_shape(session, rows, name, shape)


def print_table(rows):
    """Print the table of the README."""
    print(json.dumps(rows.data["about"]))
    print(
        "\n| product | default | exhaustive | fasta_learn | measured | default "
        "| exhaustive | fasta_learn | ours / default | ours / exhaustive |"
    )
    print("|---" * 10 + "|")
    ratios = {"default": [], "exhaustive": []}
    shares = []
    for name, row in rows.rows.items():
        race = row.get("races", {}).get("cold", {})
        seconds = {m: r["seconds"] for m, r in row["modes"].items() if "seconds" in r}
        ours = row["modes"].get("fasta_learn", {})
        cells = [format_value(seconds.get(mode), 1, "s") for mode in ORDER]
        cells.append(format_searches(ours.get("searches", [])))
        for mode in ORDER:
            value = median_us(race, mode) if mode in race else None
            cells.append(format_value(value, 2, "us"))
        cells += [add_ratio(race, other, ratios[other]) for other in ratios]
        if {"fasta_learn", "exhaustive"} <= set(seconds):
            shares.append(seconds["fasta_learn"] / seconds["exhaustive"])
        print(f"| {name} | " + " | ".join(cells) + " |")
    print()
    for other, values in ratios.items():
        print_mean(f"kernel time, fasta_learn / {other}", values)
    print_mean("seconds, fasta_learn / exhaustive", shares)


def print_mean(title, values):
    if values:
        mean = geometric_mean(values)
        print(f"{title}: geometric mean {mean:.4f}, worst {max(values):.4f}")


def format_value(value, n_digits, unit):
    return "-" if value is None else f"{value:.{n_digits}f} {unit}"


def format_searches(searches):
    measured = sum(search["n_measured"] for search in searches)
    return f"{measured} of {sum(search['n_pool'] for search in searches)}"


def add_ratio(race, other, ratios):
    if not {"fasta_learn", other} <= set(race):
        return "-"
    ratio, error = compare(race, "fasta_learn", other)
    ratios.append(ratio)
    return f"{ratio:.3f} ± {error:.3f}"


def main():
    args = inductor_rows.make_parser(__doc__, GEMM_MODES).parse_args()
    known = CPU if args.device == "cpu" else SHAPES
    quick = QUICK if args.device == "cuda" else list(known)
    names = inductor_rows.list_or_choose(args, list(known), quick)
    if args.device == "cuda" and not args.only and not args.quick:
        names = DEFAULT
    shapes = {name: known[name] for name in names}
    if args.child:
        try:
            run_child(args, shapes)
        except OutOfTimeError:
            log("a new process goes on")
        return
    print_table(inductor_rows.supervise(args, list(shapes)))


if __name__ == "__main__":
    main()
