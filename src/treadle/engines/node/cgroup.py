"""Which groups this machine lets us make for attempts: cgroup v2, cgroup v1, or none.

    cgroup v2        where systemd delegates a cgroup to the daemon (`Delegate=yes`), or where root
                     runs without systemd, as in a container
    cgroup v1        where root can write to the controllers' hierarchies
    processes only   elsewhere

A group is made below the daemon's own, so that limits of the daemon hold for its jobs as well.
"""

import os
from collections.abc import Collection, Container, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from treadle.engines.node.scope import (
    NO_LIMITS,
    ControllerScope,
    Limits,
    RecordedScope,
    Scope,
    UnifiedScope,
)

YES = b"1"
NAMED = "treadle-"  # before the tag of an attempt
DAEMON = "treadle.daemon"  # the group of the daemon itself, below the one that was delegated
SYSTEMD = Path("/run/systemd/system")  # is there if systemd manages the machine
RECORD = "processes.json"  # in the folder of an attempt
CONTROLLERS = ("memory", "pids", "freezer", "cpu")
# Memory is counted, and forks can be forbidden; the first lists the processes of an attempt.
TRACKING = ("memory", "pids")


class Group(NamedTuple):
    """A scope that was made, and which limits are in force there."""

    scope: Scope
    enforced: frozenset[str] = frozenset()  # "memory", "cpus"


class Cgroups(Protocol):
    """Makes groups of one kind."""

    kind: str
    limits: frozenset[str]  # which it can enforce: "memory", "cpus"

    def named(self, tag: str) -> Scope:
        """The scope of that name; it need not exist. Raises OSError if the name cannot be used."""
        ...

    def make(self, tag: str, limits: Limits) -> Scope:
        """Make it, fit for these limits. Raises OSError if it cannot be made."""
        ...

    def tags(self) -> list[str]:
        """The tags of all groups that there are."""
        ...


class UnifiedCgroups:
    """cgroup v2, below a folder that is ours."""

    kind = UnifiedScope.kind

    def __init__(self, parent: Path) -> None:
        self._parent = parent
        self.limits = _limits_by(_enabled(parent))

    def named(self, tag: str) -> Scope:
        return UnifiedScope(f"{self._parent}/{NAMED}{tag}")

    def make(self, tag: str, limits: Limits) -> Scope:  # noqa: ARG002  # One folder has all.
        (self._parent / f"{NAMED}{tag}").mkdir(exist_ok=True)
        return self.named(tag)

    def tags(self) -> list[str]:
        return _tags([self._parent])


class ControllerCgroups:
    """cgroup v1, below one folder for each controller."""

    kind = ControllerScope.kind

    def __init__(self, parents: Mapping[str, Path]) -> None:
        self._parents = {name: parents[name] for name in CONTROLLERS if name in parents}
        self.limits = _limits_by(parents)

    def named(self, tag: str) -> Scope:
        return ControllerScope(self._folders(tag, self._parents))

    def make(self, tag: str, limits: Limits) -> Scope:
        # No more folders than needed: each takes a tenth of a millisecond and a lock of the kernel.
        names = [name for name in TRACKING if name in self._parents] or list(self._parents)[:1]
        if limits.cpus is not None and "cpu" in self._parents:
            names.append("cpu")
        folders = self._folders(tag, names)
        try:
            for folder in folders.values():
                with suppress(FileExistsError):
                    os.mkdir(folder)
        except OSError:
            self.named(tag).remove()
            raise
        return ControllerScope(folders)

    def _folders(self, tag: str, names: Iterable[str]) -> dict[str, str]:
        return {name: f"{self._parents[name]}/{NAMED}{tag}" for name in names}

    def tags(self) -> list[str]:
        return _tags(self._parents.values())


class Containment:
    """Makes the group of each attempt: a cgroup where there is one, else a record of processes."""

    def __init__(self, cgroups: Cgroups | None) -> None:
        self._cgroups = cgroups

    @property
    def kind(self) -> str:
        """What is in force, for people."""
        return RecordedScope.kind if self._cgroups is None else self._cgroups.kind

    @property
    def limits(self) -> frozenset[str]:
        """Which limits are enforced here: "memory", "cpus"."""
        return frozenset() if self._cgroups is None else self._cgroups.limits

    def make(self, tag: str, folder: Path, limits: Limits = NO_LIMITS) -> Group:
        """A group for an attempt with that tag and folder.

        Raises OSError if a limit that is enforced here (`limits`) cannot be set: the attempt would
        run without it, and people read that it holds.
        """
        group = self._made(tag, folder, limits)
        if missing := (limits.names & self.limits) - group.enforced:
            group.scope.remove()
            names = " and ".join(sorted(missing))
            raise OSError(f"the limit of {names} could not be set for the group of the attempt")
        return group

    def _made(self, tag: str, folder: Path, limits: Limits) -> Group:
        if self._cgroups is not None:
            # Without a group the attempt can still run, and its processes are written down.
            with suppress(OSError):
                scope = self._cgroups.make(tag, limits)
                return Group(scope, scope.limit(limits))
        return Group(RecordedScope(f"{folder}/{RECORD}"))

    def sweep(self, prefix: str, *, keep: Collection[str]) -> None:
        """Remove empty groups whose tags begin so."""
        if self._cgroups is not None:
            for tag in self._cgroups.tags():
                if tag.startswith(prefix) and tag not in keep:
                    self._cgroups.named(tag).remove()

    def kill(self, prefix: str) -> None:
        """Kill what is in groups whose tags begin so, and remove those."""
        if self._cgroups is not None:
            for tag in self._cgroups.tags():
                if tag.startswith(prefix):
                    self._cgroups.named(tag).kill()
                    self._cgroups.named(tag).remove()

    def named(self, tag: str, folder: Path) -> Scope:
        """The group of an attempt whose supervisor wrote nothing down."""
        if self._cgroups is None:
            return RecordedScope(f"{folder}/{RECORD}")
        return self._cgroups.named(tag)


