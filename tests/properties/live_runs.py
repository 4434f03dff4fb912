"""A drawn case under the live decision, simulated, and by brute force what it should have done."""

from collections.abc import Callable, Iterator, Sequence

from treadle.control.loop.live_policy import belief_on, following_nodes
from treadle.core.actions import Action, Change, Start, Stop
from treadle.core.cluster import Device, Node
from treadle.core.events import Event, NodeJoined
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.lifecycle import Phase
from treadle.core.ports import Policy
from treadle.core.scheduler import Scheduler
from treadle.models.scaling import ScalingModel
from treadle.models.stages import StageTimes
from treadle.models.tokens import TokenModel
from treadle.policies import registry
from treadle.policies.base.placement import placement
from treadle.policies.live.naming import wrapped
from treadle.policies.live.patience import LENGTHS, OVERTAKES, WAIT_S
from treadle.sim.run import Simulation
from treadle.testing.checks import check
from treadle.testing.live_case import LiveCase
from treadle.wire.quotas import by_tenant

HOUR_S = 3600.0
ROUNDING = 1e-6
# The rule of patience: devices are reserved for a job that has waited so long, or so many times
# as long as it takes alone; or for a gang that so many later jobs overtook, by device it may use.
PATIENCE_S = WAIT_S

Look = Callable[["LiveRun", float], None]


def live(text: str, quotas: str = "") -> str:
    """The policy of that name as it decides live."""
    return wrapped(f"{text}?quotas={quotas}" if quotas else text)


