"""The members on this node, for a supervisor of an attempt that another one coordinates.

It starts and reaps them by the orders of that one (team_leader.py), and passes on what is said to
them and by them. It has the devices, cores and environment from the agent of its own node, as
`target.json`, and writes `members.json` for it, by the word of the coordinator.

While the coordinator cannot be reached its members wait, as long as the grant of their node
lasts. A target with a newer term names the next coordinator, perhaps this supervisor itself: that
one is told which members there are, and no older one is listened to. Until a member, or the
coordinator, has said that the members change, the ranks are those of a rigid job.

Part of the supervisor: it imports the standard library and the core's protocol alone.
"""

import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from treadle.core.member_messages import LINE_BYTES_MAX, Member, decode, member_name
from treadle.engines.node.first_members import Newcomer, environment
from treadle.engines.node.members_files import REACHED, TARGET
from treadle.engines.node.memory_folder import MemoryFolder
from treadle.engines.node.peer_link import PeerLink, Talk, key_of
from treadle.engines.node.plain_files import put, read_document
from treadle.engines.node.ranks import NOT_ALLOWED, Rank, pin

CONNECT_S = 2.0  # for one try
RETRY_S = 0.2
OWED_S = 0.05  # until it is tried again to send what a connection did not take
# What the next coordinator must know of a member that the one before was told.
ABOUT = ("Hello", "Ready", "StopAsked", "Finished")
ABOUT_MAX = 8  # lines of one member


