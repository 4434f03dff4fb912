"""Everything that commands and queries work with. Each part changes itself; nothing here does."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from treadle.control.api.lab_rules import LabRules
from treadle.control.jobs import Diffs, Gates, JobTable, LostNode, LostNodes, UnwrittenCancels
from treadle.control.learning import JobLearner
from treadle.control.loop import (
    Commit,
    Condition,
    Inbox,
    LiveBelief,
    PolicyInCharge,
    StoreReads,
    wall,
)
from treadle.core.cluster import Cluster, Device
from treadle.core.events import DeviceClosed
from treadle.core.job import Job, JobId
from treadle.core.machine import NodeView
from treadle.core.ports import Clock, Engine
from treadle.core.scheduler import Scheduler
from treadle.store.seal import Seal
from treadle.store.store import Store
from treadle.wire.jobs import State


@dataclass(frozen=True, slots=True)
class Seen:
    """What the event loop goes on changing, as it was at one moment."""

    closed: Mapping[Device, DeviceClosed]
    stuck: Mapping[JobId, str]
    states: Mapping[str, State | None]  # of jobs and arrays that an answer speaks of
    lost: tuple[LostNode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    scheduler: Scheduler
    belief: LiveBelief
    jobs: JobTable
    gates: Gates
    learner: JobLearner
    charge: PolicyInCharge
    rules: LabRules
    condition: Condition
    commit: Commit
    inbox: Inbox
    engine: Engine
    clock: Clock
    store: Store  # to be asked through `reads` only, once requests are served
    reads: StoreReads
    seal: Seal
    diffs: Diffs
    lost_nodes: LostNodes  # to be asked through `lost`
    cancels: UnwrittenCancels
    seen: Seen | None = None  # None: look at the parts themselves, which only the loop may do
    all_stuck: Mapping[JobId, str] | None = None  # None: ask the engine, which looks at all devices

    def frozen(self) -> "Context":
        """A copy to be asked in another thread, of everything but the states of other jobs."""
        nodes = self.engine.view()
        seen = Seen(dict(self.commit.closed), _stuck(nodes), {}, self.lost)
        return replace(self, scheduler=self.scheduler.fork(), seen=seen)

    def for_many(self) -> "Context":
        """The same, to be asked about many jobs at this moment: the engine is asked once."""
        return (
            self if self.seen is not None else replace(self, all_stuck=_stuck(self.engine.view()))
        )

    def knowing(self, names: Iterable[str], jobs: JobTable) -> "Context":
        """A frozen context with the states of these jobs and arrays."""
        assert self.seen is not None
        states = {name: jobs.state_of(name) for name in names}
        return replace(self, seen=replace(self.seen, states=states))

    @property
    def closed(self) -> Mapping[Device, DeviceClosed]:
        """Devices that take no new work."""
        return self.commit.closed if self.seen is None else self.seen.closed

    @property
    def lost(self) -> tuple[LostNode, ...]:
        """Nodes that were lost and have not come back."""
        return self.lost_nodes.all(wall()) if self.seen is None else self.seen.lost

    def stuck(self, job: JobId) -> str:
        """What a process of the job waits for, if it does not begin or does not die."""
        known = self.all_stuck if self.seen is None else self.seen.stuck
        return (_stuck(self.engine.view()) if known is None else known).get(job, "")

    def state_of(self, name: str) -> State | None:
        """Of a job or an array at hand."""
        return self.jobs.state_of(name) if self.seen is None else self.seen.states.get(name)

    @property
    def cluster(self) -> Cluster:
        return self.scheduler.cluster

    def row(self, identity: JobId) -> Job | None:
        """The scheduler's row of a job that has not ended."""
        return self.scheduler.jobs.get(identity)


def _stuck(nodes: Iterable[NodeView]) -> Mapping[JobId, str]:
    return {job: text for node in nodes for job, text in node.stuck.items()}
