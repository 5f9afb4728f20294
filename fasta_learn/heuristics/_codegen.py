"""Write what was learned as a Python module that torch can load."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fasta_learn.heuristics._codegen_parts import (
    write_header,
    write_known,
    write_variables,
)
from fasta_learn.heuristics._codegen_policy import write_policy
from fasta_learn.heuristics._codegen_tree import (
    Column,
    quote,
    used_columns,
    write_sequence,
    write_shares,
    write_tree,
)
from fasta_learn.heuristics._log import LogMetadata

_TARGETS = ("learned_heuristic", "pad_mm_policy")

_DECISION = '''
from torch._inductor.autoheuristic.autoheuristic_utils import (
    AHContext,
    AHMetadata,
    Choice,
)
from torch._inductor.autoheuristic.learnedheuristic_interface import (
    LearnedHeuristic{kind},
)


class {name}(LearnedHeuristic{kind}):
    """Learned decisions of {heuristic}."""

{known}
    def check_precondition(self, metadata: AHMetadata, context: AHContext) -> bool:
        return (
            metadata.name == self.get_name()
            and metadata.shared_memory == {shared_memory}
            and str(metadata.device_capa) == "{device_capa}"
        )

    def get_confidence_threshold(self) -> float:
        return {threshold!r}

    def get_name(self) -> str:
        return {heuristic_text}

{methods}
'''


def generate_code(
    estimator: Any,
    *,
    metadata: LogMetadata,
    name: str,
    target: str = "learned_heuristic",
    metrics: Mapping[str, float] | None = None,
    data_hash: str | None = None,
    device: str | None = None,
) -> str:
    """Write a heuristic as the source of a Python module.

    The module decides bit for bit as `estimator.decide` does. It answers nothing, so
    that torch benchmarks, where the tree is unsure, where a feature is missing or not
    a finite number, and where a category has a value that was not learned.

    Parameters
    ----------
    estimator : PadHeuristic
        Fitted.
    metadata : LogMetadata
        Line 1 of the log; names the heuristic, and the device that the module is for.
    name : str
        Name of the class.
    target : {"learned_heuristic", "pad_mm_policy"}, default="learned_heuristic"
        Form of the module: what AutoHeuristic loads, or a policy for
        ``torch._inductor.config.pad_mm_policy`` of later torch versions, which is
        asked in deterministic mode too, and which must be given a decision tree.
    metrics : mapping of str to float, default=None
        What the header says about its quality, such as ``{"regret": 1.0029}``.
    data_hash : str, default=None
        What the header says about the learned inputs.
    device : str, default=None
        What the header calls the device.

    Returns
    -------
    str
        The source; equal arguments give equal sources.

    Raises
    ------
    ValueError
        The target or the name is not valid, or the estimator has another form than
        the target needs.

    Examples
    --------
    >>> import tempfile
    >>> from fasta_learn.heuristics import PadDecisionTree, PadHeuristic, SimulatedGPU
    >>> from fasta_learn.heuristics import collect, generate_code, read_log
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/log.txt"
    ...     _ = collect(path, n_samples=60, benchmark=SimulatedGPU(), isolate=False)
    ...     log = read_log(path)
    >>> heuristic = PadHeuristic(PadDecisionTree(max_leaf_nodes=2), random_state=0)
    >>> _ = heuristic.fit(log.inputs())
    >>> code = generate_code(heuristic, metadata=log.metadata, name="PadMM")
    >>> [line.strip() for line in code.splitlines() if " if k " in line]
    ['if k <= 4013.0:']
    """
    check_is_fitted(estimator)
    if target not in _TARGETS:
        raise ValueError(
            f"target must be one of {', '.join(_TARGETS)}, got {target!r}."
        )
    if not name.isidentifier():
        raise ValueError(f"name must be a Python identifier, got {name!r}.")
    tree = estimator.tree_
    header = write_header(metadata, tree, data_hash, metrics, device)
    if target == "pad_mm_policy":
        return "\n".join([*header, *write_policy(estimator, metadata, name)])
    is_score = hasattr(tree, "threshold_") and not hasattr(tree, "predict_proba")
    methods = _score_methods if is_score else _decision_methods
    body = _DECISION.format(
        kind="Regression" if is_score else "Decision",
        name=name,
        heuristic=metadata.name,
        heuristic_text=quote(metadata.name),
        known="\n".join(write_known(estimator.features_, "    ")),
        shared_memory=metadata.shared_memory,
        device_capa=tuple(metadata.device_capa),
        threshold=float(tree.threshold_),
        methods="\n".join(methods(tree, list(estimator.columns_))),
    )
    return "\n".join(header) + "\n" + body


def _decision_methods(estimator: Any, columns: list[Column]) -> list[str]:
    tree = estimator.tree_
    choices = [quote(str(choice)) for choice in estimator.classes_]
    unsure = getattr(estimator, "unsure_nodes_", np.zeros(len(tree.feature), bool))

    def answer(node: int) -> str:
        return "None" if unsure[node] else write_shares(tree.value[node])

    return [
        "    def __init__(self) -> None:",
        *write_sequence("self.choices: list[Choice] = ", choices, "[]", " " * 8),
        "",
        "    def get_choice(self, idx: int) -> Choice | None:",
        "        return self.choices[idx] if idx < len(self.choices) else None",
        "",
        "    def get_best_choices(self, context: AHContext) "
        "-> list[tuple[float, int]] | None:",
        "        values = context.context_dict",
        "        if not self.is_known(values):",
        "            return None",
        *_indented(write_variables(columns, used_columns(tree, columns))),
        *write_tree(tree, columns, answer, " " * 8),
    ]


def _score_methods(estimator: Any, columns: list[Column]) -> list[str]:
    tree = estimator.tree_
    columns = [*columns, *(("choice", str(name)) for name in estimator.classes_)]

    def answer(node: int) -> str:
        return repr(float(tree.value[node, 0]))

    used = [entry for entry in used_columns(tree, columns) if entry[0] != "choice"]
    return [
        "    def get_feedback(self, context: AHContext, choice: Choice) -> float:",
        "        values = context.context_dict",
        "        if not self.is_known(values):",
        "            # Equal scores of all choices: torch takes none of them.",
        "            return 1.0",
        *_indented(write_variables(columns, used)),
        *write_tree(tree, columns, answer, " " * 8),
    ]


def _indented(lines: list[str]) -> list[str]:
    return [f"        {line}" for line in lines]
