"""Cancellations that were carried out before the store took them, on disk until it does.

A store may not answer for hours, and the daemon may be stopped meanwhile: the next one must not run
again what its users were told is cancelled. They are in one file of the state folder.
"""

import json
import logging
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

from treadle.control.jobs.records import JobRecord
from treadle.core.events import JobCancelled
from treadle.core.job import JobId
from treadle.files import replace

FILE = "cancelled.json"
logger = logging.getLogger("treadle")


class UnwrittenCancels:
    """Who cancelled which jobs."""

    def __init__(self, root: Path) -> None:
        self._path = root / FILE
        self._lock = threading.Lock()
        self._rows = self._read()
        self._saved = True  # the file has them all

    def has(self, record: JobRecord) -> bool:
        """Whether it is on disk that the job is cancelled."""
        return self._saved and _key(record) in self._rows

    def add(self, records: Iterable[JobRecord], by: str) -> None:
        with self._lock:
            self._rows |= {_key(record): by for record in records}
            self._write()

    def drop(self, records: Iterable[JobRecord]) -> None:
        """The store has them now."""
        with self._lock:
            for record in records:
                self._rows.pop(_key(record), None)
            self._write()

    def clear(self) -> None:
        """The store has all of them now."""
        with self._lock:
            self._rows = {}
            self._write()

    def facts(self, records: Mapping[JobId, JobRecord]) -> list[JobCancelled]:
        """Those that the store does not know."""
        return [
            JobCancelled(record.id, self._rows[_key(record)])
            for record in records.values()
            if _key(record) in self._rows and not record.cancelled
        ]

    def _read(self) -> dict[str, str]:
        try:
            return {
                str(nonce): str(by) for nonce, by in json.loads(self._path.read_bytes()).items()
            }
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, AttributeError) as error:
            logger.warning("%s cannot be read: %s", self._path, error)
            return {}

    def _write(self) -> None:
        """A full disk may be why the store takes nothing: then the job is stopped all the same."""
        try:
            if self._rows:
                replace(self._path, json.dumps(self._rows).encode(), mode=0o600, sync=True)
            else:
                self._path.unlink(missing_ok=True)
            self._saved = True
        except OSError as error:
            self._saved = False
            logger.warning("%s cannot be written: %s", self._path, error)


def _key(record: JobRecord) -> str:
    """Ids are given again in another store; members of an array have one nonce."""
    return f"{record.id} {record.nonce}"
