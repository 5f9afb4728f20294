"""Measurements that scatter as recorded ones did."""

import hashlib
import math
from collections import Counter
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from fasta_learn.oracles._measurement import Measurement


def relative_spread(
    p20: NDArray[np.float64], p80: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the standard deviations of log durations that percentiles stand for.

    Parameters
    ----------
    p20, p80 : ndarray of shape (n,)
        The 20th and 80th percentiles in ms; NaN where not known.

    Returns
    -------
    ndarray of shape (n,)
        Those of the normal distribution with these percentiles; 0 where they are not
        known.
    """
    known = (p20 > 0) & (p80 >= p20) & np.isfinite(p80)
    ratio = np.divide(p80, p20, out=np.ones(len(p20)), where=known)
    width: float = norm.ppf(0.8) - norm.ppf(0.2)
    return np.log(ratio) / width


def check_noise(noise: Any) -> None:
    """Raise a ValueError unless the noise is a finite number of at least 0."""
    number = isinstance(noise, Real) and not isinstance(noise, bool)
    if not number or not 0 <= float(noise) < math.inf:
        raise ValueError(f"noise must be a finite number of at least 0, got {noise!r}.")


class Scatter:
    """Multiply the durations of configs by random factors.

    The factors of a config follow from the seed, its key and how often it was measured
    before, not from what else is measured. So searches that measure in different order
    meet the same luck.

    Parameters
    ----------
    noise : float
        Factor of the spreads.
    seed : int
        Seed of the factors.
    spreads : dict of str to float
        Standard deviation of the log duration of each config, by its key.

    Raises
    ------
    ValueError
        The seed is no int of at least 0, or no config has a spread above 0.
    """

    def __init__(self, noise: float, seed: int, spreads: dict[str, float]) -> None:
        if not isinstance(seed, Integral) or seed < 0:
            raise ValueError(f"seed must be an int of at least 0, got {seed!r}.")
        if not any(spreads.values()):
            raise ValueError(
                "noise needs recorded percentiles duration_p20 and duration_p80 that "
                "differ, which no config has; record them, or leave out the noise."
            )
        self._noise: float = noise
        self._seed: int = int(seed)
        self._spreads: dict[str, float] = spreads
        self._n_earlier: Counter[str] = Counter()

    def __call__(self, key: str, measurement: Measurement) -> Measurement:
        """Return a measurement of a config with the next factor.

        Parameters
        ----------
        key : str
            Key of the config.
        measurement : Measurement
            What was recorded.

        Returns
        -------
        Measurement
            Percentiles have the same factor. One that failed stays as it is.
        """
        if not measurement.ok:
            return measurement
        factor = math.exp(self._noise * self._spreads[key] * self._draw(key))
        scaled = {
            name: value * factor
            for name in ("duration", "duration_p20", "duration_p80")
            if (value := getattr(measurement, name)) is not None
        }
        return replace(measurement, **scaled)

    def _draw(self, key: str) -> float:
        config = int.from_bytes(hashlib.sha256(key.encode()).digest(), "big")
        rng = np.random.default_rng([self._seed, self._n_earlier[key], config])
        self._n_earlier[key] += 1
        return float(rng.standard_normal())
