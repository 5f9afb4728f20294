import json
import os
import subprocess
import sys

import pytest

from fasta_learn._cli import main
from fasta_learn.oracles import _triton_device


@pytest.fixture(autouse=True)
def plain_output(monkeypatch):
    """Have no colours, whatever the environment of the tests wants."""
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


class Command:
    """Runs a command in this process, and reads what it writes."""

    # What the object of each search has after the name of what was searched.
    KEYS = (
        "n_configs",
        "n_measured",
        "budget",
        "best_config",
        "best_duration_ms",
        "stop_reason",
        "confidence",
        "confidence_label",
        "seconds",
    )

    def __init__(self, name, capsys):
        self.name = name
        self._capsys = capsys

    def text(self, *arguments, status=0):
        """Its standard output."""
        assert main([self.name, *map(str, arguments)]) == status
        return self._capsys.readouterr().out

    def json(self, *arguments, status=0):
        """The object that it writes."""
        out = self.text(*arguments, "--json", status=status)
        return json.loads(out, parse_constant=pytest.fail)

    def error(self, *arguments, status=2):
        """The only line that it writes, to the standard error."""
        assert main([self.name, *map(str, arguments)]) == status
        captured = self._capsys.readouterr()
        assert captured.out == ""
        (line,) = captured.err.splitlines()
        assert line.startswith("fasta-learn: error: ")
        return line

    @staticmethod
    def without_time(record):
        return {key: value for key, value in record.items() if key != "seconds"}

    @staticmethod
    def parse_table(out, last_column="regret"):
        """The rows of the table of rounds, after its header."""
        header, *lines = out.split("\n\n")[1].splitlines()
        columns = ["round", "measured", "failed", "predicted", "best", "regret"]
        assert header.split() == columns[: columns.index(last_column) + 1]
        return [line.split() for line in lines]

    @staticmethod
    def parse_summary(out):
        lines = out.split("\n\n")[2].splitlines()
        return dict(line.split("  ", 1) for line in lines if not line.startswith(" "))


class Recorder:
    """Stands in for a display, and remembers what it is to show."""

    def __init__(self):
        self.calls = []

    def start(self, total):
        self.calls.append(("start", total))

    def update(self, done, best):
        self.calls.append((done, best))

    def stop(self):
        self.calls.append("stop")


@pytest.fixture
def recorder():
    """A display that nobody sees."""
    return Recorder()


@pytest.fixture
def run_search(capsys):
    """The command ``fasta-learn search``."""
    return Command("search", capsys)


@pytest.fixture
def run_tune(capsys):
    """The command ``fasta-learn tune``."""
    return Command("tune", capsys)


@pytest.fixture
def run_record(capsys):
    """The command ``fasta-learn record``."""
    return Command("record", capsys)


@pytest.fixture
def run_command():
    """Run the command line in a process of its own, with its output in pipes."""

    def run(*arguments, **options):
        return subprocess.run(
            [sys.executable, "-m", "fasta_learn", *arguments],
            capture_output=True,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
            timeout=120,
            check=False,
            **options,
        )

    return run


@pytest.fixture
def write_pool_file(tmp_path):
    """Write a pool of a grid of blocks whose durations are given by a function."""

    def write(duration, name="grid.csv", n_blocks=8):
        lines = ["BLOCK,num_warps,duration_ms"]
        for block in range(n_blocks):
            for warps in range(1, 5):
                lines.append(f"{2**block},{warps},{duration(block, warps)}")
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    return write


STANDIN = """
import math
import os
from dataclasses import dataclass

from fasta_learn import TileSpace
from fasta_learn.oracles import CallableOracle, KernelSpec, Measurement


def add_kernel(x, BLOCK):
    pass


@dataclass(frozen=True, kw_only=True, eq=False)
class Simulated(KernelSpec):
    limit: int = 2048
    measure: object = None

    def oracle(self, **options):
        fingerprint = {"oracle": "Simulated", "device": "none", "rows": self.args[0]}
        print_options(options)
        return CallableOracle(self.measure or self.answer, fingerprint=fingerprint)

    def answer(self, config):
        with open("measured.txt", "a") as file:
            file.write(f"{config['BLOCK']} {config['num_warps']}\\n")
        if config["BLOCK"] * config["num_warps"] > self.limit:
            return Measurement.failed(
                "out_of_resources", "shared memory: 9 of 4 bytes", compile_seconds=0.25
            )
        return Measurement(
            1 + abs(math.log2(config["BLOCK"] / 128)) + abs(config["num_warps"] - 2),
            compile_seconds=0.5, run_seconds=0.125, duration_p20=0.5,
            duration_p80=9.0, info={"registers": 32, "spills": 0, "shared_bytes": 64},
        )


def print_options(options):
    with open("options.txt", "w") as file:
        file.write(repr(options))


def add(rows=1024, limit=2048, dtype="float16", measure=None):
    return Simulated(
        kernel=add_kernel, args=(rows,), grid=(1,), shape={"rows": rows}, limit=limit,
        measure=measure,
        configs=TileSpace(
            {"BLOCK": TileSpace.powers_of_two(16, 1024), "num_warps": [1, 2, 4, 8]},
            constraints=["BLOCK >= 16 * num_warps"],
        ),
    )


def broken_later():
    def measure(config):
        if config["BLOCK"] < 64:
            raise KeyboardInterrupt
        return 1.0
    return add(measure=measure)


def no_device():
    raise RuntimeError("Found no NVIDIA driver on your system.")


@dataclass(frozen=True, kw_only=True, eq=False)
class Driverless(Simulated):
    def oracle(self, **options):
        raise RuntimeError("0 active drivers ([]).\\nThere should be one.")


def driverless():
    spec = add()
    return Driverless(
        kernel=spec.kernel, args=spec.args, grid=spec.grid, configs=spec.configs
    )
"""


@pytest.fixture
def spec_folder(tmp_path, monkeypatch):
    """Be in an empty folder with the module of kernel specs ``standin.py``.

    What they measure is computed: the best of 22 configs is BLOCK=128, num_warps=2,
    and those with BLOCK * num_warps > 2048 fail.
    """
    (tmp_path / "standin.py").write_text(STANDIN)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("standin", None)


SIMULATED_SPEC = """
import torch
import triton
from sample_kernels import scale_kernel

from fasta_learn import TileSpace
from fasta_learn.oracles import KernelSpec


def scale(n=5000):
    x = torch.ones(n)
    return KernelSpec(
        kernel=scale_kernel,
        args=(x, torch.empty_like(x), n),
        grid=lambda meta: (triton.cdiv(n, meta["BLOCK"]),),
        configs=TileSpace({"BLOCK": [32, 64, 128, 8192], "num_warps": [1, 2]}),
        check={"y": 2 * x},
        shape={"x0": n},
    )
"""


@pytest.fixture
def simulated_gpu(spec_folder, monkeypatch):
    """Have ``scale.py:scale`` compiled by Triton, and launched on a simulated GPU.

    A launch takes BLOCK / 64 ms; BLOCK=8192 does not compile.
    """
    from sample_kernels import scale
    from simulated_cuda import SimulatedCuda

    (spec_folder / "scale.py").write_text(SIMULATED_SPEC)
    cuda = SimulatedCuda(lambda config: config["BLOCK"] / 64, compute=scale)

    class SimulatedClock:
        def __init__(self, device):
            self.time_batch = cuda.clock.time_batch

        def close(self):
            pass

    monkeypatch.setattr(_triton_device, "CudaClock", SimulatedClock)
    with cuda:
        yield cuda
