"""An oracle that keeps every measurement on disk and never repeats one."""

import hashlib
import json
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from fasta_learn.configs import config_key
from fasta_learn.exceptions import JournalMismatchError
from fasta_learn.oracles._base import BaseOracle
from fasta_learn.oracles._journal_file import JournalFile
from fasta_learn.oracles._measurement import Measurement
from fasta_learn.oracles._wrapper import OracleWrapper

# Between the key of a config, in which JSON escapes it, and the number of a repeat.
_REPEAT = "\n"


class JournaledOracle(OracleWrapper):
    """Keep the measurements of an oracle in a file, and answer known configs from it.

    Every measurement, failed ones included, is appended and synced as soon as it is
    there. Whoever is killed and starts again with the same path measures only what is
    missing. Several processes may use one journal at the same time: each takes over
    what the others have measured, so that at most what is under way is measured twice.

    Parameters
    ----------
    oracle : BaseOracle
        Measures the configs that the journal lacks.
    path : str or path-like
        The journal, a file of JSON lines that people can read. It is created when the
        pool is opened or at the first measurement; its directory must exist.
    fingerprint : dict or None, default=None
        What is measured, instead of the fingerprint of `oracle`; JSON can hold it.

    Attributes
    ----------
    oracle : BaseOracle
        The parameter.
    path : Path
        The absolute path of the journal.
    n_measured : int
        How many measurements `oracle` has made.
    n_replayed : int
        How many answers came from the journal.

    Raises
    ------
    FileNotFoundError
        The directory of the journal does not exist.

    See Also
    --------
    CallableOracle : Measures by calling a function.

    Notes
    -----
    A line that a kill has cut is dropped at the next append. The file is locked with
    ``flock`` for each append, so it should lie on a disk that supports it.

    Examples
    --------
    >>> import tempfile
    >>> from fasta_learn.oracles import CallableOracle, JournaledOracle
    >>> measuring = CallableOracle(lambda config: 64 / config["BLOCK"])
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = f"{directory}/tiles.jsonl"
    ...     first = JournaledOracle(measuring, path).measure([{"BLOCK": 32}])
    ...     again = JournaledOracle(measuring, path)
    ...     answers = again.measure([{"BLOCK": 32}, {"BLOCK": 64}])
    >>> [answer.duration for answer in answers]
    [2.0, 1.0]
    >>> again.n_replayed, again.n_measured
    (1, 1)
    """

    def __init__(
        self,
        oracle: BaseOracle,
        path: str | os.PathLike[str],
        *,
        fingerprint: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(oracle)
        self.path = Path(path).absolute()
        self.n_measured = 0
        self.n_replayed = 0
        self._fingerprint = fingerprint
        self._pool_hash: str | None = None
        self._file = JournalFile(self.path)
        self._n_repeats: Counter[str] = Counter()
        self._is_open = False
        if not self.path.parent.is_dir():
            raise FileNotFoundError(
                f"the directory {self.path.parent} of the journal does not exist; "
                "create it first."
            )

    def open_pool(self, configs: Iterable[Any]) -> None:
        """Open the journal for a pool, and let the inner oracle know of the pool.

        Parameters
        ----------
        configs : iterable of length N
            All configs of the pool.

        Raises
        ------
        JournalMismatchError
            The journal is of another pool or another fingerprint.
        ValueError
            The file is not a journal, or a line of it is corrupted.
        """
        configs = list(configs)
        keys = sorted(config_key(config) for config in configs)
        self._pool_hash = hashlib.sha256("\n".join(keys).encode()).hexdigest()
        self._n_repeats.clear()
        self._open()
        self.oracle.open_pool(configs)

    def prepare(self, configs: Iterable[Any]) -> None:
        """Let the inner oracle make ready those configs that the journal lacks.

        Parameters
        ----------
        configs : iterable of length n
            The configs that may be measured soon.
        """
        if not self._is_open:
            self._open()
        known = self._file.records
        self.oracle.prepare([c for c in configs if config_key(c) not in known])

    def measure(self, configs: Iterable[Any]) -> list[Measurement]:
        """Answer configs from the journal, and measure those that it lacks.

        Parameters
        ----------
        configs : iterable of length n
            The configs.

        Returns
        -------
        list of Measurement, length n
            In the order of the configs.

        Raises
        ------
        JournalMismatchError
            The journal is of another pool or another fingerprint.
        ValueError
            The file is not a journal, a line of it is corrupted, or the inner oracle
            answers with too few or too many measurements.
        """
        return list(self.measure_each(configs))

    def measure_each(self, configs: Iterable[Any]) -> Iterator[Measurement]:
        """Do as `measure`, and give each measurement once it is on disk.

        Parameters
        ----------
        configs : iterable of length n
            The configs.

        Yields
        ------
        Measurement
            In the order of the configs.

        Raises
        ------
        JournalMismatchError
            The journal is of another pool or another fingerprint.
        ValueError
            The file is not a journal, a line of it is corrupted, or the inner oracle
            answers with too few or too many measurements.
        """
        configs = list(configs)
        keys = [config_key(config) for config in configs]
        yield from self._answer(keys, configs, self.oracle.measure_each)

    def remeasure_each(self, configs: Iterable[Any]) -> Iterator[Measurement]:
        """Measure known configs anew, and keep each repeat as a record of its own.

        The first repeat of a config that is asked for is the first in the journal,
        the second the second. So whoever starts again has the repeats of before
        answered from the journal, and then measures further ones.

        Parameters
        ----------
        configs : iterable of length n
            The configs.

        Yields
        ------
        Measurement
            In the order of the configs.

        Raises
        ------
        JournalMismatchError
            The journal is of another pool or another fingerprint.
        ValueError
            The file is not a journal, a line of it is corrupted, or the inner oracle
            answers with too few or too many measurements.
        """
        configs, keys = list(configs), []
        for config in configs:
            key = config_key(config)
            self._n_repeats[key] += 1
            keys.append(f"{key}{_REPEAT}{self._n_repeats[key]}")
        yield from self._answer(keys, configs, self.oracle.remeasure_each)

    def _answer(
        self, keys: list[str], configs: list[Any], measure_each: Callable[..., Any]
    ) -> Iterator[Measurement]:
        if not self._is_open:
            self._open()
        batch = _Batch(self, keys, configs, measure_each)
        for key in batch.keys:
            if not batch.measure_until(key):
                self.n_replayed += 1
            yield self._file.records[key][1]
        batch.finish()

    def fingerprint(self) -> dict[str, Any]:
        """Say what is measured.

        Returns
        -------
        dict
            The `fingerprint` of the constructor, or else that of the inner oracle.
        """
        if self._fingerprint is not None:
            return dict(self._fingerprint)
        return self.oracle.fingerprint()

    @staticmethod
    def read(path: str | os.PathLike[str]) -> list[tuple[dict[str, Any], Measurement]]:
        """Read a journal, without changing it; it may be in use.

        Parameters
        ----------
        path : str or path-like
            The journal.

        Returns
        -------
        list of (dict, Measurement)
            Configs and their measurements, in the order they were measured. Repeats
            of a config are left out.

        Raises
        ------
        FileNotFoundError
            There is no such file.
        ValueError
            The file is not a journal, or a line of it is corrupted.
        """
        file = JournalFile(Path(path))
        file.read()
        return [record for key, record in file.records.items() if _REPEAT not in key]

    def _open(self) -> None:
        self._is_open = False
        ours = {"oracle": _as_json(self.fingerprint()), "pool": self._pool_hash}
        theirs = self._file.open(ours)
        pools = {ours["pool"], theirs["pool"]} - {None}  # None: no pool was named
        if ours["oracle"] != theirs["oracle"] or len(pools) > 1:
            raise JournalMismatchError(_mismatch_text(self.path, theirs, ours))
        self._is_open = True

    def _record(self, key: str, measurement: Measurement) -> None:
        self.n_measured += 1
        self._file.append(key, json.loads(key.split(_REPEAT)[0]), measurement)


class _Batch:
    """A batch on its way: which configs the inner oracle has taken and not answered.

    The inner oracle draws its configs from a generator that looks into the file before
    it gives the next one. So a config that another process has measured since the batch
    began is left out.
    """

    def __init__(
        self,
        journal: JournaledOracle,
        keys: list[str],
        configs: list[Any],
        measure_each: Callable[[Iterable[Any]], Iterator[Measurement]],
    ) -> None:
        self.keys = keys
        self._configs = configs
        self._journal = journal
        self._measure_each = measure_each
        self._under_way: deque[str] = deque()
        self._answers: Iterator[Measurement] | None = None

    def measure_until(self, key: str) -> bool:
        """Record answers until that of a config is known.

        Parameters
        ----------
        key : str
            The next of the keys.

        Returns
        -------
        bool
            Whether the config was measured now, not found in the journal.
        """
        measured = False
        while key not in self._journal._file.records:
            recorded = self._record_next()
            # None may also mean that another process had all the rest.
            if recorded is None and key not in self._journal._file.records:
                raise self._wrong_number("fewer")
            measured = measured or recorded == key
        return measured

    def finish(self) -> None:
        """Take the answers that were under way when another process had them first."""
        while self._under_way:
            if self._record_next() is None:
                raise self._wrong_number("fewer")
        if self._answers is not None and next(self._answers, None) is not None:
            raise self._wrong_number("more")

    def _record_next(self) -> str | None:
        if self._answers is None:
            self._answers = iter(self._measure_each(self._missing()))
        measurement = next(self._answers, None)
        if measurement is None:
            return None
        if not self._under_way:
            raise self._wrong_number("more")
        key = self._under_way.popleft()
        self._journal._record(key, measurement)
        return key

    def _missing(self) -> Iterator[Any]:
        taken: set[str] = set()
        file = self._journal._file
        for key, config in zip(self.keys, self._configs, strict=True):
            file.update()
            if key not in file.records and key not in taken:
                taken.add(key)
                self._under_way.append(key)
                yield config

    def _wrong_number(self, what: str) -> ValueError:
        name = type(self._journal.oracle).__name__
        return ValueError(f"{name} answered with {what} measurements than configs.")


def _as_json(fingerprint: dict[str, Any]) -> Any:
    try:
        return json.loads(json.dumps(fingerprint))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the fingerprint can't be written as JSON ({error}): {fingerprint!r}."
        ) from error


def _mismatch_text(path: Path, theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    # A pool that one side has not named is no difference.
    named = theirs["pool"] is not None and ours["pool"] is not None
    parts = [("pool", theirs["pool"], ours["pool"])] if named else []
    old, new = theirs["oracle"], ours["oracle"]
    if isinstance(old, dict) and isinstance(new, dict):
        parts += [(name, old.get(name), new.get(name)) for name in {**old, **new}]
    differing = ", ".join(name for name, left, right in parts if left != right)
    return (
        f"the journal {path} was recorded for something else: {differing} differ.\n"
        f"  journal: {json.dumps(theirs)}\n"
        f"  now:     {json.dumps(ours)}\n"
        "Use another path, or remove the journal to measure anew."
    )