def _limits_by(controllers: Container[str]) -> frozenset[str]:
    names = (("memory", "memory"), ("cpu", "cpus"))
    return frozenset(limit for controller, limit in names if controller in controllers)


def _tags(parents: Iterable[Path]) -> list[str]:
    found: set[str] = set()
    for parent in parents:
        with suppress(OSError):
            found |= {entry.name.removeprefix(NAMED) for entry in parent.glob(f"{NAMED}*")}
    return sorted(found)


def cgroups_here() -> Cgroups | None:
    """The kind that this machine lets us use; the one that can limit memory if there are two."""
    own, mounts = _own_groups(), _mounts()
    found: list[Cgroups] = []
    with suppress(OSError):
        folder = _folder(mounts.get("cgroup2"), own.get(""))
        if folder is not None and _is_delegated(folder):
            found.append(UnifiedCgroups(folder.parent if folder.name == DAEMON else folder))
    if os.geteuid() == 0:
        places = {name: _folder(mounts.get(name), own.get(name)) for name in CONTROLLERS}
        usable = {name: place for name, place in places.items() if place and _is_usable(place)}
        if usable:
            found.append(ControllerCgroups(usable))
    return max(found, key=lambda cgroups: "memory" in cgroups.limits, default=None)


# -- the daemon's own groups ----------------------------------------------------------------------


class _Mount(NamedTuple):
    root: str  # what is mounted: "/" or a part of the hierarchy, as in containers
    point: str


def _own_groups() -> dict[str, str]:
    """The group of this process by controller; v2 has the name ""."""
    found: dict[str, str] = {}
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            found |= dict.fromkeys(names.split(","), path)
    return found


def _mounts() -> dict[str, _Mount]:
    """Where hierarchies are mounted, by controller; v2 has the name "cgroup2"."""
    found: dict[str, _Mount] = {}
    with suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            before, _, after = line.partition(" - ")
            fields, (kind, _, options) = before.split(), after.split()[:3]
            mount = _Mount(_unescaped(fields[3]), _unescaped(fields[4]))
            if kind == "cgroup2":
                found.setdefault(kind, mount)
            elif kind == "cgroup":
                for name in set(options.split(",")) & set(CONTROLLERS):
                    found.setdefault(name, mount)
    return found


def _unescaped(text: str) -> str:
    return text.replace("\\040", " ")


def _folder(mount: _Mount | None, path: str | None) -> Path | None:
    """The group as a folder; None if it is outside of what is mounted here."""
    if mount is None or path is None:
        return None
    inside = "/" if mount.root == "/" else mount.root.rstrip("/") + "/"
    if not (path.rstrip("/") + "/").startswith(inside):
        return None
    return Path(mount.point, path[len(inside) :].strip("/"))


def _is_usable(folder: Path) -> bool:
    return os.access(folder, os.W_OK) and (folder / "cgroup.procs").exists()


def _is_delegated(folder: Path) -> bool:
    """Whether the group is ours to divide; systemd marks that by an attribute."""
    if not _is_usable(folder):
        return False
    if os.geteuid() != 0 or not SYSTEMD.exists():
        return True  # An ordinary user can write only to a delegated one.
    for name in ("trusted.delegate", "user.delegate"):
        for owner in (folder, folder.parent):  # The parent, for a daemon in its own subgroup.
            with suppress(OSError):
                if os.getxattr(owner, name) == YES:
                    return True
    return False


def _enabled(parent: Path) -> frozenset[str]:
    """Switch the controllers on for groups below; those that are on."""
    for attempt in range(2):
        try:
            for name in _words(parent / "cgroup.controllers") & {"memory", "cpu", "pids"}:
                (parent / "cgroup.subtree_control").write_text(f"+{name}")
        except OSError:
            # A group that divides memory may hold no processes itself: move to a group below.
            if attempt or not _move_below(parent):
                break
    return _words(parent / "cgroup.subtree_control")


def _move_below(parent: Path) -> bool:
    """Move the daemon to a group of its own; False if other processes are there as well."""
    try:
        if _words(parent / "cgroup.procs") != {str(os.getpid())}:
            return False
        (parent / DAEMON).mkdir(exist_ok=True)
        (parent / DAEMON / "cgroup.procs").write_text("0")
    except OSError:
        return False
    return True


def _words(path: Path) -> frozenset[str]:
    try:
        return frozenset(path.read_text().split())
    except OSError:
        return frozenset()
