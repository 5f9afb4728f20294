"""What tuning has found, kept on disk from one process to the next.

A store is a folder with one folder for each version of a kernel. In it, a journal for
each thing that was measured (``<identity>.jsonl``), and a file for each decision
(``<identity>-<choice>.json``). Nothing in here is ever needed: whatever can't be read
or written is told once, and tuning goes on without.
"""

import contextlib
import hashlib
import json
import logging
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from fasta_learn.configs import config_key
from fasta_learn.oracles import BaseOracle, JournaledOracle, Measurement
from fasta_learn.oracles._journal_file import JournalFile

logger = logging.getLogger("fasta_learn.autotune")

# What may be otherwise at the next try, so the next process should try again.
_PASSING = ("out_of_memory", "error")
_VERSION = 1


def short_hash(value: Any) -> str:
    """Return 16 hexadecimal digits that tell JSON values apart.

    Parameters
    ----------
    value : object
        What JSON can hold.

    Returns
    -------
    str
        Equal for equal values, in every process.
    """
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def pool_hash(configs: Iterable[Any]) -> str:
    """Return a hash of what a pool holds, whatever the order.

    Parameters
    ----------
    configs : iterable of configs
        The pool.

    Returns
    -------
    str
        16 hexadecimal digits.
    """
    return short_hash(sorted(config_key(config) for config in configs))


def find_folder(store: bool | str | os.PathLike[str]) -> Path | None:
    """Return the folder of a store.

    Parameters
    ----------
    store : bool or path-like
        False for none, True for that of the user, or the folder.

    Returns
    -------
    Path or None
        None if there is none. It need not exist.
    """
    if store is False:
        return None
    if store is not True:
        return Path(store).expanduser().absolute()
    if own := os.environ.get("FASTA_LEARN_CACHE_DIR"):
        return Path(own).expanduser().absolute() / "autotune"
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.path.expanduser(caches)).absolute() / "fasta_learn" / "autotune"


class KernelStore:
    """The stored results of one kernel.

    Parameters
    ----------
    folder : Path or None
        The store; None keeps nothing.
    kernel : str
        Name of the kernel.
    kernel_hash : str
        Hash of its source: results of another one are not seen.
    """

    def __init__(self, folder: Path | None, kernel: str, kernel_hash: str) -> None:
        name = re.sub(r"\W+", "_", kernel)[:80]
        self.folder = None if folder is None else folder / f"{name}-{kernel_hash}"
        self._told = False

    def tell(self, path: Path, error: BaseException) -> None:
        """Log a warning that the store can't be used, the first time.

        Parameters
        ----------
        path : Path
            The file.
        error : BaseException
            What is wrong with it.
        """
        if not self._told:
            self._told = True
            logger.warning(
                "the tuning store can't be used (%s: %s); tuning goes on without what "
                "%s holds.",
                type(error).__name__,
                error,
                path,
            )

    def journal(self, oracle: BaseOracle, identity: dict[str, Any]) -> BaseOracle:
        """Return an oracle that keeps in the store what the given one measures.

        Parameters
        ----------
        oracle : BaseOracle
            What measures.
        identity : dict
            What is measured.

        Returns
        -------
        BaseOracle
            The given oracle if nothing is stored.
        """
        if self.folder is None:
            return oracle
        path = self.folder / f"{short_hash(identity)}.jsonl"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            return _SharedJournal(oracle, path, identity, self)
        except OSError as error:
            self.tell(path, error)
            return oracle

    def measurements(self, identity: dict[str, Any]) -> dict[str, Measurement]:
        """Return all that was measured, without changing the store.

        Parameters
        ----------
        identity : dict
            What is measured.

        Returns
        -------
        dict of str to Measurement
            By key of the config.
        """
        if self.folder is None:
            return {}
        path = self.folder / f"{short_hash(identity)}.jsonl"
        try:
            records = JournaledOracle.read(path)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            self.tell(path, error)
            return {}
        return {config_key(config): measurement for config, measurement in records}

    def load(self, identity: dict[str, Any], choice: str) -> dict[str, Any] | None:
        """Return a decision.

        Parameters
        ----------
        identity : dict
            What was measured.
        choice : str
            Hash of the pool and of how it was searched.

        Returns
        -------
        dict or None
            As `decisions` gives it; None if it is not known.
        """
        return None if self.folder is None else self._read(self._path(identity, choice))

    def save(self, identity: dict[str, Any], choice: str, winner: Any) -> None:
        """Keep a decision.

        Parameters
        ----------
        identity : dict
            What was measured.
        choice : str
            Hash of the pool and of how it was searched.
        winner : config
            The config that was chosen.
        """
        if self.folder is None:
            return
        path = self._path(identity, choice)
        decision = {
            "version": _VERSION,
            "winner": config_key(winner),
            "identity": identity,
        }
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            _write_whole(path, json.dumps(decision, default=str))
        except OSError as error:
            self.tell(path, error)

    def decisions(self) -> Iterator[dict[str, Any]]:
        """Give all decisions about the kernel.

        Yields
        ------
        dict
            ``"winner"`` is the key of the config, ``"identity"`` what was measured.
        """
        if self.folder is None or not self.folder.is_dir():
            return
        for path in sorted(self.folder.glob("*.json")):
            if (decision := self._read(path)) is not None:
                yield decision

    def _path(self, identity: dict[str, Any], choice: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{short_hash(identity)}-{choice}.json"

    def _read(self, path: Path) -> dict[str, Any] | None:
        try:
            decision: dict[str, Any] = json.loads(path.read_text("utf-8"))
            if decision["version"] != _VERSION:
                return None
            if not isinstance(decision["winner"], str):
                raise ValueError(f"the winner is {decision['winner']!r}")
            if not isinstance(decision["identity"]["key"], list):
                raise ValueError("the key is no list")
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, LookupError) as error:
            self.tell(path, error)
            return None
        return decision


