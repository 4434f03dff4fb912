"""The folder of each attempt, `<root>/jobs/<job>/<attempt>-<nonce>/`, and the files in it.

The nonce is part of the name and of the files: numbers are given again after the store was deleted
or restored, and what another attempt left must never be taken for this one's. Attempts that were
ordered before there were nonces have folders without one.

`<root>/live/` has one file for each attempt that was launched and whose end the engine has not
seen. It holds the id of the order. A fresh engine reads it to find attempts that still run, and
need not search the folders of all attempts that ever ran.

What is not there is None or empty. What is there and cannot be read now (no descriptors, an error
of the disk) raises OSError: the caller must ask again, or a job that has ended would run twice.
"""

import errno
import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import msgspec

from treadle.core.errors import EngineError
from treadle.core.job import JobId
from treadle.core.launch import AttemptId
from treadle.engines.node.plain_files import put, read_open
from treadle.engines.node.processes import ProcessId
from treadle.files import is_folder, replace

NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_ATTEMPT = re.compile(r"([0-9]{1,18})(?:-([0-9a-z]{1,64}))?", re.ASCII)  # the name of a folder
KILLED_CODE = 137
FILE_BYTES_MAX = 1 << 20  # of a status; the engine writes none that is larger


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervisor:
    """What a supervisor writes about itself before it launches ranks."""

    pid: int
    start: int
    action: int
    tag: str
    devices: tuple[int, ...]  # numbers of the devices that the attempt holds
    turn: int
    scope: Mapping[str, Any] | None = None  # its group, as scope.py writes it
    workdir: str = ""
    grace_s: float = 30.0
    time_limit_s: float | None = None
    part: Mapping[str, Any] | None = None  # of an attempt on several nodes: this node's
    nonce: str = ""

    @property
    def process(self) -> ProcessId:
        return ProcessId(self.pid, self.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStatus:
    """The state of an attempt, as its supervisor wrote it last."""

    state: str = "running"
    code: int = 0
    codes: tuple[int | None, ...]
    # What ended it: "stopped", "time-limit", "oom-killed", "lost", "fenced" (the grant of
    # its node ran out), "machine-error", "launch-error" (the engine's own). Empty if it ended by
    # itself or could not be launched.
    cause: str = ""
    error: str = ""  # why it could not be launched, or which limit it exceeded
    started_at: float | None = None
    ended_at: float | None = None
    ran_s: float | None = None  # by a clock that cannot be set
    peak_bytes: int | None = None  # the most host memory it used, where its group counts it
    memory_kills: int = 0  # of its processes that the kernel killed for memory, likewise
    began: float | None = None  # when its ranks ran, by the monotonic clock of this boot
    nonce: str = ""

    @property
    def ended(self) -> bool:
        return self.state == "ended"

    def left_of(self, limit_s: float | None, now: float) -> float | None:
        """What is left of a time limit; now: by the monotonic clock."""
        if limit_s is None or self.began is None:
            return limit_s
        return min(limit_s, max(0.0, limit_s - (now - self.began)))


class AttemptFolders:
    """The folders of all attempts under one root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._jobs, self._live = root / "jobs", root / "live"
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self._jobs, self._live):
            _make(folder)
        self.instance = self._read_instance()

    def path(self, job: JobId, attempt: int, nonce: str = "") -> Path:
        """The folder of the attempt; it need not exist."""
        if NAME.fullmatch(job) is None or ".." in job or job == ".":
            raise EngineError(
                f"job {job!r} cannot have a folder: expected 1 to 64 of A-Z a-z 0-9 _ . - "
                "and no two dots in a row",
                retryable=False,
            )
        return self._jobs / job / _named(attempt, nonce)

    def make(self, job: JobId, attempt: int, nonce: str = "", *, action: int) -> Path:
        """Mark the attempt as live and make its folder, which only the engine's user may read.

        The mark is first, and whole: after a crash in between, a folder without a mark would be
        taken for an attempt of an earlier order, which is over.
        """
        folder = self.path(job, attempt, nonce)
        put(str(self._mark(job, attempt, nonce)), b"%d" % action)
        for part in (folder.parent, folder):
            _make(part)
        return folder

    def ordered_by(self, job: JobId, attempt: int, nonce: str = "") -> int | None:
        """The order that the attempt was launched for; None once its end was seen."""
        with suppress(FileNotFoundError, ValueError):
            return int(self._mark(job, attempt, nonce).read_bytes())
        return None

    def forget(self, job: JobId, attempt: int, nonce: str = "") -> None:
        """Remove the mark: the end of the attempt was seen."""
        with suppress(OSError):
            self._mark(job, attempt, nonce).unlink()

    def live(self) -> list[AttemptId]:
        """Attempts whose end was not seen yet."""
        found = []
        for entry in self._live.iterdir():
            job, _, name = entry.name.rpartition("@")
            if NAME.fullmatch(job) and (match := _ATTEMPT.fullmatch(name)):
                found.append(AttemptId(job, int(match[1]), match[2] or ""))
        return sorted(found)

    def attempts(self, job: JobId) -> list[AttemptId]:
        """The attempts that have a folder, by number; those of other stores too."""
        with suppress(FileNotFoundError):
            names = [entry.name for entry in self.path(job, 1).parent.iterdir()]
            matches = [match for name in names if (match := _ATTEMPT.fullmatch(name))]
            return sorted(AttemptId(job, int(match[1]), match[2] or "") for match in matches)
        return []

    def _mark(self, job: JobId, attempt: int, nonce: str) -> Path:
        return self._live / f"{job}@{_named(attempt, nonce)}"

    def _read_instance(self) -> str:
        """An id that tells processes of this Treadle from those of another."""
        path = self.root / "instance"
        with suppress(FileNotFoundError, ValueError):
            if re.fullmatch(r"[0-9a-f]{32}", text := path.read_text()):
                return text
        fresh = uuid4().hex
        replace(path, fresh.encode(), mode=0o600)
        return fresh


def _named(attempt: int, nonce: str) -> str:
    return f"{attempt}-{nonce}" if nonce else str(attempt)


def _nonce(folder: Path) -> str:
    """The nonce of the attempt that a folder belongs to."""
    return folder.name.partition("-")[2]


def _make(folder: Path) -> None:
    """Have a folder there that only the engine's user may read."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if folder.is_symlink():
            raise EngineError(
                f"{folder} is a symbolic link; expected a folder that Treadle made itself, remove "
                "the link",
                retryable=False,
            ) from None
        if not folder.is_dir():
            raise


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    """What a supervisor adds once its ranks run."""

    running: int  # how many
    started_at: float
    began: float
    nonce: str = ""


_Kept = TypeVar("_Kept", Supervisor, AttemptStatus, _Running)


def read_supervisor(folder: Path) -> Supervisor | None:
    """None if there is none yet, if the file is damaged, or if it is another attempt's."""
    return _own(folder / "supervisor.json", Supervisor)


def read_status(folder: Path) -> AttemptStatus | None:
    """None if its ranks do not run yet, if the file is damaged, or if it is another attempt's."""
    status = _own(folder / "status.json", AttemptStatus)
    if status is not None:
        return status
    found = _own(folder / "supervisor.json", _Running, line=1)
    if found is None:
        return None
    codes = (None,) * found.running
    return AttemptStatus(codes=codes, started_at=found.started_at, began=found.began)


def _own(path: Path, kind: type[_Kept], line: int = 0) -> _Kept | None:
    """What a line of a file of an attempt says, if it was written for that very attempt."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            text = read_open(file, FILE_BYTES_MAX).split(b"\n")[line]
        finally:
            os.close(file)
        found = msgspec.json.decode(text, type=kind)
    except (FileNotFoundError, NotADirectoryError, ValueError, IndexError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:  # A link, which no supervisor made.
            return None
        raise
    return found if found.nonce == _nonce(path.parent) else None


@contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Take the lock of the supervisor; False if a supervisor is alive and holds it."""
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        lock = os.open(folder / "supervisor.json", flags, 0o600)
    except FileNotFoundError:
        yield True
        return
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(lock)


def seal(folder: Path, cause: str, *, code: int = KILLED_CODE, error: str = "") -> bool:
    """Make sure that nothing is launched there any more; False if a supervisor is alive."""
    if not is_folder(folder):
        return True
    with locked(folder) as free:
        if not free:
            return False
        status = read_status(folder)
        if status is None or not status.ended:
            body = {"state": "ended", "code": code, "codes": [], "cause": cause, "error": error}
            body |= {"started_at": status and status.started_at, "ended_at": None}
            body["nonce"] = _nonce(folder)
            replace(folder / "status.json", json.dumps(body).encode())
    return True
