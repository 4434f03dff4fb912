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
from treadle.engines.node.team_leader import TeamLeader


class Newcomer(NamedTuple):
    """A member that has to be started."""

    member: Member
    extra: Mapping[str, Any]  # environment and cores
    channel: int  # its end of the line; the one who starts it closes it


class FirstMembers:
    """Lines to ranks that have not spoken."""

    def __init__(
        self,
        order: Mapping[str, Any],
        memory: MemoryFolder | None = None,
        follows: Mapping[str, Any] | None = None,
    ) -> None:
        """follows: what another coordinator reached, which is lost: members are told of later."""
        self.order, self.follows = order, follows
        self.memory = memory or MemoryFolder(order["tag"], order.get("uid"), order.get("gid"))
        # Members may be on other nodes, or come to be there.
        self.leader: TeamLeader | None = None
        self.meeting = self._reachable() or Meeting()
        if self.leader is not None:
            self.leader.meeting = self.meeting.where
        self.elsewhere: dict[Member, str] = {}  # with their nodes
        self.began = 0.0  # monotonic
        self.lines: dict[Member, socket.socket] = {}
        self.spoken = False
        self._open: dict[int, socket.socket] = {}

    def _reachable(self) -> Meeting | None:
        """Where members of other nodes would meet too; None: there will be none."""
        address, begins_alone = self.order["address"], self.order["part"] is None
        if not address:
            return None
        try:
            self.leader = TeamLeader(self.order)
            return Meeting(address)
        except OSError:  # The cluster has another address of this machine than the machine has.
            if not begins_alone:
                raise
            self.leader = None
            return None

    def newcomers(self, now: float) -> Iterator[Newcomer]:
        self.began = now
        self._expect()
        for number, extra in enumerate(self.order["ranks"]):
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            ours.setblocking(False)
            self.lines[member_name(number)] = self._open[ours.fileno()] = ours
            yield self.newcomer(member_name(number), extra, theirs.detach(), self.order["plan"])

    def _expect(self) -> None:
        """Those that other nodes start; the first are on this one."""
        team = (self.order["part"] or {}).get("team")
        if self.leader is None or team is None:
            return
        for number, (node, _) in enumerate(team["devices"]):
            if node != self.leader.node:
                line = self.leader.expect(member_name(number), node)
                self.lines[member_name(number)] = self._open[line.fileno()] = line
                self.elsewhere[member_name(number)] = node
        self.leader.listen()

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
        own |= {"TREADLE_INTERFACE": self.order["interface"]}
        return Newcomer(member, {**extra, "env": {**extra["env"], **own}}, channel)

    def descriptors(self) -> list[int]:
        """What to poll for reading."""
        return [*self._open, *([] if self.leader is None else self.leader.descriptors())]

    def hear(self, ready: Iterable[int]) -> None:
        """On lines among these something came, or the rank has closed them."""
        if self.leader is not None:
            self.leader.look()
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

    def over(self) -> bool:
        """Whether no node is to call any more that begins with this one."""
        return self.leader is None or self.leader.met >= {*self.elsewhere.values()}

    def close(self, *, succeeded: bool = False) -> None:
        if self.leader is not None:
            self.leader.close(succeeded=succeeded)
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
