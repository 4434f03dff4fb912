"""What the processes of an attempt use of the host: cores, memory, bytes read and written.

It is read from /proc. The files of each process stay open: a descriptor of `/proc/PID/stat` belongs
to that process and fails once it is gone, so that a pid which is given again is no danger, and one
system call reads one file. The list of processes is read again every few seconds only. With 64
processes a look takes about 2 milliseconds (benchmarks/observer.py).

Bytes are those that the kernel moved to and from storage (`read_bytes` in /proc/PID/io). A file
that is in the page cache is not read again, and some network file systems are not counted.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from treadle.engines.node.scope import Scope

TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
LIST_EVERY_S = 10.0  # the processes of an attempt are listed so often; in its first seconds always
FIRST_S = 20.0
PROCESSES_MAX = 2048  # of one attempt that are read
STAT_BYTES, IO_BYTES = 1024, 512
_UTIME, _STIME, _RSS = 11, 12, 21  # fields of /proc/PID/stat after the name


class HostUse(NamedTuple):
    """What an attempt has used of the host since it is watched. None: it cannot be read."""

    cpu_s: float
    memory_bytes: int  # resident, now
    read_bytes: int | None
    written_bytes: int | None
    processes: int = 0


class _Process:
    """The open files of one process, and what they said last."""

    __slots__ = ("cpu", "io", "read", "stat", "written")

    def __init__(self, pid: int) -> None:
        """Raises OSError if it is gone."""
        self.stat = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        self.io = -1
        with suppress(OSError):  # Of another user, and we are not root.
            self.io = os.open(f"/proc/{pid}/io", os.O_RDONLY | os.O_CLOEXEC)
        self.cpu = 0  # in ticks
        self.read = self.written = 0

    def look(self) -> int:
        """Its resident pages. Raises OSError if it is gone."""
        fields = os.pread(self.stat, STAT_BYTES, 0).rpartition(b")")[2].split()
        self.cpu = int(fields[_UTIME]) + int(fields[_STIME])
        if self.io >= 0:
            with suppress(OSError, ValueError, IndexError):
                numbers = os.pread(self.io, IO_BYTES, 0).split()
                # "rchar: 1 wchar: 2 syscr: 3 syscw: 4 read_bytes: 5 write_bytes: 6 ..."
                self.read, self.written = int(numbers[9]), int(numbers[11])
        return int(fields[_RSS])

    def close(self) -> None:
        os.close(self.stat)
        if self.io >= 0:
            os.close(self.io)


class ProcessLoad:
    """Reads the processes of one attempt."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._processes: dict[int, _Process] = {}
        self._cpu = self._read = self._written = 0  # of processes that are gone
        self._first_at: float | None = None
        self._listed_at = 0.0

    @property
    def pids(self) -> Sequence[int]:
        """Those that were seen in the last look."""
        return tuple(self._processes)

    def list_again(self) -> None:
        """List the processes at the next look: one that is not known was seen on a device."""
        self._listed_at = -LIST_EVERY_S

    def look(self, now: float) -> HostUse | None:
        """What it has used so far; None if none of its processes can be read."""
        if self._first_at is None:
            self._first_at = now
        if now - self._listed_at >= LIST_EVERY_S or now - self._first_at <= FIRST_S:
            self._listed_at = now
            self._list()
        pages, readable = 0, False
        for pid, process in list(self._processes.items()):
            try:
                pages += process.look()
            except (OSError, IndexError, ValueError):  # It is gone.
                self._drop(pid)
                continue
            readable |= process.io >= 0
        if not self._processes and not self._cpu:
            return None
        alive = self._processes.values()
        return HostUse(
            cpu_s=(self._cpu + sum(process.cpu for process in alive)) * TICK_S,
            memory_bytes=pages * PAGE_BYTES,
            read_bytes=self._read + sum(process.read for process in alive) if readable else None,
            written_bytes=(
                self._written + sum(process.written for process in alive) if readable else None
            ),
            processes=len(self._processes),
        )

    def close(self) -> None:
        for process in self._processes.values():
            process.close()
        self._processes.clear()

    def _list(self) -> None:
        for pid in self._scope.pids()[:PROCESSES_MAX]:
            if pid not in self._processes:
                with suppress(OSError):
                    self._processes[pid] = _Process(pid)

    def _drop(self, pid: int) -> None:
        """It is gone; what it used stays counted, as far as it was seen."""
        process = self._processes.pop(pid)
        self._cpu += process.cpu
        self._read += process.read
        self._written += process.written
        process.close()
