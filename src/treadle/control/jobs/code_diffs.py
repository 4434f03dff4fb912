"""What had been changed in a working directory when a job was submitted, as files by their content.

A difference may have a megabyte, and a job's row is written several times: it would be written and
kept in memory as often. Members of an array, and jobs of the same state of the code, share a file.
"""

import hashlib
import re
from contextlib import suppress
from pathlib import Path

from treadle.files import replace

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Diffs:
    """Files under one folder; nothing is ever written to one that is there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, text: str) -> str:
        """Write it down for good; raises OSError if that cannot be done. The name to read it by."""
        data = text.encode("utf-8", "surrogateescape")
        digest = hashlib.sha256(data).hexdigest()
        path = self._path(digest)
        if path.exists():
            return digest
        self._folder.mkdir(mode=0o700, exist_ok=True)
        replace(path, data, mode=0o600, sync=True)
        return digest

    def read(self, digest: str) -> str:
        """Empty if it is not there any more."""
        if not _DIGEST.fullmatch(digest):
            return ""
        with suppress(OSError):
            return self._path(digest).read_bytes().decode("utf-8", "replace")
        return ""

    def _path(self, digest: str) -> Path:
        return self._folder / f"{digest}.diff"
