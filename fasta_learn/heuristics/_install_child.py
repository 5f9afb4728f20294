"""Tries an artifact in a process of its own; run by its path, with the request as JSON.

It imports torch and the artifact, as a compile would, and nothing of fasta_learn.
"""

import contextlib
import json
import sys
from typing import Any

_ARTIFACTS = "torch._inductor.autoheuristic.artifacts"


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Ask torch's controller for decisions.

    Parameters
    ----------
    request : dict
        The folder, module and class of the artifact, name, shared memory and
        capability that it is for, and rows: raw features by name.

    Returns
    -------
    dict
        The decisions, None where it is unsure.

    Raises
    ------
    RuntimeError
        The controller finds another heuristic or none.
    """
    import importlib

    package = importlib.import_module(_ARTIFACTS)
    package.__path__.insert(0, request["folder"])
    # The controller only prints why it can't import a module.
    module = importlib.import_module(f"{_ARTIFACTS}.{request['module']}")
    getattr(module, request["class_name"])()
    found = [_decide(request, row) for row in request["rows"]]
    return {"decisions": found}


def _decide(request: dict[str, Any], row: dict[str, Any]) -> str | None:
    from torch._inductor.autoheuristic import autoheuristic_utils as utils
    from torch._inductor.autoheuristic.learned_heuristic_controller import (
        LearnedHeuristicController,
    )

    context = utils.AHContext()
    for name, value in row.items():
        context.add_feature(name, value, is_categorical=isinstance(value, str))
    operations = {"pad_mm": utils.pad_mm_operations, "mm": utils.mm_operations}
    context.apply_operations(operations.get(request["name"], list)())
    metadata = utils.AHMetadata(
        request["shared_memory"],
        tuple(request["device_capa"]),
        request["choices"],
        request["name"],
    )
    controller = LearnedHeuristicController(metadata, context)
    for heuristic in controller.get_heuristics(request["name"]):
        if heuristic.check_precondition(metadata, context):
            if type(heuristic).__module__ != f"{_ARTIFACTS}.{request['module']}":
                break
            choice: str | None = controller.get_decision()
            return choice
    raise RuntimeError(
        "torch's controller does not choose it for its own memory and capability"
    )


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):  # torch prints there
        reply = answer(json.load(sys.stdin))
    sys.stdout.write(json.dumps(reply))
