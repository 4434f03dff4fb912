"""Why a process does not die although it was killed: it waits for the kernel, uninterruptibly.

Nothing can end such a process. Most often it waits for a file system whose server does not answer,
and dies once the server does or once an admin unmounts the file system by force.

No file system of a user is touched here: to look at one that hangs would make this thread hang too.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from treadle.engines.node.processes import stat_of

# File systems that answer through another process or another machine.
REMOTE = (
    "fuse",
    "nfs",
    "cifs",
    "smb",
    "9p",
    "ceph",
    "lustre",
    "gpfs",
    "beegfs",
    "afs",
    "glusterfs",
)
FILES_MAX = 64  # open files of a process that are looked at


class _Mount(NamedTuple):
    point: str
    kind: str


def uninterruptible(pids: Iterable[int]) -> list[int]:
    """Those that wait for the kernel and take no signal."""
    return [pid for pid in pids if (fields := stat_of(pid)) is not None and fields[0] == b"D"]


def why_stuck(pid: int, workdir: str = "") -> str:
    """What the process waits for, as the end of a sentence. workdir: where it is about to go."""
    mounts = _mounts()
    for path in (*_paths_of(pid), workdir):
        mount = _mount_of(path, mounts) if path else None
        if mount is not None and mount.kind.startswith(REMOTE):
            return f"it waits for the file system {mount.point} ({mount.kind})"
    where = _waits_in(pid)
    return f"it waits in the kernel{f' ({where})' if where else ''}"


def _paths_of(pid: int) -> Iterator[str]:
    """Its working directory and its open files, as the kernel names them without a look at them."""
    with suppress(OSError):
        yield str(Path(f"/proc/{pid}/cwd").readlink())
    with suppress(OSError):
        for file in islice(Path(f"/proc/{pid}/fd").iterdir(), FILES_MAX):
            with suppress(OSError):
                yield str(file.readlink())


def _mounts() -> list[_Mount]:
    """Mounts, the deepest first."""
    found = []
    with suppress(OSError):
        for line in Path("/proc/self/mounts").read_text().splitlines():
            _, point, kind = line.split(" ", 3)[:3]
            found.append(_Mount(point.replace("\\040", " "), kind))
    return sorted(found, key=lambda mount: -len(mount.point))


def _mount_of(path: str, mounts: Iterable[_Mount]) -> _Mount | None:
    for mount in mounts:
        if path == mount.point or path.startswith(mount.point.rstrip("/") + "/"):
            return mount
    return None


def _waits_in(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/wchan").read_text().strip("0 \n")
    return ""
