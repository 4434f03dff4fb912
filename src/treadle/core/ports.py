"""The roles that others play for the core: policy, engine, clock, performance model."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from treadle.core.actions import Action
from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.ranking import Rank
from treadle.core.snapshot import Reason, Schedule, Snapshot

_BY_ARRIVAL = Rank(0.0)
_NO_JOBS: Mapping[int, int] = {}


class Policy(Protocol):
    """Decides which jobs run, on which devices, under which plan and in which turn.

    It is pure: the same snapshot gets the same answer.

    Subclass it and write `decide`; the other methods have answers that suit most policies.
    """

    # True if no waiting job ever overtakes another in the ranking: the policy is then not asked
    # again when a job joins behind one that waits.
    in_order: bool = False

    def decide(self, snapshot: Snapshot) -> Schedule:
        """The whole target for now. It must leave the snapshot alone."""
        ...

    def rank(self, job: Job, now: float) -> Rank:  # noqa: ARG002
        """Where the job stands in `snapshot.ranking`; in order of arrival by default."""
        return _BY_ARRIVAL

    def never_fits(self, spec: JobSpec, cluster: Cluster) -> str | None:
        """Why this job could not even run on the empty cluster, or None if it could."""
        if spec.sizes[0] > cluster.device_count:
            return f"it asks for {spec.sizes[0]} devices and the cluster has {cluster.device_count}"
        return None

    def why(self, snapshot: Snapshot, job: JobId) -> Reason:
        """Why the job waits, or holds what it holds, for people."""
        if snapshot.jobs[job].allocation is None:
            return Reason("rank", "it waits for its turn")
        return Reason("running", "it runs")

    def held_back(self, snapshot: Snapshot) -> Mapping[int, int]:  # noqa: ARG002
        """How many jobs of each asked size wait only because of other tenants' shares."""
        return _NO_JOBS


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


@dataclass(frozen=True, slots=True)
class Abilities:
    """What an engine can do to a job without stopping it."""

    resize: bool = False
    move: bool = False
    change_plan: bool = False
    share: bool = False


class Engine(Protocol):
    """Carries orders out and reports facts; reports arrive on the queue it was given."""

    abilities: Abilities

    async def carry_out(self, actions: Sequence[Action]) -> None:
        """Begin; do not wait for the end. Every order is answered by an event that names it."""
        ...


class Clock(Protocol):
    """The only source of time. Seconds from the start of the run."""

    def now(self) -> float: ...

    async def sleep_until(self, moment: float) -> None: ...
