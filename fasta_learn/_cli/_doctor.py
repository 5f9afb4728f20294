"""``fasta-learn doctor``: what is installed, and which devices there are."""

import argparse
import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
from collections.abc import Callable
from typing import Any

import joblib
from threadpoolctl import threadpool_info

import fasta_learn
from fasta_learn._cli._files import check_writable
from fasta_learn._cli._npu_report import write_report
from fasta_learn._cli._parsers import add_command
from fasta_learn._cli._terminal import paint, write
from fasta_learn._text import format_pairs, line_width
from fasta_learn.datasets import list_pools
from fasta_learn.inductor import _npu_hooks
from fasta_learn.inductor._hook_sources import probe
from fasta_learn.oracles import bound_reason

# Module to extra; the core has none.
_MODULES = {
    "numpy": None,
    "scipy": None,
    "sklearn": None,
    "joblib": None,
    "pandas": None,
    "torch": "torch",
    "triton": "torch",
    "torch_npu": "npu",
    "pyarrow": "parquet",
    "rich": "progress",
    "matplotlib": "plot",
    "dask": "dask",
}


def add_parser(subparsers: Any) -> None:
    """Add the command to a parser.

    Parameters
    ----------
    subparsers : object
        What `argparse.ArgumentParser.add_subparsers` answers.
    """
    parser = add_command(
        subparsers,
        "doctor",
        purpose="show what is installed and which devices there are",
        description="Show what is installed and which devices there are.",
        examples=("doctor", "doctor --json", "doctor --report doctor.json"),
    )
    parser.add_argument(
        "--json", action="store_true", help="write it as one JSON object"
    )
    parser.add_argument(
        "--report",
        metavar="FILE",
        help="also write it to a file, with the settings, statistics, stages and "
        "journals that tuning has left: what a report about a problem needs",
    )
    parser.add_argument(
        "--journal",
        metavar="FILE",
        action="append",
        default=[],
        help="a further journal for the report; may be repeated",
    )


def run(args: argparse.Namespace) -> int:
    """Write what is installed.

    Parameters
    ----------
    args : argparse.Namespace
        The parsed arguments.

    Returns
    -------
    int
        0.
    """
    if args.report is not None:
        check_writable(args.report)
    record = examine()
    if args.report is not None:
        write_report(args.report, record, args.journal)
    write(json.dumps(record) if args.json else _to_text(record))
    return 0


def examine() -> dict[str, Any]:
    """Look at the packages and devices.

    Returns
    -------
    dict
        Plain values. A package has a version, an error, or neither if it is not
        installed; so have the devices of CUDA and NPU.
    """
    packages = {module: _examine_package(module) for module in _MODULES}
    return {
        "fasta_learn": fasta_learn.__version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "packages": packages,
        "cpus": {"installed": os.cpu_count(), "usable": joblib.cpu_count()},
        "cuda": _examine_devices(packages, "torch", _cuda_devices),
        "npu": _examine_devices(packages, "torch_npu", _npu_devices),
        "npu_versions": _npu_hooks.versions(),
        "inductor": _examine_hooks(packages),
        "blas": [
            {
                "library": library["internal_api"],
                "version": library["version"],
                "threads": library["num_threads"],
                "path": library["filepath"],
            }
            for library in sorted(threadpool_info(), key=lambda info: info["filepath"])
            if library["user_api"] == "blas"
        ],
        "n_pools": len(list_pools()),
    }


def _examine_package(name: str) -> dict[str, str | None]:
    """Import a package, which alone tells whether it works."""
    try:
        if importlib.util.find_spec(name) is None:
            return {"version": None, "error": None}
        module = importlib.import_module(name)
        version = getattr(module, "__version__", None)
        version = version or importlib.metadata.version(name)
    except Exception as error:  # a package may fail in any way when it is imported
        return {"version": None, "error": _describe(error)}
    return {"version": str(version), "error": None}


