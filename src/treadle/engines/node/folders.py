"""Where attempts live on disk, and what their files say: `<root>/jobs/<job>/<attempt>/`.

`<root>/live/` holds a file for every attempt that was to be launched and has not been seen to end,
with the id of the order, so that a fresh engine finds survivors without looking through all that
ever ran.
"""

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from treadle.core.errors import EngineError
from treadle.core.job import JobId
from treadle.engines.node.processes import ProcessId
from treadle.files import replace

NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
FILE_BYTES_MAX = 1 << 20  # of a status; whatever is larger is not ours


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervisor:
    """What a supervisor writes of itself before it launches anything."""

    process: ProcessId
    action: int
    tag: str
    boot: str
    devices: tuple[int, ...]  # numbers of the devices that the attempt holds
    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStatus:
    """How an attempt stands, as its supervisor left it."""

    ended: bool
    code: int = 0
    codes: tuple[int | None, ...] = ()
    told: str = ""
    error: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    ran_s: float | None = None  # by a clock that nobody sets


class Folders:
    """The folders of all attempts under one root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._jobs, self._live = root / "jobs", root / "live"
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self._jobs, self._live):
            folder.mkdir(mode=0o700, exist_ok=True)
            _refuse_link(folder)
        self.instance = self._read_instance()

    def path(self, job: JobId, attempt: int) -> Path:
        """Where the attempt lives; it need not exist."""
        if NAME.fullmatch(job) is None or ".." in job or job == ".":
            raise EngineError(
                f"job {job!r} cannot have a folder: expected 1 to 64 of A-Z a-z 0-9 _ . - "
                "and no two dots in a row",
                retryable=False,
            )
        return self._jobs / job / str(attempt)

    def make(self, job: JobId, attempt: int, *, action: int) -> Path:
        """The attempt's folder, for the engine's user alone, and a mark that it is live."""
        folder = self.path(job, attempt)
        for part in (folder.parent, folder):
            part.mkdir(mode=0o700, exist_ok=True)
            _refuse_link(part)
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        mark = os.open(self._mark(job, attempt), flags, 0o600)
        try:
            os.write(mark, b"%d" % action)
        finally:
            os.close(mark)
        return folder

    def ordered_by(self, job: JobId, attempt: int) -> int | None:
        """The order that the attempt was to be launched for, if it has not been seen to end."""
        with suppress(OSError, ValueError):
            return int(self._mark(job, attempt).read_bytes())
        return None

    def forget(self, job: JobId, attempt: int) -> None:
        """The attempt has been seen to end."""
        with suppress(OSError):
            self._mark(job, attempt).unlink()

    def live(self) -> list[tuple[JobId, int]]:
        """Attempts that nobody has seen the end of."""
        found = []
        for entry in self._live.iterdir():
            job, _, attempt = entry.name.rpartition("@")
            if attempt.isdigit() and NAME.fullmatch(job):
                found.append((job, int(attempt)))
        return sorted(found)

    def attempts(self, job: JobId) -> list[int]:
        """Numbers of the attempts that have a folder, ascending."""
        with suppress(OSError):
            names = [entry.name for entry in self.path(job, 1).parent.iterdir()]
            return sorted(int(name) for name in names if name.isdigit())
        return []

    def _mark(self, job: JobId, attempt: int) -> Path:
        return self._live / f"{job}@{attempt}"

    def _read_instance(self) -> str:
        """What tells our processes from those of another Treadle."""
        path = self.root / "instance"
        with suppress(OSError, ValueError):
            if re.fullmatch(r"[0-9a-f]{32}", text := path.read_text()):
                return text
        fresh = uuid4().hex
        replace(path, fresh.encode())
        return fresh


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise EngineError(
            f"{path} is a symbolic link; expected a folder that Treadle made itself, remove the "
            "link",
            retryable=False,
        )


def read_supervisor(folder: Path) -> Supervisor | None:
    """None if there is none yet, or if the file is damaged."""
    found = _read(folder / "supervisor.json")
    try:
        return Supervisor(
            process=ProcessId(int(found["pid"]), int(found["start"])),
            action=int(found["action"]),
            tag=str(found["tag"]),
            boot=str(found["boot"]),
            devices=tuple(int(number) for number in found["devices"]),
            turn=int(found["turn"]),
        )
    except (KeyError, TypeError, ValueError):
        return None


def read_status(folder: Path) -> AttemptStatus | None:
    """None if there is none yet, or if the file is damaged."""
    found = _read(folder / "status.json")
    try:
        return AttemptStatus(
            ended=found["state"] == "ended",
            code=int(found["code"]),
            codes=tuple(None if code is None else int(code) for code in found["codes"]),
            told=str(found["told"]),
            error=str(found["error"]),
            started_at=_moment(found["started_at"]),
            ended_at=_moment(found["ended_at"]),
            ran_s=_moment(found.get("ran_s")),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _read(path: Path) -> Mapping[str, Any]:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        with os.fdopen(file, "rb") as opened:
            found = json.loads(opened.read(FILE_BYTES_MAX))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _moment(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


@contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Hold the lock that supervisors hold; False if one does, so that it is alive."""
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


def seal(folder: Path, told: str) -> bool:
    """Make sure that nothing is ever launched there again; False if a supervisor is alive."""
    if not folder.is_dir():
        return True
    with locked(folder) as free:
        if not free:
            return False
        status = read_status(folder)
        if status is None or not status.ended:
            body = {"state": "ended", "code": 137, "codes": [], "told": told, "error": ""}
            body |= {"started_at": status and status.started_at, "ended_at": None}
            replace(folder / "status.json", json.dumps(body).encode())
    return True
