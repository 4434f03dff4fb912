"""Chaos of one seed: nodes leave and join, agents and controllers die, all of it at any moment.

A name may go to another machine and come back to the one before.

It is about one rule alone: nothing of a job is launched while something of another attempt of it
runs anywhere (engines/fleet/lost_parts.py). A run takes a fraction of a second.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.engines.fence_nodes import Ground, SimAgent, SimLink, SimNode, SkippingLoop, now

from treadle.core.actions import Action, Change, Start, Stop
from treadle.core.allocation import Allocation
from treadle.core.attempt import How
from treadle.core.cluster import Device
from treadle.core.errors import EngineError
from treadle.core.events import (
    AttemptEnded,
    DeviceClosed,
    DeviceOpened,
    Event,
    JobStarted,
    NodeLost,
)
from treadle.core.job import Job
from treadle.core.job_report import JobReport
from treadle.core.launch import AttemptId, Launch
from treadle.core.lifecycle import Phase
from treadle.engines.agent.grants import CONFIRM_EVERY_S
from treadle.engines.fleet.engine import FleetEngine
from treadle.engines.fleet.machines import Machines
from treadle.engines.fleet.port import Change as ClusterChange
from treadle.engines.fleet.port import Fencing, Joined, Left
from treadle.engines.registry import EngineContext
from treadle.testing.engine_bench import row

NODES = ("n0", "n1", "n2", "n3")
WIDTHS = {"one": 1, "two": 2, "three": 3}  # nodes that each job is on
FAILOVERS_S = (15.0, 15.0, 30.0, 60.0)
CHAOS_S, SETTLE_S = 120.0, 900.0


@dataclass
class Site:
    """A node as the cluster sees it."""

    node: SimNode
    agent: SimAgent
    link: SimLink
    machines: list[SimNode]  # that have had its name
    reached: bool = True  # it is not cut off
    member: bool = True
    agent_up: bool = True
    told: SimLink | None = None  # that the controller knows

    @property
    def is_up(self) -> bool:
        return self.reached and self.agent_up


@dataclass
class Entry:
    """A job as the scheduler knows it."""

    phase: Phase = Phase.WAITING
    allocation: Allocation | None = None
    action: int = -1
    hold: int = -1
    attempts: dict[AttemptId, tuple[str, ...]] = field(default_factory=dict)  # ends not seen
    numbers: dict[int, int] = field(default_factory=dict)  # of attempts, by order


class Cluster:
    """Says who is a member (port.Fleet); it outlives controllers."""

    def __init__(self, draw: random.Random, ground: Ground) -> None:
        self.draw, self.epoch = draw, 0
        self.fencing = Fencing(failover_s=FAILOVERS_S[0])
        self._tell: Callable[[ClusterChange], None] | None = None
        self.sites: dict[str, Site] = {}
        for name in NODES:
            agent = SimAgent(node := SimNode(name, ground))
            self._give(node)
            self.sites[name] = Site(node, agent, self._link(agent), [node])

    def _give(self, node: SimNode) -> None:
        """Its agent is the one that the newest controller wants."""
        node.failover_s = self.fencing.failover_s
        node.confirm()

    def _link(self, agent: SimAgent) -> SimLink:
        def is_up() -> bool:
            site = self.sites[agent.node.name]
            return site.agent is agent and site.is_up

        link = SimLink(agent, self.draw, is_up)
        if self.draw.random() < 0.5:
            link.slow_until = now() + self.draw.uniform(0.0, 40.0)
        return link

    # -- what a controller sees -----------------------------------------------------------------

    def members(self) -> tuple[Joined, ...]:
        self.epoch += 1
        there = [name for name, site in self.sites.items() if site.member and site.is_up]
        return tuple(self._joined(name) for name in there)

    def coming(self) -> frozenset[str]:
        known = {name for name, site in self.sites.items() if site.told is not None}
        return frozenset(n for n, site in self.sites.items() if site.member and n not in known)

    def unused(self) -> dict[str, str]:
        return {}

    async def begin(self, tell: Callable[[ClusterChange], None]) -> int:
        self._tell = tell
        return self.epoch

    async def above(self, epoch: int) -> int:
        self.epoch = max(self.epoch, epoch) + 1
        return self.epoch

    async def close(self) -> None:
        self._tell = None
        for site in self.sites.values():
            site.told = None

    def _joined(self, name: str) -> Joined:
        site = self.sites[name]
        site.told = site.link
        self._give(site.node)
        return Joined(site.node.node, f"10.0.0.{name[1:]}", site.link, site.node.machine)

    # -- what happens to nodes ------------------------------------------------------------------

    async def confirm(self) -> None:
        while True:
            for site in self.sites.values():
                if site.member and site.is_up:
                    site.node.confirm()
            await asyncio.sleep(CONFIRM_EVERY_S)

    async def cut(self, name: str, lasts_s: float) -> None:
        """It is missed after a while, unless it is back by then."""
        site, missed_s = self.sites[name], self.draw.uniform(0.5, 8.0)
        if not site.reached or not site.member:
            return
        site.reached = False
        await asyncio.sleep(min(missed_s, lasts_s))
        if missed_s <= lasts_s:
            site.member, site.told = False, None
            if self._tell is not None:
                self._tell(Left(name, "it was cut off"))
            await asyncio.sleep(lasts_s - missed_s)
        site.reached = True
        if not site.member:
            await asyncio.sleep(self.draw.choice((0.0, 0.0, self.draw.uniform(0.0, 10.0))))
            self._rejoin(site)
        self._announce(name)

    def _rejoin(self, site: Site) -> None:
        """With the same agent and joining, or as Ray does it, with others; or another machine."""
        if (what := self.draw.random()) < 0.3:
            self._give_name(site)
        elif what < 0.65:
            site.node.join_anew()
            site.agent = SimAgent(site.node)
        site.link = self._link(site.agent)
        site.member = True

    def _give_name(self, site: Site) -> None:
        """To a machine that had it before, with its old joining or a new one, or to a fresh one."""
        others = [each for each in site.machines if each is not site.node]
        if others and self.draw.random() < 0.5:
            site.node = self.draw.choice(others)
            if self.draw.random() < 0.5:
                site.node.join_anew()
        else:
            site.node = SimNode(site.node.name, site.node.ground)
            site.machines.append(site.node)
        site.agent = SimAgent(site.node)

    async def kill_agent(self, name: str) -> None:
        """Another one begins, and takes over what there is."""
        site = self.sites[name]
        if site.agent_up:
            site.agent_up = False
            await asyncio.sleep(self.draw.uniform(0.5, 20.0))
            site.agent, site.agent_up = SimAgent(site.node), True
            site.link = self._link(site.agent)
            self._announce(name)

    def _announce(self, name: str) -> None:
        """A node that can be reached has an agent that the controller does not know."""
        site = self.sites[name]
        if site.member and site.is_up:
            self._give(site.node)
            if self._tell is not None and site.told is not site.link:
                self._tell(self._joined(name))


class Scheduler:
    """What a controller knows and writes down; it puts jobs anywhere."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.jobs = {name: Entry() for name in WIDTHS}
        self.graces = {name: draw.uniform(0.0, 40.0) for name in WIDTHS}
        self.inbox: asyncio.Queue[Event | str] = asyncio.Queue()  # or a job to be moved
        self.shut: set[str] = set()  # nodes that are given nothing
        self._orders = -1

    def launch(self, job: str, action: int, allocation: Allocation) -> Launch:
        entry = self.jobs[job]
        return Launch(
            job=job,
            attempt=entry.numbers[action],
            command=("x",),
            workdir="/",
            ranks=allocation.size,
            grace_s=self.graces[job],
        )

    def tell(self, *facts: Event) -> None:
        for fact in facts:
            self.inbox.put_nowait(fact)

    def report(self, *reports: JobReport) -> None:
        raise AssertionError(f"no job reports here: {reports}")

    def take(self, fact: Event, members: Sequence[str]) -> list[Action]:
        match fact:
            case DeviceClosed(device):
                self.shut.add(device.node)
            case DeviceOpened(device):
                self.shut.discard(device.node)
            case NodeLost(name):
                return [
                    self._stop(job)
                    for job, entry in self.jobs.items()
                    if entry.allocation is not None and name in entry.allocation.nodes()
                ]
            case JobStarted(job, action) if self.jobs[job].action == action:
                if self.jobs[job].phase is Phase.STARTING:
                    self.jobs[job].phase = Phase.RUNNING
            case AttemptEnded():
                return self._end(fact, members)
        return []

    def _end(self, end: AttemptEnded, members: Sequence[str]) -> list[Action]:
        entry = self.jobs[end.job]
        for mark in [mark for mark in entry.attempts if mark.number == end.attempt]:
            del entry.attempts[mark]
        if end.how is How.REPLACED or end.action < entry.action:
            return []
        entry.phase, entry.allocation = Phase.WAITING, None
        return self.start(end.job, members)

    def start(self, job: str, members: Sequence[str]) -> list[Action]:
        entry = self.jobs[job]
        if entry.phase is not Phase.WAITING or len(members) < WIDTHS[job]:
            return []
        self._place(job, members)
        assert entry.allocation is not None
        entry.hold = entry.action
        return [Start(entry.action, job, entry.allocation)]

    def change(self, job: str, members: Sequence[str]) -> list[Action]:
        entry = self.jobs[job]
        if entry.phase not in (Phase.STARTING, Phase.RUNNING) or len(members) < WIDTHS[job]:
            return []
        self._place(job, members)
        assert entry.allocation is not None
        return [Change(entry.action, job, entry.allocation)]

    def _place(self, job: str, members: Sequence[str]) -> None:
        entry, nodes = self.jobs[job], self.draw.sample(sorted(members), WIDTHS[job])
        self._orders += 1
        number = len(entry.numbers) + 1
        entry.numbers[self._orders] = number
        entry.attempts[AttemptId(job, number)] = tuple(nodes)
        entry.action, entry.phase = self._orders, Phase.STARTING
        entry.allocation = Allocation(tuple(Device(node, 0) for node in nodes))

    def _stop(self, job: str) -> Action:
        entry = self.jobs[job]
        self._orders += 1
        entry.phase, entry.allocation, entry.action = Phase.STOPPING, None, self._orders
        return Stop(self._orders, job)

    def rows(self) -> list[Job]:
        return [
            row(name, entry.phase, entry.allocation, action=entry.action, attempt=entry.hold)
            for name, entry in self.jobs.items()
        ]

    def unseen(self) -> dict[AttemptId, tuple[str, ...]]:
        found: dict[AttemptId, tuple[str, ...]] = {}
        for entry in self.jobs.values():
            found |= entry.attempts
        return found


