"""A model of a GPU's costs, to try collection and training without a GPU."""

import math
import time
import zlib

import numpy as np

from fasta_learn.heuristics._collect_benchmark import (
    CHOICES,
    DeviceDescription,
    PadBenchmark,
)
from fasta_learn.heuristics._collect_shapes import (
    ALIGNMENT,
    ITEM_BYTES,
    GemmInput,
    padded_length,
)

# Share of the peak that is left where the innermost dimension is a multiple of so
# many bytes only: tensor cores load 16 bytes at a time.
_EFFICIENCY = {16: 1.0, 8: 0.8, 4: 0.62, 2: 0.36}
_TILE = (128, 256)


class SimulatedGPU(PadBenchmark):
    """A stand-in for a GPU: the durations are computed, not measured.

    A product takes the longer of its arithmetic and its memory traffic. The arithmetic
    is done in tiles, by waves over the multiprocessors, and slower where a contiguous
    dimension is not aligned. Padding copies a matrix, unless it is prepadded. The
    figures resemble a data-centre GPU of 2023, and are those of none.

    Parameters
    ----------
    half, tf32, single : float, default=700e12, 350e12, 50e12
        Peak of the arithmetic in half precision, in TF32 and in float32, in
        operations a second.
    bandwidth : float, default=3.5e12
        Of the memory, in bytes a second.
    n_multiprocessors : int, default=132
        How many tiles are computed at a time.
    noise : float, default=0.01
        Standard deviation of the logarithm of a duration.
    memory : int, default=141 * 10**9
        In bytes.
    delay : float, default=0.0
        How long `measure` takes, in s.
    random_state : int, default=0
        Seed of the noise.

    Examples
    --------
    >>> from fasta_learn.heuristics import GemmInput, SimulatedGPU
    >>> gpu = SimulatedGPU(noise=0)
    >>> for choice, duration in gpu.measure(GemmInput(4096, 4095, 4096, "float16"), 1):
    ...     print(choice, round(duration, 3))
    orig 0.566
    pad 0.251
    """

    def __init__(
        self,
        *,
        half: float = 700e12,
        tf32: float = 350e12,
        single: float = 50e12,
        bandwidth: float = 3.5e12,
        n_multiprocessors: int = 132,
        noise: float = 0.01,
        memory: int = 141 * 10**9,
        delay: float = 0.0,
        random_state: int = 0,
    ) -> None:
        self.half = half
        self.tf32 = tf32
        self.single = single
        self.bandwidth = bandwidth
        self.n_multiprocessors = n_multiprocessors
        self.noise = noise
        self.memory = memory
        self.delay = delay
        self.random_state = random_state

    def describe(self) -> DeviceDescription:
        """Return a description that no device has.

        Returns
        -------
        DeviceDescription
            With the name "simulated".
        """
        return DeviceDescription(
            name="simulated",
            memory=self.memory,
            shared_memory=200000,
            device_capa=(0, 0),
            versions={"model": "1"},
        )

    def measure(self, item: GemmInput, n_repetitions: int) -> list[tuple[str, float]]:
        """Compute the durations of an input.

        Parameters
        ----------
        item : GemmInput
            The input.
        n_repetitions : int
            How often each choice is measured.

        Returns
        -------
        list of (str, float)
            Choice and duration in ms.
        """
        time.sleep(self.delay)
        durations = self.durations(item)
        seed = [self.random_state, zlib.crc32(",".join(item.key()).encode())]
        factors = np.exp(
            np.random.default_rng(seed).normal(0, self.noise, (n_repetitions, 2))
        )
        return [
            (choice, float(durations[choice] * factor))
            for row in factors
            for choice, factor in zip(CHOICES, row, strict=True)
        ]

    def durations(self, item: GemmInput) -> dict[str, float]:
        """Return what the choices take without noise.

        Parameters
        ----------
        item : GemmInput
            The input.

        Returns
        -------
        dict of str to float
            Durations in ms, by choice.
        """
        size = ALIGNMENT[item.dtype]
        m, k, n = (dim + padded_length(dim, size) for dim in (item.m, item.k, item.n))
        features = item.features()
        moved = 0.0
        if (m, k) != (item.m, item.k) and not features["prepadded_mat1"]:
            moved += self._copy(item.m * item.k, m * k, item.dtype)
        if (k, n) != (item.k, item.n) and not features["prepadded_mat2"]:
            moved += self._copy(item.k * item.n, k * n, item.dtype)
        return {
            "orig": self._product(item.m, item.k, item.n, item),
            "pad": self._product(m, k, n, item) + moved,
        }

    def _copy(self, n_read: int, n_written: int, dtype: str) -> float:
        return 0.003 + 1e3 * ITEM_BYTES[dtype] * (n_read + n_written) / self.bandwidth

    def _product(self, m: int, k: int, n: int, item: GemmInput) -> float:
        """Return how long a product takes, in ms."""
        n_bytes = ITEM_BYTES[item.dtype]
        peak, floor = self.half, 2
        if item.dtype == "float32":
            peak, floor = (self.tf32, 2) if item.tf32 else (self.single, 16)
        inner = (m if item.transpose_left else k, k if item.transpose_right else n, n)
        aligned = [max(math.gcd(dim * n_bytes, 16), floor) for dim in inner]
        waves = math.ceil(m / _TILE[0]) * math.ceil(n / _TILE[1])
        waves = math.ceil(waves / self.n_multiprocessors) * self.n_multiprocessors
        operations = 2.0 * k * waves * _TILE[0] * _TILE[1]
        arithmetic = operations / (peak * min(_EFFICIENCY[size] for size in aligned))
        traffic = n_bytes * (m * k + k * n + m * n) / self.bandwidth
        return 0.004 + 1e3 * max(arithmetic, traffic)
