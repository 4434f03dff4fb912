"""Descendants of a supervisor, as it writes them down while they run.

Where the kernel keeps no group of an attempt's processes, this record is how an engine finds those
that a killed supervisor left behind. A process is a pid and its start time, because pids are
reused. Part of the supervisor: it imports the standard library alone.
"""

import json
import os
import time
from collections.abc import Iterable
from contextlib import suppress

from treadle.engines.node.plain_files import put, read
from treadle.engines.node.processes import ProcessId, all_pids, stat_of

# Between looks the pauses double. A look takes 20 us for each process of the machine.
LOOK_FIRST_S, LOOK_LAST_S = 0.1, 5.0
RECORDED_MAX = 10_000  # processes of one attempt that are written down
_ENDED = (b"Z", b"X")  # states of processes that have ended
_PARENT, _START = 1, 19  # fields of /proc/PID/stat after the name


def descendants(pids: Iterable[int]) -> set[ProcessId]:
    """All processes below these, by one pass over /proc."""
    children: dict[int, list[ProcessId]] = {}
    for pid in all_pids():
        if (fields := stat_of(pid)) is not None:
            process = ProcessId(pid, int(fields[_START]))
            children.setdefault(int(fields[_PARENT]), []).append(process)
    found: set[ProcessId] = set()
    left = list(pids)
    while left:
        for child in children.get(left.pop(), ()):
            if child not in found:
                found.add(child)
                left.append(child.pid)
    return found


def alive(processes: Iterable[ProcessId]) -> list[ProcessId]:
    """Those that have not ended, zombies left out."""
    found = []
    for process in processes:
        fields = stat_of(process.pid)
        if fields is not None and int(fields[_START]) == process.start and fields[0] not in _ENDED:
            found.append(process)
    return found


def read_record(path: str) -> list[ProcessId]:
    with suppress(OSError, ValueError, TypeError):
        return [ProcessId(int(pid), int(start)) for pid, start in json.loads(read(path))]
    return []


class ProcessRecord:
    """The supervisor's side: looks at its descendants and writes down those that are new."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._written: frozenset[ProcessId] = frozenset()
        self._pause_s = LOOK_FIRST_S
        self.due = time.monotonic() + LOOK_FIRST_S  # the next look

    def look(self, keepers: Iterable[int] = ()) -> None:
        """Write the descendants that there are now, if one is new.

        keepers: processes that are no descendants and belong to the attempt, with theirs.
        """
        self.due = time.monotonic() + self._pause_s
        self._pause_s = min(LOOK_LAST_S, self._pause_s * 2)
        seen = frozenset(descendants([os.getpid(), *keepers]) | _started(keepers))
        if seen <= self._written:
            return
        record = sorted(seen)[:RECORDED_MAX]
        # Without fsync: after a loss of power nothing of it is alive.
        with suppress(OSError):
            put(self._path, json.dumps(record).encode())
            self._written = seen


def _started(pids: Iterable[int]) -> set[ProcessId]:
    found = ((pid, stat_of(pid)) for pid in pids)
    return {ProcessId(pid, int(fields[_START])) for pid, fields in found if fields is not None}