class LoopClock:
    def now(self) -> float:
        return now()

    async def sleep_until(self, moment: float) -> None:
        await asyncio.sleep(max(0.0, moment - now()))


class Chaos:
    """One run."""

    def __init__(self, seed: int, root: Path) -> None:
        self.draw = random.Random(seed)
        self.root = root
        self.ground = Ground(self.draw)
        self.cluster = Cluster(self.draw, self.ground)
        self.scheduler = Scheduler(self.draw)
        self._controller: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def play(self) -> list[str]:
        """What was wrong."""
        confirming = asyncio.ensure_future(self.cluster.confirm())
        self._controller = asyncio.ensure_future(self._control(0.0))
        while now() < CHAOS_S:
            await asyncio.sleep(self.draw.expovariate(1 / 4.0))
            self._strike()
        await asyncio.wait(self._tasks)
        await asyncio.sleep(SETTLE_S)
        wrong = [*self.ground.wrong, *self._stuck()]
        tasks = (confirming, self._controller)
        wrong += [repr(task.exception()) for task in tasks if task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return wrong

    def _strike(self) -> None:
        cluster, draw, name = self.cluster, self.draw, self.draw.choice(NODES)
        what = draw.choice(("cut", "cut", "agent", "controller", "change", "end"))
        if what == "cut":
            self._do(cluster.cut(name, draw.choice((draw.uniform(0, 12), draw.uniform(0, 40)))))
        elif what == "agent":
            self._do(cluster.kill_agent(name))
        elif what == "controller":
            assert self._controller is not None
            self._controller.cancel()
            self._controller = asyncio.ensure_future(self._control(draw.uniform(0.0, 10.0)))
        elif what == "change":
            self.scheduler.inbox.put_nowait(draw.choice(list(WIDTHS)))
        elif ranks := list((node := cluster.sites[name].node).ranks.values()):
            node.end(draw.choice(ranks), How.EXITED)

    def _do(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.add(asyncio.get_running_loop().create_task(work))

    def _stuck(self) -> list[str]:
        """All jobs go on in the end, on all their nodes."""
        wrong = []
        for job, entry in self.scheduler.jobs.items():
            on = {
                name
                for name, site in self.cluster.sites.items()
                if any(mark.job == job for mark in site.node.ranks)
            }
            nodes = () if entry.allocation is None else entry.allocation.nodes()
            if entry.phase is not Phase.RUNNING or on != set(nodes):
                wrong.append(f"job {job} is {entry.phase} on {nodes}, and runs on {on}")
        return wrong

    # -- a controller ---------------------------------------------------------------------------

    async def _control(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        while True:
            engine = self._engine()
            try:
                self.scheduler.inbox = asyncio.Queue()
                self.scheduler.shut.clear()
                unseen = self.scheduler.unseen()
                await engine.adopt(self.scheduler.rows(), list(unseen), nodes=unseen)
                await self._serve(engine)
            except EngineError:
                await asyncio.sleep(1.0)  # It is started again.
            finally:
                await engine.close()

    def _engine(self) -> FleetEngine:
        failover_s = self.draw.choice(FAILOVERS_S)
        Machines(self.root / "machines.json").expect(failover_s)
        self.cluster.fencing = Fencing(failover_s=failover_s)
        context = EngineContext(controls=self.scheduler, clock=LoopClock(), root=self.root)
        return FleetEngine(context, self.cluster)

    def _open(self, engine: FleetEngine) -> list[str]:
        return [node.name for node in engine.nodes() if node.name not in self.scheduler.shut]

    async def _serve(self, engine: FleetEngine) -> None:
        while True:
            members = self._open(engine)
            actions = [a for job in WIDTHS for a in self.scheduler.start(job, members)]
            await engine.carry_out(actions)
            try:
                fact = await asyncio.wait_for(self.scheduler.inbox.get(), 1.0)
            except TimeoutError:
                continue
            members = self._open(engine)
            if isinstance(fact, str):
                await engine.carry_out(self.scheduler.change(fact, members))
            else:
                await engine.carry_out(self.scheduler.take(fact, members))


def play(seed: int, root: Path) -> tuple[list[str], int]:
    """What was wrong, and how many launches there were."""

    async def whole() -> tuple[list[str], int]:
        chaos = Chaos(seed, root)
        return await chaos.play(), chaos.ground.launches

    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        return runner.run(whole())
