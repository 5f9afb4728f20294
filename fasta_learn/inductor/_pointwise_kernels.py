"""Which of Inductor's kernels are searched; light, for it is loaded in its workers."""

from typing import Any

MARK = "fasta_learn"
"""Under this name the generated code of a kernel says that it is to be tuned."""

REST = "_fasta_learn_rest"
"""Attribute of a tuner: configs of the user's that it was not made to compile."""

KINDS = {
    "POINTWISE": "pointwise",
    "REDUCTION": "reduction",
    "PERSISTENT_REDUCTION": "persistent_reduction",
    "USER_AUTOTUNE": "user_triton",
}
"""Kinds of kernels that can be searched, by Inductor's name for their heuristic."""

# Of the others, blocks wait for each other, or the blocks are no free choice.
_GRIDS = ("Grid1D", "Grid2D", "Grid3D", "Grid2DWithYZOverflow", "MixOrderReductionGrid")
_FIXED_NUMERICS = (
    "deterministic",
    "batch_invariant",
    "force_filter_reduction_configs",
    "are_deterministic_algorithms_enabled",
)
# Inductor's name for kernels that it only benchmarks while it generates code.
_TRIAL = "triton_"


def refusal(tuner: Any) -> str | None:
    """Say why a kernel is left to Inductor.

    Parameters
    ----------
    tuner : CachingAutotuner
        Inductor's tuner of the kernel.

    Returns
    -------
    str or None
        The reason; None if it can be searched.
    """
    meta = tuner.inductor_meta
    kind = KINDS.get(tuner.heuristic_type.name)
    if MARK not in meta:
        return "it was compiled without tuning"
    if kind is None:
        return "its config is no free choice"
    if tuner.device_props.type != "cuda":
        return "it is not for CUDA"
    if tuner.fn.__name__ == _TRIAL:
        return "it is a trial of the code generator"
    if not tuner.filename or getattr(tuner, "triton_interpret", False):
        return "it has no source, or is interpreted"
    if kind == "user_triton":
        return None
    if not isinstance(tuner.size_hints, dict) or meta.get("grid_type") not in _GRIDS:
        return "its blocks depend on each other"
    if tuner.triton_meta.get("native_matmul") or meta.get("incremental_autotune"):
        return "Inductor has another way for it"
    if kind != "pointwise" and any(meta.get(name) for name in _FIXED_NUMERICS):
        return "its result has to be the same for all configs"
    return None
