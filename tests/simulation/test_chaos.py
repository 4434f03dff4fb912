"""Seeded chaos: nodes are lost, drained and return, jobs fail and are cancelled, reports are late
and come twice, the scheduler's process dies and is rebuilt from its journal.

After every step the books must be in order; at the end nothing may be lost. A failure names its
seed: `TREADLE_SEED=17 pytest tests/simulation` runs that one alone, `TREADLE_SEED=0-999` a range.
"""

from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from os import environ
from random import Random

import pytest

from treadle.core.actions import Action
from treadle.core.cluster import Cluster, Node
from treadle.core.events import (
    Event,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobSubmitted,
    NodeDrained,
    NodeJoined,
    NodeLost,
)
from treadle.core.job import JobSpec
from treadle.core.scheduler import Scheduler
from treadle.journal.codec import decode, encode
from treadle.models.scaling import PHILLY, ScalingModel
from treadle.policies import registry
from treadle.policies.base.placement import PLACEMENTS, placement
from treadle.sim.costs import Constant
from treadle.sim.engine import SimulatedEngine
from treadle.sim.faults import Faults, FaultSettings
from treadle.testing.builders import job
from treadle.testing.checks import check

FAILED_ONCE = [164, 255, 280, 338, 394, 1007]


def _seeds(text: str) -> list[int]:
    if not text:
        return [*range(40), *FAILED_ONCE]
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


STEPS_MAX = 5_000
VARIANTS = [
    *registry.BUILT_IN,
    "sjf?strict=off",
    "las?margin_s=0&quantum_s=7",
    "tiresias?limits=20:80&promote=2",
    "max-min?quantum_s=9",
    "themis?lease_s=8",
]


@dataclass(order=True)
class Delivery:
    """A report on its way."""

    at: float
    number: int
    event: Event = field(compare=False)


