"""The ranks of an attempt as members that change while it trains, for its supervisor.

Every rank has a line to its supervisor (first_members.py). A script that does not use
`treadle.train` never speaks on it, and its attempt is rigid. Otherwise the members change by orders
of the engine, which come as `target.json` in the attempt's folder and a SIGUSR1. `members.json`
says what was reached. Both are replaced in one piece, so that either side may be killed at any
time.

A member that was killed is replaced on its device, a few times. One that ends by itself with an
error ends the attempt, as in a rigid job: its error would come again. So does one that ends with 0
while the others train on: its script decided alone what all ranks have to decide alike. A newcomer
that ends before it trains ends only itself: the others go on, and what was ordered is refused.

The coordinator of an attempt may be lost with its node. Then the engine appoints another one by an
order without that node, whose action is the term. That one has no ranks of its own: all supervisors
that the order names, its own too, tell it which members they have (team_member.py).

Part of the supervisor: it imports the standard library and the core's protocol alone.
"""

import os
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from treadle.core.member_facts import (
    Changed,
    Ended,
    Limits,
    Lost,
    Phase,
    Place,
    Refused,
    Target,
)
from treadle.core.member_messages import Member
from treadle.engines.node.first_members import FirstMembers, Newcomer
from treadle.engines.node.members import Fact, Members
from treadle.engines.node.members_files import TARGET
from treadle.engines.node.plain_files import read_document
from treadle.engines.node.ranks import KILLED, Rank, pin
from treadle.engines.node.reached import Reached, node_of
from treadle.engines.node.team_leader import RemoteRank

REPLACED_MAX = 3  # members of one attempt
KILLED_BY_SIGNAL = 128
TAKES_PART_S = 120.0  # for a node of a new order; then that is refused
HOST = "host"  # cores can change, whatever the members are


AnyRank = Rank | RemoteRank


