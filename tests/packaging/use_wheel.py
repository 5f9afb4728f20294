"""Use an installation without extras: the main job, all modules, missing extras.

It runs in the environment of the installation, away from the checkout, and ends with
an error if something does not work.
"""

import contextlib
import importlib
import importlib.util
import json
import os
import pkgutil
import pty
import subprocess
import sys
from pathlib import Path

import fasta_learn
from fasta_learn import exceptions

COMMAND = Path(sys.executable).with_name("fasta-learn")
EXTRAS = {
    "matplotlib": "plot",
    "rich": "progress",
    "dask": "dask",
    "pyarrow": "parquet",
    "torch": "torch",
    "triton": "torch",
    "torch_npu": "npu",
}
KERNEL = """
from fasta_learn.oracles import KernelSpec

def spec():
    return KernelSpec(kernel=None, configs=[{"B": 1}, {"B": 2}], args={}, grid=(1,))
"""


def check(holds: bool, problem: str) -> None:
    """End the program if something does not hold."""
    if not holds:
        raise SystemExit(f"the installation is wrong: {problem}")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line."""
    return subprocess.run(
        [COMMAND, *arguments], capture_output=True, text=True, timeout=300
    )


def check_place() -> None:
    """Check that this is the installation, without extras."""
    check(
        Path(fasta_learn.__file__).is_relative_to(sys.prefix),
        f"fasta_learn comes from {fasta_learn.__file__}",
    )
    there = [name for name in EXTRAS if importlib.util.find_spec(name) is not None]
    check(not there, f"it has the extras {there}")


def check_modules() -> None:
    """Import all public modules, and all their names."""
    found = pkgutil.walk_packages(fasta_learn.__path__, "fasta_learn.")
    modules = [name for _, name, _ in found if "._" not in name]
    check(len(modules) > 10, f"it has no modules but {modules}")
    for name in ["fasta_learn", *modules]:
        module = importlib.import_module(name)
        for public in getattr(module, "__all__", ()):
            getattr(module, public)


def check_main_job() -> None:
    """Search as the README does, keep a journal, and report on it."""
    search = run("search")
    check(search.returncode == 0, f"fasta-learn search: {search.stderr}")
    check("best config" in search.stdout, "fasta-learn search names no config")
    search = run("search", "--json", "--journal", "search.jsonl")
    found = json.loads(search.stdout)
    check(found["n_measured"] == found["budget"], "it did not measure its budget")
    report = run("report", "search.jsonl", "-o", "search.html")
    check(report.returncode == 0, f"fasta-learn report: {report.stderr}")
    check("<html" in Path("search.html").read_text("utf-8"), "the report is no page")


def check_terminal() -> None:
    """Search on a terminal, which shows a bar only if rich is there."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([COMMAND, "search"], stdout=theirs, stderr=theirs) as search:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while part := os.read(ours, 65536):
                shown += part
    os.close(ours)
    check(search.returncode == 0, f"a search on a terminal: {shown.decode()}")
    check(b"best config" in shown, "a search on a terminal names no config")


def check_doctor() -> None:
    """Check that the doctor names the extra of each module that is not there."""
    doctor = run("doctor")
    check(doctor.returncode == 0, f"fasta-learn doctor: {doctor.stderr}")
    lines = {line.split()[0]: line for line in doctor.stdout.splitlines() if line}
    for module, extra in EXTRAS.items():
        line = lines.get(module, "")
        check(f"[{extra}]" in line, f"the doctor says of {module}: {line!r}")


def check_errors() -> None:
    """Check that functions which need an extra say which."""
    from fasta_learn import autotune
    from fasta_learn.configs import read_pool
    from fasta_learn.experiments import plot_regret, replay
    from fasta_learn.oracles import NPUKernelOracle, TritonKernelOracle

    runs = replay(["mm_2048_2048_2048"], ["random"], 5, 1, traces=True)
    Path("pool.parquet").write_bytes(b"PAR1")
    calls = [
        ("plot", lambda: plot_regret(runs)),
        ("parquet", lambda: read_pool("pool.parquet")),
        ("torch", lambda: autotune(configs=[{"B": 1}, {"B": 2}], key=["n"])),
        ("torch", lambda: TritonKernelOracle(None, args={}, grid=(1,))),
        ("npu", lambda: NPUKernelOracle(None, args={}, grid=(1,))),
    ]
    for extra, call in calls:
        try:
            call()
        except exceptions.MissingExtraError as error:
            check(f"fasta-learn[{extra}]" in str(error), f"{extra}: {error}")
        else:
            check(False, f"no error where the extra {extra} is missing")


def check_commands() -> None:
    """Check that commands which need an extra say which, in one line."""
    Path("kernel.py").write_text(KERNEL)
    few = ("--seeds", "1", "--budget", "5")
    commands = {
        "plot": ("replay", "mm_2048_2048_2048", *few, "--plot", "regret.png"),
        "parquet": ("search", "pool.parquet"),
        "torch": ("tune", "kernel.py:spec"),
    }
    for extra, arguments in commands.items():
        ended = run(*arguments)
        check(ended.returncode == 2, f"{arguments} ended with {ended.returncode}")
        check(f"fasta-learn[{extra}]" in ended.stderr, f"{extra}: {ended.stderr}")
        check(ended.stderr.count("\n") == 1, f"{extra}: {ended.stderr}")


if __name__ == "__main__":
    check_place()
    check_modules()
    check_main_job()
    check_terminal()
    check_doctor()
    check_errors()
    check_commands()
