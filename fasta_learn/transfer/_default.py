"""The prior that ships with the package."""

import copy
from collections.abc import Sequence
from functools import cache
from importlib.resources import as_file, files
from typing import Any

from fasta_learn.configs import config_to_dict
from fasta_learn.transfer._prior import PoolPrior

# What every launch config of Triton for GPUs has, and nothing else is likely to.
_TRITON_KEYWORD = "num_warps"


@cache
def _shipped() -> PoolPrior:
    resource = files("fasta_learn.transfer") / "triton_h200.npz"
    with as_file(resource) as path:
        return PoolPrior.load(path)


def load_default_prior() -> PoolPrior:
    """Return the prior that a search of Triton configs uses by default.

    It was fitted by ``tests/benchmarks/fit_default_prior.py`` on 21 pools of six
    kernels (softmax, layer norm, transposes, stencils, column sums, linear layers),
    recorded on an NVIDIA H200. None of them is among `fasta_learn.datasets`.

    Returns
    -------
    PoolPrior
        The fitted prior. It knows no problem sizes.

    Examples
    --------
    >>> from fasta_learn.transfer import load_default_prior
    >>> load_default_prior().n_pools_
    21
    """
    return copy.copy(_shipped())


def is_triton_pool(configs: Sequence[Any]) -> bool:
    """Tell whether configs are launch configs of Triton for GPUs.

    Parameters
    ----------
    configs : sequence of config
        A pool.

    Returns
    -------
    bool
        Whether the first sets the number of warps, as every other must then, too.
    """
    return len(configs) > 0 and _TRITON_KEYWORD in config_to_dict(configs[0])
