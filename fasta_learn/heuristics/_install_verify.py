"""Tries an artifact as torch would use it."""

import ast
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fasta_learn._compat import import_extra
from fasta_learn.heuristics import _install_child
from fasta_learn.heuristics._collect_benchmark import CHOICES
from fasta_learn.heuristics._collect_shapes import InputSampler
from fasta_learn.heuristics._formulas import PAD_CATEGORICAL, PAD_NUMERICAL
from fasta_learn.heuristics._install import find_installed, read_source
from fasta_learn.heuristics._install_code import ArtifactCode, parse_artifact
from fasta_learn.oracles import bound_reason

_N_ROWS = 500
_MEMORY = 64 * 2**30
_TIMEOUT = 600.0
_MODULE = "_fasta_learn_candidate"


@dataclass(frozen=True)
class Verification:
    """What was found when an artifact was tried.

    Attributes
    ----------
    class_name : str or None
        The heuristic; None if the code can't be read.
    problems : list of str
        What is wrong with it; empty if it is fine.
    n_rows : int
        For how many inputs it was asked.
    n_decided : int
        For how many of them it was sure.
    """

    class_name: str | None
    problems: list[str]
    n_rows: int = 0
    n_decided: int = 0

    @property
    def is_fine(self) -> bool:
        """Whether there is no problem."""
        return not self.problems


def verify(
    artifact: str | os.PathLike[str],
    *,
    inputs: pd.DataFrame | None = None,
    decisions: Sequence[str | None] | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Verification:
    """Try an artifact: what it uses, whether torch takes it, what it decides.

    The code is read first, and refused if it holds what no generated tree needs. Then
    a child process imports it with torch, and asks torch's own controller, with torch's
    own derived features, for decisions.

    Parameters
    ----------
    artifact : path-like or str
        A file, the text of a module, or what `uninstall` takes.
    inputs : DataFrame of shape (n_inputs, n_columns), default=None
        Raw features to decide on, such as ``read_log(path).inputs()``; by default 500
        random inputs of pad_mm. Heuristics of other names are only asked with it.
    decisions : sequence of str or None, default=None
        What is to be decided on `inputs`, None for unsure.
    folder : path-like, default=None
        The folder of the installed artifacts; by default that of the user.

    Returns
    -------
    Verification
        What was found.

    Raises
    ------
    OSError
        The file can't be read.
    ValueError
        There is no such artifact, or `decisions` does not fit `inputs`.

    Examples
    --------
    >>> from fasta_learn.heuristics import verify
    >>> verify("import os\\n").problems[0].startswith("the code must have one class")
    True
    """
    text, origin = _find(artifact, folder)
    try:
        code = parse_artifact(without_binding(text), origin)
    except ValueError as error:
        return Verification(None, [str(error)])
    rows = _make_rows(code, inputs)
    if decisions is not None and len(decisions) != len(rows):
        raise ValueError(
            f"decisions has {len(decisions)} values for {len(rows)} inputs."
        )
    try:
        found = _ask(code, rows)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return Verification(code.class_name, [str(error)], len(rows))
    problems = [] if decisions is None else _differences(found, decisions)
    unknown = {value for value in found if value is not None} - set(CHOICES)
    if code.name == "pad_mm" and unknown:
        problems.append(f"it decides for {', '.join(sorted(unknown))}")
    n_decided = sum(value is not None for value in found)
    return Verification(code.class_name, problems, len(rows), n_decided)


def without_binding(text: str) -> str:
    """Return a module without what `install` has added to it.

    Parameters
    ----------
    text : str
        An installed module.

    Returns
    -------
    str
        The generated one.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return text
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "_bind":
            lines = text.splitlines(keepends=True)
            return "".join(lines[: node.lineno - 2]).rstrip("\n") + "\n"
    return text


def _find(
    artifact: str | os.PathLike[str], folder: str | os.PathLike[str] | None
) -> tuple[str, str]:
    if isinstance(artifact, str) and "\n" not in artifact:
        is_file = Path(artifact).suffix == ".py" or Path(artifact).exists()
        if not is_file:
            artifact = find_installed(artifact, folder=folder).path
    return read_source(artifact)


def _make_rows(code: ArtifactCode, inputs: pd.DataFrame | None) -> list[dict[str, Any]]:
    if inputs is None:
        if code.name != "pad_mm":
            return []
        sampler = InputSampler(_MEMORY)
        return [_plain(sampler.draw().features()) for _ in range(_N_ROWS)]
    known = [*PAD_NUMERICAL, *PAD_CATEGORICAL]
    columns = [name for name in inputs.columns if name in known]
    return [_plain(row) for row in inputs[columns].to_dict("records")]


def _plain(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return values as torch has them: numbers, and texts for categories."""
    return {
        str(name): str(value) if name in PAD_CATEGORICAL else np.asarray(value).item()
        for name, value in row.items()
    }


def _ask(code: ArtifactCode, rows: list[dict[str, Any]]) -> list[str | None]:
    if importlib.util.find_spec("torch") is None:
        import_extra("torch", "torch")  # fails by name; the child would blame the code
    request = {
        "module": _MODULE,
        "class_name": code.class_name,
        "name": code.name,
        "shared_memory": code.shared_memory,
        "device_capa": list(code.device_capa),
        "choices": list(CHOICES),
        "rows": rows,
    }
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, f"{_MODULE}.py").write_text(code.text, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-P", _install_child.__file__],
            input=json.dumps({**request, "folder": folder}),
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
    if done.returncode:
        *_, last = done.stderr.strip().splitlines() or ["no message"]
        raise RuntimeError(f"torch can't use it: {bound_reason(last)}")
    decisions: list[str | None] = json.loads(done.stdout)["decisions"]
    return decisions


def _environment() -> dict[str, str]:
    """Return an environment in which fasta_learn is off and CUDA is not touched."""
    kept = {n: v for n, v in os.environ.items() if not n.startswith("FASTA_LEARN")}
    return {**kept, "CUDA_VISIBLE_DEVICES": ""}


def _differences(
    found: Sequence[str | None], expected: Sequence[str | None]
) -> list[str]:
    wrong = [
        index
        for index, (one, other) in enumerate(zip(found, expected, strict=True))
        if one != other
    ]
    if not wrong:
        return []
    first = wrong[0]
    return [
        f"{len(wrong)} of {len(found)} decisions differ, the first in row {first}: "
        f"{found[first]} instead of {expected[first]}"
    ]