class LiveRun:
    """A case from its first moment to its last; `look` is called after every step."""

    def __init__(
        self,
        text: str,
        case: LiveCase,
        *,
        look: Look | None = None,
        around: Callable[[Policy], Policy] = lambda policy: policy,
    ) -> None:
        self.case = case
        self.orders: list[tuple[float, Action]] = []
        self.started_at: dict[JobId, float] = {}  # the first time
        self.ended_at: dict[JobId, float] = {}
        self.overtaken: dict[JobId, int] = {}  # starts of later jobs while it waited
        self.given: list[Start | Change] = []  # by the last step
        belief = belief_on(case.cluster)
        made = registry.policy(live(text, case.quotas), placement("consolidate"), belief)
        self.scheduler = Scheduler(around(made), case.cluster, retry=case.retry)
        self.engine = case.engine(TokenModel(ScalingModel.on(case.cluster), StageTimes()))
        self._look = look
        observers = (following_nodes(belief), self._observe)
        self.simulation = Simulation(self.scheduler, self.engine, observers=observers)

    def to_the_end(self, until: float = 1e6) -> "LiveRun":
        self.simulation.run(until)
        return self

    def _observe(
        self, now: float, events: Sequence[Event], actions: Sequence[Action], scheduler: Scheduler
    ) -> None:
        check(scheduler)
        self.orders += [(now, action) for action in actions]
        self.ended_at |= dict.fromkeys(scheduler.ended, now)
        for action in actions:
            if isinstance(action, Start):
                self._started(scheduler.jobs[action.job], now)
        self.given = [action for action in actions if not isinstance(action, Stop)]
        if self._look is not None:
            self._look(self, now)

    def _started(self, job: Job, now: float) -> None:
        self.started_at.setdefault(job.id, now)
        for other in self.scheduler.jobs.values():
            if other.phase is Phase.WAITING and other.sequence < job.sequence:
                self.overtaken[other.id] = self.overtaken.get(other.id, 0) + 1

    # -- what is there --------------------------------------------------------------------------

    def is_settled(self, now: float) -> bool:
        """Whether every order of this moment has been answered."""
        return self.engine.next_at > now

    def nodes(self) -> list[Node]:
        """All nodes that were ever there, drained ones too: what runs there counts."""
        joined = [event.node for _, event in self.case.facts if isinstance(event, NodeJoined)]
        return list({node.name: node for node in (*self.case.cluster.nodes, *joined)}.values())

    def holders(self, node: str) -> list[JobSpec]:
        """The jobs on a node, each once."""
        rows = self.scheduler.jobs.values()
        return [row.spec for row in rows if row.allocation and node in row.allocation.nodes()]

    def free(self, node: Node) -> int:
        """Devices of a node that no job holds."""
        rows = self.scheduler.jobs.values()
        held = {device for row in rows if row.allocation for device in row.allocation.devices}
        own = [Device(node.name, number) for number in range(node.device_count)]
        return sum(device not in held for device in own)

    # -- what must not be -----------------------------------------------------------------------

    def overcommitted(self) -> Iterator[str]:
        """What is given out more than once, or to a job that may not have it."""
        for node in self.nodes():
            specs = self.holders(node.name)
            used = {
                "memory": (sum(spec.host_memory_gib for spec in specs), node.memory_gib),
                "cores": (sum(spec.host_cores for spec in specs), float(node.cores)),
            }
            for what, (sum_, has) in used.items():
                if has and sum_ > has + ROUNDING:
                    yield f"{what} of {node.name}: {sum_:g} of {has:g}"
            yield from self._crowded(node)
        present = self.scheduler.cluster.nodes
        for action in self.given:
            row = self.scheduler.jobs[action.job]._replace(avoid=(), failed_on=())
            on = [node for node in present if node.name in action.allocation.nodes()]
            if not all(suits(row, node, present) for node in on):
                yield f"{row.id} may not use {action.allocation.nodes()}"

    def _crowded(self, node: Node) -> Iterator[str]:
        for number in range(node.device_count):
            specs = self._on(Device(node.name, number))
            needs = [max(spec.device_memory_gib, spec.profile.memory_gib) for spec in specs]
            if len(specs) > 1 and any(spec.exclusive for spec in specs):
                yield f"an exclusive job shares {node.name}:{number}"
            if len(specs) > 1 and node.device_memory_gib and sum(needs) > node.device_memory_gib:
                yield f"memory of {node.name}:{number}: {needs}"

    def _on(self, device: Device) -> list[JobSpec]:
        rows = self.scheduler.jobs.values()
        return [row.spec for row in rows if row.allocation and device in row.allocation.devices]

    # -- what should be ------------------------------------------------------------------------

    def may_be_reserved(self, now: float) -> bool:
        """Whether the rule of patience may have set devices aside for a waiting job."""
        waiting = [row for row in self.scheduler.jobs.values() if row.phase is Phase.WAITING]
        return any(self._is_overdue(row, now) for row in waiting)

    def _is_overdue(self, row: Job, now: float) -> bool:
        nodes = self.scheduler.cluster.nodes
        devices = sum(node.device_count for node in nodes if suits(row, node, nodes))
        overtakes = self.overtaken.get(row.id, 0)
        patience_s = max(PATIENCE_S, LENGTHS * row.spec.iterations)
        return row.waited_at(now) >= patience_s or overtakes >= OVERTAKES * devices

    def first_eligible(self, now: float) -> Job | None:
        """Of the jobs that may start now, the first in order: by priority, then as ranked."""
        rows = [self.scheduler.jobs[name] for _, _, name in self.scheduler.ranking.queue]
        ready = [row for row in rows if row.ready_at <= now]
        return min(ready, key=lambda row: -row.spec.priority, default=None)

    def nodes_that_fit(self, row: Job) -> list[str]:
        """Nodes on which a waiting job could start as it asks, beside all that runs there."""
        nodes = self.scheduler.cluster.nodes
        found = [node for node in nodes if suits(row, node, nodes) and self._has_room(row, node)]
        return [node.name for node in found if self._within_quota(row.spec)]

    def _has_room(self, row: Job, node: Node) -> bool:
        specs = [*self.holders(node.name), row.spec]
        memory_gib = sum(spec.host_memory_gib for spec in specs)
        cores = sum(spec.host_cores for spec in specs)
        return (
            self.free(node) >= row.spec.asked
            and (not node.memory_gib or memory_gib <= node.memory_gib)
            and (not node.cores or cores <= node.cores)
        )

    def _within_quota(self, spec: JobSpec) -> bool:
        if not self.case.quotas:
            return True
        rows = [row for row in self.scheduler.jobs.values() if row.spec.tenant == spec.tenant]
        used = sum(row.size for row in rows if row.spec.guaranteed)
        quota = by_tenant("test", self.case.quotas).get(spec.tenant, 0.0)
        return spec.guaranteed and used + spec.asked <= quota


def suits(row: Job, node: Node, nodes: Sequence[Node]) -> bool:
    """Whether a job may be given devices of a node, and has no reason to avoid it."""
    words = row.spec.device_types or (_default_type(nodes),)
    failed_on = {name.partition(":")[0] for name in (*row.avoid, *row.failed_on)}
    has_memory = row.spec.device_memory_gib <= (node.device_memory_gib or 1e9)
    return node.name not in failed_on and has_memory and is_of(node.device_type, words)


def is_of(kind: str, words: Sequence[str]) -> bool:
    """Whether one of these words names a type of device, as docs/jobs.md says it."""
    if kind == "cpu":
        return any(word in ("any", "cpu") for word in words)
    return any(word in ("any", "gpu") or word.lower() in kind.lower() for word in words)


def _default_type(nodes: Sequence[Node]) -> str:
    return "gpu" if any(node.device_type != "cpu" for node in nodes) else "any"
