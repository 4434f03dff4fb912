"""The group of one attempt: all of its processes, however they forked and whatever they cleared.

There are three kinds, under one interface:

    cgroup v2        the kernel keeps the group, kills it at once, and limits memory and cores
    cgroup v1        the same, in one folder for each controller; it is killed process by process
    processes only   no group: the supervisor writes down the descendants that it sees

Part of the supervisor: it imports the standard library alone. A scope is written as plain values
into the order and into `supervisor.json`, so that an engine that restarted finds it again.
"""

import math
import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from treadle.engines.node.plain_files import count_in, read, write
from treadle.engines.node.processes import stat_of
from treadle.engines.node.recorded_processes import alive, read_record

# The least share of the limit that a group which the kernel killed for its limit has reached.
AT_THE_LIMIT = 0.95
CPU_PERIOD_US = 100_000
FREEZE_WITHIN_S = 2.0  # it takes a millisecond, but not where a process waits for a disk
_STILL = (b"T", b"t", b"Z", b"X")  # states of processes that are stopped or have ended
_IN_KERNEL = b"D"  # for a disk, or for a child of vfork that is stopped itself
LINKS_OF_A_LEAF = 2


class Limits(NamedTuple):
    """What all processes of an attempt together may use of the host. None: no limit."""

    memory_bytes: int | None = None
    cpus: float | None = None

    @property
    def names(self) -> frozenset[str]:
        """Those that are set: "memory", "cpus"."""
        wanted = (("memory", self.memory_bytes), ("cpus", self.cpus))
        return frozenset(name for name, limit in wanted if limit is not None)


NO_LIMITS = Limits()


class Scope(Protocol):
    """The group of one attempt."""

    kind: str

    def document(self) -> dict[str, Any]:
        """The scope as plain values, for `scope_of`."""
        ...

    def take(self, pid: int = 0) -> None:
        """Move a process into the group; 0: this one. Raises OSError if it cannot."""
        ...

    def give_back(self, pid: int) -> None:
        """Move a process that is not the attempt's out of the group again."""
        ...

    def limit(self, limits: Limits) -> frozenset[str]:
        """Set limits; which of "memory" and "cpus" are in force now."""
        ...

    def pids(self) -> list[int]:
        """Its processes that have not ended."""
        ...

    def kill(self) -> None:
        """Send SIGKILL to all of them, once. Look at `pids` again afterwards."""
        ...

    def freeze(self) -> bool:
        """Let them stand still; False if not all of them do: then call `thaw`."""
        ...

    def thaw(self) -> None:
        """Let them go on."""
        ...

    def peak_bytes(self) -> int | None:
        """The most memory that it used at once; None if that is not measured."""
        ...

    def oom_kills(self) -> int:
        """How many of its processes the kernel killed for memory."""
        ...

    def ran_into_limit(self, memory_bytes: int) -> bool:
        """Whether its own limit was the reason for these kills."""
        ...

    def remove(self) -> None:
        """Remove the empty group."""
        ...