def _examine_devices(
    packages: dict[str, dict[str, str | None]],
    package: str,
    find: Callable[[], list[str]],
) -> dict[str, Any]:
    if packages[package]["version"] is None:
        return {"devices": [], "error": None}
    try:
        return {"devices": find(), "error": None}
    except Exception as error:  # drivers fail in many ways
        return {"devices": [], "error": _describe(error)}


def _examine_hooks(packages: dict[str, dict[str, str | None]]) -> dict[str, Any]:
    if packages["torch"]["version"] is None:
        return {"misfits": {}, "error": None}
    try:
        misfits = probe()
        if _npu_hooks.versions()["torch_npu"] is not None:
            misfits["npu"] = _npu_hooks.probe()
        return {"misfits": misfits, "error": None}
    except Exception as error:  # an installation may be broken in any way
        return {"misfits": {}, "error": _describe(error)}


def _cuda_devices() -> list[str]:
    import torch

    devices = []
    for index in range(torch.cuda.device_count()):
        device = torch.cuda.get_device_properties(index)
        devices.append(
            f"{device.name}, {device.total_memory / 2**30:.0f} GiB, "
            f"{device.multi_processor_count} multiprocessors, "
            f"compute capability {device.major}.{device.minor}"
        )
    return devices


def _npu_devices() -> list[str]:
    torch_npu = importlib.import_module("torch_npu")
    count = torch_npu.npu.device_count()
    return [str(torch_npu.npu.get_device_name(index)) for index in range(count)]


def _describe(error: Exception) -> str:
    return bound_reason(f"{type(error).__name__}: {error}")


def _to_text(record: dict[str, Any]) -> str:
    system = [
        ("fasta_learn", record["fasta_learn"]),
        ("python", f"{record['python']} ({record['executable']})"),
        ("platform", record["platform"]),
        ("pools", f"{record['n_pools']} ship with fasta_learn"),
    ]
    packages = [
        (name, _package_text(name, package))
        for name, package in record["packages"].items()
    ]
    cpus = record["cpus"]
    devices = [("CPU", f"{cpus['installed']} installed, {cpus['usable']} usable")]
    devices += _device_pairs("CUDA", "torch", record["cuda"], record["packages"])
    devices += _device_pairs("NPU", "torch_npu", record["npu"], record["packages"])
    devices += [(n, v) for n, v in record["npu_versions"].items() if v is not None]
    blas = [
        (library["library"], f"{library['version']}, {library['threads']} threads")
        for library in record["blas"]
    ]
    parts = {"System": system, "Packages": packages, "Devices": devices}
    parts["TorchInductor"] = _hook_pairs(record["inductor"], record["packages"])
    parts["BLAS"] = blas or [("none", "known to threadpoolctl")]
    width = min(88, line_width() or 88) - 2  # of the indent
    return "\n\n".join(
        f"{paint(title, 'bold')}\n{_indent(format_pairs(pairs, width=width))}"
        for title, pairs in parts.items()
    )


def _package_text(name: str, package: dict[str, str | None]) -> str:
    if package["error"] is not None:
        return f"import fails: {package['error']}"
    extra = _MODULES[name]
    hint = f" (pip install 'fasta-learn[{extra}]')" if extra else ""
    return package["version"] or f"not installed{hint}"


def _hook_pairs(
    found: dict[str, Any], packages: dict[str, dict[str, str | None]]
) -> list[tuple[str, str]]:
    if found["error"] is not None:
        return [("hooks", f"can't be looked up: {found['error']}")]
    if packages["torch"]["version"] is None:
        return [("hooks", "unknown without torch")]
    return [
        (feature, f"off: {'; '.join(lines)}" if lines else "fits")
        for feature, lines in found["misfits"].items()
    ]


def _device_pairs(
    kind: str,
    package: str,
    found: dict[str, Any],
    packages: dict[str, dict[str, str | None]],
) -> list[tuple[str, str]]:
    if found["error"] is not None:
        return [(kind, f"can't be asked: {found['error']}")]
    if packages[package]["version"] is None:
        return [(kind, f"unknown without {package}")]
    return [
        (f"{kind} {index}", device) for index, device in enumerate(found["devices"])
    ] or [(kind, "none")]


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