class Chaos:
    """One world: a cluster, a workload, an unreliable post and a process that dies."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.variant = VARIANTS[seed % len(VARIANTS)]
        self.place = self.random.choice(sorted(PLACEMENTS))
        counts = [self.random.randint(1, 4) for _ in range(self.random.randint(2, 4))]
        self.cluster = Cluster(
            tuple(Node(f"n{i}", count, rack=f"r{i % 2}") for i, count in enumerate(counts))
        )
        self.model = ScalingModel.on(self.cluster, PHILLY)
        self.jobs = self._workload()
        settings = FaultSettings(
            seed=seed,
            job_failures=self.random.choice([0.0, 2.0]),
            node_mtbf_s=self.random.choice([60.0, 300.0, inf]),
            node_repair_s=15.0,
            checkpoint_every_s=self.random.choice([3.0, 10.0, inf]),
        )
        self.engine = SimulatedEngine(
            self.jobs,
            self.model,
            cost=Constant(self.random.choice([0.0, 2.0])),
            faults=Faults(settings, self.cluster),
        )
        self.scheduler = self._scheduler()
        self.post: list[Delivery] = []
        self.posted = 0
        self.steps: list[tuple[float, list[bytes], list[bytes], float | None]] = []
        self.service: dict[str, float] = {}
        self.ended: set[str] = set()  # jobs of which an end was reported or asked for
        self.lost_nodes: set[str] = set()

    def _workload(self) -> list[JobSpec]:
        draw, jobs = self.random, []
        for number in range(15):
            size = draw.randint(1, 6)
            more = {draw.randint(1, 6) for _ in range(draw.randint(0, 2))}
            jobs.append(
                job(
                    f"j{number}",
                    size=size,
                    sizes=tuple(sorted({size, *more})),
                    length_s=float(draw.randint(1, 40)),
                    at=float(draw.randint(0, 80)),
                    retries=draw.randint(0, 3),
                )
            )
        return sorted(jobs, key=lambda spec: spec.submit_at)

    def _scheduler(self) -> Scheduler:
        policy = registry.policy(self.variant, placement(self.place), self.model)
        return Scheduler(policy, self.cluster)

    # -- the loop --------------------------------------------------------------------------------

    def run(self) -> None:
        for _ in range(STEPS_MAX):
            now = min(self.engine.next_at, self.scheduler.wake_at, self._next_delivery_at())
            if now == inf:
                return
            self._send(self.engine.due(now), now)
            events = self._delivered(now)
            actions = self._step(events, now)
            self.engine.carry_out(actions, now)
            self._check(now)
            if self.random.random() < 0.02:
                self._die_and_be_rebuilt(now)
            if not events and not actions and self._is_quiet():
                return
        raise AssertionError(f"still busy after {STEPS_MAX} steps")

    def _step(self, events: list[Event], now: float) -> list[Action]:
        ends = JobFinished | JobFailed | JobCancelled
        self.ended |= {event.job for event in events if isinstance(event, ends)}
        before = self.scheduler.decisions
        actions = self.scheduler.step(events, now)
        asked = self.scheduler.decisions != before
        self.steps.append(
            (
                now,
                [encode(now, event) for event in events],
                [encode(now, action) for action in actions],
                self.scheduler.wake_at if asked else None,
            )
        )
        return actions

    def _is_quiet(self) -> bool:
        return self.engine.next_at == inf and not self.post

    # -- the post --------------------------------------------------------------------------------

    def _send(self, events: list[Event], now: float) -> None:
        """Facts about nodes and arrivals come at once, if maybe twice; reports when they come."""
        for event in events:
            match event:
                case JobSubmitted():
                    self._post(event, now)
                    self._meddle(event.spec.id, now)
                case NodeLost() | NodeJoined():
                    self._remember(event)
                    for _ in range(self.random.randint(1, 2)):
                        self._post(event, now)
                case _:
                    late_s = self.random.choice([0.0, 0.0, 0.0, 1.0, 7.5])
                    self._post(event, now + late_s)
                    if self.random.random() < 0.3:
                        self._post(event, now + self.random.choice([0.0, 3.0, 20.0]))

    def _meddle(self, identity: str, now: float) -> None:
        """People cancel jobs and drain nodes, and take the drain back."""
        draw = self.random.random()
        if draw < 0.1:
            self._post(JobCancelled(identity), now + self.random.randint(0, 30))
        elif draw < 0.3:
            node = self.random.choice(self.cluster.nodes)
            self._post(NodeDrained(node.name), now + self.random.randint(0, 10))
            self._post(NodeJoined(node), now + self.random.randint(15, 40))

    def _remember(self, event: NodeLost | NodeJoined) -> None:
        if isinstance(event, NodeLost):
            self.lost_nodes.add(event.node)
        else:
            self.lost_nodes.discard(event.node.name)

    def _post(self, event: Event, at: float) -> None:
        heappush(self.post, Delivery(at, self.posted, event))
        self.posted += 1

    def _next_delivery_at(self) -> float:
        return self.post[0].at if self.post else inf

    def _delivered(self, now: float) -> list[Event]:
        events: list[Event] = []
        while self.post and self.post[0].at <= now:
            event = heappop(self.post).event
            down = isinstance(event, NodeJoined) and event.node.name in self.lost_nodes
            if not down:  # Nobody takes a drain back from a node that has burnt down since.
                events.append(event)
        return events

    # -- what must hold --------------------------------------------------------------------------

    def _check(self, now: float) -> None:
        check(self.scheduler)
        for identity, row in self.scheduler.jobs.items():
            service = row.service_at(now)
            assert service >= self.service.get(identity, 0.0), f"{identity} lost service"
            self.service[identity] = service
        uses = [
            (device, run.allocation.turn)
            for run in self.engine._runs.values()
            for device in run.allocation.devices
        ]
        assert len(uses) == len(set(uses)), "two jobs run on one device in one turn"

    def _die_and_be_rebuilt(self, now: float) -> None:
        """Only the journal survives; what comes out of it must be what died."""
        died, self.scheduler = self.scheduler, self._scheduler()
        for at, events, actions, wake_at in self.steps:
            self.scheduler.replay(
                [decode(line)[1] for line in events],  # type: ignore[misc]
                [decode(line)[1] for line in actions],  # type: ignore[misc]
                at,
                wake_at=wake_at,
            )
        check(self.scheduler)
        assert dict(self.scheduler.jobs) == dict(died.jobs)
        assert self.scheduler.wake_at == died.wake_at
        assert self.scheduler.is_due(now) == died.is_due(now)


@pytest.mark.parametrize("seed", _seeds(environ.get("TREADLE_SEED", "")))
def test_nothing_is_lost_whatever_goes_wrong(seed: int) -> None:
    chaos = Chaos(seed)
    try:
        chaos.run()
        left = set(chaos.scheduler.jobs)
        assert left == set(chaos.scheduler.unfit), f"left waiting: {left}"
        vanished = {spec.id for spec in chaos.jobs} - left - chaos.ended
        assert not vanished, f"neither here nor ended: {vanished}"
        assert not chaos.engine._runs, "the engine runs what the scheduler has forgotten"
    except BaseException as error:
        error.add_note(f"seed {seed}: {chaos.variant} with {chaos.place}")
        raise
