"""The roles that others play for the core: policy, engine, clock, performance model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Hashable, Iterable, Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from treadle.core.actions import Action
from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device, Node
from treadle.core.events import DeviceClosed, Event
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.ranking import Rank
from treadle.core.reasons import Reason
from treadle.core.snapshot import Schedule, Snapshot, Standing
from treadle.core.why import Place, reason_of
from treadle.core.wording import too_large

if TYPE_CHECKING:  # Simulations know no machines, and are started often.
    from treadle.core.job_report import JobReport
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

_BY_ARRIVAL = Rank(0.0)
_NO_JOBS: Mapping[int, int] = MappingProxyType({})
_NO_DEVICES: Mapping[Device, DeviceClosed] = MappingProxyType({})
_NO_NODES: Mapping[AttemptId, Collection[str]] = MappingProxyType({})


class Policy(Protocol):
    """Decides which jobs run, on which devices, under which plan and in which turn.

    It is pure: the same snapshot gets the same answer.

    Subclass it and write `decide`; the other methods have answers that suit most policies.
    """

    # True if no waiting job ever overtakes another in the ranking: the policy is then not asked
    # again when a job joins behind one that waits.
    in_order: bool = False
    # True if it puts jobs beside others itself, and can go on with groups that it finds. Jobs are
    # then launched ready for company.
    shares: bool = False
    # True if it changes the sizes of running jobs: their ends may then come sooner.
    resizes: bool = False
    # True if it tells CPU slots from GPUs, and gives them only to jobs that can use them.
    knows_slots: bool = False
    # In which what users used counts half; inf: it does not matter who used how much.
    half_life_s: float = inf
    # How it chooses among free devices, for those who ask why a job waits; None: any will do.
    place: Place | None = None

    def decide(self, snapshot: Snapshot) -> Schedule:
        """The whole target for now. It must leave the snapshot alone."""
        ...

    def rank(self, job: Job, now: float) -> Rank:  # noqa: ARG002
        """Where the job stands in `snapshot.ranking`; in order of arrival by default."""
        return _BY_ARRIVAL

    def never_fits(self, spec: JobSpec, cluster: Cluster) -> str | None:
        """Why this job could not even run on the empty cluster, or None if it could."""
        if spec.sizes[0] > cluster.device_count:
            return too_large(spec.sizes[0], cluster.device_count)
        return None

    def reason(self, snapshot: Snapshot, job: JobId) -> Reason:
        """Why the job waits, or holds what it holds; without another decision."""
        return reason_of(snapshot, job, self.place, in_order=self.in_order, resizes=self.resizes)

    def take_over(self, memory: object) -> object:  # noqa: ARG002
        """What it goes on with of the memory of the policy before it; nothing by default."""
        return None

    def held_back(self, snapshot: Snapshot) -> Mapping[int, int]:  # noqa: ARG002
        """How many jobs of each asked size wait only because of other tenants' shares."""
        return _NO_JOBS

    def standings(self, snapshot: Snapshot) -> Mapping[str, Standing] | None:  # noqa: ARG002
        """Where each user with jobs stands; None if it does not matter who has used how much."""
        return None

    def quotas(self, snapshot: Snapshot) -> Mapping[str, float] | None:  # noqa: ARG002
        """Devices that each tenant is entitled to; None if it has no quotas."""
        return None


class PerformanceModel(Protocol):
    """How fast a job would run. The simulator's is the truth, a policy's is its belief."""

    def alone(self, spec: JobSpec, size: int) -> float:
        """Iterations a second on so many devices, placed as well as can be, sharing nothing."""
        ...

    def iterations_per_s(
        self, spec: JobSpec, allocation: Allocation, ring: Sequence[tuple[JobSpec, Allocation]]
    ) -> float:
        """Iterations a second on exactly these devices beside exactly these sharers."""
        ...


class InterleavingModel(PerformanceModel, Protocol):
    """A performance model that can also say how jobs would run on the same devices."""

    def kind(self, spec: JobSpec) -> Hashable:
        """Jobs of one kind and size run alike in any company, so that groups can be tabulated."""
        ...

    def together(self, specs: Sequence[JobSpec]) -> tuple[float, ...]:
        """Iterations a second of each job if all of them take turns on one set of devices."""
        ...

    def efficiency(self, specs: Sequence[JobSpec]) -> float:
        """How well a group uses what it is given: what a matching of jobs maximises."""
        ...


@runtime_checkable
class Revisable(Protocol):
    """A belief in which a job's profile is not all that counts, and which may change."""

    def basis(self, spec: JobSpec) -> Hashable:
        """What is believed of a job rests on this: equal while it is."""
        ...


