"""Live on a GPU: pointwise kernels and reductions by ``torch.compile``, in four modes.

    python tests/benchmarks/bench_inductor_graphs.py --output graphs.json

For each graph four compiles, each with empty caches: Inductor as it is, with
``max_autotune``, with ``coordinate_descent_tuning`` on top, and ``max_autotune`` under
``fasta_learn.inductor.enable()`` with an empty store. What they chose is then timed
from CUDA graphs, in turns of random order, in the process that compiled it. Seconds are
those of the first call, which tunes at its end; what a mode takes longer than the first
mode is its tuning. The file is written after each graph; graphs that it has are left
out when it is named again.
"""

import json
import math

import inductor_rows
import inductor_runs
from inductor_rows import Rows, log
from inductor_runs import (
    GRAPH_MODES,
    OutOfTimeError,
    Session,
    compare,
    geometric_mean,
    median_us,
)

HEAD = "import torch\nimport torch.nn.functional as F\n\n\n"
# Source of a function; the shapes of its inputs in half precision; dtype of those that
# are not, by position.
LAYER_NORM = (
    "def run(x, y, weight, bias):\n"
    "    return F.layer_norm(x + y, weight.shape, weight, bias)\n"
)
SOFTMAX = "def run(x):\n    return torch.softmax(x, -1)\n"
COLUMN_SUM = "def run(x):\n    return x.sum(0)\n"
GRAPHS = {
    "softmax 8192x1023": (SOFTMAX, [(8192, 1023)]),
    "softmax 512x32000": (SOFTMAX, [(512, 32000)]),
    "add + layer norm 4096x4096": (
        LAYER_NORM,
        [(4096, 4096), (4096, 4096), (4096,), (4096,)],
    ),
    "add + layer norm 32768x768": (
        LAYER_NORM,
        [(32768, 768), (32768, 768), (768,), (768,)],
    ),
    "gelu + transpose 4096x4096": (
        "def run(x):\n    return F.gelu(x).t().contiguous()\n",
        [(4096, 4096)],
    ),
    "column sum 16384x2048": (COLUMN_SUM, [(16384, 2048)]),
    "column sum 1000x50000": (COLUMN_SUM, [(1000, 50000)]),
    "rms norm 8192x5120": (
        "def run(x, weight):\n"
        "    y = x.float()\n"
        "    scale = torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6)\n"
        "    return (y * scale).to(x.dtype) * weight\n",
        [(8192, 5120), (5120,)],
    ),
    "cumulative sum 4096x8192": (
        "def run(x):\n    return x.cumsum(-1)\n",
        [(4096, 8192)],
    ),
    "cross entropy 4096x32000": (
        "def run(x, target):\n"
        "    return F.cross_entropy(x.float(), target, reduction='none')\n",
        [(4096, 32000), (4096,)],
    ),
    "gated silu 8192x11008": (
        "def run(x):\n    a, b = x.chunk(2, -1)\n    return F.silu(a) * b\n",
        [(8192, 2 * 11008)],
    ),
}
QUICK = ["softmax 8192x1023", "column sum 16384x2048"]
CPU = {
    "softmax 64x33": (SOFTMAX, [(64, 33)]),
    "column sum 100x20": (COLUMN_SUM, [(100, 20)]),
    "cross entropy 16x50": (GRAPHS["cross entropy 4096x32000"][0], [(16, 50), (16,)]),
}


def make_inputs(session, source, shapes):
    torch, device = session.torch, session.args.device
    generator = torch.Generator(device=device).manual_seed(0)
    dtype = torch.float32 if device == "cpu" else torch.float16
    inputs = [
        torch.randn(shape, device=device, dtype=torch.float32, generator=generator)
        for shape in shapes
    ]
    inputs = [tensor.to(dtype) for tensor in inputs]
    if "target" in source:
        inputs[1] = torch.randint(
            shapes[0][1], shapes[1], device=device, generator=generator
        )
    return inputs


def run_graph(session, rows, name, graph):
    source, shapes = graph
    inputs = make_inputs(session, source, shapes)
    expected = session.write(f"{name} eager", HEAD + source).run(*inputs)
    functions = {}
    row = {"status": "running", "modes": {}}
    rows.write(name, row)
    for mode in session.modes:
        compiled = None
        try:
            compiled, row["modes"][mode] = session.compile(
                name, mode, HEAD + source, inputs, expected
            )
        except OutOfTimeError as error:
            row["modes"][mode] = {"failed": str(error)}
            log(f"{name}: {mode} {error}")
        if compiled is not None:
            functions[mode] = compiled
    row["races"] = session.interleave(functions, inputs)
    row["status"] = "done"
    rows.write()
    inductor_runs.log_races(name, row["races"])


def run_child(args, graphs):
    rows = Rows(args.output)
    session = Session(args, GRAPH_MODES)
    rows.data["about"] = session.about()
    for name, graph in graphs.items():
        if rows.is_done(name):
            continue
        if inductor_rows.seconds_since_start() > args.deadline:
            log("the deadline is met")
            return
        run_graph(session, rows, name, graph)


def tuning_seconds(row, mode):
    """Seconds of the first call beyond those of the mode that tunes nothing."""
    seconds = {name: r.get("seconds", math.nan) for name, r in row["modes"].items()}
    return max(
        seconds.get(mode, math.nan) - seconds.get("default", math.nan),
        0.05,  # less can't be told from noise
    )


def print_table(rows):
    """Print the table of the README."""
    print(json.dumps(rows.data["about"]))
    modes = list(GRAPH_MODES)
    print("\n| graph | " + " | ".join(modes) + " | of max-autotune | of the best |")
    print("|---" * (len(modes) + 3) + "|")
    shares = {"max-autotune": [], "best": []}
    tuning = {mode: [] for mode in modes}
    for name, row in rows.rows.items():
        race = row.get("races", {}).get("cold", {})
        if "fasta_learn" not in race:
            continue
        cells = [
            f"{median_us(race, mode):.1f} us ({tuning_seconds(row, mode):.1f} s)"
            for mode in modes
        ]
        for mode in modes:
            tuning[mode].append(tuning_seconds(row, mode))
        stock = [mode for mode in race if mode != "fasta_learn"]
        best = min(stock, key=lambda mode: median_us(race, mode), default=None)
        for key, other in (("max-autotune", "max-autotune"), ("best", best)):
            if other in race:
                ratio, error = compare(race, "fasta_learn", other)
                shares[key].append(ratio)
                cells.append(f"{ratio:.3f} ± {error:.3f}")
            else:
                cells.append("-")
        print(f"| {name} | " + " | ".join(cells) + " |")
    for key, values in shares.items():
        if values:
            print(
                f"\nkernel time, fasta_learn / {key}: geometric mean "
                f"{geometric_mean(values):.3f}, worst {max(values):.3f}"
            )
    sums = ", ".join(f"{mode} {sum(tuning[mode]):.1f} s" for mode in modes[1:])
    print(f"\ntuning in all: {sums}")


def main():
    parser = inductor_rows.make_parser(__doc__, GRAPH_MODES)
    parser.set_defaults(mode_limit=40.0, deadline=240.0)
    args = parser.parse_args()
    known = CPU if args.device == "cpu" else GRAPHS
    quick = QUICK if args.device == "cuda" else list(known)
    names = inductor_rows.list_or_choose(args, list(known), quick)
    graphs = {name: known[name] for name in names}
    if args.child:
        run_child(args, graphs)
        return
    print_table(inductor_rows.supervise(args, list(graphs)))


if __name__ == "__main__":
    main()
