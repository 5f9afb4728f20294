"""Synthetic GPUs, and logs of padded products as torch would collect on them.

The costs come from a simple model: a product takes a launch, then the longer of its
arithmetic and its memory traffic. Arithmetic runs in waves of 128 x 128 tiles, at a
share of the peak that falls with the worst alignment; padding makes all sizes aligned,
and costs copies of the padded matrices and of the result.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from fasta_learn.heuristics import (
    PAD_CATEGORICAL,
    PAD_NUMERICAL,
    HeuristicLog,
    LogMetadata,
)

DTYPES = ("torch.float16", "torch.bfloat16", "torch.float32")
ALIGNMENT = {"torch.float16": 8, "torch.bfloat16": 8, "torch.float32": 4}
COLUMNS = [*PAD_NUMERICAL, *PAD_CATEGORICAL]


@dataclass(frozen=True)
class SyntheticGPU:
    """A kind of GPU.

    Parameters
    ----------
    shared_memory, device_capa : int, tuple of int
        How logs and preconditions name it.
    tera_flops : float
        Peak arithmetic of 16-bit numbers; tf32 has half, float32 a sixteenth.
    giga_bytes : float
        Memory traffic per second.
    n_cores : int
        Tiles that run at a time.
    launch_ms : float
        Cost of a launch.
    efficiency : tuple of float
        Shares of the peak if the worst of the sizes divides by 1, 2, 4, 8.
    """

    shared_memory: int = 166912
    device_capa: tuple[int, int] = (8, 0)
    tera_flops: float = 250.0
    giga_bytes: float = 600.0
    n_cores: int = 108
    launch_ms: float = 0.005
    efficiency: tuple[float, float, float, float] = (0.4, 0.6, 0.9, 1.0)

    @property
    def metadata(self) -> LogMetadata:
        """Line 1 of the logs."""
        return LogMetadata(
            "pad_mm",
            self.shared_memory,
            self.device_capa,
            PAD_NUMERICAL,
            PAD_CATEGORICAL,
        )

    def milliseconds(self, inputs: pd.DataFrame) -> pd.DataFrame:
        """Return the exact durations of inputs.

        Parameters
        ----------
        inputs : DataFrame of shape (n_inputs, 17)
            Raw features.

        Returns
        -------
        DataFrame of shape (n_inputs, 2)
            Columns ``orig`` and ``pad``, in ms.
        """
        m, k, n = (inputs[name].to_numpy(np.float64) for name in ("m", "k", "n"))
        more = [inputs[f"{size}_padded_length"].to_numpy() for size in ("m", "k", "n")]
        padded = m + more[0], k + more[1], n + more[2]
        itemsize = np.where(inputs["mat1_dtype"].astype(str) == DTYPES[2], 4, 2)
        share = self._share(inputs)
        copied = itemsize * (
            _copied(inputs, "mat1", (more[0] + more[1]) > 0)
            * (m * k + padded[0] * padded[1])
            + _copied(inputs, "mat2", (more[1] + more[2]) > 0)
            * (k * n + padded[1] * padded[2])
        )
        copies = copied / (self.giga_bytes * 1e6) + self.launch_ms * (copied > 0)
        orig = self._product(inputs, (m, k, n), itemsize, share)
        aligned = self._product(inputs, padded, itemsize, np.ones(len(inputs)))
        return pd.DataFrame({"orig": orig, "pad": aligned + copies})

    def _share(self, inputs: pd.DataFrame) -> np.ndarray:
        # Only sizes that are contiguous in memory must be aligned.
        first = np.where(inputs["mat1_stride_1"] == 1, inputs["k"], inputs["m"])
        second = np.where(inputs["mat2_stride_1"] == 1, inputs["n"], inputs["k"])
        result = inputs["n"].to_numpy()
        worst = np.minimum.reduce(
            [_power_of_two(size) for size in (first, second, result)]
        )
        aligned = inputs["mat1_align_size"].to_numpy()
        steps = np.log2(worst * 8 / aligned).clip(0, 3).astype(int)
        return np.array(self.efficiency)[steps]

    def _product(self, inputs, sizes, itemsize, share) -> np.ndarray:
        m, k, n = sizes
        tiles = np.ceil(m / 128) * np.ceil(n / 128)
        waves = np.ceil(tiles / self.n_cores) * self.n_cores / tiles
        slower = np.where(
            inputs["using_tf32"].astype(str) == "not_float_32",
            1.0,
            np.where(inputs["using_tf32"].astype(str) == "True", 2.0, 16.0),
        )
        peak = self.tera_flops * 1e9 / slower
        # Without tensor cores alignment hardly matters.
        share = np.where(slower == 16.0, np.sqrt(np.sqrt(share)), share)
        arithmetic = 2 * m * k * n * waves / (peak * share)
        traffic = itemsize * (m * k + k * n + m * n) / (self.giga_bytes * 1e6)
        return self.launch_ms + np.maximum(arithmetic, traffic)


A100 = SyntheticGPU()
H200 = SyntheticGPU(232448, (9, 0), 800.0, 1800.0, 132, 0.004, (0.3, 0.5, 0.9, 1.0))


def _copied(inputs: pd.DataFrame, side: str, needed: np.ndarray) -> np.ndarray:
    return needed & (inputs[f"prepadded_{side}"].astype(str) != "True").to_numpy()


def _power_of_two(sizes) -> np.ndarray:
    sizes = np.asarray(sizes, np.int64)
    return np.minimum(sizes & -sizes, 8)


def padded_length(size: int, alignment: int) -> int:
    """Return by how much torch would pad a size."""
    return 0 if size == 1 else -size % alignment


def make_input(
    m,
    k,
    n,
    dtype="torch.float16",
    *,
    transposed=(False, False),
    prepadded=(False, False),
    tf32=False,
) -> dict:
    """Return the raw features of one product, in the order of the log."""
    alignment = ALIGNMENT[dtype]
    lengths = [padded_length(size, alignment) for size in (m, k, n)]
    strides = [(1, m) if transposed[0] else (k, 1), (1, k) if transposed[1] else (n, 1)]
    using_tf32 = str(bool(tf32)) if dtype == DTYPES[2] else "not_float_32"
    values = [m, k, n, *strides[0], *strides[1], *lengths, alignment, alignment]
    texts = [dtype, dtype, str(prepadded[0]), str(prepadded[1]), using_tf32]
    return dict(zip(COLUMNS, [*values, *texts], strict=True))


def _random_size(rng: np.random.Generator, uniform: bool, smallest: int) -> int:
    while True:
        exponent = int(rng.integers(1, 17))
        if uniform:
            size = int(rng.integers(1, 65537))
        elif rng.random() < 0.75:
            size = 2**exponent
        else:
            size = int(rng.integers(2 ** (exponent - 1), 2**exponent + 1))
        if size >= smallest:
            return size


def sample_inputs(n_inputs: int, seed: int = 0, *, smallest: int = 512) -> pd.DataFrame:
    """Draw inputs as the collector does: random sizes of which some are not aligned.

    Parameters
    ----------
    n_inputs : int
        Number of inputs, all different.
    seed : int, default=0
        Seed.
    smallest : int, default=512
        Smallest size, as in the precondition.

    Returns
    -------
    DataFrame of shape (n_inputs, 17)
        Raw features; categories are text.
    """
    rng = np.random.default_rng(seed)
    found: dict[tuple, dict] = {}
    while len(found) < n_inputs:
        uniform = rng.random() < 0.5
        sizes = [_random_size(rng, uniform, smallest) for _ in range(3)]
        dtype = DTYPES[rng.integers(3)]
        if all(size % ALIGNMENT[dtype] == 0 for size in sizes):
            continue
        m, k, n = sizes
        itemsize = 4 if dtype == DTYPES[2] else 2
        if itemsize * (m * k + k * n + m * n) > 10e9:
            continue
        row = make_input(
            *sizes,
            dtype,
            transposed=tuple((rng.random(2) < 0.35).tolist()),
            prepadded=tuple((rng.random(2) < 0.2).tolist()),
            tf32=rng.random() < 0.2,
        )
        found.setdefault(tuple(row.values()), row)
    return pd.DataFrame(list(found.values()))


def make_log(
    n_inputs: int = 200,
    seed: int = 0,
    *,
    gpu: SyntheticGPU = A100,
    n_repetitions: int = 3,
    noise: float = 0.01,
    failed: float = 0.0,
    inputs: pd.DataFrame | None = None,
) -> HeuristicLog:
    """Make a log of measurements on a synthetic GPU.

    Parameters
    ----------
    n_inputs : int, default=200
        Number of inputs; ignored if `inputs` are given.
    seed : int, default=0
        Seed of the inputs, the noise and the failures.
    gpu : SyntheticGPU, default=A100
        The GPU.
    n_repetitions : int, default=3
        Measurements of each input and choice.
    noise : float, default=0.01
        Standard deviation of the logarithm of a measurement.
    failed : float, default=0.0
        Share of the measurements that fail.
    inputs : DataFrame of shape (n_inputs, 17), default=None
        Raw features to measure in place of random ones.

    Returns
    -------
    HeuristicLog
        Rows in the order in which torch collects: each repetition of an input is a
        row for orig and one for pad.
    """
    if inputs is None:
        inputs = sample_inputs(n_inputs, seed)
    rng = np.random.default_rng([seed, 1])
    exact = gpu.milliseconds(inputs)[["orig", "pad"]].to_numpy()
    shape = (len(inputs), n_repetitions, 2)
    measured = exact[:, None, :] * np.exp(noise * rng.standard_normal(shape))
    measured[rng.random(shape) < failed] = np.inf
    frame = inputs[COLUMNS].loc[inputs.index.repeat(2 * n_repetitions)]
    frame = frame.reset_index(drop=True)
    frame["choice"] = np.tile(["orig", "pad"], len(frame) // 2)
    for name in (*PAD_CATEGORICAL, "choice"):
        frame[name] = frame[name].astype(str).astype("category")
    frame["feedback"] = measured.ravel()
    return HeuristicLog(gpu.metadata, frame)
