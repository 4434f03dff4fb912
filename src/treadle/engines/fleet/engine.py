"""The engine: jobs on one node or many, each with an agent that runs them there.

The engine keeps a course for each job (course.py), which says what to do, and a client for each
node (node_client.py), which has it done. The cluster says which nodes there are (port.py,
membership.py).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Coroutine, Mapping, Sequence
from dataclasses import replace as replace_fields
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import uuid4

from treadle.core.actions import Action, Change, Stop
from treadle.core.attempt import How
from treadle.core.cluster import Device, Node
from treadle.core.errors import EngineError, InvalidInputError
from treadle.core.events import (
    AttemptEnded,
    DeviceClosed,
    DeviceOpened,
    Event,
    JobPaused,
    JobStarted,
    NodeJoined,
    TrainingEnded,
)
from treadle.core.job import Job, JobId
from treadle.core.launch import AttemptId, Launch
from treadle.core.machine import (
    DeviceOrder,
    JobFiles,
    Leftovers,
    Measurement,
    NodeOrder,
    NodeView,
    Output,
)
from treadle.engines.agent import messages
from treadle.engines.agent.agent_errors import StaleEpochError
from treadle.engines.context import EngineContext
from treadle.engines.fleet import takeover
from treadle.engines.fleet.archives import Archives
from treadle.engines.fleet.batches import checked
from treadle.engines.fleet.course import Begin, Course, Effect, Launching, Send, Tell
from treadle.engines.fleet.fleet_output import FleetOutput
from treadle.engines.fleet.fleet_views import (
    NodeViews,
    Sightings,
    holders,
    measured,
    unused_nodes,
    waiting_for_fences,
    with_health,
)
from treadle.engines.fleet.gang import Gang
from treadle.engines.fleet.launches import Launches, with_places
from treadle.engines.fleet.lost_parts import LostParts
from treadle.engines.fleet.machines import Machines
from treadle.engines.fleet.membership import Membership
from treadle.engines.fleet.newest_ends import NewestEnds
from treadle.engines.fleet.node_client import NodeClient
from treadle.engines.fleet.port import Change as FleetChange
from treadle.engines.fleet.port import Fleet, Joined, Left, NewEpoch
from treadle.engines.fleet.shared_folders import SharedFolders
from treadle.engines.fleet.silent_nodes import SilentNodes
from treadle.engines.fleet.survey import Found, all_ready, surveyed
from treadle.engines.fleet.takeover import NOTHING, Before
from treadle.engines.fleet.traces import Traces
from treadle.files import replace
from treadle.repository import User

logger = logging.getLogger("treadle")


class FleetEngine:
    """Carries out orders on the nodes of a fleet."""

    def __init__(self, context: EngineContext, fleet: Fleet, *, address: str = "") -> None:
        """address: of the cluster, for people."""
        self._context, self._controls, self._clock = context, context.controls, context.clock
        self._fleet, self.address = fleet, address
        self._machines = Machines(context.root / "machines.json")
        there = fleet.members()
        away = self._machines.away([each.node.name for each in there])
        self._nodes = Membership(self, (*there, *away), self._tell)
        self.members, self.ever = self._nodes.members, self._nodes.ever
        self.clients = self._nodes.clients
        self.courses: dict[JobId, Course] = {}
        self._ends = NewestEnds()
        self._views = NodeViews()
        self._sightings: dict[str, Sightings] = {}
        self._closed: dict[Device, DeviceClosed] = {}
        self._unseen: dict[str, set[AttemptId]] = {}  # ends that a node is to tell
        self.traces = Traces()
        self._epoch = 0
        self._probe = uuid4().hex
        self._begun: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.silent = SilentNodes(self.clients, self.members, self._closed, self._tell)
        self.lost = LostParts(self, fleet.fencing, self._machines)
        self.outputs = FleetOutput(self.clients, context.clock, self._running, self._owes)
        self.folders = SharedFolders(self.clients)
        self.archives = Archives(context.root / "archives", self.clients)
        self._launches = Launches(self)

    # -- the controller's side ------------------------------------------------------------------

    def nodes(self) -> tuple[Node, ...]:
        return tuple(member.node for member in self.members.values())

    def view(self) -> tuple[NodeView, ...]:
        jobs = holders(self.courses.values())
        closing_in_s = self.lost.closing_in_s()
        fenced = waiting_for_fences(self.courses.values(), closing_in_s)
        silent = self.silent.jobs(self.courses.values(), closing_in_s)
        doing = {**self.archives.doing, **silent, **fenced}
        members = self.members.values()
        views = [self._views.view(each.node, jobs, self._closed, doing) for each in members]
        shown = with_health(views, self.clients)
        return (*shown, *unused_nodes(self._fleet.unused(), self.members))

    async def adopt(
        self,
        jobs: Sequence[Job],
        attempts: Sequence[AttemptId] = (),
        closed: Mapping[Device, DeviceClosed] = MappingProxyType({}),
        nodes: Mapping[AttemptId, Collection[str]] = MappingProxyType({}),
    ) -> None:
        """Take the lease, look at all nodes, then take charge of each."""
        self._closed.update(closed)
        await self._begin(Before(jobs, attempts, nodes))

    async def carry_out(self, actions: Sequence[Action]) -> None:
        await self._begin()
        for action in actions:
            self._take(action)

    async def output(
        self, attempt: AttemptId, rank: int, *, offset: int = 0, limit: int = 65536
    ) -> Output:
        await self._in_charge()
        return await self.outputs.read(attempt, rank, offset=offset, limit=limit)

    def follow(self, attempt: AttemptId, rank: int, *, offset: int = 0) -> AsyncIterator[Output]:
        return self.outputs.follow(attempt, rank, offset=offset)

    async def order_device(self, device: Device, order: DeviceOrder) -> None:
        await self._in_charge()
        member, client = self.members.get(device.node), self.clients.get(device.node)
        known = member is not None and 0 <= device.number < member.node.device_count
        if client is None or not known:
            raise InvalidInputError(f"there is no device {device}")
        await client.order_device(device, order)

    async def order_node(self, node: str, order: NodeOrder) -> None:
        await self._in_charge()
        if order is NodeOrder.FORGET:
            self._nodes.forget(node)
            return
        client = self.clients.get(node)
        if client is None:
            raise InvalidInputError(f"there is no node {node}")
        await client.order_node(order)

    async def pack(self, workdir: str, uid: int | None, gid: int | None) -> JobFiles:
        if not any(member.machine for member in self.members.values()):
            return JobFiles()  # All nodes are this machine.
        user = None if uid is None else User(uid, uid if gid is None else gid)
        found = await self.archives.pack(workdir, user)
        return replace_fields(found, apart=self.folders.apart)

    async def keep_archives(self, names: Collection[str]) -> None:
        await self.archives.keep(names)

    def measurements(self) -> Sequence[Measurement]:
        running = {course.gang.attempt: course for course in self.courses.values() if course.gang}
        return measured(self._sightings.values(), running)

    async def tidy(self, jobs: Sequence[JobId]) -> list[Leftovers]:
        return await self._of_their_nodes("tidy", jobs)

    async def discard(self, job: JobId) -> Leftovers:
        return (await self._of_their_nodes("discard", [job]))[0]

    async def close(self) -> None:
        """Leave; jobs run on, and agents go on renewing their grants."""
        self.lost.close()
        tasks = [*self._tasks, *([] if self._begun is None else [self._begun])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(client.close() for client in self.clients.values()))
        self.clients.clear()
        await self._fleet.close()

    # -- taking charge --------------------------------------------------------------------------

    async def _begin(self, before: Before = NOTHING) -> None:
        """Take charge, once: `adopt`, or the first order if it comes before."""
        if self._begun is None:
            work = self._take_charge(before)
            self._begun = asyncio.get_running_loop().create_task(work, name="fleet")
        await asyncio.shield(self._begun)

    async def _in_charge(self) -> None:
        """Requests of people may come before `adopt`: what runs is not known until then."""
        if self._begun is None:
            raise EngineError("the machines have not been asked yet what runs", retryable=True)
        await asyncio.shield(self._begun)

    async def _take_charge(self, before: Before) -> None:
        self.ever.update(before.ever())
        self._epoch = await self._fleet.begin(self._on_change)
        self._prepare()
        clients, changes = self._nodes.begin()
        survey, found, silent = await self._survey(before, clients, changes)
        later = self._nodes.settle()
        for client in [client for client in clients if client.name in silent]:
            clients.remove(client)
            self._nodes.wait_for(client, survey, silent[client.name])
        gone = {change.name for change in later if isinstance(change, Left)}
        members = [each for name, each in self.members.items() if name not in gone]
        missing = self._nodes.missing()
        there = takeover.Members.of(members, self._machines.known(), missing)
        plan = takeover.plan(before, found, there, self._ask_for_row)
        self.courses, self._unseen = plan.courses, plan.attempts
        lost = takeover.lost_before(self.courses.values())
        self._machines.settle(members, lost)
        self._nodes.miss(self._fleet.coming())
        for change in later:
            self._nodes.on_change(change)
        for order in plan.owed:
            self._take(order)
        for client in self.clients.values():
            client.begin()
        for job in plan.stopped:
            self._tell(AttemptEnded(job.id, job.action, 0, How.STOPPED))
        for attempt in plan.never:
            self._tell(AttemptEnded(attempt.job, -1, attempt.number, How.REPLACED))
        await all_ready(clients)  # Not those that have joined meanwhile.
        lost = takeover.lost_before(self.courses.values())
        self._nodes.coming.update(lost & self._fleet.coming())
        self.lost.found(lost - self._nodes.coming)
        self.keep(self.silent.watch())
        for course in plan.begin:
            assert course.beginning is not None
            self.do(course, [Begin(course.beginning)])

    def _prepare(self) -> None:
        """Write down what nodes elsewhere make necessary."""
        if not self._fleet.coming() and not any(each.machine for each in self.members.values()):
            return
        try:
            replace(self._probe_path, self._probe.encode(), mode=0o644)
        except OSError as error:  # No node shares the controller's folder, as far as is known.
            logger.warning("%s cannot be written: %s", self._probe_path, error)
        self._machines.take_over(self._epoch)

    async def _survey(
        self, before: Before, clients: Sequence[NodeClient], changes: Sequence[Joined | Left]
    ) -> tuple[messages.Survey, Found, dict[str, str]]:
        """What was asked of all nodes, what they have, and why some do not say it."""
        asked = messages.Survey(epoch=self._epoch, attempts=tuple(before.attempts))
        try:
            return asked, *(await surveyed(asked, clients, changes))
        except StaleEpochError as error:
            # The lease is ours: its cluster was started anew, and its nodes remember more than we.
            logger.warning("%s: a higher epoch is taken", error)
            self._epoch = await self._fleet.above(error.epoch)
        self._machines.take_over(self._epoch)
        asked = messages.Survey(epoch=self._epoch, attempts=tuple(before.attempts))
        return asked, *(await surveyed(asked, clients, changes))

    def _on_change(self, change: FleetChange) -> None:
        if isinstance(change, NewEpoch):  # Clients that were refused take charge with it.
            self._epoch = change.number
            self._machines.go_on(change.number)
        else:
            self._nodes.on_change(change)

    def _ask_for_row(self, job: Job) -> Launch:
        assert job.allocation is not None
        return self.ask(Change(job.action, job.id, job.allocation))

    @property
    def _probe_path(self) -> Path:
        return self._context.root / "shared.probe"

    # -- the clients' side ----------------------------------------------------------------------

    def charge(self, node: str) -> messages.TakeCharge:
        """All that the agent must know to take over, as of now."""
        gangs = (course.gang for course in self.courses.values() if course.gang is not None)
        wanted = (gang.wanted(node) for gang in gangs)
        return messages.TakeCharge(
            epoch=self._epoch,
            wanted=tuple(each for each in wanted if each is not None),
            over=tuple(sorted(self._unseen.get(node, ()))),
            closed=self.silent.told(node),
            shared=str(self._probe_path),
            probe=self._probe,
        )

    def see(self, node: str, seen: messages.FactsGiven) -> None:
        self.silent.answered(node)
        behind_s = self._clock.now() - seen.now
        self._sightings[node] = Sightings(seen.measurements, behind_s)
        if seen.view is not None:
            self._views.seen[node] = seen.view
        for each in seen.reports:
            course = self.courses.get(each.job)
            if course is not None and course.gang is not None and course.gang.reports_from(node):
                self._controls.report(replace_fields(each, at=max(0.0, each.at + behind_s)))

    def hear(self, node: str, fact: messages.Fact) -> None:
        match fact:
            case messages.Refused():
                if (course := self.courses.get(fact.job)) is not None:
                    self.do(course, course.hear_refused(node, fact))
            case AttemptEnded(how=How.REPLACED):
                self._hear_replaced(node, fact)
            case JobStarted() | JobPaused() | TrainingEnded() | AttemptEnded():
                if (course := self.courses.get(fact.job)) is not None:
                    self.do(course, course.hear(node, fact))
            case NodeJoined():  # A drain is over; the cluster knows more about the node.
                self._tell(NodeJoined(self.members[node].node, undrained=True))
            case _:
                self._tell(fact)

    def has_parts_on(self, node: str) -> bool:
        gangs = (course.gang for course in self.courses.values() if course.gang is not None)
        return any(gang.wanted(node) is not None for gang in gangs)

    def give_up(self, node: str, machine: str) -> None:
        """It left, and nothing of what it had runs there any more."""
        member = self.members.get(node)
        if node in self._nodes.away and member is not None and member.machine == machine:
            self._nodes.lose(node)

    def runs_under(self, node: str, failover_s: float) -> None:
        """Its jobs may go on for so long without a renewal."""
        if self.members[node].machine and not self.lost.are_on(node):
            self._machines.runs_under(node, failover_s)

    def forget(self, node: str) -> None:
        """It left: what its agent said is old."""
        self._machines.left(node)
        self._views.forget(node)
        self._sightings.pop(node, None)

    def _hear_replaced(self, node: str, fact: AttemptEnded) -> None:
        """The end of an earlier attempt; it is told once, if the controller waits for it."""
        unseen = self._unseen.get(node, set())
        if any((each.job, each.number) == (fact.job, fact.attempt) for each in unseen):
            self._tell(fact)

    # -- orders ---------------------------------------------------------------------------------

    def _take(self, action: Action) -> None:
        course = self.courses.get(action.job)
        if course is None:
            if isinstance(action, Change | Stop):
                # The job has ended, and that was told before.
                self._tell(AttemptEnded(action.job, action.id, 0, How.STOPPED))
                return
            if action.job in action.after and self._ends.repeat(action, self._tell):
                return
            course = self.courses[action.job] = Course(action.job)
        after = () if isinstance(action, Stop) else action.after
        others = [self.courses.get(job) for job in after if job != action.job]
        behind = tuple(other.gang for other in others if other is not None and other.gang)
        self.do(course, course.order(action, self.ask, behind))

    def ask(self, order: Launching) -> Launch:
        members = (self.members.get(node) for node in order.allocation.nodes())
        limits = [member.link.bytes_max for member in members if member is not None]
        launch = self._controls.launch(order.job, order.id, order.allocation)
        return checked(launch, min((each for each in limits if each is not None), default=None))

    def do(self, course: Course, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Tell(fact):
                    self._tell(fact)
                case Send(node, wanted):
                    if (client := self.clients.get(node)) is not None:
                        client.send(wanted)
                case Begin(order):
                    self._launches.add(course, order)
        if not course.busy and self.courses.get(course.job) is course:
            del self.courses[course.job]
        self._launches.go()

    # -- leaves ---------------------------------------------------------------------------------

    def _tell(self, fact: Event) -> None:
        if isinstance(fact, AttemptEnded):
            for unseen in self._unseen.values():
                unseen -= {e for e in unseen if (e.job, e.number) == (fact.job, fact.attempt)}
            self._ends.add(fact)
        elif isinstance(fact, JobStarted):
            fact = with_places(fact, self.folders, self.courses.get(fact.job))
        elif isinstance(fact, DeviceClosed):
            self._closed |= dict.fromkeys(fact.devices, fact)
        elif isinstance(fact, DeviceOpened):
            for device in fact.devices:
                self._closed.pop(device, None)
        self._controls.tell(fact)

    def _running(self, attempt: AttemptId) -> Gang | None:
        course = self.courses.get(attempt.job)
        gang = None if course is None else course.gang
        return gang if gang is not None and gang.attempt == attempt else None

    def _owes(self, job: JobId) -> bool:
        course = self.courses.get(job)
        return course is not None and course.owes

    async def _of_their_nodes(self, verb: str, jobs: Sequence[JobId]) -> list[Leftovers]:
        """What nodes have of each; a node that does not answer counts as having nothing."""
        found = dict.fromkeys(jobs, Leftovers())
        if self._begun is None:
            return [found[job] for job in jobs]
        await self._in_charge()
        there: dict[str, list[JobId]] = {}
        for job in found:
            if job not in self.courses:  # Otherwise it may not have ended here.
                for name in self.traces.among(self.clients, job):
                    there.setdefault(name, []).append(job)

        async def ask(node: str, named: Sequence[JobId]) -> None:
            def asked(session: str) -> messages.JobsAsked:
                return messages.JobsAsked(session=session, jobs=tuple(named))

            answer = await self.clients[node].within_session(verb, asked, messages.JobsLeft)
            for job, left in zip(named, answer.left, strict=True):
                found[job] = Leftovers(*map(sum, zip(found[job], left, strict=True)))

        await asyncio.gather(*(ask(*each) for each in there.items()), return_exceptions=True)
        return [found[job] for job in jobs]

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
