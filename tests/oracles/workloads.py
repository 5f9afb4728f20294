"""Workloads of the tests of Triton kernels."""

import sample_kernels as kernels
import torch
import triton

from fasta_learn.oracles._triton_kernel import Workload

N = 1000


def make_vectors():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(N, generator=generator)
    return x, torch.full_like(x, 7.0)


def grid(meta):
    return (triton.cdiv(N, meta["BLOCK"]),)


def scaling(vectors, **options):
    return Workload(kernels.scale_kernel, (*vectors, N), grid, **options)


def accumulation(vectors, **options):
    return Workload(kernels.accumulate_kernel, (*vectors, N), grid, **options)
