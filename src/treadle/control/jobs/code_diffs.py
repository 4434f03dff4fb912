"""What had been changed in a working directory when a job was submitted, as files by their content.

A difference may have a megabyte, and a job's row is written several times: it would be written and
kept in memory as often. Members of an array, and jobs of the same state of the code, share a file.
It is removed with the last record that names it.
"""

import hashlib
import re
import threading
from contextlib import suppress
from pathlib import Path

from treadle.files import replace

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Diffs:
    """Files under one folder; nothing is ever written to one that is there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._wanted: set[str] = set()  # asked for since they were last doomed

    def keep(self, text: str) -> str:
        """Write it down for good; raises OSError if that cannot be done. The name to read it by."""
        data = text.encode("utf-8", "surrogateescape")
        digest = hashlib.sha256(data).hexdigest()
        path = self._path(digest)
        with self._lock:
            self._wanted.add(digest)
            if path.exists():
                return digest
            self._folder.mkdir(mode=0o700, exist_ok=True)
            replace(path, data, mode=0o600, sync=True)
        return digest

    def doom(self, digest: str) -> None:
        """It will be removed unless it is kept again; the caller now looks for records of it."""
        self._wanted.discard(digest)

    def remove(self, digest: str) -> None:
        """Remove what no record names, unless a submission asked for it since `doom`."""
        if not _DIGEST.fullmatch(digest):
            return
        with self._lock:
            if digest not in self._wanted:
                self._path(digest).unlink(missing_ok=True)

    def read(self, digest: str) -> str:
        """Empty if it is not there any more."""
        if not _DIGEST.fullmatch(digest):
            return ""
        with suppress(OSError):
            return self._path(digest).read_bytes().decode("utf-8", "replace")
        return ""

    def _path(self, digest: str) -> Path:
        return self._folder / f"{digest}.diff"
