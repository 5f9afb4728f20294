"""What ``fasta-learn doctor --report`` adds: all that tuning on this machine left."""

import csv
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fasta_learn._cli._files import write_file
from fasta_learn.autotuner._store import find_folder
from fasta_learn.inductor._npu_stages import stages_file
from fasta_learn.inductor._settings import Settings, is_true
from fasta_learn.inductor._statistics import read_records
from fasta_learn.oracles import JournaledOracle

# Values of other variables are nobody's business.
_PREFIXES = (
    "FASTA_",
    "FASTAUTOTUNE",
    "AUTOTUNE_METHOD",
    "INDUCTOR_ASCEND_",
    "TORCHINDUCTOR_",
    "TORCHNPU_",
    "TRITON_",
    "NPU_DEVICE_LIMIT",
    "ASCEND_",
)
_MOST_FILES = 50


def write_report(path: str, examined: dict[str, Any], journals: Iterable[str]) -> None:
    """Write a report to a file.

    Parameters
    ----------
    path : str
        The file.
    examined : dict
        What the command has found.
    journals : iterable of str
        Journals of measurements besides those of the store.
    """
    report = {**examined, **collect(journals)}
    text = json.dumps(report, indent=1, default=str)
    write_file(path, f"{text}\n")


def collect(journals: Iterable[str] = ()) -> dict[str, Any]:
    """Collect what is known of tuning on this machine.

    Parameters
    ----------
    journals : iterable of str, default=()
        Journals of measurements besides those of the store.

    Returns
    -------
    dict
        JSON can hold it. What can't be read is told in its place.
    """
    known = [*_store_files("*/*.jsonl"), *map(Path, journals)]
    return {
        "environment": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith(_PREFIXES)
        },
        "settings": _tried(lambda: vars(Settings.from_environment())),
        "statistics": _tried(_read_statistics),
        "stages": {path.name: _tried(lambda p=path: _rows(p)) for path in _stages()},
        "journals": {
            str(Path(*path.parts[-2:])): _tried(lambda p=path: _read_journal(p))
            for path in known
        },
    }


def _store_files(pattern: str) -> list[Path]:
    folder = find_folder(os.environ.get("FASTA_LEARN_STORE") or True)
    if folder is None or not (folder / "npu").is_dir():
        return []
    return _latest((folder / "npu").glob(pattern))


def _stages() -> list[Path]:
    wish = os.environ.get("FASTA_AUTOTUNE_STATS", "").strip()
    given = wish if wish and not is_true(wish) and wish != "0" else "1"
    return _latest(stages_file(given).parent.glob("duration-stats-*.csv"))


def _latest(paths: Iterable[Path]) -> list[Path]:
    return sorted(paths, key=lambda path: path.stat().st_mtime)[-_MOST_FILES:]


def _read_statistics() -> list[dict[str, Any]] | None:
    path = os.environ.get("FASTA_LEARN_STATISTICS")
    return read_records(path) if path else None


def _rows(path: Path) -> list[list[str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def _read_journal(path: Path) -> list[list[Any]]:
    return [[config, m.to_dict()] for config, m in JournaledOracle.read(path)]


def _tried(read: Any) -> Any:
    """Give what a function answers, or why it does not: half a report is of use."""
    try:
        return read()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
