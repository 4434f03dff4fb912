"""What is in a folder, and its bytes, read while its owner may change it at any moment.

An agent of root reads folders of users. So nothing is followed: every folder is opened by its name
within the one that is open already. Root copies only what belongs to the owner of the folder: a
hard link to a file of another user must not make a copy that the owner can read. What cannot be
copied, such as a pipe or a link that leads out of the folder, is an error that says so: a copy that
lacks something is none.
"""

import hashlib
import os
import pwd
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from treadle.core.errors import EngineError

FILES_MAX = 10_000
LISTING_BYTES_MAX = 8 << 20  # of a listing as it is sent: a message holds 64 MiB
DEPTH_MAX = 32  # of folders; each holds a file descriptor while it is read
PATH_MAX = 1024  # characters
FILE, FOLDER, LINK = "file", "folder", "link"
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MODES = 0o777


class UncopyableError(EngineError):
    """The folder cannot be copied as it is."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=False)


class ChangedError(EngineError):
    """A file is not as it was listed any more."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One file, folder or link."""

    path: str  # within the folder, with slashes
    kind: str = FILE
    size: int = 0
    mtime_ns: int = 0
    mode: int = 0o600
    link: str = ""  # where a link leads
    own: bool = False  # the newest attempt has written it itself; else it was copied to there

    def __post_init__(self) -> None:
        check_path(self.path)
        if self.kind not in (FILE, FOLDER, LINK) or self.size < 0 or self.mode & ~_MODES:
            raise UncopyableError(f"{self.path!r} is not described as a file, folder or link")
        if self.kind == LINK:
            check_link(self.path, self.link)

    @property
    def mark(self) -> str:
        """What tells it from another one of the same path."""
        marks = {FILE: f"{self.size} {self.mtime_ns}", LINK: f"> {self.link}", FOLDER: "/"}
        return marks[self.kind]


class Listing(NamedTuple):
    """All that a folder holds, in the order of paths."""

    entries: tuple[Entry, ...] = ()

    @property
    def bytes(self) -> int:
        return sum(entry.size for entry in self.entries)

    @property
    def newest_ns(self) -> int:
        """When the newest file was written."""
        return max((entry.mtime_ns for entry in self.entries if entry.kind == FILE), default=0)

    @property
    def state(self) -> str:
        """Another one whenever something in the folder is; empty if nothing is there."""
        if not self.entries:
            return ""
        marks = [(entry.path, entry.mark, entry.mode) for entry in self.entries]
        return hashlib.sha256(msgspec.json.encode(marks)).hexdigest()[:32]


Leave = Callable[[str, bool], bool]  # whether a path, of a folder or not, is left out


def _nothing(path: str, is_folder: bool) -> bool:  # noqa: ARG001
    return False


def listing(
    folder: Path, *, leave: Leave = _nothing, files_max: int = FILES_MAX, strict: bool = True
) -> Listing:
    """Raises UncopyableError, or OSError if it cannot be read. A folder that is not there is empty.

    files_max: of files, folders and links. strict: what cannot be copied is an error; else it is
    left out.
    """
    try:
        top = os.open(folder, _OPEN_FOLDER)
    except FileNotFoundError:
        return Listing()
    try:
        found: list[Entry] = []
        left = LISTING_BYTES_MAX
        for entry in _walk(top, _Walk(os.fstat(top).st_uid, leave, strict)):
            found.append(entry)
            left -= len(msgspec.json.encode(entry))
            if len(found) > files_max:
                raise UncopyableError(f"it holds more than {files_max} files")
            if left < 0:
                raise UncopyableError("the names of its files and links are too long together")
        return Listing(tuple(sorted(found, key=lambda entry: entry.path)))
    finally:
        os.close(top)


class _Walk(NamedTuple):
    owner: int
    leave: Leave
    strict: bool


