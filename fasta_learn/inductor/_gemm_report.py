"""What is told about searches among Inductor's choices."""

import os
import re
from typing import Any

from fasta_learn.inductor._guard import warn_once
from fasta_learn.inductor._settings import is_true
from fasta_learn.inductor._statistics import SearchRecord, record

_FEATURE = "gemm"


def give_up(error: Exception) -> None:
    """Tell that Inductor's own way is taken, the first time.

    Parameters
    ----------
    error : Exception
        Why. It is raised where FASTA_LEARN_RAISE says so, to find faults by.
    """
    if is_true(os.environ.get("FASTA_LEARN_RAISE", "")):
        raise error
    warn_once(_FEATURE, error)


def tell(name: str, inputs_key: str, **facts: Any) -> None:
    """Keep a record of a search.

    Parameters
    ----------
    name : str
        Name of the operation; its kind, too, unless that is among the facts.
    inputs_key : str
        Inductor's text about the inputs.
    **facts : object
        Fields of `SearchRecord`.
    """
    shapes, dtypes, device = describe_inputs(inputs_key)
    record(
        SearchRecord(
            name=name,
            shape=shapes,
            dtype=dtypes,
            device=device,
            **{"kind": name, **facts},
        )
    )


def describe_inputs(inputs_key: str) -> tuple[str, str, str]:
    """Return sizes, types and device of inputs as short texts.

    Parameters
    ----------
    inputs_key : str
        Inductor's text: for each input a tuple of device, type, sizes, strides and
        offset.

    Returns
    -------
    tuple of str
        Such as ("1000x3000, 3000x777", "float16", "cuda").
    """
    inputs = re.findall(r"\('(\w+)', '(?:torch\.)?([\w.]+)'([^()]*)\)", inputs_key)
    shapes, dtypes = [], []
    for _, dtype, numbers in inputs:
        values = re.findall(r"-?\w+", numbers)
        shapes.append("x".join(values[: (len(values) - 1) // 2]) or "scalar")
        dtypes.append(dtype)
    device = inputs[0][0] if inputs else ""
    return ", ".join(shapes), ", ".join(dict.fromkeys(dtypes)), device
