"""Files of priors: arrays and JSON in a NumPy archive, read without pickle."""

import io
import json
import os
import zipfile
import zlib
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from fasta_learn.transfer._forest import Forest

_FORMAT = "fasta_learn.PoolPrior"
_VERSION = 1
_FACTS = {"n_trees": int, "random_state": int, "n_pools": int, "feature_names": list}

_DAMAGE = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError)

# An archive that unpacks to more bytes is refused.
_MAX_BYTES = 1 << 30


def write_prior(
    path: str | os.PathLike[str], facts: dict[str, Any], forest: Forest
) -> None:
    """Write a prior to a file.

    Parameters
    ----------
    path : str or path-like
        The file, which is replaced if there is one.
    facts : dict
        What is no array.
    forest : Forest
        The trees.
    """
    text = json.dumps({"format": _FORMAT, "version": _VERSION, **facts})
    buffer = io.BytesIO()
    np.savez_compressed(buffer, about=np.array(text), **asdict(forest))
    Path(path).write_bytes(buffer.getvalue())


def read_prior(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Forest]:
    """Read a prior from a file; nothing in it is run.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    facts : dict
        What is no array.
    forest : Forest
        The trees, checked.

    Raises
    ------
    ValueError
        The file is no prior, is damaged, or is of a later version.
    """
    with open(path, "rb") as file:
        try:
            return _read(file)
        except (*_DAMAGE, ValueError, KeyError, EOFError, OSError) as error:
            raise ValueError(
                f"{path} is not a prior that PoolPrior.save wrote: {error}; "
                "fit the prior anew and save it."
            ) from error


def _read(file: Any) -> tuple[dict[str, Any], Forest]:
    with zipfile.ZipFile(file) as archive:
        n_bytes = sum(member.file_size for member in archive.infolist())
    if n_bytes > _MAX_BYTES:
        raise ValueError(f"it unpacks to {n_bytes} bytes")
    file.seek(0)
    with np.load(file, allow_pickle=False) as archive:
        facts = _check_facts(json.loads(str(archive["about"][()])))
        arrays = {field.name: archive[field.name] for field in fields(Forest)}
    for name, array in arrays.items():
        kind = "f" if name in ("threshold", "value") else "i"
        if array.dtype.kind != kind:
            raise ValueError(f"{name} holds {array.dtype}")
    forest = Forest(**arrays)
    forest.check(len(facts["feature_names"]))
    return facts, forest


def _check_facts(facts: Any) -> dict[str, Any]:
    if not isinstance(facts, dict) or facts.pop("format", None) != _FORMAT:
        raise ValueError("its format is another one")
    if (version := facts.pop("version", None)) != _VERSION:
        raise ValueError(f"it is of version {version}, and this package reads 1")
    for name, kind in _FACTS.items():
        if type(facts.get(name)) is not kind:
            raise ValueError(f"{name} is {facts.get(name)!r}")
    if not all(isinstance(name, str) for name in facts["feature_names"]):
        raise ValueError("a feature name is no text")
    return {name: facts[name] for name in _FACTS}
