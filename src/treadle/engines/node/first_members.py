"""The ranks that an attempt begins with, until the first of them speaks as a member.

Every rank gets a line to its supervisor. Most scripts do not use `treadle.train` and never speak:
then there is nothing but these lines. With the first word a `MemberRanks` takes over
(member_ranks.py).

Part of the supervisor: it imports the standard library and the core's protocol alone.
"""

import socket
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from treadle.core.member_messages import Member, member_name
from treadle.engines.node.meeting import Meeting
from treadle.engines.node.memory_folder import MemoryFolder


class Newcomer(NamedTuple):
    """A member that has to be started."""

    member: Member
    extra: Mapping[str, Any]  # environment and cores
    channel: int  # its end of the line; the one who starts it closes it


class FirstMembers:
    """Lines to ranks that have not spoken."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        self.order = order
        self.memory = MemoryFolder(order["tag"], order.get("uid"), order.get("gid"))
        self.meeting = Meeting()
        self.began = 0.0  # monotonic
        self.lines: dict[Member, socket.socket] = {}
        self.spoken = False
        self._open: dict[int, socket.socket] = {}

    def newcomers(self, now: float) -> Iterator[Newcomer]:
        self.began = now
        for number, extra in enumerate(self.order["ranks"]):
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            ours.setblocking(False)
            self.lines[member_name(number)] = self._open[ours.fileno()] = ours
            yield self.newcomer(member_name(number), extra, theirs.detach(), self.order["plan"])

    def newcomer(
        self,
        member: Member,
        extra: Mapping[str, Any],
        channel: int,
        plan: str,
        *,
        joins: bool = False,
    ) -> Newcomer:
        asked = len(self.order["devices"])
        own = environment(member, self.meeting.where, channel, joins=joins, asked=asked)
        own |= {"TREADLE_MEMORY_DIR": self.memory.path, "TREADLE_PLAN": plan}
        return Newcomer(member, {**extra, "env": {**extra["env"], **own}}, channel)

    def descriptors(self) -> Mapping[int, socket.socket]:
        """What to poll for reading."""
        return self._open

    def hear(self, ready: Iterable[int]) -> None:
        """On lines among these something came, or the rank has closed them."""
        for line in [self._open[each] for each in ready if each in self._open]:
            try:
                said = line.recv(1, socket.MSG_PEEK)
            except BlockingIOError:
                continue
            except OSError:
                said = b""
            if said:
                self.spoken = True
            else:
                del self._open[line.fileno()]

    def close(self) -> None:
        for line in self.lines.values():
            line.close()
        self.meeting.close()
        self.memory.remove()


def environment(
    member: Member, meeting: str, channel: int, *, joins: bool, asked: int
) -> dict[str, str]:
    """What a member's process needs beside the environment of a rank."""
    return {
        "TREADLE_MEMBER": member,
        "TREADLE_CHANNEL": str(channel),
        "TREADLE_MEETING": meeting,
        "TREADLE_JOINS": "1" if joins else "0",
        "TREADLE_ASKED": str(asked),
    }