class CgroupScope:
    """A group of the kernel's, in one folder or several."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._all = folders  # the first one lists the processes

    def take(self, pid: int = 0) -> None:
        for folder in self._all:
            write(f"{folder}/cgroup.procs", str(pid))

    def give_back(self, pid: int) -> None:
        for folder in self._all:
            _leave(folder, pid)

    def pids(self) -> list[int]:
        return _pids(self._all[0])

    def freeze(self) -> bool:
        return _stop_all(self.pids)

    def thaw(self) -> None:
        _send(self.pids(), signal.SIGCONT)

    def remove(self) -> None:
        for folder in self._all:
            _remove(folder)


class UnifiedScope(CgroupScope):
    """A cgroup v2."""

    kind = "cgroup v2"

    def __init__(self, folder: str) -> None:
        super().__init__([folder])
        self._folder = folder

    def document(self) -> dict[str, Any]:
        return {"kind": self.kind, "folder": self._folder}

    def limit(self, limits: Limits) -> frozenset[str]:
        done = set()
        if limits.memory_bytes is not None:
            if _write(f"{self._folder}/memory.max", str(limits.memory_bytes)):
                done.add("memory")
            # Swap would let the job slow down the machine instead of reaching its limit.
            _write(f"{self._folder}/memory.swap.max", "0")
        if limits.cpus is not None:
            quota = max(1000, round(limits.cpus * CPU_PERIOD_US))
            if _write(f"{self._folder}/cpu.max", f"{quota} {CPU_PERIOD_US}"):
                done.add("cpus")
        return frozenset(done)

    def kill(self) -> None:
        if not _write(f"{self._folder}/cgroup.kill", "1"):  # Linux before 5.14
            _write(f"{self._folder}/pids.max", "0")
            _send(self.pids(), signal.SIGKILL)

    def freeze(self) -> bool:
        if not _write(f"{self._folder}/cgroup.freeze", "1"):  # Linux before 5.2
            return super().freeze()
        events = f"{self._folder}/cgroup.events"
        return _until(lambda: count_in(events, b"frozen ") > 0)

    def thaw(self) -> None:
        if not _write(f"{self._folder}/cgroup.freeze", "0"):
            super().thaw()

    def peak_bytes(self) -> int | None:
        return _number(f"{self._folder}/memory.peak")

    def oom_kills(self) -> int:
        return count_in(f"{self._folder}/memory.events", b"oom_kill ")

    def ran_into_limit(self, memory_bytes: int) -> bool:  # noqa: ARG002  # The kernel knows it.
        return count_in(f"{self._folder}/memory.events", b"oom ") > 0


class ControllerScope(CgroupScope):
    """A cgroup v1: one folder for each controller."""

    kind = "cgroup v1"

    def __init__(self, folders: Mapping[str, str]) -> None:
        super().__init__(list(folders.values()))
        self._folders = dict(folders)  # by controller
        self._memory = self._folders.get("memory", "/nonexistent")

    def document(self) -> dict[str, Any]:
        return {"kind": self.kind, "folders": self._folders}

    def limit(self, limits: Limits) -> frozenset[str]:
        done = set()
        if limits.memory_bytes is not None:
            if _write(f"{self._memory}/memory.limit_in_bytes", str(limits.memory_bytes)):
                done.add("memory")
            # Memory and swap together: no swap on top. Kernels without swap accounting refuse it.
            _write(f"{self._memory}/memory.memsw.limit_in_bytes", str(limits.memory_bytes))
        if limits.cpus is not None and "cpu" in self._folders:
            folder = self._folders["cpu"]
            # The kernel refuses more than the group above has, which holds for both anyway.
            cpus = min(limits.cpus, _quota_cpus(os.path.dirname(folder)))
            quota = max(1000, round(cpus * CPU_PERIOD_US))
            _write(f"{folder}/cpu.cfs_period_us", str(CPU_PERIOD_US))
            if _write(f"{folder}/cpu.cfs_quota_us", str(quota)):
                done.add("cpus")
        return frozenset(done)

    def kill(self) -> None:
        # No more forks: otherwise a chain of forks could be faster than we are.
        if "pids" in self._folders:
            _write(f"{self._folders['pids']}/pids.max", "0")
        _send(self.pids(), signal.SIGKILL)

    def peak_bytes(self) -> int | None:
        return _number(f"{self._memory}/memory.max_usage_in_bytes")

    def oom_kills(self) -> int:
        return count_in(f"{self._memory}/memory.oom_control", b"oom_kill ")

    def ran_into_limit(self, memory_bytes: int) -> bool:
        return (self.peak_bytes() or 0) >= AT_THE_LIMIT * memory_bytes


class RecordedScope:
    """No group of the kernel's: the descendants that the supervisor has written down.

    It does not see a process that cleared its environment and lost its parent between two looks of
    the supervisor, if the supervisor is then killed.
    """

    kind = "processes only"

    def __init__(self, record: str) -> None:
        self._record = record

    def document(self) -> dict[str, Any]:
        return {"kind": self.kind, "record": self._record}

    def take(self, pid: int = 0) -> None:
        pass  # The supervisor writes it down.

    def give_back(self, pid: int) -> None:
        pass

    def limit(self, limits: Limits) -> frozenset[str]:  # noqa: ARG002  # None is in force.
        return frozenset()

    def pids(self) -> list[int]:
        return [process.pid for process in alive(read_record(self._record))]

    def kill(self) -> None:
        _send(self.pids(), signal.SIGKILL)

    def freeze(self) -> bool:
        return _stop_all(self.pids)

    def thaw(self) -> None:
        _send(self.pids(), signal.SIGCONT)

    def peak_bytes(self) -> int | None:
        return None

    def oom_kills(self) -> int:
        return 0

    def ran_into_limit(self, memory_bytes: int) -> bool:  # noqa: ARG002  # None is in force.
        return False

    def remove(self) -> None:
        with suppress(OSError):
            os.unlink(self._record)


def scope_of(document: Mapping[str, Any]) -> Scope:
    """The scope that was written as plain values."""
    match document:
        case {"kind": UnifiedScope.kind, "folder": str(folder)}:
            return UnifiedScope(folder)
        case {"kind": ControllerScope.kind, "folders": dict(folders)} if folders:
            return ControllerScope(folders)
        case {"kind": RecordedScope.kind, "record": str(record)}:
            return RecordedScope(record)
        case _:
            raise ValueError(f"{document!r} is not the scope of an attempt")


# -- cgroup files ---------------------------------------------------------------------------------


def _leave(folder: str, pid: int) -> None:
    """Move a process to the group above, or beside if that one may hold none."""
    parent = os.path.dirname(folder)
    beside = sorted(name for name in os.listdir(parent) if name.endswith(".daemon"))
    for other in (parent, *(f"{parent}/{name}" for name in beside)):
        if _write(f"{other}/cgroup.procs", str(pid)):
            return


def _pids(folder: str) -> list[int]:
    """Processes of the group and of groups that the job made below it. Zombies are not listed."""
    found: list[int] = []
    for parent in _groups(folder):
        with suppress(OSError):
            found += [int(pid) for pid in read(f"{parent}/cgroup.procs").split()]
    return found


def _groups(folder: str) -> list[str]:
    """The group and those below it, the outermost first."""
    with suppress(OSError):
        # The links of a folder count the folders in it, and hardly a job makes any.
        if os.stat(folder).st_nlink > LINKS_OF_A_LEAF:
            return [parent for parent, _, _ in os.walk(folder)]
        return [folder]
    return []


def _send(pids: Iterable[int], number: int) -> None:
    """Signal through handles, because another process may get the number meanwhile.

    The handle is opened on a pid that was just listed, and the kernel reuses a pid only after all
    others: what the handle names is the process that was listed.
    """
    for pid in pids:
        if pid in (0, os.getpid()):
            continue
        with suppress(OSError):
            handle = os.pidfd_open(pid)
            try:
                signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)


def _stop_all(pids: Callable[[], list[int]]) -> bool:
    """Stop processes of a group that has no freezer: what forks meanwhile is stopped as well."""

    told: set[int] = set()

    def stand_still() -> bool:
        moving = [pid for pid in pids() if _moves(pid, told)]
        _send(moving, signal.SIGSTOP)
        told.update(moving)
        return not moving

    return _until(stand_still)


def _moves(pid: int, told: Collection[int]) -> bool:
    """Whether it may compute; one that waits in the kernel stops before it comes back."""
    with suppress(OSError):
        fields = stat_of(pid)
        still = _STILL if pid not in told else (*_STILL, _IN_KERNEL)
        return fields is not None and fields[0] not in still
    return False


def _until(true: Callable[[], bool]) -> bool:
    """Whether it comes true before long."""
    give_up_at, pause_s = time.monotonic() + FREEZE_WITHIN_S, 0.0005
    while not true():
        if time.monotonic() >= give_up_at:
            return False
        time.sleep(pause_s)
        pause_s = min(0.02, pause_s * 2)
    return True


def _write(path: str, text: str) -> bool:
    try:
        write(path, text)
    except OSError:
        return False
    return True


def _quota_cpus(folder: str) -> float:
    """How many cores a cgroup v1 may use; infinite without a quota."""
    quota, period = _number(f"{folder}/cpu.cfs_quota_us"), _number(f"{folder}/cpu.cfs_period_us")
    return quota / period if quota and period and quota > 0 else math.inf


def _number(path: str) -> int | None:
    with suppress(OSError, ValueError):
        return int(read(path))
    return None


def _remove(folder: str) -> None:
    """Remove it with the groups that the job made below it."""
    for parent in reversed(_groups(folder)):
        with suppress(OSError):
            os.rmdir(parent)
