"""Everything that can decide, asked in one way."""

import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fasta_learn._compat import import_extra
from fasta_learn.heuristics._formulas import FORMULAS
from fasta_learn.heuristics._inputs import choices_of
from fasta_learn.heuristics._objectives import durations_of, production_costs

# Columns of a frame of inputs that torch does not know when it decides.
_MEASUREMENTS = ("median_", "rel_std_", "n_failed_", "winner", "gap", "group")


def as_policy(policy: Any, inputs: pd.DataFrame, margin: float) -> np.ndarray:
    """Ask a policy about inputs.

    Parameters
    ----------
    policy : object
        As for `evaluate`.
    inputs : DataFrame of shape (n_inputs, n_columns)
        Inputs.
    margin : float
        Of ``"benchmark"``.

    Returns
    -------
    ndarray of shape (n_inputs,), object
        A choice, or None, for each input.

    Raises
    ------
    TypeError, ValueError
        Nothing that can be asked, or it answered too few or too many times.
    """
    choices = choices_of(inputs)
    if isinstance(policy, str) and policy in choices:
        answers: Any = [policy] * len(inputs)
    elif isinstance(policy, str) and policy == "benchmark":
        costs = production_costs(durations_of(inputs), margin=margin)
        answers = [choices[column] for column in costs.argmin(axis=1)]
    elif read_source(policy) is not None:
        answers = ask_heuristic(load_artifact(policy), inputs)
    elif hasattr(policy, "get_decision"):
        answers = ask_heuristic(policy, inputs)
    elif hasattr(policy, "decide"):
        answers = policy.decide(inputs)
    elif hasattr(policy, "predict"):
        answers = policy.predict(inputs)
    elif callable(policy):
        answers = policy(inputs)
    else:
        raise TypeError(
            f"{policy!r} is no policy: give an estimator, a function, a path or source "
            f"of a generated module, 'benchmark', or one of {', '.join(choices)}."
        )
    return _as_choices(answers, len(inputs))


def _as_choices(answers: Any, n_inputs: int) -> np.ndarray:
    decided = np.empty(n_inputs, object)
    answers = list(answers)
    if len(answers) != n_inputs:
        raise ValueError(f"a policy gave {len(answers)} answers for {n_inputs} inputs.")
    for row, answer in enumerate(answers):
        missing = answer is None or answer is pd.NA or answer != answer
        decided[row] = None if missing else str(answer)
    return decided


def read_source(policy: Any) -> str | None:
    """Return the source of a generated module.

    Parameters
    ----------
    policy : object
        A path, something with a ``path``, or the source itself.

    Returns
    -------
    str or None
        The source; None if the policy is something else.
    """
    if isinstance(policy, str) and "\n" in policy:
        return policy
    path = getattr(policy, "path", policy)
    is_file = isinstance(path, str) and path.endswith(".py")
    if isinstance(path, os.PathLike) or is_file:
        return Path(path).read_text(encoding="utf-8")
    return None


def load_artifact(policy: Any) -> Any:
    """Run a generated module in this process and return its heuristic.

    Parameters
    ----------
    policy : str, path, or object with a ``path``
        As for `read_source`. Code is run: only load what you trust.

    Returns
    -------
    object
        An instance of its heuristic or policy.

    Raises
    ------
    MissingExtraError
        torch is not installed.
    ValueError
        The module has not exactly one heuristic or policy.
    """
    import_extra("torch", "torch")
    source = read_source(policy) or ""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "_artifact.py"
        file.write_text(source, encoding="utf-8")
        name = "fasta_learn_artifact"
        spec = importlib.util.spec_from_file_location(name, file)
        if spec is None or spec.loader is None:  # a file that ends with .py has both
            raise ValueError("the artifact can't be loaded as a Python module.")
        module = importlib.util.module_from_spec(spec)
        written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        try:
            spec.loader.exec_module(module)
        finally:
            sys.dont_write_bytecode = written
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and value.__module__ == name
        and (hasattr(value, "get_decision") or hasattr(value, "uuid"))
    ]
    if len(found) != 1:
        raise ValueError(f"an artifact must define one heuristic, found {len(found)}.")
    return found[0]()


class _Context:
    """What torch hands to a heuristic: features by name."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.context_dict = values

    def get_value(self, name: str) -> Any:
        return self.context_dict[name]


def ask_heuristic(heuristic: Any, inputs: pd.DataFrame) -> list[str | None]:
    """Ask a heuristic of torch about inputs, as torch asks at compile time.

    Parameters
    ----------
    heuristic : LearnedHeuristic or PadMMPolicy
        What decides; preconditions are not asked.
    inputs : DataFrame of shape (n_inputs, n_columns)
        Inputs.

    Returns
    -------
    list of str or None
        Its decisions.
    """
    choices = choices_of(inputs)
    decide: Callable[[dict[str, Any]], Any]
    if hasattr(heuristic, "get_decision"):
        heuristic_name = heuristic.get_name()

        def decide(values: dict[str, Any]) -> Any:
            return heuristic.get_decision(_Context(values), choices)
    else:
        heuristic_name = "pad_mm"
        words = {True: "pad", False: "orig", None: None}

        def decide(values: dict[str, Any]) -> Any:
            return words[heuristic.decide(values)]

    formulas = FORMULAS.get(heuristic_name, ())
    answers = []
    for row in raw_rows(inputs):
        values = dict(row)
        for formula in formulas:
            values[formula.name] = formula.of_row(row)
        answers.append(decide(values))
    return answers


def raw_rows(inputs: pd.DataFrame) -> list[Mapping[str, Any]]:
    """Return the raw features of inputs as Python values.

    Parameters
    ----------
    inputs : DataFrame of shape (n_inputs, n_columns)
        Inputs.

    Returns
    -------
    list of dict
        A dict for each input; categories are text.
    """
    names = [name for name in inputs.columns if not name.startswith(_MEASUREMENTS)]
    counts = {f"n_{choice}" for choice in choices_of(inputs)}
    names = [name for name in names if name not in counts]
    columns = []
    for name in names:
        values = inputs[name]
        numeric = pd.api.types.is_numeric_dtype(values) and values.dtype != bool
        columns.append(values.tolist() if numeric else [str(value) for value in values])
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
