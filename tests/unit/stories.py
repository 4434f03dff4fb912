"""Fixtures of unit tests: a scheduler that takes facts, a policy with scripted answers, and `play`,
which runs a workload and records what happened.
"""

from collections.abc import Sequence
from math import inf

from treadle.core.actions import Action, Stop
from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device
from treadle.core.events import Event, JobFailed, JobFinished, JobStarted
from treadle.core.job import JobSpec
from treadle.core.ports import Policy
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import KEEP, Schedule, Snapshot
from treadle.models.scaling import ScalingModel
from treadle.sim.costs import Constant
from treadle.sim.engine import SimulatedEngine
from treadle.sim.run import Simulation
from treadle.testing.builders import policy as named
from treadle.testing.checks import check


def on(*numbers: int, node: str = "n0") -> Allocation:
    return Allocation(tuple(Device(node, number) for number in numbers))


class Told(Policy):
    """A policy that gives these answers, one after another, then KEEP."""

    def __init__(self, *answers: Schedule | Exception) -> None:
        self.answers = list(answers)
        self.asked_at: list[float] = []

    def decide(self, snapshot: Snapshot) -> Schedule:
        self.asked_at.append(snapshot.now)
        answer = self.answers.pop(0) if self.answers else KEEP
        if isinstance(answer, Exception):
            raise answer
        return answer


class Story:
    """A scheduler that takes facts and is checked after each."""

    def __init__(
        self, policy: Policy | str = "fifo", cluster: str = "1x4", *, place: str = "consolidate"
    ) -> None:
        nodes, _, devices = cluster.partition("x")
        decider = named(policy, place=place) if isinstance(policy, str) else policy
        self.scheduler = Scheduler(decider, Cluster.grid(int(nodes), int(devices)))

    def tell(self, now: float, *events: Event) -> list[Action]:
        actions = self.scheduler.step(events, now)
        check(self.scheduler)
        return actions

    def runs(self, now: float, *names: str) -> None:
        """The engine reports that these run, at one iteration a second."""
        for name in names:
            row = self.scheduler.jobs[name]
            self.tell(now, JobStarted(name, row.action, row.iterations_done, 1.0))

    def phases(self) -> str:
        return " ".join(f"{row.id}:{row.phase}" for row in self.scheduler.jobs.values())

    def free(self) -> str:
        return " ".join(map(str, self.scheduler.tenancy.free))


def play(
    policy: str | Policy,
    jobs: Sequence[JobSpec],
    cluster: str = "1x4",
    *,
    place: str = "consolidate",
    cost_s: float = 0.0,
    until: float = inf,
) -> list[str]:
    """Lines such as `5 start a n0:0,1`: ends of a moment first, then its orders."""
    nodes, _, devices = cluster.partition("x")
    machines = Cluster.grid(int(nodes), int(devices))
    model = ScalingModel.on(machines)
    decider = named(policy, place=place, belief=model) if isinstance(policy, str) else policy
    lines: list[str] = []

    def observe(
        now: float, events: Sequence[Event], actions: Sequence[Action], scheduler: Scheduler
    ) -> None:
        check(scheduler)
        lines.extend(f"{now:g} finish {e.job}" for e in events if isinstance(e, JobFinished))
        lines.extend(f"{now:g} fail {e.job}" for e in events if isinstance(e, JobFailed))
        lines.extend(f"{now:g} {_order(action)}" for action in actions)

    engine = SimulatedEngine(jobs, model, cost=Constant(cost_s))
    Simulation(Scheduler(decider, machines), engine, observers=(observe,)).run(until)
    return lines


def _order(action: Action) -> str:
    if isinstance(action, Stop):
        return f"stop {action.job}"
    return f"{type(action).__name__.lower()} {action.job} {_devices(action.allocation)}"


def _devices(allocation: Allocation) -> str:
    numbers: dict[str, list[str]] = {}
    for device in allocation.devices:
        numbers.setdefault(device.node, []).append(str(device.number))
    return " ".join(f"{node}:{','.join(of)}" for node, of in numbers.items())
