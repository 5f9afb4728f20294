"""Options, rows and the supervising process of the benchmarks of ``torch.compile``.

Nothing here imports torch: the process that supervises the others must be quick, and
must not hold the device.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

_started = time.perf_counter()
# A process of its own does not pay for less.
_LEAST_SECONDS = 20


def log(text):
    """Print a line with the seconds since the start."""
    print(f"[{time.perf_counter() - _started:6.1f} s] {text}", flush=True)


def seconds_since_start():
    return time.perf_counter() - _started


def make_parser(description, modes):
    """Return a parser with the options that all of these benchmarks have."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--output", type=Path, required=True, help="JSON file, written after each row")
    add("--only", nargs="+", metavar="NAME", help="take only these rows")
    add("--modes", nargs="+", choices=list(modes), default=list(modes))
    add("--list", action="store_true", help="name all rows and end")
    add("--quick", action="store_true", help="few and small rows, to try it out")
    add("--rounds", type=int, default=31, help="rounds of the final timing")
    add(
        "--deadline",
        type=float,
        default=540.0,
        help="no row is begun later than this many seconds after the start",
    )
    add(
        "--mode-limit",
        type=float,
        default=120.0,
        help="most seconds for one compile in one mode",
    )
    add(
        "--set",
        nargs="*",
        default=[],
        metavar="NAME=VALUE",
        help="settings of fasta_learn, such as gemm_budget=80",
    )
    add("--stock-parent", action="store_true", help="do without fix_parent_cache()")
    add("--device", default="cuda", choices=["cuda", "cpu"], help=argparse.SUPPRESS)
    add("--child", action="store_true", help=argparse.SUPPRESS)
    return parser


def parse_settings(texts):
    """Return settings of fasta_learn from texts such as ``margin=0.01``."""
    settings = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            settings[name] = json.loads(value.lower())
        except ValueError:
            settings[name] = value
    return settings


class Rows:
    """The file of results: a dict of rows by name, and what they were measured with."""

    def __init__(self, path):
        self.path = path
        self.data = {"about": {}, "rows": {}}
        if path.exists():
            self.data = json.loads(path.read_text(encoding="utf-8"))

    @property
    def rows(self):
        return self.data["rows"]

    def is_done(self, name):
        return self.rows.get(name, {}).get("status") in ("done", "crashed")

    def write(self, name=None, row=None):
        if name is not None:
            self.rows[name] = row
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_name(f"{self.path.name}.part")
        text = json.dumps(self.data, indent=1, default=_to_json)
        part.write_text(text, encoding="utf-8")
        os.replace(part, self.path)


def _to_json(value):
    return value.item() if hasattr(value, "item") else str(value)


def supervise(args, names):
    """Run children until each row is done; a row whose child died is marked.

    The child measures all rows that are left, in one process. It ends early where a
    compile ran out of time, since Inductor's workers can't be told to stop.
    """
    while True:
        rows = Rows(args.output)
        for name, row in rows.rows.items():
            if row.get("status") == "running" and name in names:
                row["status"] = "crashed"
                log(f"{name}: its process died")
        rows.write()
        left = [name for name in names if not rows.is_done(name)]
        remaining = args.deadline - seconds_since_start()
        if not left or remaining < _LEAST_SECONDS:
            return rows
        before = {name: json.dumps(row) for name, row in rows.rows.items()}
        command = [sys.executable, *sys.argv, "--child", f"--deadline={remaining:.0f}"]
        result = subprocess.run(command)
        after = Rows(args.output).rows
        if {name: json.dumps(row) for name, row in after.items()} == before:
            log(f"the child ended with code {result.returncode} without a new row")
            return rows


def list_or_choose(args, names, quick):
    """Return the names of the rows to measure; print them and end if told so."""
    if args.list:
        print("\n".join(names))
        raise SystemExit(0)
    chosen = args.only or (quick if args.quick else names)
    if unknown := set(chosen) - set(names):
        raise SystemExit(f"there is no row {sorted(unknown)[0]!r}; see --list.")
    return [name for name in names if name in chosen]
