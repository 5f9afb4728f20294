"""Kernels that are tuned by a benchmark function of the user."""

import triton
from sample_kernels import scale_kernel

import fasta_learn

CONFIGS = [
    triton.Config({"BLOCK": 2**i}, num_warps=w) for i in range(6, 11) for w in (1, 2, 4)
]


class Bench:
    """A benchmark function of a user's; it launches the kernel once."""

    def __init__(self, cuda):
        self.cuda = cuda
        self.measured = []

    def __call__(self, kernel_call, quantiles):
        kernel_call()
        config = self.cuda.launches[-1]
        self.measured.append((config["BLOCK"], config["num_warps"]))
        return [self.cuda.duration(config) * factor for factor in (1.0, 0.9, 1.1)]


def tuned(bench, kernel=scale_kernel, *, configs=CONFIGS, key=("n",), **options):
    options = {"do_bench": bench, **options}
    return fasta_learn.autotune(configs, key=list(key), **options)(kernel)