@runtime_checkable
class SharingBelief(Protocol):
    """A belief that knows when jobs may share; models/company/belief.py is one."""

    # Jobs of one kind are refused, and kept apart, alike, as far as each of them may share at all.
    def kind(self, spec: JobSpec) -> Hashable: ...

    def may_share(self, spec: JobSpec) -> str | None: ...

    def refuses(
        self,
        specs: Sequence[JobSpec],
        *,
        device_gib: float | None = None,
        cores: float | None = None,
        sum_min: float = ...,
        floor: float = ...,
    ) -> str | None: ...

    def relative(
        self, specs: Sequence[JobSpec], cores: float | None = None
    ) -> tuple[float, ...]: ...

    def assumed(self, spec: JobSpec) -> JobSpec: ...

    def to_part(self, jobs: Iterable[JobId]) -> bool: ...

    def at_work(self, job: JobId) -> bool: ...


@runtime_checkable
class Doubting(Protocol):
    """A belief that knows by how much to lower its shares of speeds in company to be cautious."""

    def doubt(self, specs: Sequence[JobSpec]) -> float: ...


class Controls(Protocol):
    """What an engine may ask of its controller. All methods return at once."""

    def launch(self, job: JobId, action: int, allocation: Allocation) -> Launch:
        """How to launch the job for that order; the same answer if it is asked again."""
        ...

    def tell(self, *facts: Event) -> None:
        """Report facts, in the order in which they happened."""
        ...

    def report(self, *reports: JobReport) -> None:
        """Hand on what jobs said that cannot reach the controller; it checks their tokens."""
        ...


class Engine(Protocol):
    """All that the controller knows of machines; docs/add-an-engine.md has the rules.

    An engine is made with its `Controls` and a clock, and knows its nodes from then on. It tells
    `JobStarted`, `AttemptEnded` and, where it can know, `TrainingEnded` about jobs, and
    `NodeJoined`, `NodeDrained`, `NodeLost`, `DeviceClosed`, `DeviceOpened` about machines. Ranks
    need not be child processes, and devices need not be on this machine.
    """

    address: str  # of the cluster that it attached to, for people; empty if it is this machine

    def nodes(self) -> tuple[Node, ...]:
        """The nodes it has now. Later changes are facts."""
        ...

    def view(self) -> tuple[NodeView, ...]:
        """The same for people: what runs on each device, and what was seen there last."""
        ...

    async def adopt(
        self,
        jobs: Sequence[Job],
        attempts: Sequence[AttemptId] = (),
        closed: Mapping[Device, DeviceClosed] = _NO_DEVICES,
        nodes: Mapping[AttemptId, Collection[str]] = _NO_NODES,
    ) -> None:
        """Begin: take charge of what runs, tell what ended, carry out what is owed.

        jobs: as the controller knows them. attempts: those whose end it has not seen. What runs
        or ended with another nonce is not one of them, and is stopped, not taken over.
        nodes: where these attempts were ordered to run; some of them may be lost by now.
        closed: devices that the controller knows to be closed. Those avoided or quarantined stay so
        until ordered otherwise; the engine opens the others once it sees that it can.
        """
        ...

    async def carry_out(self, actions: Sequence[Action]) -> None:
        """Begin; do not wait for the end. Every order is answered by a fact that names it."""
        ...

    async def output(
        self, attempt: AttemptId, rank: int, *, offset: int = 0, limit: int = 65536
    ) -> Output:
        """Bytes that a rank wrote, from an offset on; below 0 it counts from the end.

        One answer has no gap: it ends where bytes were dropped. Raises InvalidInputError if there
        is no such rank or attempt, EngineError if the output cannot be read now, and nothing else.
        """
        ...

    def follow(self, attempt: AttemptId, rank: int, *, offset: int = 0) -> AsyncIterator[Output]:
        """The same as it is written, until the attempt has ended and all was given."""
        ...

    async def order_device(self, device: Device, order: DeviceOrder) -> None:
        """Avoid a device, or use it again. Raises InvalidInputError if there is none."""
        ...

    async def order_node(self, node: str, order: NodeOrder) -> None:
        """Drain a node, or use it again: NodeDrained, NodeJoined. InvalidInputError: no such node.

        A drain outlives the engine.
        """
        ...

    async def pack(self, workdir: str, uid: int | None, gid: int | None) -> JobFiles:
        """Keep the code of a job that is submitted, for nodes that do not see its folder.

        uid, gid: whose job it is, if it is launched as another user. Raises InvalidInputError if no
        node could run it.
        """
        ...

    async def keep_archives(self, names: Collection[str]) -> None:
        """Of what `pack` has kept, these are still needed."""
        ...

    def measurements(self) -> Sequence[Measurement]:
        """What was measured last of each attempt that runs."""
        ...

    async def tidy(self, jobs: Sequence[JobId]) -> list[Leftovers]:
        """Jobs have ended: remove what is empty of them; answers how much each has left.

        Checkpoints that hold anything are never removed, neither here nor by `discard`.
        """
        ...

    async def discard(self, job: JobId) -> Leftovers:
        """Remove the output of an ended job; answers what was removed. Never raises."""
        ...

    async def close(self) -> None:
        """Leave; what runs keeps running and is adopted by the next engine."""
        ...


class Clock(Protocol):
    """The only source of time. Seconds from the start of the run."""

    def now(self) -> float: ...

    async def sleep_until(self, moment: float) -> None: ...