class _SharedJournal(JournaledOracle):
    """A journal of all pools of one kernel, which never makes a search fail."""

    def __init__(
        self,
        oracle: BaseOracle,
        path: Path,
        identity: dict[str, Any],
        store: KernelStore,
    ) -> None:
        super().__init__(oracle, path, fingerprint={"hash": short_hash(identity)})
        self._file = _ForgivingFile(self.path, store)

    def open_pool(self, configs: Iterable[Any]) -> None:
        """Open the journal without naming a pool: measurements outlive pools."""
        self._n_repeats.clear()
        self._open()
        self.oracle.open_pool(configs)


class _ForgivingFile(JournalFile):
    """A journal file that falls back to memory when the disk fails."""

    def __init__(self, path: Path, store: KernelStore) -> None:
        super().__init__(path)
        self._store = store
        self._lost = False

    def open(self, fingerprint: dict[str, Any]) -> dict[str, Any]:
        """Open the file; one that is damaged is set aside for a new one."""
        if self._lost:
            return fingerprint
        try:
            if super().open(fingerprint) != fingerprint:
                raise ValueError(f"{self.path} is of something else.")
        except OSError as error:
            self._lose(error)
            self._read_only()
        except ValueError as error:
            self._store.tell(self.path, error)
            self._replace(fingerprint)
        return fingerprint

    def update(self) -> None:
        """Read what other processes have appended."""
        if not self._lost:
            try:
                super().update()
            except (OSError, ValueError) as error:
                self._lose(error)

    def append(
        self, key: str, config: dict[str, Any], measurement: Measurement
    ) -> None:
        """Append a record, unless it may not hold for the next process."""
        if not self._lost and measurement.status not in _PASSING:
            try:
                super().append(key, config, measurement)
            except (OSError, ValueError) as error:
                self._lose(error)
        self.records.setdefault(key, (config, measurement))

    def _lose(self, error: BaseException) -> None:
        self._lost = True
        self._store.tell(self.path, error)

    def _read_only(self) -> None:
        # A store that can't be written to can still be used.
        with contextlib.suppress(OSError, ValueError):
            self.read()

    def _replace(self, fingerprint: dict[str, Any]) -> None:
        """Begin a new file with the records in front of the damage."""
        ours = self.fingerprint == fingerprint
        whole = list(self.records.items()) if ours else []
        self.fingerprint, self.records = None, {}
        self._offset = self._n_lines = 0
        try:
            os.replace(self.path, self.path.with_suffix(".damaged"))
            super().open(fingerprint)
            for key, (config, measurement) in whole:
                super().append(key, config, measurement)
        except (OSError, ValueError) as error:
            self._lose(error)


def _write_whole(path: Path, text: str) -> None:
    """Write a file so that no reader ever sees a part of it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
