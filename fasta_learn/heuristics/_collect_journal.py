"""The log that a collection writes, and what it knows already."""

import json
import os
import threading
from pathlib import Path

import numpy as np
import pandas as pd

from fasta_learn.heuristics._collect_benchmark import CHOICES, DeviceDescription
from fasta_learn.heuristics._collect_shapes import GemmInput
from fasta_learn.heuristics._formulas import PAD_CATEGORICAL, PAD_NUMERICAL
from fasta_learn.heuristics._log import CHOICE, FEEDBACK, LogMetadata
from fasta_learn.heuristics._log_reading import read_log
from fasta_learn.heuristics._log_writing import append_log

_FEATURES = [*PAD_NUMERICAL, *PAD_CATEGORICAL]

Rows = list[tuple[str, float]]


class CollectionLog:
    """A log of pad_mm that grows input by input.

    Beside it lies ``<log>.device.json``, which says what it was measured on: torch's
    own metadata do not tell an H100 from an H200.

    Parameters
    ----------
    path : path-like
        The log; made where there is none.
    device : DeviceDescription
        What is measured on.

    Raises
    ------
    ValueError
        There is a log of another device, or the file is none.
    """

    def __init__(self, path: str | os.PathLike[str], device: DeviceDescription) -> None:
        self.path = Path(path)
        self.metadata = LogMetadata(
            "pad_mm",
            device.shared_memory,
            device.device_capa,
            PAD_NUMERICAL,
            PAD_CATEGORICAL,
        )
        self._lock = threading.Lock()
        self._durations: dict[tuple[str, ...], dict[str, list[float]]] = {}
        self._check_device(device)
        if self.path.exists() and self.path.stat().st_size:
            self._read()

    def _check_device(self, device: DeviceDescription) -> None:
        path = device_file(self.path)
        if not path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if not self.path.exists():  # of an older log nobody knows the device
                path.write_text(json.dumps(device.to_dict(), indent=1) + "\n")
            return
        before = read_device(self.path)
        if before is not None and (before.name, before.memory) != (
            device.name,
            device.memory,
        ):
            raise ValueError(
                f"{self.path} was measured on {before.name} with "
                f"{before.memory / 2**30:.0f} GiB, not on {device.name} with "
                f"{device.memory / 2**30:.0f} GiB: collect into another file."
            )

    def _read(self) -> None:
        log = read_log(self.path)
        differences = self.metadata.differences(log.metadata)
        if differences:
            raise ValueError(f"{self.path} is another log: {'; '.join(differences)}.")
        columns = [log.frame[name].astype(str) for name in _FEATURES]
        choices, durations = log.frame[CHOICE].astype(str), log.frame[FEEDBACK]
        for *key, choice, duration in zip(*columns, choices, durations, strict=True):
            self._remember(tuple(key), choice, duration)

    def _remember(self, key: tuple[str, ...], choice: str, duration: float) -> None:
        known = self._durations.setdefault(key, {name: [] for name in CHOICES})
        known.setdefault(choice, []).append(duration)

    @property
    def n_inputs(self) -> int:
        """How many inputs are in the log."""
        return len(self._durations)

    def is_done(self, item: GemmInput, n_repetitions: int) -> bool:
        """Return whether an input is measured.

        Parameters
        ----------
        item : GemmInput
            The input.
        n_repetitions : int
            How often each choice is to be measured.

        Returns
        -------
        bool
            Whether it is, in whatever run.
        """
        known = self._durations.get(item.key(), {})
        return all(len(known.get(name, [])) >= n_repetitions for name in CHOICES)

    def append(self, item: GemmInput, rows: Rows) -> None:
        """Add the measurements of an input, all at once.

        Parameters
        ----------
        item : GemmInput
            The input.
        rows : list of (str, float)
            Choices and durations in ms.
        """
        features = item.features()
        with self._lock:
            append_log(
                self.path,
                self.metadata,
                [{**features, CHOICE: c, FEEDBACK: duration} for c, duration in rows],
            )
            for choice, duration in rows:
                self._remember(item.key(), choice, duration)

    def ratios(self) -> tuple[pd.DataFrame, np.ndarray]:
        """Return what is known of the inputs that ran both ways.

        Returns
        -------
        frame : DataFrame of shape (n_inputs, 17)
            Their raw features.
        log_ratios : ndarray of shape (n_inputs,)
            Natural logarithms of the median duration of the product over that of the
            padded one.
        """
        with self._lock:
            medians = {
                key: [np.median(durations[name] or np.inf) for name in CHOICES]
                for key, durations in self._durations.items()
            }
        known = {k: pair for k, pair in medians.items() if np.isfinite(pair).all()}
        frame = pd.DataFrame(list(known), columns=_FEATURES)
        frame = frame.astype(dict.fromkeys(PAD_NUMERICAL, int))
        pairs = np.array(list(known.values())).reshape(-1, 2)
        return frame, np.log(pairs[:, 0] / pairs[:, 1])


def device_file(path: str | os.PathLike[str]) -> Path:
    """Return the file that says what a log was measured on.

    Parameters
    ----------
    path : path-like
        The log.

    Returns
    -------
    Path
        It need not exist.
    """
    return Path(f"{os.fspath(path)}.device.json")


def read_device(path: str | os.PathLike[str]) -> DeviceDescription | None:
    """Return what a log was measured on.

    Parameters
    ----------
    path : path-like
        The log.

    Returns
    -------
    DeviceDescription or None
        None if nothing tells.

    Raises
    ------
    ValueError
        The file beside the log can't be read.

    Examples
    --------
    >>> from fasta_learn.heuristics import read_device
    >>> read_device("no log, nothing beside") is None
    True
    """
    beside = device_file(path)
    if not beside.exists():
        return None
    try:
        return DeviceDescription.from_dict(json.loads(beside.read_text()))
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{beside} is no description of a device: {error}.") from error
