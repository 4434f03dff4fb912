"""The connections of a group, so that any thread can cut them.

The kernel says which sockets a process opened while a group was formed, and not what for: other
threads of the script open some as well. A connection is the group's if another rank has its other
end. So the ranks tell each other which ends they may have, through the store by which they met:
a collective could not be cut before these are known.
"""

import json
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256

import torch.distributed as dist

MARKS_MAX = 4096  # connections that a rank names; other threads may have opened some of them


class Connections:
    """Those of one rank in its present group."""

    def __init__(self) -> None:
        self._before: dict[int, str] = {}  # sockets that were there before the group
        self._ours: dict[int, str] = {}  # with the kernel's names
        self._notes = 0  # of this group: each has keys of its own

    def begin(self) -> None:
        """A group is about to be formed."""
        self._before, self._notes = _sockets(), 0

    def note(self, rank: int, size: int, wait: Callable[[Callable[[], bool]], None]) -> None:
        """All ranks, after connections were made.

        wait: until it is true, or raises if a rank is lost or late.
        """
        new = {d: name for d, name in _sockets().items() if self._before.get(d) != name}
        marks = {d: mark for d in new if (mark := _mark(d)) is not None}
        store = dist.distributed_c10d._get_default_store()
        self._notes += 1
        keys = [f"connections-{self._notes}-{other}" for other in range(size)]
        store.set(keys[rank], json.dumps(list(marks.values())[:MARKS_MAX]))
        wait(lambda: store.check(keys))
        theirs = {
            mark
            for other, key in enumerate(keys)
            if other != rank
            for mark in json.loads(store.get(key))
        }
        self._ours = {d: new[d] for d, mark in marks.items() if mark in theirs}

    def forget(self) -> None:
        self._ours = {}

    def shut(self) -> None:
        """Make all that waits for one of them fail, here and on the other side."""
        now = _sockets()
        for descriptor, name in self._ours.items():
            if now.get(descriptor) == name:  # not one that has the number by now
                with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as found:
                    found.shutdown(socket.SHUT_RDWR)


def _sockets() -> dict[int, str]:
    """The sockets of this process, by descriptor, with the kernel's names."""
    found = {}
    with suppress(OSError):
        for entry in os.scandir("/proc/self/fd"):
            with suppress(OSError):
                name = os.readlink(entry.path)  # noqa: PTH115
                if name.startswith("socket:"):
                    found[int(entry.name)] = name
    return found


def _mark(descriptor: int) -> int | None:
    """A number for a connection over a network, the same on both sides of it."""
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as found:
        if found.family in (socket.AF_INET, socket.AF_INET6):
            ends = sorted(end[:2] for end in (found.getsockname(), found.getpeername()))
            return int.from_bytes(sha256(repr(ends).encode()).digest()[:7], "big")
    return None  # also one that only listens: gloo ends the process if that fails
