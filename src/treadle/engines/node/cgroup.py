"""A cgroup v2 scope for each attempt, where this machine lets us make one.

It adds two things to the supervisor's own means: everybody in it can be killed at once, and the
kernel says whether it killed somebody for memory. Where no cgroup has been handed over to us, there
is no scope and nothing else changes.
"""

import os
from contextlib import suppress
from pathlib import Path

YES = b"1"


def own_cgroup() -> Path | None:
    """Our own cgroup, if we may make others below it."""
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
    return folder if _handed_over(folder) else None


def _handed_over(folder: Path) -> bool:
    """Whether the folder is ours to divide: systemd says so by an attribute."""
    if not os.access(folder, os.W_OK) or not (folder / "cgroup.procs").exists():
        return False
    if os.geteuid() != 0:
        return True  # Somebody must have given it to us.
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
        """Kill whoever is left in a scope and remove it: its supervisor could not."""
        if self._parent is not None:
            scope = self._parent / f"treadle-{tag}"
            with suppress(OSError):
                (scope / "cgroup.kill").write_text("1")
            with suppress(OSError):
                scope.rmdir()