class MemberRanks:
    """Members, the ranks they are, and the devices they are on."""

    def __init__(
        self,
        first: FirstMembers,
        ranks: Sequence[Rank],
        *,
        tell: Callable[[Mapping[str, Any]], None],
        dismiss: Callable[[Rank, bool], None],
    ) -> None:
        """first: of which one has spoken. ranks: theirs, in order.

        dismiss: ask a rank to end; at once, if the second argument says so.
        """
        order = self._order = first.order
        self._newcomer, self._leader = first.newcomer, first.leader
        # Of members whose places need no node: those of this supervisor's own ranks.
        follows = first.follows is not None
        self._own = "" if follows or first.leader is None else first.leader.node
        self._memory = first.memory
        self._memory.make()
        self._attempt = order["folder"]
        self._dismiss_rank = dismiss
        self.members = Members(
            first.meeting.room,
            launch=self._launch,
            dismiss=self._dismiss,
            report=self._hear,
            meet=self._meet,
            limits=Limits(ready_s=order["ready_s"]),
            lines=first.lines,
        )
        self.starting: list[Newcomer] = []
        self.meets = ""  # the interpreter that is to serve the store, if nothing does
        self.finished = False
        self._last_codes: list[int | None] = []  # of members that ended after the training
        own = [member for member in first.lines if member not in first.elsewhere]
        self._ranks: dict[Member, AnyRank] = dict(zip(own, ranks, strict=True))
        if self._leader is not None:
            self._ranks |= self._leader.ranks
        self._awaited: Mapping[str, Any] | None = (
            None  # an order that not all of its nodes have yet
        )
        self._awaited_until = 0.0
        self._first: AnyRank | None = None  # the one that is rank 0 of the group
        self._dismissed: set[Member] = set()
        self._extras: dict[str, Mapping[str, Any]] = {}  # by device
        self._places: tuple[Place, ...] = ()
        self._plan = ""  # of the newest order
        self._aims = 0
        self._open = False  # the newest aim was neither reached nor refused
        self._actions: dict[int, int] = {}  # number of the aim -> order of the engine
        self._replaced = 0
        self._lost: int | None = None  # the rank that was killed last
        self._left: AnyRank | None = None  # that ended with 0, neither ordered nor dismissed
        self.failed: int | None = None  # the rank by which the attempt has failed; -1: elsewhere
        self.failed_code = 0  # of that one
        places = self._places_in(order)
        self._reached = Reached(order, places, first.leader, tell, first.follows)
        devices = [str(number) for number in order["devices"]]
        self._extras = dict(zip(devices, order["ranks"], strict=True))
        if first.follows is None:
            self._aim(order["action"], places, order["plan"], first.began)
        else:
            self._actions[0] = self._reached.words["action"]
            self._await(order, first.began)

    @property
    def speaks(self) -> bool:
        """Whether the script uses the library: else the attempt is rigid."""
        return self.members.spoken

    @property
    def succeeded(self) -> bool:
        """Whether the training came to its end, and all that its members did after it."""
        return self.finished and self.failed is None and not any(self._last_codes)

    # -- the supervisor's side ------------------------------------------------------------------

    def started(self, member: Member, rank: Rank | None, now: float) -> None:
        """A newcomer was started; None: it could not be."""
        if rank is None:
            self.members.ended(member, now)
        else:
            self._ranks[member] = rank

    def due(self, now: float) -> float | None:
        found = [self.members.due] if self.speaks else []
        found += [] if self._leader is None else [self._leader.due(now)]
        found += [] if self._awaited is None else [self._awaited_until]
        return min((moment for moment in found if moment is not None), default=None)

    def descriptors(self) -> list[int]:
        """What to poll for reading."""
        there = [] if self._leader is None else self._leader.descriptors()
        return [*self.members.descriptors(), *there]

    def over(self) -> bool:
        """Once all ranks here have ended: whether there are none elsewhere."""
        return self._leader is None or not self._leader.alive

    def ended(self, rank: AnyRank, now: float) -> bool:
        """A rank has ended; whether the attempt has failed by that."""
        member = next((name for name, each in self._ranks.items() if each is rank), None)
        if member is not None:
            self.members.hear_out(member, now)
        if member is None or not self.speaks:
            return bool(rank.code)
        if self._joins(member):
            self.members.ended(member, now)
            self._save_holds()
            return False
        if self._ends and member not in self._dismissed:
            self._last_codes.append(rank.code)
        if self._leaves(member, rank.code):
            self._left = rank
        failed = self._fails_by(member, rank.code or 0)
        if not failed and member not in self._dismissed and self._is_wanted(member):
            self._lost = rank.number
            self._note_killed(rank)
        # Also then: the others wait for it, and could not stop before their grace is over.
        self.members.ended(member, now)
        self._save_holds()
        return failed

    def _joins(self, member: Member) -> bool:
        """Whether it was to join the others for an order, and is no loss to them."""
        ordered = self._actions[self._aims] != self._reached.words["action"]
        known = member in self._dismissed
        return ordered and not known and self.members.machine.joins(member)

    def _why(self, refused: Refused) -> str:
        """Why the members stay as they are, for people, who know ranks by their numbers."""
        rank = self._ranks.get(refused.newcomer)
        if rank is None:
            return refused.why
        if rank.code is None:
            return f"{rank.name} was not ready to train after {self._order['ready_s']:g} s"
        return f"{rank.name} ended with exit code {rank.code} before it trained"

    def _note_killed(self, rank: AnyRank) -> None:
        """Another one takes its place, unless that was done too often."""
        self.failed_code = rank.code or 0  # If it is not replaced.
        if self.failed_code <= KILLED_BY_SIGNAL or self._replaced >= REPLACED_MAX:
            return
        if isinstance(rank, RemoteRank):
            self._reached.killed_there.append((rank.member, self.failed_code))
        else:
            self._reached.words["killed"] = [
                *self._reached.words["killed"],
                [rank.number, rank.code],
            ]
        self._write()

    def look(self, now: float) -> None:
        """Read what members said, and do what is due."""
        for rank in self._look_elsewhere():
            if self.ended(rank, now) and self.failed is None:
                self.failed, self.failed_code = rank.number, rank.code or 0
        for descriptor in list(self.members.descriptors()):
            self.members.readable(descriptor, now)
        self._take_awaited(now)
        due = self.members.due
        if self.speaks and due is not None and now >= due:
            self.members.tick(now)
        self._announce()
        machine = self.members.machine
        if self._is_settled() and self._devices_of(machine.group) != self._wanted:
            self._replace(now)
        self._release_nodes()

    def take_target(self, now: float) -> None:
        """Read the engine's newest order."""
        target = read_document(f"{self._attempt}/{TARGET}")
        if target is None:
            return
        if target["action"] <= max(self._actions.values()):
            self._write()  # It was asked again: say again what was reached.
            return
        devices = [str(number) for number in target["devices"]]
        self._extras |= dict(zip(devices, target["ranks"], strict=True))
        self._reached.holds |= {*self._places_in(target)}
        self._write()
        self._await(target, now)

    def _await(self, target: Mapping[str, Any], now: float) -> None:
        self._awaited, self._awaited_until = target, now + TAKES_PART_S
        self._take_awaited(now)

    def _take_awaited(self, now: float) -> None:
        """Once all its nodes have the order."""
        if (target := self._awaited) is None:
            return None
        action, places = target["action"], self._places_in(target)
        ready = {} if self._leader is None else self._leader.ready
        nodes = (place.partition("/")[0] for place in places if "/" in place)
        late = next((node for node in nodes if ready.get(node, -1) < action), "")
        if late and now < self._awaited_until:
            if self._leader is not None:
                self._leader.listen()
            return None
        self._awaited = None
        if late:
            self._aims += 1  # It has an answer, though no member was asked.
            self._actions[self._aims] = action
            return self._refuse(action, f"node {late} did not take part")
        if self._leader is not None and self._leader.reported:
            found = self._leader.take_over(places, action, self._reached.words["plan"])
            self._ranks |= self._leader.ranks
            self.members.take_over(*found, now)
        self._aim(action, places, target["plan"], now)
        if self._ends:  # Its members do not take orders any more.
            self._refuse(action, "the training ends")
        return None

    def _places_in(self, order: Mapping[str, Any]) -> list[str]:
        """Where members are to be, in rank order: "3" is a device of this node, "n1/3" is not."""
        if self._leader is None:
            return [str(number) for number in order["devices"]]
        team, mine = (order["part"] or {}).get("team"), self._leader.node
        devices = [(mine, n) for n in order["devices"]] if team is None else team["devices"]
        return [str(n) if node == self._own else f"{node}/{n}" for node, n in devices]

    def _look_elsewhere(self) -> Iterable[RemoteRank]:
        if self._leader is None:
            return ()
        self._leader.look()
        return self._leader.ended()

    def _release_nodes(self) -> None:
        """Let those go that have no members, and are in no order."""
        leader = self._leader
        if leader is None or self._awaited is not None or not self._is_settled():
            return
        answered = max(self._actions.values())
        used = {*self._wanted, *self._devices_of(self.members.machine.members)}
        for node in [n for n, action in leader.ready.items() if action <= answered]:
            if not any(place.startswith(f"{node}/") for place in used):
                leader.release(node, succeeded=True)

    def stop(self, now: float) -> None:
        if self.speaks:
            self.members.stop(now)

    def close(self) -> None:
        self.members.close()
        for newcomer in self.starting:
            os.close(newcomer.channel)

    def _replace(self, now: float) -> None:
        """Members were lost: start others on their devices, but not for ever."""
        self._replaced += 1
        action = self._actions[self._aims]
        if self._replaced <= REPLACED_MAX:
            self._aim(action, [place[0] for place in self._places], self._plan, now)
        elif action != self._reached.words["action"]:
            self._refuse(action, "members that it wanted were lost again and again")
        else:
            self.failed = self._lost

    # -- the protocol's side --------------------------------------------------------------------

    def _aim(self, action: int, devices: list[str], plan: str, now: float) -> None:
        self._aims += 1
        self._open = True
        self._actions[self._aims] = action
        self._places = tuple((device,) for device in devices)
        self._plan = plan
        if self._leader is not None:
            self._leader.needed = {node_of(device) for device in devices} - {""}
        self.members.order(Target(self._aims, self._places, plan), now)

    def _launch(self, member: Member, place: Place, descriptor: int, joins: bool) -> None:
        channel = os.dup(descriptor)
        if "/" in place[0]:
            assert self._leader is not None
            line = socket.socket(fileno=channel)
            about = {"plan": self._plan, "joins": joins, "passes": self._memory.passes()}
            self._leader.start(member, place[0], line, about)
            self._ranks[member] = self._leader.ranks[member]
            return
        extra = self._extras[place[0]]
        self.starting.append(self._newcomer(member, extra, channel, self._plan, joins=joins))

    def _meet(self, python: str) -> None:
        self.meets = python

    def _dismiss(self, member: Member, at_once: bool) -> None:
        waiting = [each for each in self.starting if each.member == member]
        for newcomer in waiting:
            self.starting.remove(newcomer)
            os.close(newcomer.channel)
        at_once = at_once or member in self._dismissed
        self._dismissed.add(member)
        rank = self._ranks.get(member)
        if isinstance(rank, RemoteRank):
            rank.dismiss(at_once=at_once)
        elif rank is not None:
            self._dismiss_rank(rank, at_once)

    def _hear(self, fact: Fact) -> None:
        match fact:
            case Changed():
                group = self._devices_of(fact.group)
                self._reached.group = group
                self._reached.words |= {"why": fact.why, "plan": fact.plan}
                if fact.stall_s or fact.why != "order":
                    self._reached.words["stall_s"] = fact.stall_s
                self._open = self._open and fact.order is None
                self._follow_first(fact.group)
                self._blame_the_one_that_left()
                if fact.order is not None and group == self._wanted:
                    answered = {"action": self._actions[fact.order], "refused": None}
                    self._reached.words |= answered
                    self._pin(fact.group)
                self._save_holds()
                self._write()
            case Refused() if self._actions[fact.order] == self._reached.words["action"]:
                self._open = False  # One that was to replace another is replaced itself.
            case Refused():
                self._refuse(self._actions[fact.order], self._why(fact))
            case Lost():
                pass  # What is missing is seen when the others have gone on.
            case Ended():
                self.finished = fact.finished

    def _follow_first(self, group: Sequence[Member]) -> None:
        """Say in the log of the first member where the output goes on, once it is another one.

        Processes keep their numbers, and people are shown the output of the first alone.
        """
        before, now = self._first, self._ranks.get(group[0]) if group else None
        self._first = now or before
        if before is not None and now is not None and now is not before:
            number = now.number
            line = f"[treadle: rank {number} goes on from here: treadle logs --rank {number}]"
            if isinstance(now, RemoteRank):
                line = f"[treadle: {now.name} goes on from here]"
            before.log.write(f"{line}\n".encode())

    def _leaves(self, member: Member, code: int | None) -> bool:
        """Whether it leaves the group by itself, and well: the others may be about to do so too."""
        machine = self.members.machine
        known = member in self._dismissed or machine.is_done(member)
        return code == 0 and not known and machine.trains(member)

    def _blame_the_one_that_left(self) -> None:
        """The others have formed a group without it, and train on."""
        rank = self._left
        if rank is None or self.failed is not None or not self.members.machine.is_training:
            return
        self.failed = rank.number
        line = (
            f"[treadle: {rank.name} left the training with exit code 0 while the others "
            "train, so the job fails; leave the loop on all ranks at the same step, for instance "
            "by run.loss or run.step_count]\n"
        )
        for shown in {id(each): each for each in (rank, self._first) if each is not None}.values():
            shown.log.write(line.encode())

    def _refuse(self, action: int, why: str) -> None:
        """The group stays as it is."""
        self._open = False
        self._places = tuple((place,) for place in sorted(self._reached.group))
        self._plan = self._reached.words["plan"]
        self._reached.words["refused"] = {"action": action, "why": why}
        self._save_holds()
        self._write()

    def _is_settled(self) -> bool:
        """Whether no change is in flight or owed."""
        return not self._open and self.members.machine.phase is Phase.RUNNING

    def _fails_by(self, member: Member, code: int) -> bool:
        if member in self._dismissed:
            # It left its loop, perhaps by an error, and took too long to end: it is not known how
            # its script ended, and a job must not be said to have succeeded then.
            return code == KILLED and self.members.machine.is_done(member)
        return bool(code) and self._is_failure(member, code)

    def _is_failure(self, member: Member, code: int) -> bool:
        """Whether it fails the attempt: an error of the script's own, also after its training.

        After its training there is no other that could go on in its place.
        """
        if self.members.machine.is_done(member):
            return True
        return code <= KILLED_BY_SIGNAL and bool(self._devices_of([member]) & self._wanted)

    def _is_wanted(self, member: Member) -> bool:
        """Whether its end is a loss: it should go on training on its device."""
        return not self._ends and bool(self._devices_of([member]) & self._wanted)

    @property
    def _ends(self) -> bool:
        """Whether its members end by themselves: the training is over, or was stopped."""
        return self._over or self.members.machine.phase in (Phase.DRAINING, Phase.ENDED)

    @property
    def _over(self) -> bool:
        return self.members.machine.is_over

    @property
    def _wanted(self) -> set[str]:
        return {place[0] for place in self._places}

    def _devices_of(self, group: Iterable[Member]) -> set[str]:
        places = self.members.machine.members
        return {places[member][0] for member in group if member in places}

    def _announce(self) -> None:
        can = [*self.members.can, HOST] if self.members.can else []
        can += [self._leader.word] if can and self._leader is not None else []
        said = self._reached.words
        if (can and can != said["can"]) or self._over != said["over"]:
            said["can"] = can or said["can"]
            self._write()

    def _pin(self, group: Iterable[Member]) -> None:
        """Let members run on the cores of the newest order, with all their threads."""
        places = self.members.machine.members
        for member in group:
            if (rank := self._ranks.get(member)) is not None:  # Other nodes do so themselves.
                pin(rank.pid, self._extras.get(places[member][0], {}).get("cpus"))

    def _save_holds(self) -> None:
        """Devices with a live member on them, and those of the newest order."""
        holds = self._devices_of(self.members.machine.members) | self._wanted
        if self._is_settled() and holds != self._reached.holds:
            self._reached.holds = holds
            self._write()

    def _write(self) -> None:
        self._reached.words["over"] = self._over
        self._reached.write()
