"""Artifacts for tests, and a compile that asks them without a GPU."""

ARTIFACT = """
from torch._inductor.autoheuristic.autoheuristic_utils import AHContext, AHMetadata
from torch._inductor.autoheuristic.learnedheuristic_interface import (
    LearnedHeuristicDecision,
)


class {class_name}(LearnedHeuristicDecision):
    def check_precondition(self, metadata: AHMetadata, context: AHContext) -> bool:
        return (
            metadata.name == self.get_name()
            and metadata.shared_memory == {shared_memory}
            and str(metadata.device_capa) == "{device_capa}"
        )

    def get_confidence_threshold(self) -> float:
        return 0.9

    def get_choice(self, idx: int):
        return ["orig", "pad"][idx]

    def get_name(self) -> str:
        return "{name}"

    def get_best_choices(self, context: AHContext):
        if context.get_value("n") <= {threshold}:
            return [(1.0, 1), (0.0, 0)]
        if str(context.get_value("mat1_dtype")) != "torch.float32":
            return [(0.5, 0), (0.5, 1)]
        return [(1.0, 0), (0.0, 1)]
"""


def make_artifact(
    class_name="PadMMTest",
    *,
    shared_memory=200000,
    device_capa=(0, 0),
    name="pad_mm",
    threshold=2000,
):
    """Return a module that pads where n is small, and is unsure of half precision."""
    return ARTIFACT.format(
        class_name=class_name,
        shared_memory=shared_memory,
        device_capa=device_capa,
        name=name,
        threshold=threshold,
    )


# Compiles products on the CPU as if it were a GPU with 200000 bytes of shared memory;
# prints how each was decided: whether it was padded and how often it was benchmarked.
COMPILE = """
import contextlib, json, os, sys
from unittest import mock
import torch
from torch._inductor.autoheuristic import autoheuristic
from torch._inductor.fx_passes import pad_mm

n_timed = 0

def time_one(function):
    global n_timed
    n_timed += 1
    return 1.0 if n_timed % 2 else 2.0  # as it is, then padded

patches = [
    mock.patch.object(pad_mm, "check_device", lambda a, b: True),
    mock.patch.object(pad_mm, "has_triton", lambda: True),
    mock.patch.object(pad_mm, "is_mm_compute_bound", lambda *a: True),
    mock.patch.object(pad_mm, "get_do_bench", lambda: time_one),
    mock.patch.object(autoheuristic, "get_gpu_shared_memory", lambda: 200000),
]
original = pad_mm.mm_replace

def compile_one(n, dtype):
    global n_timed
    n_timed = 0
    torch._dynamo.reset()
    a, b = torch.ones(9, 11, dtype=dtype), torch.ones(11, n, dtype=dtype)
    decided = []
    inner = pad_mm._should_pad
    def spy(*arguments):
        decided.append(bool(inner(*arguments)))
        return decided[-1]
    with mock.patch.object(pad_mm, "_should_pad", spy):
        result = torch.compile(torch.mm)(a, b)
    assert torch.equal(result, a @ b)
    return [decided[0] if decided else None, n_timed]

def run(*cases):
    with contextlib.ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        return [compile_one(*case) for case in cases]
"""
