"""Kernels that are tuned on a simulated device, and what that leaves behind."""

import os
from pathlib import Path

import triton
from sample_kernels import scale_kernel

import fasta_learn

BLOCKS = (64, 128, 256, 512)
CONFIGS = [triton.Config({"BLOCK": b}, num_warps=w) for b in BLOCKS for w in (2, 4)]
BEST = triton.Config({"BLOCK": 256}, num_warps=2)


def tuned(kernel=scale_kernel, *, configs=CONFIGS, key=("n",), **options):
    return fasta_learn.autotune(list(configs), key=list(key), **options)(kernel)


def measured(cuda):
    """Answer what was launched, apart from single launches, and forget it."""
    launches = [(c["BLOCK"], c["num_warps"]) for c in cuda.launches]
    cuda.launches.clear()
    return {launch for launch in launches if launches.count(launch) > 1}


def everything():
    return {(c.kwargs["BLOCK"], c.num_warps) for c in CONFIGS}


def journal():
    """Give the records of the only journal."""
    folder = Path(os.environ["FASTA_LEARN_CACHE_DIR"])
    (path,) = folder.rglob("*.jsonl")
    return path.read_text().splitlines()[1:]
