"""What the kernel specs share: tensors, sets of configs, and small device functions."""

import math
import os

import torch
import triton
import triton.language as tl

from fasta_learn.configs import TileSpace

TILES = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [16, 32, 64, 128, 256],
    "BLOCK_K": [16, 32, 64, 128],
    "GROUP_M": [1, 4, 8],
    "num_warps": [2, 4, 8],
    "num_stages": [2, 3, 4, 5],
}


class Tensors:
    """Makes the tensors of one spec: on the GPU if there is one, the same every time.

    Parameters
    ----------
    seed : int, default=0
        Seed of all random tensors.
    """

    def __init__(self, seed: int = 0):
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.generator = torch.Generator(self.device).manual_seed(seed)

    def normal(self, *shape, dtype="float16", scale=1.0):
        """Draw from a normal distribution of the standard deviation ``scale``."""
        x = torch.randn(shape, device=self.device, generator=self.generator)
        return (x * scale).to(getattr(torch, dtype))

    def uniform(self, *shape, low=0.0, high=1.0, dtype="float32"):
        """Draw evenly between ``low`` and ``high``."""
        x = torch.rand(shape, device=self.device, generator=self.generator)
        return (low + (high - low) * x).to(getattr(torch, dtype))

    def integers(self, low, high, *shape, dtype="int32"):
        """Draw integers from ``low`` up to, not including, ``high``."""
        return torch.randint(
            low,
            high,
            shape,
            device=self.device,
            generator=self.generator,
            dtype=getattr(torch, dtype),
        )

    def empty(self, *shape, dtype="float16"):
        """Make an output."""
        return torch.empty(shape, device=self.device, dtype=getattr(torch, dtype))

    def zeros(self, *shape, dtype="float32"):
        """Make an output that is added to."""
        return torch.zeros(shape, device=self.device, dtype=getattr(torch, dtype))


class Expected:
    """Compares outputs with a reference, as closely as their types allow.

    Parameters
    ----------
    wanted : dict of str to tensor
        The right values, by the name of the argument.
    """

    # Relative to the value and to the typical one; float32 may be the sum of TF32
    # products.
    TOLERANCES = {torch.float32: 4e-3, torch.float16: 1e-2, torch.bfloat16: 2e-2}

    def __init__(self, wanted):
        self.wanted = {name: values.double() for name, values in wanted.items()}

    def __call__(self, args):
        """Raise an AssertionError if an output is wrong, then spoil all of them.

        Spoiled, an output that the next config forgets to write can't look right.
        """
        for name, wanted in self.wanted.items():
            tolerance = self.TOLERANCES.get(args[name].dtype, 0.0)
            typical = wanted.square().mean().sqrt().item()
            # Where a number is rounded to 8 bits, it may fall on either side.
            step = 1.0 if args[name].dtype == torch.int8 else 0.0
            torch.testing.assert_close(
                args[name].double(),
                wanted,
                rtol=tolerance,
                atol=tolerance * typical + step,
                msg=lambda text, name=name: f"{name}: {text}",
            )
        for name in self.wanted:
            args[name].fill_(math.nan if args[name].is_floating_point() else -77)


def expect(**wanted):
    """Return the check that the named outputs have these values."""
    return Expected(wanted)


def powers(low, high):
    """Return the powers of two from ``low`` to ``high``."""
    return TileSpace.powers_of_two(low, high)


def space(parameters, *constraints, n=None):
    """Return the configs that meet the constraints, at most ``n`` drawn at random.

    By default these are so many as a pool of the package has, or as the environment
    says: FASTA_LEARN_KERNEL_CONFIGS=1000.
    """
    n = int(os.environ.get("FASTA_LEARN_KERNEL_CONFIGS", 210)) if n is None else n
    every = TileSpace(parameters, constraints=constraints)
    return every if len(every) <= n else every.sample(n, random_state=0)


def tiles(*constraints, n=None, n_bytes=2, **changes):
    """Return configs of a matrix product; a few need too much shared memory."""
    parameters = {k: v for k, v in (TILES | changes).items() if v is not None}
    return space(
        parameters,
        "1024 <= BLOCK_M * BLOCK_N",
        "BLOCK_M * BLOCK_N <= 4096 * num_warps",
        "BLOCK_M * BLOCK_N >= 256 * num_warps",
        f"(BLOCK_M + BLOCK_N) * BLOCK_K * num_stages * {n_bytes} <= 400000",
        *constraints,
        n=n,
    )


@triton.jit
def grouped_tile(pid, n_m, n_n, GROUP_M: tl.constexpr):
    """Number tiles so that GROUP_M neighbours in a column follow each other."""
    per_group = GROUP_M * n_n
    first = pid // per_group * GROUP_M
    height = tl.minimum(n_m - first, GROUP_M)
    inside = pid % per_group
    return first + inside % height, inside // height


@triton.jit
def load_tile(x, rows, cols, n_rows, n_cols, stride_row, stride_col):
    """Load x[rows, cols], with zeros outside of the matrix."""
    at = x + rows[:, None] * stride_row + cols[None, :] * stride_col
    return tl.load(at, (rows[:, None] < n_rows) & (cols[None, :] < n_cols), 0.0)


@triton.jit
def arrives_last(counter, n):
    """Tell whether this program is the last of ``n`` that gets here.

    What the others have stored before is visible to the last, and the counter is
    back at zero for the next launch.
    """
    tl.debug_barrier()
    last = tl.atomic_add(counter, 1, sem="acq_rel") == n - 1
    if last:
        tl.store(counter, 0)
    tl.debug_barrier()
    return last
