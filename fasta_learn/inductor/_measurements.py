"""What was measured and decided for TorchInductor's kernels, kept between processes."""

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fasta_learn.autotuner._identity import key_distance
from fasta_learn.autotuner._store import (
    KernelStore,
    _write_whole,
    find_folder,
    short_hash,
)
from fasta_learn.configs import config_key, config_to_dict
from fasta_learn.inductor._settings import Settings
from fasta_learn.oracles import Measurement

_VERSION = 1

# What may be otherwise at the next try.
_PASSING = ("out_of_memory", "timeout", "error")

# Fewer measurements of another shape tell too little to lean on.
_FEWEST_KNOWN = 4

Measurements = dict[str, tuple[dict[str, Any], Measurement]]


@dataclass(frozen=True)
class Relative:
    """What is known of another shape of the same kernel.

    Attributes
    ----------
    distance : float
        How many doublings lie between the sizes; 0 for equal ones.
    winner : str
        Key of the config that was chosen.
    measurements : dict of str to (dict, Measurement)
        Config and measurement by key of the config.
    """

    distance: float
    winner: str
    measurements: Measurements


class ConfigStore:
    """The results of one family of kernels: the same code for other sizes.

    Parameters
    ----------
    settings : Settings
        Says where the store is, if there is one.
    name : str
        Name of the family, for people.
    family : object
        JSON value that is equal for all kernels of the family.

    Notes
    -----
    An identity is a dict that JSON can hold. It says all that a duration depends on,
    and under ``"key"`` it has the list of sizes, by which shapes are near or far.
    """

    def __init__(self, settings: Settings, name: str, family: Any) -> None:
        folder = find_folder(settings.store)
        folder = None if folder is None else folder / "inductor"
        self._store = KernelStore(folder, name, short_hash(family))

    def winner(self, identity: dict[str, Any], choice: str) -> str | None:
        """Return what was decided.

        Parameters
        ----------
        identity : dict
            What was measured.
        choice : str
            Hash of the pool and of all settings that the decision depends on.

        Returns
        -------
        str or None
            Key of the config; None if it is not known.
        """
        decision = self._store.load(identity, choice)
        return None if decision is None else decision["winner"]

    def measurements(self, identity: dict[str, Any]) -> Measurements:
        """Return what was measured.

        Parameters
        ----------
        identity : dict
            What was measured.

        Returns
        -------
        dict of str to (dict, Measurement)
            Config and measurement by key of the config.
        """
        path = self._path(identity)
        if path is None:
            return {}
        try:
            content = json.loads(path.read_text("utf-8"))
            if content["version"] != _VERSION:
                return {}
            return {
                config_key(config): (config, Measurement.from_dict(values))
                for config, values in content["measurements"]
            }
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, LookupError) as error:
            self._store.tell(path, error)
            return {}

    def keep(
        self,
        identity: dict[str, Any],
        choice: str,
        winner: Any,
        measurements: Mapping[str, tuple[Any, Measurement]],
    ) -> None:
        """Keep the end of a search.

        Parameters
        ----------
        identity : dict
            What was measured.
        choice : str
            As in `winner`.
        winner : config
            What was chosen.
        measurements : mapping of str to (config, Measurement)
            Config and measurement by key of the config. Those that are known already
            are replaced.
        """
        path = self._path(identity)
        if path is None:
            return
        lasting = {
            key: (config_to_dict(config), measurement)
            for key, (config, measurement) in measurements.items()
            if measurement.status not in _PASSING
        }
        everything = {**self.measurements(identity), **lasting}
        content = {
            "version": _VERSION,
            "measurements": [[c, m.to_dict()] for c, m in everything.values()],
        }
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_whole(path, json.dumps(content, default=str))
        except (OSError, TypeError, ValueError) as error:
            self._store.tell(path, error)
        self._store.save(identity, choice, winner)

    def relatives(self, identity: dict[str, Any]) -> list[Relative]:
        """Return what is known of other shapes on the same device.

        Parameters
        ----------
        identity : dict
            What is to be measured.

        Returns
        -------
        list of Relative
            The nearest first.
        """
        found = []
        own = short_hash(identity)
        with contextlib.suppress(OSError):
            for decision in self._store.decisions():
                other = decision["identity"]
                if short_hash(other) == own or not _are_comparable(identity, other):
                    continue
                distance = key_distance(identity["key"], other["key"])
                known = self.measurements(other)
                found.append(Relative(distance, decision["winner"], known))
        return sorted(found, key=lambda relative: relative.distance)

    def _path(self, identity: dict[str, Any]) -> Path | None:
        if self._store.folder is None:
            return None
        # No name of a decision: those have another suffix.
        return self._store.folder / f"{short_hash(identity)}.measured"


def _are_comparable(identity: dict[str, Any], other: dict[str, Any]) -> bool:
    device = identity.get("device")
    return device == other.get("device") and len(identity["key"]) == len(other["key"])


class StoredPrior:
    """What other shapes of the same kernel tell about the configs of a pool.

    Parameters
    ----------
    relatives : sequence of Relative
        The nearest first; at least one.
    base : object with ``predict``, or None
        Tells about configs that no relative has measured.
    """

    def __init__(self, relatives: Sequence[Relative], base: Any = None) -> None:
        self._relatives, self._base = relatives, base

    def predict(self, configs: Sequence[Any]) -> NDArray[np.float64]:
        """Predict which share of the best speed of their pool configs lose.

        Parameters
        ----------
        configs : sequence of config
            The pool.

        Returns
        -------
        ndarray of shape (n_configs,)
            Between 0 and 1.
        """
        known = np.full(len(configs), np.nan)
        keys = [config_key(config) for config in configs]
        for relative in self._relatives:
            durations = {k: m.duration for k, (_, m) in relative.measurements.items()}
            best = min(durations.values(), default=np.inf)
            if not np.isfinite(best) or len(durations) < _FEWEST_KNOWN:
                continue
            # Of two relatives, the nearer one is asked first.
            for i, key in enumerate(keys):
                if np.isnan(known[i]) and key in durations:
                    known[i] = 1.0 - best / durations[key]
        if np.isnan(known).all():
            return self._guess(configs)
        guessed = self._guess(configs)
        unknown = np.isnan(known)
        if np.ptp(guessed) > 0:
            # Guesses are brought to the level of what was measured.
            level = np.nanmedian(known) - np.median(guessed[~unknown])
            known[unknown] = np.clip(guessed[unknown] + level, 0.0, 1.0)
        else:
            known[unknown] = np.nanmedian(known)
        return known

    def _guess(self, configs: Sequence[Any]) -> NDArray[np.float64]:
        if self._base is None:
            return np.zeros(len(configs))
        return np.asarray(self._base.predict(configs), dtype=np.float64)


def family_of(source: str) -> str:
    """Return the code of a kernel without its sizes.

    Parameters
    ----------
    source : str
        The code.

    Returns
    -------
    str
        The same with each number of two or more digits replaced, and without the
        name of the kernel, which Inductor numbers.
    """
    code = re.sub(r"^def\s+\w+\(", "def kernel(", source.strip(), count=1)
    return re.sub(r"(?<![\w.])\d{2,}(?![\w.])", "N", code)