class TeamMember:
    """The part of one node; for the supervisor it is like MemberRanks."""

    failed: int | None = None  # that is for the coordinator to say
    failed_code = 0
    finished = True
    leads = False  # it coordinates: the others and itself call this supervisor
    meets = ""

    def __init__(
        self,
        order: Mapping[str, Any],
        *,
        tell: Callable[[Mapping[str, Any]], None],
        dismiss: Callable[[Rank, bool], None],
    ) -> None:
        self._order, self._tell, self._dismiss = order, tell, dismiss
        self._team: Mapping[str, Any] = order["part"]["team"]
        self.memory = MemoryFolder(order["tag"], order.get("uid"), order.get("gid"))
        self._extras = dict(zip(order["devices"], order["ranks"], strict=True))
        self._has = order["action"]
        self._talk = Talk()
        self._life = os.urandom(8).hex()  # another supervisor of this node has another
        self._tried_at = 0.0
        self._meeting: str | None = None
        self._lines: dict[Member, socket.socket] = {}
        self._buffers: dict[Member, bytes] = {}
        self._ranks: dict[Member, Rank] = {}
        self._devices: dict[Member, int] = {}
        self._about: dict[Member, list[str]] = {}
        self.reached: Mapping[str, Any] = {"action": order["action"], "plan": order["plan"]}
        self.starting: list[Newcomer] = []
        # A node that joins an attempt that runs: it begins with no ranks of its own.
        self._joined = order["action"] > self._team["term"]
        self._changes = self._joined  # members do; else it is a rigid job, as far as is known
        self._released = self._stops = self.succeeded = False

    # -- beginning ------------------------------------------------------------------------------

    @property
    def welcome(self) -> bool:
        """Whether the coordinator has said where members meet."""
        return self._meeting is not None

    def call(self, now: float) -> None:
        """Try to reach the coordinator, which may not be there yet, or not any more."""
        if self._talk.open or self._released or now < self._call_at:
            return
        self._tried_at = now
        address, port = self._team["address"], self._team["port"]
        about = {"node": self._team["node"], "term": self._team["term"], "life": self._life}
        with suppress(OSError):
            line = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
            line.setblocking(False)
            line.connect_ex((address, port))
            self._talk.connect(PeerLink(line, key_of(self._order), about))

    @property
    def _call_at(self) -> float:
        return self._tried_at + (RETRY_S if self._talk.closed else CONNECT_S)

    def follow(self, team: Mapping[str, Any]) -> None:
        """Another one coordinates from now on: tell it what there is."""
        self._team, self._tried_at = team, 0.0
        self._talk.close()
        self._talk = Talk()
        for member, rank in self._ranks.items():
            if rank.code is None:
                about = {"device": self._devices[member], "said": self._about.get(member, [])}
                self._say({"member": member, **about})

    def newcomers(self) -> Iterator[Newcomer]:
        """The ranks that the attempt begins with."""
        first, plan = self._order["part"]["first_rank"], self._order["part"]["plan"]
        for number, device in enumerate(() if self._joined else self._order["devices"]):
            yield self._newcomer(member_name(first + number), device, plan=plan)

    def _newcomer(self, member: Member, device: int, *, plan: str, joins: bool = False) -> Newcomer:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.setblocking(False)
        self._lines[member], self._buffers[member] = ours, b""
        self._devices[member] = device
        asked, channel = len(self._team["devices"]), theirs.detach()
        own = environment(member, self._meeting or "", channel, joins=joins, asked=asked)
        own |= {"TREADLE_PLAN": plan, "TREADLE_INTERFACE": self._order["interface"]}
        own |= {"TREADLE_MEMORY_DIR": self.memory.path}
        extra = self._extras[device]
        return Newcomer(member, {**extra, "env": {**extra["env"], **own}}, channel)

    # -- the supervisor's side ------------------------------------------------------------------

    def started(self, member: Member, rank: Rank | None, now: float) -> None:  # noqa: ARG002
        """One was started; None: it could not be."""
        if rank is None:
            self._say_ended(member, NOT_ALLOWED)
        else:
            self._ranks[member] = rank

    def ended(self, rank: Rank, now: float) -> bool:  # noqa: ARG002
        """A rank has ended; whether the attempt has failed by that, as far as this node knows."""
        member = next((name for name, each in self._ranks.items() if each is rank), None)
        if member is not None:
            self._pass_on(member)
            self._say_ended(member, rank.code or 0)
        return bool(rank.code) and not self._changes

    def look(self, now: float) -> None:
        """Pass on all that there is."""
        self.call(now)
        for message in self._talk.look():
            self._hear(message)
        for member in [] if self._talk.full else list(self._lines):
            self._pass_on(member)

    def take_target(self, now: float) -> Mapping[str, Any] | None:  # noqa: ARG002
        """Read the engine's newest order; that order, if this supervisor is to coordinate."""
        target = read_document(f"{self._order['folder']}/{TARGET}")
        if target is None:
            return None
        self._extras |= dict(zip(target["devices"], target["ranks"], strict=True))
        self._has = max(self._has, target["action"])
        team = (target["part"] or {}).get("team")
        if team is None or team["leader"] == self._order["node"]:
            if not self.leads:
                self.leads = True
                return target
        elif team["term"] > self._team["term"]:
            self.follow(team)
        self._say({"has": self._has})
        return None

    def stop(self, now: float) -> None:  # noqa: ARG002
        """Its ranks get the stop signal, and ask the coordinator that all stop together."""
        self._stops = True

    def over(self) -> bool:
        """Once all its ranks have ended: whether there will be no more."""
        return not (self._changes and self.welcome) or self._released or self._stops

    @property
    def released(self) -> bool:
        return self._released and self._changes

    def due(self, now: float) -> float | None:
        """When to look though nothing came."""
        if self._talk.owes:
            return now + OWED_S
        return None if self._talk.open or self._released else self._call_at

    def descriptors(self) -> list[int]:
        found = [] if self._talk.closed else [self._talk.fileno()]
        lines = {} if self._talk.full else self._lines
        return found + [line.fileno() for line in lines.values()]

    def close(self) -> None:
        for line in self._lines.values():
            line.close()
        self._talk.close()
        for newcomer in self.starting:
            os.close(newcomer.channel)
        self.memory.remove()

    # -- inside ---------------------------------------------------------------------------------

    def _say(self, message: Mapping[str, Any]) -> None:
        self._talk.say(message)

    def _say_ended(self, member: Member, code: int) -> None:
        if (line := self._lines.pop(member, None)) is not None:
            line.close()
        self._say({"ended": member, "code": code})

    def _hear(self, message: Mapping[str, Any]) -> None:
        match message:
            case {"meeting": str(where)}:
                self._meeting = where
                self._say({"has": self._has})
            case {"launch": str(member), "device": int(device), "plan": plan, "joins": joins}:
                self._changes = True
                self.memory.note_passes(int(message["passes"]))
                if device in self._extras:
                    new = self._newcomer(member, device, plan=plan, joins=bool(joins))
                    self.starting.append(new)
                else:
                    self._say_ended(member, NOT_ALLOWED)
            case {"dismiss": member, "at_once": at_once}:
                self._dismiss_member(member, at_once=bool(at_once))
            case {"to": member, "line": str(line)} if member in self._lines:
                with suppress(OSError):
                    self._lines[member].send(f"{line}\n".encode())
            case {"hang-up": member} if member in self._lines:
                self._lines.pop(member).close()
            case {"note": member, "text": str(text)} if member in self._ranks:
                self._ranks[member].log.write(text.encode())
            case {"reached": dict(reached)}:
                self._reach(reached)
            case {"release": succeeded}:
                self._released, self.succeeded = True, bool(succeeded)
            case _:
                pass

    def _dismiss_member(self, member: Member, *, at_once: bool) -> None:
        for newcomer in [each for each in self.starting if each.member == member]:
            self.starting.remove(newcomer)
            os.close(newcomer.channel)
            self._say_ended(member, NOT_ALLOWED)
        if member in self._ranks:
            self._dismiss(self._ranks[member], at_once)

    def _reach(self, reached: Mapping[str, Any]) -> None:
        """What the agent of this node is to know of its members."""
        first = self._order["part"]["first_rank"]
        ranks = {member: first + rank.number for member, rank in self._ranks.items()}
        killed = [(ranks[name], code) for name, code in reached["killed"] if name in ranks]
        self._changes, self.reached = True, {**reached, "killed": killed}
        reached = self.reached
        with suppress(OSError):
            put(f"{self._order['folder']}/{REACHED}", json.dumps(reached).encode())
        self._tell({"members": reached})
        for member, rank in self._ranks.items():
            if rank.code is None and self._devices[member] in reached["devices"]:
                pin(rank.pid, self._extras[self._devices[member]].get("cpus"))

    def _pass_on(self, member: Member) -> None:
        """What a member says to its coordinator."""
        while (line := self._lines.get(member)) is not None:
            try:
                data = line.recv(LINE_BYTES_MAX)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            *lines, self._buffers[member] = (self._buffers[member] + data).split(b"\n")
            for each in lines:
                self._changes = True
                self._note(member, each)
                self._say({"from": member, "line": each.decode()})
            if not data:
                del self._lines[member]
                line.close()

    def _note(self, member: Member, line: bytes) -> None:
        """Keep what the next coordinator would have to know."""
        with suppress(ValueError):
            kept = self._about.setdefault(member, [])
            if type(decode(line)).__name__ in ABOUT and len(kept) < ABOUT_MAX:
                kept.append(line.decode())
