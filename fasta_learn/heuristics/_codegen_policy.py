"""Write a decision tree as a policy for ``torch._inductor.config.pad_mm_policy``."""

from typing import Any

from fasta_learn.heuristics._codegen_parts import (
    hash_code,
    write_known,
    write_variables,
)
from fasta_learn.heuristics._codegen_tree import quote, used_columns, write_tree
from fasta_learn.heuristics._formulas import FORMULAS, PAD_CATEGORICAL, PAD_NUMERICAL

# torch names these of a product; pull request 190844 of pytorch/pytorch is open, so
# whatever a context lacks is derived from what it has, or nothing is decided.
_IMPORTS = """
from typing import Any

import torch

try:
    from torch._inductor.custom_graph_pass import PadMMPolicy
except ImportError:  # a torch without policies: the class can be used, not installed
    PadMMPolicy = object
"""

_READ = '''
def read(self, ctx: Any) -> dict:
    """Return the raw features of a product; fails if the context lacks one."""
    m, k, n = ctx.m, ctx.k, ctx.n
    values = {"m": m, "k": k, "n": n}
    for matrix in ("mat1", "mat2"):
        dtype = str(getattr(ctx, f"{matrix}_dtype"))
        values[f"{matrix}_dtype"] = dtype
        values[f"{matrix}_align_size"] = 4 if dtype == "torch.float32" else 8
        stride = getattr(ctx, f"{matrix}_stride")
        values[f"{matrix}_stride_0"], values[f"{matrix}_stride_1"] = stride
        prepadded = f"prepadded_{matrix}"
        values[prepadded] = getattr(ctx, prepadded, False)
    for size, matrix in (("m", "mat1"), ("k", "mat1"), ("n", "mat2")):
        length = -values[size] % values[f"{matrix}_align_size"]
        padded = f"{size}_padded_length"
        values[padded] = getattr(ctx, padded, 0 if values[size] == 1 else length)
    values["using_tf32"] = "not_float_32"
    if values["mat1_dtype"] == "torch.float32":
        values["using_tf32"] = torch.backends.cuda.matmul.fp32_precision == "tf32"
    return values
'''

_CALL = '''
def __call__(self, ctx: Any) -> bool | None:
    """Return whether to pad; None lets torch decide."""
    operation = str(getattr(ctx, "op", "aten.mm"))
    if operation.removesuffix(".default").split(".")[-1] != "mm":
        # Only products without batch or bias were measured.
        return None
    try:
        values = self.derive(self.read(ctx))
    except (AttributeError, TypeError, ValueError, ZeroDivisionError):
        return None
    return self.decide(values)
'''


def write_policy(estimator: Any, metadata: Any, name: str) -> list[str]:
    """Write a module with a policy.

    Parameters
    ----------
    estimator : PadHeuristic
        Fitted, with a `PadDecisionTree`.
    metadata : LogMetadata
        Names the heuristic.
    name : str
        Name of the class.

    Returns
    -------
    list of str
        Lines.

    Raises
    ------
    ValueError
        The estimator is no decision tree on the features of pad_mm.
    """
    tree = estimator.tree_
    if not hasattr(tree, "unsure_nodes_") or metadata.name != "pad_mm":
        raise ValueError(
            "target='pad_mm_policy' needs a PadDecisionTree learned from a log of "
            "pad_mm."
        )
    decide = _decide(estimator)
    lines = [
        *_IMPORTS.split("\n"),
        "",
        f"class {name}(PadMMPolicy):",
        '    """Learned decisions of pad_mm."""',
        "",
        *write_known(estimator.features_, "    "),
    ]
    for method in (_CALL, _READ):
        lines += [f"    {line}".rstrip() for line in method.strip("\n").split("\n")]
        lines.append("")
    lines += [*_derive(), "", *decide, ""]
    lines += [
        "    def uuid(self) -> str:",
        f"        return {quote(f'fasta-learn-{hash_code(lines)}')}",
        "",
    ]
    return lines


def _derive() -> list[str]:
    lines = [
        "    def derive(self, values: dict) -> dict:",
        '        """Add the derived features."""',
    ]
    raw = {
        name
        for formula in FORMULAS["pad_mm"]
        for name in (*PAD_NUMERICAL, *PAD_CATEGORICAL)
        if name in formula.needs
    }
    lines += [
        f"        {name} = values[{quote(name)}]"
        for name in (*PAD_NUMERICAL, *PAD_CATEGORICAL)
        if name in raw
    ]
    lines.append("        # fmt: off")
    for formula in FORMULAS["pad_mm"]:
        lines.append(f"        values[{quote(formula.name)}] = {formula.expression}")
    return [*lines, "        # fmt: on", "        return values"]


def _decide(estimator: Any) -> list[str]:
    tree, columns = estimator.tree_.tree_, list(estimator.columns_)
    unsure = estimator.tree_.unsure_nodes_
    pad = list(estimator.classes_).index("pad")

    def answer(node: int) -> str:
        if unsure[node]:
            return "None"
        return repr(bool(tree.value[node].argmax() == pad))

    variables = write_variables(columns, used_columns(tree, columns))
    return [
        "    def decide(self, values: dict) -> bool | None:",
        '        """Return what the tree decides."""',
        "        if not self.is_known(values):",
        "            return None",
        *(f"        {line}" for line in variables),
        *write_tree(tree, columns, answer, " " * 8),
    ]
