"""The file of a journal: JSON lines, appended under a lock, each one synced.

The first line is a header with a format version and a fingerprint. Every other line
is a record: ``{"key": …, "config": {…}, "measurement": {…}}``. A line counts when its
line end is there, so one that was cut by a kill is not mistaken for a record.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fasta_learn.oracles._measurement import Measurement

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

_VERSION = 1
# Every header begins so: a file that does not is somebody's, and is left alone.
_MARK = b'{"journal": "fasta_learn", "version": '


class JournalFile:
    """A journal file, and what has been read of it.

    Parameters
    ----------
    path : Path
        The file.

    Attributes
    ----------
    path : Path
        The parameter.
    fingerprint : dict or None
        Fingerprint in the header; None before the header was read.
    records : dict of str to (dict, Measurement)
        Config and measurement by config key, in the order of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fingerprint: dict[str, Any] | None = None
        self.records: dict[str, tuple[dict[str, Any], Measurement]] = {}
        self._offset = 0  # behind the last whole line that was read
        self._n_lines = 0

    def open(self, fingerprint: dict[str, Any]) -> dict[str, Any]:
        """Read the file; create it, or write its header anew, if it has none.

        Parameters
        ----------
        fingerprint : dict
            For the header of a new journal.

        Returns
        -------
        dict
            The fingerprint in the header.

        Raises
        ------
        ValueError
            It is not a journal, of another format version, or a line is corrupted.
        """
        with self._locked(os.O_CREAT) as descriptor:
            self._read_new(descriptor)
            if self.fingerprint is None:
                self._check_torn_header(os.pread(descriptor, len(_MARK), 0))
                header = {
                    "journal": "fasta_learn",
                    "version": _VERSION,
                    "fingerprint": fingerprint,
                }
                self._write_line(descriptor, header)
                _sync_directory(self.path.parent)
                self.fingerprint = fingerprint
        return self.fingerprint

    def update(self) -> None:
        """Read what other processes have appended.

        Raises
        ------
        ValueError
            A line is corrupted, or the file became shorter.
        """
        with self._locked() as descriptor:
            self._read_new(descriptor)

    def append(
        self, key: str, config: dict[str, Any], measurement: Measurement
    ) -> None:
        """Append a record and wait until it is on disk.

        Nothing is written if the file has a record of this config already.

        Parameters
        ----------
        key : str
            Canonical key of the config.
        config : dict
            The config, for people who read the file.
        measurement : Measurement
            What was measured.
        """
        with self._locked() as descriptor:
            self._read_new(descriptor)
            if key not in self.records:
                record = {
                    "key": key,
                    "config": config,
                    "measurement": measurement.to_dict(),
                }
                self._write_line(descriptor, record)
                self.records[key] = (config, measurement)

    def read(self) -> None:
        """Read the file without changing or locking it.

        Raises
        ------
        ValueError
            It is not a journal, of another format version, or a line is corrupted.
        """
        data = self.path.read_bytes()
        self._take_lines(data)
        if self.fingerprint is None:
            self._check_torn_header(data)

    @contextmanager
    def _locked(self, flags: int = 0) -> Iterator[int]:
        # Opening anew each time keeps no descriptor, and makes the lock hold between
        # the threads of one process too.
        if fcntl is None:
            raise OSError("a journal needs file locks (fcntl), which are missing here.")
        descriptor = os.open(self.path, os.O_RDWR | flags, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            # A process forked meanwhile has the descriptor too: closing is too little.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def _read_new(self, descriptor: int) -> None:
        size = os.fstat(descriptor).st_size
        if size < self._offset:
            raise ValueError(
                f"{self.path} became shorter while it was in use (from {self._offset} "
                f"to {size} bytes); a journal must not be changed by others."
            )
        if size > self._offset:
            self._take_lines(os.pread(descriptor, size - self._offset, self._offset))

    def _take_lines(self, data: bytes) -> None:
        for line in data.split(b"\n")[:-1]:
            if self.fingerprint is None:
                self.fingerprint = self._parse_header(line)
            else:
                key, config, measurement = self._parse_record(line)
                self.records.setdefault(key, (config, measurement))
            self._n_lines += 1
            self._offset += len(line) + 1

    def _parse_header(self, line: bytes) -> dict[str, Any]:
        try:
            header = json.loads(line)
            fingerprint: dict[str, Any] = header["fingerprint"]
            version = header["version"]
            ours = line.startswith(_MARK)
        except (ValueError, TypeError, LookupError):
            ours = False
        if not ours:
            raise ValueError(f"{self.path} is not a journal: line 1 is no header.")
        if version != _VERSION:
            raise ValueError(
                f"{self.path} is a journal of format version {version!r}; this release "
                f"reads version {_VERSION}."
            )
        return fingerprint

    def _parse_record(self, line: bytes) -> tuple[str, dict[str, Any], Measurement]:
        try:
            record = json.loads(line)
            measurement = Measurement.from_dict(record["measurement"])
            return record["key"], record["config"], measurement
        except (ValueError, TypeError, LookupError) as error:
            raise ValueError(
                f"{self.path}, line {self._n_lines + 1} is corrupted "
                f"({type(error).__name__}: {error}); delete this line to measure its "
                "config again, or restore the file."
            ) from error

    def _check_torn_header(self, start: bytes) -> None:
        start = start[: len(_MARK)]
        if not _MARK.startswith(start):
            raise ValueError(
                f"{self.path} is not a journal: it begins with {start!r}. Choose "
                "another path; the file was left as it is."
            )

    def _write_line(self, descriptor: int, value: dict[str, Any]) -> None:
        text = json.dumps(value, ensure_ascii=False) + "\n"
        # A lone surrogate, from a badly decoded message, becomes a JSON escape.
        data = text.encode("utf-8", "backslashreplace")
        os.ftruncate(descriptor, self._offset)  # drops a line that was cut by a kill
        written = 0
        while written < len(data):
            written += os.pwrite(descriptor, data[written:], self._offset + written)
        os.fsync(descriptor)
        self._offset += len(data)
        self._n_lines += 1


def _sync_directory(path: Path) -> None:
    # Without it a power failure can lose the name of a new file.
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