def _walk(handle: int, walk: _Walk, before: str = "", depth: int = 1) -> Iterator[Entry]:
    if depth > DEPTH_MAX:
        raise UncopyableError(f"its folders are more than {DEPTH_MAX} deep")
    for name in sorted(os.listdir(handle)):
        path = f"{before}{name}"
        try:
            found = os.stat(name, dir_fd=handle, follow_symlinks=False)
        except FileNotFoundError:
            continue  # It was removed meanwhile.
        is_folder = stat.S_ISDIR(found.st_mode)
        if walk.leave(path, is_folder):
            continue
        try:
            _check_owner(path, found, walk.owner)
            yield _entry(handle, name, path, found)
        except UncopyableError:
            if walk.strict:
                raise
            continue
        if is_folder:
            with _opened(name, handle) as inner:
                yield from _walk(inner, walk, f"{path}/", depth + 1)


def _entry(handle: int, name: str, path: str, found: os.stat_result) -> Entry:
    mode = found.st_mode & _MODES
    if stat.S_ISREG(found.st_mode):
        return Entry(path=path, size=found.st_size, mtime_ns=found.st_mtime_ns, mode=mode)
    if stat.S_ISLNK(found.st_mode):
        return Entry(path=path, kind=LINK, link=os.readlink(name, dir_fd=handle))
    if stat.S_ISDIR(found.st_mode):
        return Entry(path=path, kind=FOLDER, mode=mode)
    raise UncopyableError(f"{path!r} is neither a file nor a folder nor a link")


def read(folder: Path, entry: Entry, offset: int, length: int) -> bytes:
    """Bytes of a file. Raises ChangedError if it is not the file that was listed.

    And UncopyableError if it may not be read.
    """
    *above, name = entry.path.split("/")
    try:
        with _opened(folder, None) as top, _descended(top, above) as handle:
            file = os.open(name, _OPEN_FILE, dir_fd=handle)
            try:
                found = os.fstat(file)
                _check_owner(entry.path, found, os.fstat(top).st_uid)
                same = (found.st_size, found.st_mtime_ns) == (entry.size, entry.mtime_ns)
                if not stat.S_ISREG(found.st_mode) or not same:
                    raise ChangedError(f"{entry.path!r} was changed while it was copied")
                data = os.pread(file, length, offset)
            finally:
                os.close(file)
    except PermissionError:
        raise UncopyableError(f"{entry.path!r} cannot be read by {_own_name()}") from None
    except OSError as error:
        raise ChangedError(f"{entry.path!r} cannot be read any more: {error.strerror}") from None
    if len(data) != min(length, max(0, entry.size - offset)):
        raise ChangedError(f"{entry.path!r} was changed while it was copied")
    return data


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"user {os.geteuid()}"


def check_path(path: str) -> None:
    """Refuse what does not name something within a folder."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UncopyableError(f"the name {path!r} is not UTF-8") from None
    parts = path.split("/")
    odd = any(part in ("", ".", "..") for part in parts) or "\0" in path
    if odd or len(path) > PATH_MAX or len(parts) > DEPTH_MAX:
        raise UncopyableError(f"{path[:80]!r} is not a path within a folder")


def check_link(path: str, target: str) -> None:
    """Refuse a link that leads out of its folder, or might.

    Steps upwards are allowed at its beginning alone: behind the name of another link they lead
    upwards from where that one leads.
    """
    parts = [part for part in target.split("/") if part not in ("", ".")]
    up = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
    inside = not target.startswith("/") and up <= path.count("/") and ".." not in parts[up:]
    if not target or not inside or "\0" in target or len(target) > PATH_MAX:
        raise UncopyableError(f"the link {path!r} leads out of the folder")


def _check_owner(path: str, found: os.stat_result, owner: int) -> None:
    if os.geteuid() == 0 and found.st_uid != owner:
        raise UncopyableError(f"{path!r} belongs to another user than the folder it is in")


@contextmanager
def _opened(name: "str | Path", within: int | None) -> Iterator[int]:
    handle = os.open(name, _OPEN_FOLDER, dir_fd=within)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _descended(top: int, names: list[str]) -> Iterator[int]:
    """A folder some levels below, opened step by step."""
    if not names:
        yield top
        return
    with _opened(names[0], top) as inner, _descended(inner, names[1:]) as found:
        yield found
