"""One attempt on one or several nodes, put together from what each node says of its part.

Whatever the order in which the parts speak: there is at most one start and exactly one end, and no
start comes after the end. The attempt has started when all parts have. A part that ends badly ends
the attempt: the others are stopped, and the first that ended badly says how and why.

If its members can change it may start more than once: each change is told so. The part speaks for
all then whose supervisor coordinates them. Parts join and leave without a word about the attempt.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from treadle.core.allocation import Allocation
from treadle.core.attempt import How
from treadle.core.cluster import Device
from treadle.core.events import AttemptEnded, Event, JobPaused, JobStarted, TrainingEnded
from treadle.core.job import JobId
from treadle.core.launch import AttemptId, Launch
from treadle.core.live_plans import leader
from treadle.core.plan import DATA_PARALLEL, plan_of
from treadle.engines.agent.messages import Refused, Wanted

Word = JobStarted | JobPaused | TrainingEnded | AttemptEnded
KILLED_CODE = 137
GRANT_OVER = (
    "the grant of node {} ran out: its agent hung or was away, or its cluster did not confirm it"
)


@dataclass
class Seat:
    """The part of one node."""

    allocation: Allocation | None  # None: adopted to be stopped
    launch: Launch | None  # None: adopted, and its launch was not asked for
    sent: int  # the newest order about it that its agent was given, or will be
    # As its start or last change was reported.
    before: Allocation | None = None
    launch_before: Launch | None = None
    started: JobStarted | None = None
    ended: AttemptEnded | None = None
    settled: bool = False  # nothing of it runs any more
    stopping: bool = False  # its agent was ordered to stop it
    lost: bool = False  # its node is lost: what ran there may run on (lost_parts.py)
    machine: str = ""  # on which it was when it was lost; empty: not known
    stray: bool = False  # lost as an attempt that its controller does not know: it is stopped there
    joining: bool = False  # in an order to change that has no answer yet
    leaving: bool = False  # its members leave, and then it ends

    @property
    def holds(self) -> Allocation | None:
        """The devices that it has; none once it is paused."""
        if self.allocation is None or not self.allocation.paused:
            return self.allocation
        return None if self.before is None or self.before.paused else self.before

    @property
    def failed(self) -> bool:
        return self.ended is not None and not _is_success(self.ended)

    def reach(self) -> None:
        """It is as it was ordered: what it goes back to if its next change is refused."""
        self.before, self.launch_before = self.allocation, self.launch


class Heard(NamedTuple):
    """What follows from a fact about a part."""

    told: tuple[Event, ...] = ()
    stop: tuple[str, ...] = ()  # nodes whose parts must be stopped now


class Gang:
    """An attempt and its parts, by node in the order of their ranks."""

    def __init__(self, attempt: AttemptId, action: int, seats: Mapping[str, Seat]) -> None:
        """action: the order that it was launched for."""
        self.attempt = attempt
        self.action = action
        self.seats = dict(seats)
        self.started = False  # and that was told
        self.changes: tuple[str, ...] = ()  # what it can change while it runs
        self.training_over = False
        self.workdirs: Mapping[str, str] = {}  # folders it runs in, by node, in place of its own
        self._stop_ordered = False
        self._cause: AttemptEnded | None = None  # the first end that is not a success

    @property
    def job(self) -> JobId:
        return self.attempt.job

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(self.seats)

    @property
    def launch(self) -> Launch | None:
        """How its first part was launched, if that is known."""
        return next((seat.launch for seat in self.seats.values()), None)

    @property
    def alone(self) -> Seat | None:
        """Its only part, if it runs on one node."""
        return next(iter(self.seats.values())) if len(self.seats) == 1 else None

    @property
    def lead(self) -> Seat | None:
        """The part that speaks for all: the only one, or the one that coordinates the others."""
        found = leader(self.changes)
        return self.alone or (None if found is None else self.seats.get(found.node))

    def coordinator(self, nodes: Iterable[str]) -> str:
        """The node whose supervisor coordinates members on these; empty: none of them can."""
        found = leader(self.changes)
        there = [node for node in nodes if node in self.seats and not self.seats[node].lost]
        if found is None or found.node in there or found.node not in self.lost:
            return "" if found is None else found.node
        return next(iter(there), "")

    @property
    def leaves(self) -> bool:
        """Whether parts of it are about to end, or lost and not proven to be over."""
        return any(seat.leaving or self.is_lost_on(node) for node, seat in self.seats.items())

    @property
    def held(self) -> Allocation | None:
        """What all parts together were last reported to have; None: that is not known."""
        return _whole([(s.before, s.launch_before) for s in self.seats.values() if not s.joining])

    @property
    def ordered(self) -> Allocation | None:
        """What all parts together are to have."""
        return _whole([(s.allocation, s.launch) for s in self.seats.values() if not s.leaving])

    @property
    def lost(self) -> tuple[str, ...]:
        """The nodes that are lost with its parts."""
        return tuple(node for node, seat in self.seats.items() if seat.lost)

    @property
    def survives(self) -> bool:
        """Whether it can go on without the parts that are lost, on the nodes that it has else."""
        if self.stopping or self.training_over or leader(self.changes) is None:
            return False
        parts = self.seats.values()
        steady = not any(seat.joining or seat.leaving for seat in parts)
        return steady and self.held == self.ordered and not all(seat.lost for seat in parts)

    @property
    def left(self) -> bool:
        """Whether it is paused, and others may have its devices."""
        seat = self.alone
        held = None if seat is None else seat.before
        return held is not None and bool(held.paused) and held == (seat and seat.allocation)

    @property
    def over(self) -> bool:
        return all(seat.settled for seat in self.seats.values())

    @property
    def stray(self) -> bool:
        """Whether its controller does not know it: nothing is told of it."""
        return all(seat.stray for seat in self.seats.values())

    @property
    def stopping(self) -> bool:
        stops = (seat for seat in self.seats.values() if seat.stopping)
        return any(not (seat.joining or seat.leaving) for seat in stops)

    def reports_from(self, node: str) -> bool:
        """Whether what a job reports there is of this attempt, as it goes on.

        While an order ends or changes it, the attempt that runs may not be the one that the
        controller waits for.
        """
        seat = self.seats.get(node)
        if seat is None or self.stopping:
            return False
        return seat.started is None or seat.started.action == seat.sent

    # -- orders ---------------------------------------------------------------------------------

    def wanted(self, node: str) -> Wanted | None:
        """What is to become of the part there; None if it is over, or lost with its node."""
        seat = self.seats.get(node)
        if seat is None or seat.settled or seat.lost:
            return None
        return Wanted(
            attempt=self.attempt,
            action=seat.sent,
            allocation=None if seat.stopping else seat.allocation,
            launch=None if seat.stopping else seat.launch,
            told=seat.started is not None and seat.started.action == seat.sent,
        )

    def stop(self, order: int) -> tuple[str, ...]:
        """An order ends the attempt; the nodes to which it must be sent."""
        self._stop_ordered = True
        if self.lost:
            self._cause = self._cause or self._lost(self.seats[self.lost[0]])
        return self._stop_rest(order)

    def change(self, order: int, seats: Mapping[str, Seat]) -> tuple[str, ...]:
        """It is given an order that it may carry out while it runs, with these parts.

        The nodes whose parts are to leave, and must be stopped: their coordinator is lost.
        """
        found = leader(self.changes)
        orphaned = found is not None and found.node in self.lost
        for node in self.lost:
            del self.seats[node]
        for node, new in seats.items():
            if (seat := self.seats.get(node)) is not None:
                seat.sent, seat.allocation, seat.launch = order, new.allocation, new.launch
            elif new.launch is not None:
                own = replace(new.launch, attempt=self.attempt.number, nonce=self.attempt.nonce)
                self.seats[node] = replace(new, launch=own, joining=True)
        for node, seat in self.seats.items():
            seat.leaving = node not in seats
        leavers = [node for node in self.seats if orphaned and node not in seats]
        for node in leavers:
            self.seats[node].stopping, self.seats[node].sent = True, order
        return tuple(leavers)

    def _stop_rest(self, order: int) -> tuple[str, ...]:
        found = []
        for node, seat in self.seats.items():
            if not (seat.settled or seat.stopping or seat.lost):
                seat.stopping, seat.sent = True, max(seat.sent, order)
                found.append(node)
        return tuple(found)

    # -- facts ----------------------------------------------------------------------------------

    def is_lost_on(self, node: str) -> bool:
        """Whether its part there was lost, and is not proven to be over."""
        seat = self.seats.get(node)
        return seat is not None and seat.lost and not seat.settled

    def hear(self, node: str, fact: Word) -> Heard:
        """A part says something; stale words change nothing."""
        seat = self.seats.get(node)
        if seat is None or seat.settled or seat.lost or fact.action < self.action:
            return Heard()
        match fact:
            case JobStarted():
                return self._hear_start(seat, fact)
            case JobPaused():
                return self._hear_pause(seat, fact)
            case TrainingEnded():
                self.training_over = seat is self.lead
                silent = self.stopping or not self.training_over
                return Heard(() if silent else (fact,))
            case _ if seat.leaving or seat.joining:
                del self.seats[node]  # If it was to join, the one that coordinates misses it.
                return Heard()
            case _:
                return self._hear_end(seat, _explained(node, fact))

    def lose(self, node: str, machine: str = "") -> tuple[str, ...]:
        """Its node is lost; the nodes whose parts must be stopped, unless the others can go on.

        machine: that had the name of the node; empty: not known.
        """
        seat = self.seats.get(node)
        if seat is None or seat.settled or seat.lost:
            return ()
        seat.lost, seat.machine = True, machine
        if seat.leaving or self.survives:  # The controller says with which devices.
            return ()
        self._cause = self._cause or self._lost(seat)
        return self._stop_rest(self.action)

    def lose_stray(self, node: str, machine: str) -> None:
        """What runs there is not known to the controller, and is over once that is proven."""
        seat = self.seats[node]
        seat.lost, seat.machine, seat.stray = True, machine, True

    def fence(self, node: str) -> None:
        """Nothing of a part that was lost runs any more."""
        if self.is_lost_on(node):
            seat = self.seats[node]
            seat.ended, seat.settled = self._lost(seat), True
            if seat.leaving:
                del self.seats[node]

    def refuse(self, refused: Refused) -> JobStarted | None:
        """It could not change. It goes on as it was if it was to have more: the word of that. None
        if it has to end for the order."""
        before, after, seat = self.held, self.ordered, self.lead
        launch = None if seat is None else seat.launch
        self.changes = refused.changes
        for seat in self.seats.values():
            if seat.joining:
                seat.stopping = seat.leaving = True
            else:
                seat.allocation, seat.launch, seat.leaving = seat.before, seat.launch_before, False
        return self.keep(refused, before, after, launch)

    def keep(
        self,
        refused: Refused,
        before: Allocation | None,
        after: Allocation | None,
        launch: Launch | None,
    ) -> JobStarted | None:
        """The word that it goes on as it was, if it can. launch: how it was to change."""
        seat = self.lead
        if seat is None or launch is None or not refused.why or before is None or after is None:
            return None
        # The same: it was refused before a restart of the controller, and is ordered again.
        if before != after and not before.grows_to(after):
            return None
        speed = launch.iterations_per_s if seat.started is None else seat.started.iterations_per_s
        seat.started = JobStarted(
            self.job,
            refused.action,
            launch.iterations_done,
            speed,
            refused.changes,
            attempt=refused.attempt,
            started_at=refused.started_at,
            refused=refused.why,
        )
        return seat.started

    def dismissed(self) -> tuple[str, ...]:
        """Nodes whose parts were to join and are not wanted any more."""
        return tuple(node for node, seat in self.seats.items() if seat.joining and seat.stopping)

    def _hear_start(self, seat: Seat, fact: JobStarted) -> Heard:
        if seat.ended is not None or fact.action != seat.sent or self.stopping:
            return Heard()
        seat.started = fact
        parts = [each for each in self.seats.values() if not (each.joining or each.leaving)]
        starts = [each.started for each in parts if each.started is not None]
        if self._cause is not None or len(starts) < len(parts):
            return Heard()
        if self.alone is not None:
            self.started, self.changes = True, fact.changes
            if seat.allocation is not None:  # If it could not be paused, it has its devices.
                seat.allocation = seat.allocation.as_paused(None)
            seat.reach()
            return Heard((fact,))
        spoken = next((start for start in starts if leader(start.changes) is not None), None)
        if self.started and spoken is not fact:
            return Heard()
        self.changes = () if spoken is None else spoken.changes
        for each in self.seats.values():
            each.joining = False
            each.reach()
        fact = replace(fact, changes=self.changes, pauses=())
        if not self.started:
            at = [start.started_at for start in starts if start.started_at is not None]
            fact = replace(fact, started_at=max(at, default=None))
        self.started = True
        return Heard((fact,))

    def _hear_pause(self, seat: Seat, fact: JobPaused) -> Heard:
        """Its only part is paused, or could not go on."""
        if seat.ended is not None or fact.action != seat.sent or self.stopping:
            return Heard()
        if seat.allocation is not None:
            seat.allocation = seat.allocation.as_paused(fact.how)
        done, speed = (
            (0.0, 0.0)
            if seat.launch is None
            else (seat.launch.iterations_done, seat.launch.iterations_per_s)
        )
        told = seat.started or JobStarted(self.job, fact.action, done, speed, self.changes)
        seat.started, self.started = replace(told, action=fact.action), True
        seat.reach()
        return Heard((fact,))

    def _hear_end(self, seat: Seat, fact: AttemptEnded) -> Heard:
        seat.ended, seat.settled = fact, True
        if not seat.failed:
            return Heard()
        # What ends after an order to stop ended by that: the parts fall one after another.
        by_order = self._stop_ordered and seat.ended.how is How.EXITED
        cause = replace(seat.ended, how=How.STOPPED) if by_order else seat.ended
        self._cause = self._cause or cause
        return Heard(stop=self._stop_rest(self.action))

    # -- the end --------------------------------------------------------------------------------

    def end(self) -> AttemptEnded:
        """How it ended, once all parts have."""
        ends = [seat.ended for seat in self.seats.values() if seat.ended is not None]
        assert len(ends) == len(self.seats), "a part has not ended"
        cause = self._cause or ends[0]
        if cause.how in (How.EXITED, How.LOST):  # Those whose peers were lost may end before that.
            lost = [ended for ended in ends if ended.how is How.LOST]
            cause = max(lost, key=lambda ended: ended.node_lost, default=cause)
        if len(ends) == 1:
            return cause if cause.how is How.LOST else ends[0]
        codes: list[int | None] = []
        for seat, ended in zip(self.seats.values(), ends, strict=True):
            ranks = 0 if seat.launch is None else seat.launch.ranks
            codes += [*ended.codes, *(None,) * (ranks - len(ended.codes))]
        return replace(
            cause,
            attempt=max(ended.attempt for ended in ends),
            codes=tuple(codes),
            started_at=_most(ended.started_at for ended in ends),
            ended_at=_most(ended.ended_at for ended in ends),
            ran_s=_most(ended.ran_s for ended in ends),
            memory_peak_gib=_sum(ended.memory_peak_gib for ended in ends),
            memory_kills=sum(ended.memory_kills for ended in ends),
        )

    def _lost(self, seat: Seat) -> AttemptEnded:
        if seat.stray:
            return AttemptEnded(self.job, self.action, 0, How.STOPPED)
        ranks = 1 if seat.launch is None else seat.launch.ranks
        number = self.attempt.number
        started_at = None if seat.started is None else seat.started.started_at
        return AttemptEnded(
            self.job,
            self.action,
            number,
            How.LOST,
            KILLED_CODE,
            codes=(None,) * ranks,
            started_at=started_at,
            node_lost=True,
        )


def _whole(parts: Iterable[tuple[Allocation | None, Launch | None]]) -> Allocation | None:
    """All of them as one allocation; None if that of one is not known."""
    devices: list[Device] = []
    whole: Allocation | None = None
    plan = DATA_PARALLEL
    for own, launch in parts:
        if own is None:
            return None
        part = None if launch is None else launch.part
        plan = own.plan if part is None else plan_of(part.plan)
        whole, devices = own, [*devices, *own.devices]
    return None if whole is None else replace(whole, devices=tuple(devices), plan=plan)


def _explained(node: str, ended: AttemptEnded) -> AttemptEnded:
    """An agent that tells of a part whose grant ran out: its node is not lost."""
    if not ended.node_lost or ended.error:
        return ended
    return replace(ended, error=GRANT_OVER.format(node))


def _is_success(ended: AttemptEnded) -> bool:
    return ended.how is How.EXITED and ended.code == 0


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
