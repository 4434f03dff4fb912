"""A cgroup v2 scope for each attempt, on machines that delegate a cgroup to the daemon.

A scope gives the supervisor two things: it can kill all processes of the attempt at once, and the
kernel counts the processes that it killed for lack of memory. Without a delegated cgroup there is
no scope, and nothing else changes.
"""

import os
from contextlib import suppress
from pathlib import Path

YES = b"1"


def own_cgroup() -> Path | None:
    """The daemon's own cgroup, if it may make scopes below it."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        mounts = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return None
    path = next((line[3:] for line in lines if line.startswith("0::")), None)
    mount = next((line.split()[1] for line in mounts if line.split()[2] == "cgroup2"), None)
    if path is None or mount is None:
        return None
    folder = Path(mount + path)
    return folder if _is_delegated(folder) else None


def _is_delegated(folder: Path) -> bool:
    """Whether the cgroup was delegated to us; systemd marks that by an attribute."""
    if not os.access(folder, os.W_OK) or not (folder / "cgroup.procs").exists():
        return False
    if os.geteuid() != 0:
        return True  # An ordinary user can write only to a delegated one.
    for name in ("trusted.delegate", "user.delegate"):
        with suppress(OSError):
            if os.getxattr(folder, name) == YES:
                return True
    return False


class Scopes:
    """Makes a scope for each attempt below one cgroup, or none."""

    def __init__(self, parent: Path | None) -> None:
        self._parent = parent

    def make(self, tag: str) -> Path | None:
        if self._parent is None:
            return None
        scope = self._parent / f"treadle-{tag}"
        try:
            scope.mkdir(exist_ok=True)
        except OSError:
            return None
        return scope

    def kill(self, tag: str) -> None:
        """Kill what is left in a scope and remove it, after its supervisor was killed."""
        if self._parent is not None:
            scope = self._parent / f"treadle-{tag}"
            with suppress(OSError):
                (scope / "cgroup.kill").write_text("1")
            with suppress(OSError):
                scope.rmdir()
