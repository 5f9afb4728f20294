"""The card of a recorded pool: what was measured, on what, and what came of it."""

import contextlib
import importlib.metadata
import math
import platform
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import fasta_learn
from fasta_learn.configs import Pool
from fasta_learn.oracles import KernelSpec

_PACKAGES = ("torch", "triton")


def make_card(spec: KernelSpec, pool: Pool, fingerprint: Mapping[str, Any]) -> str:
    """Describe a recorded pool.

    Parameters
    ----------
    spec : KernelSpec
        The kernel.
    pool : Pool
        Its measurements.
    fingerprint : mapping
        That of the oracle.

    Returns
    -------
    str
        Markdown.
    """
    parts = [
        f"# {pool.name}",
        _sentence(spec, fingerprint),
        _table("recording", "", _recording(spec, fingerprint)),
        _table("parameter", "values", _parameters(pool)),
        _table("pool", "", _results(pool)),
    ]
    return "\n\n".join(parts) + "\n"


def _sentence(spec: KernelSpec, fingerprint: Mapping[str, Any]) -> str:
    oracle = fingerprint.get("oracle", "an oracle")
    return (
        f"Recorded by `fasta-learn record` through {oracle}. `duration_ms` is the "
        "median of repeated launches in milliseconds, and infinite where a config "
        "failed; `status` says why."
    )


def _recording(
    spec: KernelSpec, fingerprint: Mapping[str, Any]
) -> Iterable[tuple[str, str]]:
    yield "kernel", f"`{spec.name}`"
    if spec.source is not None:
        target, parameters = spec.source
        # The folder of a file says nothing to others.
        yield "source", f"`{target.rpartition('/')[2]}`"
        if parameters:
            yield "arguments", _pairs(parameters)
    if spec.shape:
        yield "shape", _pairs(spec.shape)
    dtypes = _dtypes(spec.args)
    if dtypes:
        yield "data types", ", ".join(dtypes)
    yield "results checked", "no" if spec.check is None else "yes"
    if "device" in fingerprint:
        yield "device", _text(fingerprint["device"])
    if "timing" in fingerprint:
        yield "timing", _text(fingerprint["timing"])
    yield "versions", _pairs(_versions(fingerprint), " ")
    yield "date", datetime.now(UTC).date().isoformat()


def _dtypes(args: Any) -> list[str]:
    values = args.values() if isinstance(args, Mapping) else args
    found = [str(value.dtype) for value in values if hasattr(value, "dtype")]
    return list(dict.fromkeys(name.removeprefix("torch.") for name in found))


def _versions(fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the oracle has told, or else what is installed."""
    told = fingerprint.get("versions")
    ours = {"fasta-learn": fasta_learn.__version__}
    if isinstance(told, Mapping):
        return {**ours, **told}
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            ours[name] = importlib.metadata.version(name)
    return {**ours, "Python": platform.python_version()}


def _parameters(pool: Pool) -> Iterable[tuple[str, str]]:
    names = dict.fromkeys(name for config in pool.configs for name in config)
    for name in names:
        values = dict.fromkeys(
            config[name] for config in pool.configs if name in config
        )
        yield f"`{name}`", ", ".join(map(str, _in_order(list(values))))


def _in_order(values: list[Any]) -> list[Any]:
    try:
        return sorted(values)
    except TypeError:  # of several types
        return values


def _results(pool: Pool) -> Iterable[tuple[str, str]]:
    failures = Counter(
        status.partition(": ")[0] for status in pool.status if status != "ok"
    )
    yield "configs", str(len(pool))
    yield "failed", str(failures.total())
    for status, count in failures.most_common():
        yield f"failed by {status}", str(count)
    best = pool.best_duration
    if not math.isfinite(best):
        return
    yield "best duration", f"{best:.6g} ms"
    yield "best config", _pairs(pool.configs[int(pool.durations.argmin())], "=")
    near = sum(pool.is_catch(float(duration)) for duration in pool.durations)
    yield "within 5 % of the best", str(near)


def _pairs(values: Mapping[str, Any], sign: str = " = ") -> str:
    return ", ".join(f"{name}{sign}{value}" for name, value in values.items())


def _text(value: Any) -> str:
    return _pairs(value) if isinstance(value, Mapping) else str(value)


def _table(left: str, right: str, rows: Iterable[tuple[str, str]]) -> str:
    # A bar would begin another cell, and a line end another row.
    cells = [
        tuple(" ".join(text.replace("|", "\\|").split()) for text in row)
        for row in rows
    ]
    lines = [f"| {left} | {right} |".replace("|  |", "| |"), "|---|---|"]
    return "\n".join(lines + [f"| {name} | {text} |" for name, text in cells])
