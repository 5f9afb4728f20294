"""The folder of installed artifacts.

An artifact is a module ``_fasta_learn_<name>_<hash>.py``, which torch imports, and a
description of it beside, ``<same>.json``. Nothing of torch or scikit-learn is imported
here: the switch in the environment reads this folder at each ``import torch``.
"""

import contextlib
import hashlib
import json
import os
import re
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PREFIX = "_fasta_learn_"

# Drivers keep some of the memory for themselves, not always as much.
MEMORY_TOLERANCE = 0.1


@dataclass(frozen=True)
class InstalledArtifact:
    """An installed artifact.

    Attributes
    ----------
    hash : str
        16 hexadecimal digits of what is installed; names the artifact.
    name : str
        What it decides, such as "pad_mm".
    class_name : str
        Its class.
    shared_memory : int
        Of the device that it is for, in bytes.
    device_capa : (int, ...)
        Compute capability of the device that it is for.
    device_name : str or None
        Name of the only device on which it decides; None for every device with that
        memory and capability.
    device_memory : int or None
        Memory of that device, in bytes.
    path : str
        The installed module.
    source : str
        Where it came from.
    """

    hash: str
    name: str
    class_name: str
    shared_memory: int
    device_capa: tuple[int, ...]
    device_name: str | None
    device_memory: int | None
    path: str
    source: str

    @property
    def module_name(self) -> str:
        """Name of the module within the folder."""
        return f"{PREFIX}{re.sub(r'[^0-9a-zA-Z]', '_', self.name)}_{self.hash}"

    def overlaps(self, other: "InstalledArtifact") -> bool:
        """Return whether there can be a device on which both would decide.

        Parameters
        ----------
        other : InstalledArtifact
            Another.

        Returns
        -------
        bool
            Of the same heuristic, the same key of torch, and not bound to different
            devices.
        """
        mine = (self.name, self.shared_memory, tuple(self.device_capa))
        if mine != (other.name, other.shared_memory, tuple(other.device_capa)):
            return False
        names = {self.device_name, other.device_name} - {None}
        known = [size for size in (self.device_memory, other.device_memory) if size]
        apart = len(known) == 2 and max(known) > (1 + MEMORY_TOLERANCE) * min(known)
        return len(names) < 2 and not apart


def find_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of the artifacts.

    Parameters
    ----------
    folder : path-like, default=None
        The folder; None for that of the user: ``FASTA_LEARN_HEURISTICS_DIR``, or
        ``heuristics`` in ``FASTA_LEARN_CACHE_DIR``, or else
        ``~/.local/share/fasta_learn/heuristics`` by ``XDG_DATA_HOME``.

    Returns
    -------
    Path
        It need not exist.
    """
    own = folder or os.environ.get("FASTA_LEARN_HEURISTICS_DIR")
    if own:
        return Path(own).expanduser().absolute()
    if cache := os.environ.get("FASTA_LEARN_CACHE_DIR"):
        return Path(cache).expanduser().absolute() / "heuristics"
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(os.path.expanduser(data)).absolute() / "fasta_learn" / "heuristics"


def read_folder(folder: Path) -> list[InstalledArtifact]:
    """List the artifacts of a folder.

    Parameters
    ----------
    folder : Path
        The folder.

    Returns
    -------
    list of InstalledArtifact
        Those whose description can be read and whose module is there, by name and
        hash.
    """
    found = []
    for path in folder.glob(f"{PREFIX}*.json") if folder.is_dir() else ():
        artifact = _read_description(path)
        if artifact is not None and Path(artifact.path).is_file():
            found.append(artifact)
    return sorted(found, key=lambda artifact: (artifact.name, artifact.hash))


def _read_description(path: Path) -> InstalledArtifact | None:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        values["device_capa"] = tuple(values["device_capa"])
        return InstalledArtifact(**values, path=str(path.with_suffix(".py")))
    except (OSError, ValueError, TypeError, KeyError):
        return None  # half written, or of another version


def save(artifact: InstalledArtifact, text: str) -> None:
    """Write an artifact, so that at no time half of it is seen.

    Parameters
    ----------
    artifact : InstalledArtifact
        Its description, with the path that it is to have.
    text : str
        Its module.
    """
    path = Path(artifact.path)
    path.parent.mkdir(parents=True, exist_ok=True)
    values: dict[str, Any] = asdict(artifact)
    del values["path"]
    _write(path, text)
    _write(path.with_suffix(".json"), json.dumps(values, indent=1) + "\n")


def remove(artifact: InstalledArtifact) -> None:
    """Delete an artifact.

    Parameters
    ----------
    artifact : InstalledArtifact
        The artifact.
    """
    path = Path(artifact.path)
    compiled = path.parent.glob(f"__pycache__/{path.stem}.*")
    for file in (path.with_suffix(".json"), path, *compiled):
        with contextlib.suppress(FileNotFoundError):
            file.unlink()


def combined_hash(artifacts: list[InstalledArtifact]) -> str:
    """Return what caches are kept apart by.

    Parameters
    ----------
    artifacts : list of InstalledArtifact
        Those in use.

    Returns
    -------
    str
        16 hexadecimal digits, whatever the order.
    """
    text = ",".join(sorted(artifact.hash for artifact in artifacts))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _write(path: Path, text: str) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise
