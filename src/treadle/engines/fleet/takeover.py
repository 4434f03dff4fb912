"""After a restart of the controller: what each node must take over, from what all of them found.

Only one attempt of a job may run, wherever it is. So a job is launched on one node only once no
other node has an attempt of it, and the plan is made from all nodes together. For each job that
holds or releases devices, the newest of its attempts that a node has is compared with its row:

    of the newest order                    -> it goes on; half a launch is stopped
    on the node of the newest order alone  -> that node decides, as a single machine would
    of an older order                      -> it is stopped, then the newest order is carried out
    nowhere                                -> the newest order is carried out

An attempt that runs and that the controller does not know is a stray: its store was restored from
a backup, say. Its node stops it. Until that is proven it counts as lost there, and nothing of its
job is launched, whatever the job's row says.

An attempt that was ordered on a node that is gone, or whose name another machine has now, may run
there. Nothing of its job is launched, and no end of it is told, before the opposite is proven
(lost_parts.py). If it ran there when that was known last, and the node is only away, it goes on.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from treadle.core.actions import Change
from treadle.core.errors import EngineError
from treadle.core.events import JobStarted
from treadle.core.job import Job, JobId
from treadle.core.launch import AttemptId, Launch
from treadle.core.lifecycle import Phase
from treadle.core.live_plans import leader
from treadle.engines.agent.messages import FoundAttempt
from treadle.engines.fleet.course import Course
from treadle.engines.fleet.gang import Gang, Seat
from treadle.engines.fleet.port import Joined
from treadle.engines.fleet.split import gang_of, parts_of

_HELD = frozenset({Phase.STARTING, Phase.RUNNING, Phase.PAUSED})
_TOLD = frozenset({Phase.RUNNING, Phase.PAUSED})
_LEAVING = frozenset({Phase.STOPPING, Phase.CANCELLING})

Places = Mapping[str, FoundAttempt]  # one attempt, by node
Ask = Callable[[Job], Launch]  # how to launch the newest order of a job


class Before(NamedTuple):
    """What the controller knows of the time before its restart."""

    jobs: Sequence[Job] = ()
    attempts: Sequence[AttemptId] = ()  # whose end was not seen
    nodes: Mapping[AttemptId, Collection[str]] = MappingProxyType({})  # where they were to run

    def ever(self) -> set[str]:
        """The nodes that the scheduler may believe in, until it hears of their loss."""
        held = [job.allocation.nodes() for job in self.jobs if job.allocation is not None]
        return {node for nodes in (*held, *self.nodes.values()) for node in nodes}


NOTHING = Before()


class Members(NamedTuple):
    """The nodes that are there."""

    addresses: Mapping[str, str]
    machines: Mapping[str, str] = MappingProxyType({})  # that have their names now
    # The machine that each node had before, also if it is away; none: not known.
    before: Mapping[str, str] = MappingProxyType({})
    away: Collection[str] = ()  # of these nodes: those that have no contact now

    @classmethod
    def of(
        cls, joined: Iterable[Joined], before: Mapping[str, str], away: Collection[str] = ()
    ) -> "Members":
        found = {each.node.name: each for each in joined}
        addresses = {name: each.address for name, each in found.items()}
        machines = {name: each.machine for name, each in found.items()}
        return cls(addresses, machines, before, away)

    def there(self) -> set[str]:
        return {*self.addresses} - {*self.away}

    def is_another(self, node: str) -> bool:
        """Whether attempts that were ordered on that node may be on another machine.

        Without a name for its machine, there is no other.
        """
        machine = self.machines.get(node)
        return machine != "" and self.before.get(node) != machine


@dataclass
class Takeover:
    """The plan."""

    courses: dict[JobId, Course] = field(default_factory=dict)
    begin: list[Course] = field(default_factory=list)  # their newest order is to be launched
    owed: list[Change] = field(default_factory=list)  # to attempts that run for an older order
    stopped: list[Job] = field(default_factory=list)  # nothing of them runs: a stop is answered
    attempts: dict[str, set[AttemptId]] = field(default_factory=dict)  # to be told of, by node
    never: list[AttemptId] = field(default_factory=list)  # no node knows of them: they are over


def plan(
    before: Before,
    found: Mapping[str, Sequence[FoundAttempt]],
    members: Members,
    ask: Ask,
) -> Takeover:
    jobs, attempts, ordered = before
    places = _places(found, members)
    own: dict[JobId, list[AttemptId]] = {}
    for attempt in sorted(attempts):
        own.setdefault(attempt.job, []).append(attempt)
    alive = _running(places)
    takeover, known = Takeover(), set[AttemptId]()
    for job in jobs:
        if job.phase in _LEAVING or (job.phase in _HELD and job.allocation is not None):
            mine, running = own.get(job.id, []), alive.pop(job.id, set())
            known |= _Case(job, mine, places, members, takeover, ordered, running).decide(ask)
    orders = {job.id: job.action for job in jobs}
    for job_id, running in alive.items():  # Nothing of it should run.
        gang = _stray_gang(min(running), orders.get(job_id, -1), _strays(running, places), members)
        course = takeover.courses[job_id] = Course(job_id)
        course.newest = gang.action
        course.adopt(gang)
    for attempt in sorted(set(attempts) - known):
        if attempt in places:  # One node says that it is over; the others stop what they have.
            takeover.attempts.setdefault(min(places[attempt]), set()).add(attempt)
        else:
            takeover.never.append(attempt)
    return takeover


def _places(
    found: Mapping[str, Sequence[FoundAttempt]], members: Members
) -> dict[AttemptId, dict[str, FoundAttempt]]:
    """What nodes say of each attempt."""
    places: dict[AttemptId, dict[str, FoundAttempt]] = {}
    for node, seen in found.items():
        # Of an attempt without an end, a machine that did not have it knows nothing, though it may
        # see the files of the one that had.
        own_word = not members.is_another(node)
        for each in [each for each in seen if own_word or each.alive or each.ended]:
            places.setdefault(each.id, {})[node] = each
    return places


def _running(places: Mapping[AttemptId, Places]) -> dict[JobId, set[AttemptId]]:
    """The attempts that are alive somewhere, by job."""
    found: dict[JobId, set[AttemptId]] = {}
    for attempt, seen in places.items():
        if any(each.alive for each in seen.values()):
            found.setdefault(attempt.job, set()).add(attempt)
    return found


def _strays(running: Iterable[AttemptId], places: Mapping[AttemptId, Places]) -> Places:
    """One attempt that runs on each node."""
    found = [item for attempt in sorted(running) for item in places[attempt].items()]
    return {node: each for node, each in found if each.alive}


def _stray_gang(attempt: AttemptId, action: int, strays: Places, members: Members) -> Gang:
    seats = {node: Seat(each.holds, None, action) for node, each in sorted(strays.items())}
    gang = Gang(attempt, action, seats)
    for node in strays:
        gang.lose_stray(node, members.machines[node])
    return gang


@dataclass
class _Case:
    """One job."""

    job: Job
    mine: list[AttemptId]
    places: Mapping[AttemptId, Places]
    members: Members
    takeover: Takeover
    ordered: Mapping[AttemptId, Collection[str]]
    running: set[AttemptId]  # of this job, also strays
    strays: Places = field(default_factory=dict)  # by node: what runs and is not the newest

    def decide(self, ask: Ask) -> set[AttemptId]:
        """Put the job into the plan; the attempts that need no other mention."""
        job = self.job
        there = [attempt for attempt in self.mine if attempt in self.places]
        newest = there[-1] if there else None
        seen: Places = {} if newest is None else self.places[newest]
        if seen and all(each.action < job.attempt and not each.alive for each in seen.values()):
            newest, seen = None, {}  # Of an earlier hold; its end is told with the others.
        unseen = self._unseen(newest, seen)
        self.strays = _strays(self.running - {newest}, self.places)
        if job.phase in _LEAVING or job.allocation is None:
            return self._leave(newest, seen, unseen)
        if self.strays:
            return self._carry_out(newest, seen, unseen)
        parts = parts_of(job.allocation)
        lost = set(parts) - self.members.there() | (set(parts) & unseen)
        if unseen - lost:  # An older attempt may run on a node that is gone.
            return self._carry_out(newest, seen, unseen)
        is_current = all(e.action == job.action and not e.never_was for e in seen.values())
        if seen and not lost and len(parts) == 1 and set(seen) == set(parts):
            return self._go_on_alone(next(iter(parts)), newest, seen, ask)
        if (seen or lost) and is_current and set(seen) <= set(parts):
            return self._go_on(newest, seen, lost, ask)
        return self._carry_out(newest, seen, unseen)

    def _unseen(self, newest: AttemptId | None, seen: Places) -> set[str]:
        """Nodes that may have an attempt no older than the newest that was seen, and do not say.

        They are gone, or another machine has their name.
        """
        since = 0 if newest is None else newest.number
        mine = [attempt for attempt in self.mine if attempt.number >= since]
        nodes = {node for attempt in mine for node in self.ordered.get(attempt, ())}
        doubtful = {node for node in nodes - set(seen) if self.members.is_another(node)}
        return (nodes - self.members.there()) | doubtful

    def _waits(self, lost: set[str], attempt: AttemptId) -> set[str]:
        """Nodes of these that are away and had this attempt when it ran: it goes on with them."""
        ordered = self.ordered.get(attempt, ())
        if self.job.phase not in _TOLD or attempt not in self.mine[-1:]:
            return set()
        away = lost & {*self.members.away} & {*ordered}
        return {node for node in away if not self.members.is_another(node)}

    def _go_on_alone(
        self, node: str, newest: AttemptId | None, seen: Places, ask: Ask
    ) -> set[AttemptId]:
        """It runs, or ran, on the only node that it is to be on."""
        job, each = self.job, seen[node]
        assert job.allocation is not None
        coming = {attempt for attempt in self.mine if attempt not in self.places}
        launch = _asked(ask, job)
        again = launch is not None and launch.id == each.id
        if each.action == job.action and (again or not each.never_was):
            gang = Gang(each.id, job.action, {node: Seat(job.allocation, launch, job.action)})
            self._running(gang, each.changes)
        elif each.alive:
            holds = each.holds or job.allocation
            gang = Gang(each.id, each.action, {node: Seat(holds, None, each.action, holds)})
            gang.started, gang.changes = True, each.changes
            self.takeover.owed.append(Change(job.action, job.id, job.allocation))
        else:
            return self._carry_out(newest, seen, set())
        self._course().adopt(gang)
        return coming | {each.id}

    def _go_on(
        self, newest: AttemptId | None, seen: Places, lost: set[str], ask: Ask
    ) -> set[AttemptId]:
        """Its parts run, or ran: all of them, or what a launch that was cut in half has left."""
        job = self.job
        assert job.allocation is not None
        attempt = newest or (self.mine[-1] if self.mine else AttemptId(job.id, 0))
        launch = _asked(ask, job)
        parts = parts_of(job.allocation)
        port = next((each.part.port for each in seen.values() if each.part is not None), 0)
        if launch is not None:
            addresses = {node: self.members.addresses.get(node, "") for node in parts}
            seats = gang_of(job.action, launch, job.allocation, addresses, port=port).seats
        else:
            seats = {node: Seat(own, None, job.action) for node, own in parts.items()}
        gang = Gang(attempt, job.action, {n: s for n, s in seats.items() if n in {*seen, *lost}})
        gone = lost - self._waits(lost, attempt)
        words = (each.changes for each in seen.values())
        self._running(gang, next((each for each in words if leader(each) is not None), ()))
        for node in gone:
            gang.lose(node, self.members.before.get(node, ""))
        if gone or len(gang.seats) < len(parts):
            gang.stop(job.action)
        self._course().adopt(gang)
        for node in seen:
            self._pass(node, [attempt])
        return {attempt}

    def _carry_out(
        self, newest: AttemptId | None, seen: Places, unseen: set[str]
    ) -> set[AttemptId]:
        """Stop what runs for an older order, then launch."""
        job, course = self.job, self._course()
        assert job.allocation is not None
        owed = Change(job.action, job.id, job.allocation)
        coming = {attempt for attempt in self.mine if attempt not in self.places}
        if not seen and not unseen and not self.strays:
            if job.allocation.paused:  # Nothing runs that could be paused.
                self.takeover.stopped.append(job)
                del self.takeover.courses[job.id]
                return set()
            course.beginning = owed
            self.takeover.begin.append(course)
            return coming
        attempt = newest or self._last_on(unseen) or min(self.running)
        course.adopt(self._stopping(attempt, seen, unseen), owed=owed)
        return coming | {attempt}

    def _leave(self, newest: AttemptId | None, seen: Places, unseen: set[str]) -> set[AttemptId]:
        """Answer a stop that is owed."""
        if not seen and not unseen and not self.strays:
            self.takeover.stopped.append(self.job)
            return set()
        attempt = newest or self._last_on(unseen) or min(self.running)
        gang = self._stopping(attempt, seen, unseen)
        self._course().adopt(gang, stop=self.job.action)
        return {attempt}

    def _last_on(self, nodes: set[str]) -> AttemptId | None:
        """The newest attempt that was ordered there."""
        on = [each for each in self.mine if nodes & {*self.ordered.get(each, ())}]
        return on[-1] if on else None

    def _stopping(self, attempt: AttemptId, seen: Places, unseen: set[str]) -> Gang:
        job = self.job
        nodes = sorted({*seen, *unseen} - {*self.strays})
        gang = _stray_gang(attempt, job.action, self.strays, self.members)
        gang.seats |= {node: Seat(None, None, job.action) for node in nodes}
        for node in unseen - {*self.strays}:
            gang.lose(node, self.members.before.get(node, ""))
        gang.stop(job.action)
        for node in seen:
            self._pass(node, [attempt])
        return gang

    def _running(self, gang: Gang, changes: tuple[str, ...]) -> None:
        """Note that its start was told, if it was."""
        job = self.job
        if job.phase in _TOLD:
            gang.started, gang.changes = True, changes
            told = JobStarted(
                job.id, job.action, job.iterations_done, job.iterations_per_s, changes
            )
            for seat in gang.seats.values():
                seat.started = told
                seat.reach()

    def _course(self) -> Course:
        course = Course(self.job.id)
        course.newest = self.job.action
        self.takeover.courses[self.job.id] = course
        return course

    def _pass(self, node: str, attempts: Sequence[AttemptId]) -> None:
        self.takeover.attempts.setdefault(node, set()).update(attempts)


def _asked(ask: Ask, job: Job) -> Launch | None:
    """How to launch it; None if the controller cannot say, which only a launch would need."""
    try:
        return ask(job)
    except EngineError:
        return None


def lost_before(courses: Iterable[Course]) -> set[str]:
    """Nodes that are lost and have parts of attempts of an earlier controller."""
    gangs = [course.gang for course in courses if course.gang is not None]
    return {node for gang in gangs for node in gang.nodes if gang.is_lost_on(node)}
