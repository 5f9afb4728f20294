"""An oracle that answers from recorded measurements."""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fasta_learn.configs import Pool, config_key
from fasta_learn.oracles._base import BaseOracle
from fasta_learn.oracles._measurement import STATUSES, Measurement
from fasta_learn.oracles._scatter import Scatter, check_noise, relative_spread


class RecordedOracle(BaseOracle):
    """Answer from measurements recorded before, without measuring anything.

    Parameters
    ----------
    configs : sequence of length N, or ndarray of shape (N, D)
        The recorded configs: dicts, objects with ``kwargs``, or rows of a matrix.
        No two may be equal.
    durations : array-like of shape (N,)
        Durations in ms; inf for a config that failed.
    status : sequence of str, length N, or None, default=None
        Status of each config. One that `Measurement` does not know becomes
        ``"error"``, with the recorded text as the reason. With None, a config is
        ``"ok"`` if its duration is finite, and ``"error"`` otherwise.
    duration_p20, duration_p80 : array-like of shape (N,) or None, default=None
        Percentiles of the repeated durations, in ms; NaN where not known.
    name : str, default=""
        Name of the recording, for the fingerprint.
    noise : float, default=0.0
        How much the answers scatter: 0 not at all, 1 as much as the percentiles tell,
        4 four times as much. Each answer is the recorded duration times a factor whose
        logarithm is normal. Configs without percentiles do not scatter.
    seed : int, default=0
        Seed of the noise. The first, second... answer to a config is the same in
        whatever order the configs are asked for.

    Attributes
    ----------
    name, noise, seed
        The parameters.
    n_measured : int
        How many measurements were answered.

    Raises
    ------
    ValueError
        Lengths differ, a config occurs twice, a duration is NaN or negative, or a
        status contradicts its duration; the message has the position. The noise is
        negative or not finite, or there is noise and no config has percentiles that
        differ.

    Examples
    --------
    >>> from fasta_learn.oracles import RecordedOracle
    >>> oracle = RecordedOracle([{"BLOCK": 32}, {"BLOCK": 64}], [0.2, float("inf")])
    >>> [answer.status for answer in oracle.measure([{"BLOCK": 64}, {"BLOCK": 32}])]
    ['error', 'ok']
    >>> oracle.n_measured
    2
    """

    def __init__(
        self,
        configs: Sequence[Any],
        durations: ArrayLike,
        *,
        status: Sequence[str] | None = None,
        duration_p20: ArrayLike | None = None,
        duration_p80: ArrayLike | None = None,
        name: str = "",
        noise: float = 0.0,
        seed: int = 0,
    ) -> None:
        check_noise(noise)
        self.name, self.noise, self.seed = name, noise, seed
        self.n_measured = 0
        times = _as_column("durations", durations, len(configs))
        _check_durations(times)
        statuses = _as_statuses(status, times)
        p20 = _as_column("duration_p20", duration_p20, len(configs))
        p80 = _as_column("duration_p80", duration_p80, len(configs))
        self._recorded: dict[str, Measurement] = {}
        for index, (key, measured) in enumerate(
            zip(
                _unique_keys(configs),
                zip(times, statuses, p20, p80, strict=True),
                strict=True,
            )
        ):
            self._recorded[key] = _recorded_measurement(index, *measured)
        self._scatter: Scatter | None = None
        if noise:
            spreads = relative_spread(p20, p80).tolist()
            by_key = dict(zip(self._recorded, spreads, strict=True))
            self._scatter = Scatter(noise, seed, by_key)

    @classmethod
    def from_pool(
        cls, pool: Pool, *, noise: float = 0.0, seed: int = 0
    ) -> "RecordedOracle":
        """Make an oracle that replays a recorded pool.

        Parameters
        ----------
        pool : Pool
            Such as `fasta_learn.read_pool` gives.
        noise : float, default=0.0
            As in the constructor; the percentiles are the columns duration_p20_ms and
            duration_p80_ms of ``pool.extra``.
        seed : int, default=0
            Seed of the noise.

        Returns
        -------
        RecordedOracle
            Under the name of the pool.

        Raises
        ------
        ValueError
            As in the constructor.
        """
        return cls(
            pool.configs,
            pool.durations,
            status=pool.status,
            duration_p20=pool.extra.get("duration_p20_ms"),
            duration_p80=pool.extra.get("duration_p80_ms"),
            name=pool.name,
            noise=noise,
            seed=seed,
        )

    def measure(self, configs: Iterable[Any]) -> list[Measurement]:
        """Give the recorded measurements of configs.

        Parameters
        ----------
        configs : iterable of length n
            Configs of the recording.

        Returns
        -------
        list of Measurement, length n
            In the order of the configs.

        Raises
        ------
        ValueError
            A config was not recorded.
        """
        answers = [self._look_up(config) for config in configs]
        self.n_measured += len(answers)
        return answers

    def measure_each(self, configs: Iterable[Any]) -> Iterator[Measurement]:
        """Give the recorded measurements one by one.

        Parameters
        ----------
        configs : iterable of length n
            Configs of the recording.

        Yields
        ------
        Measurement
            In the order of the configs.

        Raises
        ------
        ValueError
            A config was not recorded.
        """
        for config in configs:
            answer = self._look_up(config)
            self.n_measured += 1
            yield answer

    def fingerprint(self) -> dict[str, Any]:
        """Say what was recorded.

        Returns
        -------
        dict
            Name, number of configs, and a SHA-256 of all that was recorded, which
            does not depend on the order; with noise, also its strength and seed.
        """
        noise = {"noise": float(self.noise), "seed": int(self.seed)}
        return {
            **super().fingerprint(),
            "name": self.name,
            "n_configs": len(self._recorded),
            "sha256": self._sha256,
            **(noise if self.noise else {}),
        }

    @cached_property
    def _sha256(self) -> str:
        items = ((key, self._recorded[key].to_dict()) for key in sorted(self._recorded))
        text = json.dumps(list(items), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _look_up(self, config: Any) -> Measurement:
        key = config_key(config)
        try:
            recorded = self._recorded[key]
        except KeyError:
            name = f" {self.name!r}" if self.name else ""
            raise ValueError(
                f"config {config!r} is not among the {len(self._recorded)} of the "
                f"recording{name}."
            ) from None
        return recorded if self._scatter is None else self._scatter(key, recorded)


def _as_column(name: str, values: ArrayLike | None, length: int) -> np.ndarray:
    if values is None:
        return np.full(length, np.nan)
    column = np.asarray(values, dtype=np.float64)
    if column.shape != (length,):
        raise ValueError(
            f"{name} has the shape {column.shape}, but there are {length} configs: "
            f"expected ({length},)."
        )
    return column


def _check_durations(durations: np.ndarray) -> None:
    for index in np.flatnonzero(np.isnan(durations) | (durations < 0))[:1]:
        what = "NaN" if np.isnan(durations[index]) else f"{durations[index]} (negative)"
        raise ValueError(
            f"durations[{index}] is {what}; use inf for a config that failed to "
            "compile or run."
        )


def _as_statuses(status: Sequence[str] | None, durations: np.ndarray) -> list[str]:
    if status is None:
        return ["ok" if finite else "error" for finite in np.isfinite(durations)]
    if len(status) != len(durations):
        raise ValueError(
            f"status has {len(status)} entries, but there are {len(durations)} configs."
        )
    return list(status)


def _unique_keys(configs: Sequence[Any]) -> list[str]:
    first: dict[str, int] = {}
    for index, config in enumerate(configs):
        earlier = first.setdefault(config_key(config), index)
        if earlier != index:
            raise ValueError(
                f"configs[{earlier}] and configs[{index}] are equal: {config!r}; a "
                "recording has each config once."
            )
    return list(first)


def _recorded_measurement(
    index: int, duration: float, status: str, p20: float, p80: float
) -> Measurement:
    reason = None
    if status not in STATUSES:
        # Pool files hold "status: reason", or the names of exceptions, such as
        # Triton's OutOfResources.
        known, colon, text = status.partition(": ")
        reason, snake = status, re.sub(r"(?<=[a-z])(?=[A-Z])", "_", status).lower()
        status = snake if snake in STATUSES else "error"
        if colon and known in STATUSES:
            status, reason = known, text
    try:
        return Measurement(
            duration,
            status,
            reason,
            duration_p20=p20 if math.isfinite(p20) else None,
            duration_p80=p80 if math.isfinite(p80) else None,
        )
    except ValueError as error:
        raise ValueError(f"the recording of configs[{index}]: {error}") from error
