"""What the default surrogate learns from the measurements of a search."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from fasta_learn.gaussian_process import AnovaGaussianProcess
from fasta_learn.gaussian_process._pool import thin
from fasta_learn.report._records import Record
from fasta_learn.search._space import default_vectorizer
from fasta_learn.search._target import from_target, to_target

_FEWEST = 5  # measurements that a model is learned from
_MOST_VALUES = 12  # of a parameter; more are put into groups
_MOST_CONFIGS = 200  # over which the model is averaged


class Learned:
    """The default surrogate, fitted to the configs that ran.

    Parameters
    ----------
    records : list of Record
        All measurements, with configs.

    Attributes
    ----------
    positions : ndarray of shape (n_kept,)
        Positions of the measurements that were learned.
    left_out : ndarray of shape (n_kept,)
        Their durations in ms, predicted from the others.
    """

    def __init__(self, records: list[Record]) -> None:
        runs = [i for i, record in enumerate(records) if record.measurement.ok]
        durations = np.array([records[i].duration for i in runs])
        target = to_target(durations, "speed")
        self._configs = [record.config or {} for record in records]
        self._vectorizer = default_vectorizer().fit(self._configs)
        self._model = AnovaGaussianProcess()
        kept = thin(target, self._model.max_samples)
        self.positions = np.array(runs)[kept]
        features = self._vectorizer.transform([self._configs[i] for i in runs])[kept]
        self._model.fit(features, target[kept])
        self.left_out = from_target(
            self._model.loo_predictions_, durations.min(), "speed"
        )

    def mean_speed(self, name: str, value: Any) -> float:
        """Average the predicted speed over the configs, a parameter set to a value.

        Parameters
        ----------
        name : str
            The parameter.
        value : object
            The value.

        Returns
        -------
        float
            As a share of the best measured speed.
        """
        step = max(1, len(self.positions) // _MOST_CONFIGS)
        changed = [{**self._configs[i], name: value} for i in self.positions[::step]]
        lost = self._model.predict(self._vectorizer.transform(changed))
        return float(np.clip(1 - np.asarray(lost), 0, None).mean())


def learn(records: list[Record]) -> Learned | None:
    """Fit the default surrogate, if there is something to learn.

    Parameters
    ----------
    records : list of Record
        All measurements.

    Returns
    -------
    Learned or None
        None if fewer than five configs ran, their parameters are not known, or no
        parameter varies.
    """
    n_runs = sum(record.measurement.ok for record in records)
    configs = [record.config for record in records if record.config is not None]
    if n_runs < _FEWEST or len(configs) < len(records):
        return None
    try:
        names = default_vectorizer().fit(configs).get_feature_names_out()
    except ValueError:  # a number is not finite; a search may have its own vectorizer
        return None
    return Learned(records) if len(names) else None


def predictions(records: list[Record], learned: Learned | None) -> dict[str, Any]:
    """Compare what was predicted with what was measured.

    Parameters
    ----------
    records : list of Record
        All measurements.
    learned : Learned or None
        The surrogate.

    Returns
    -------
    dict
        The origin ("search", "left out" or None), pairs of position, predicted and
        measured duration, the median relative error and the rank correlation.
    """
    pairs = [
        (i, record.predicted, record.duration)
        for i, record in enumerate(records)
        if record.predicted is not None and record.measurement.ok
    ]
    origin = "search" if pairs else None
    if not pairs and learned is not None:
        origin = "left out"
        pairs = [
            (int(i), float(value), records[i].duration)
            for i, value in zip(learned.positions, learned.left_out, strict=True)
        ]
    predicted = np.array([pair[1] for pair in pairs])
    measured = np.array([pair[2] for pair in pairs])
    return {
        "origin": origin,
        "median_error": _median_error(predicted, measured),
        "rank_correlation": _rank_correlation(predicted, measured),
        "pairs": [
            {"position": i + 1, "predicted_ms": p, "measured_ms": m}
            for i, p, m in pairs
        ],
    }


def _median_error(
    predicted: NDArray[np.float64], measured: NDArray[np.float64]
) -> float | None:
    positive = measured > 0
    if not positive.any():
        return None
    return float(np.median(np.abs(predicted[positive] / measured[positive] - 1)))


def _rank_correlation(
    predicted: NDArray[np.float64], measured: NDArray[np.float64]
) -> float | None:
    if len(measured) < _FEWEST or np.ptp(predicted) == 0 or np.ptp(measured) == 0:
        return None
    return float(spearmanr(predicted, measured).statistic)


def parameters(records: list[Record], learned: Learned | None) -> list[dict[str, Any]]:
    """Tell what each varying parameter does.

    Parameters
    ----------
    records : list of Record
        All measurements.
    learned : Learned or None
        The surrogate.

    Returns
    -------
    list of dict
        The parameter with the greatest effect first: its name, the effect (difference
        between its highest and its lowest mean speed), and its values.
    """
    names = dict.fromkeys(n for record in records for n in (record.config or {}))
    found = []
    for name in names:
        groups = _groups(records, name)
        if len(groups) < 2:
            continue
        values = [_value_facts(records, learned, name, group) for group in groups]
        speeds = [v["mean_speed"] for v in values if v["mean_speed"] is not None]
        effect = max(speeds) - min(speeds) if speeds else None
        found.append({"name": name, "effect": effect, "values": values})
    return sorted(found, key=lambda entry: -(entry["effect"] or 0.0))


def _groups(records: list[Record], name: str) -> list[tuple[str, Any, list[int]]]:
    """Return label, a typical value and the positions of each value of a parameter."""
    places: dict[Any, list[int]] = {}
    for position, record in enumerate(records):
        if record.config is not None:
            places.setdefault(_hashable(record.config.get(name)), []).append(position)
    values = sorted(places, key=_order)
    if len(values) <= _MOST_VALUES:
        return [(_label(value), value, places[value]) for value in values]
    chunks = np.array_split(np.arange(len(values)), _MOST_VALUES)
    return [
        (
            f"{_label(values[chunk[0]])} … {_label(values[chunk[-1]])}",
            values[chunk[len(chunk) // 2]],
            [position for i in chunk for position in places[values[i]]],
        )
        for chunk in chunks
    ]


def _hashable(value: Any) -> Any:
    return value if isinstance(value, (int, float, str, bool)) else _label(value)


def _label(value: Any) -> str:
    return "not set" if value is None or value == "not set" else str(value)


def _order(value: Any) -> tuple[bool, float, str]:
    number = isinstance(value, (int, float))
    return not number, float(value) if number else 0.0, str(value)


def _value_facts(
    records: list[Record],
    learned: Learned | None,
    name: str,
    group: tuple[str, Any, Sequence[int]],
) -> dict[str, Any]:
    label, value, positions = group
    durations = np.array([records[i].duration for i in positions])
    runs = durations[np.isfinite(durations)]
    # A list, or a value that is missing, can't be set as it stands here.
    known = len(runs) and any(
        (records[i].config or {}).get(name) == value for i in positions
    )
    return {
        "value": label,
        "n_measured": len(durations),
        "n_failed": len(durations) - len(runs),
        "best_ms": float(runs.min()) if len(runs) else None,
        "median_ms": float(np.median(runs)) if len(runs) else None,
        "mean_speed": learned.mean_speed(name, value) if learned and known else None,
    }
